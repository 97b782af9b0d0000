package hermod.bench;

/** One thread of a load, with a connection of its own. */
interface Worker {
    /** Works until the load ends; a failure ends the load for all. */
    void run() throws Exception;

    /** Gives its connection back, once it has stopped. */
    void close() throws Exception;
}
