/** A client of either version with its inbox. Each call returns when the broker has answered. */
interface Peer extends AutoCloseable {
    /** What came. */
    record Message(String topic, String body, int qos, boolean retained) {}

    /** Returns the quality that the broker granted. */
    int subscribe(String filter, int qos) throws Exception;

    void unsubscribe(String filter) throws Exception;

    /** Returns when the message is the broker's, as its quality says. */
    void publish(String topic, byte[] body, int qos, boolean retained) throws Exception;

    /** Whether the broker had a session. */
    boolean present();

    /** The next message, or null if none comes within so many milliseconds. */
    Message next(long milliseconds) throws InterruptedException;

    /** Ends without DISCONNECT. */
    void drop() throws Exception;

    @Override
    void close() throws Exception;
}
