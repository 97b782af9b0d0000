package hermod.bench;

/** The lines for the coordinator: each is an object with one of these under its name. */
final class Answer {
    /** Version of the protocol; a coordinator refuses any other. */
    static final int VERSION = 1;

    private Answer() {}

    record Hello(int v, String api, String jvm, long pid, long heap) {}

    record Clock(long t, long nano) {}

    /** Everything is connected; the names are the provider's own. */
    record Ready(String provider, String jms) {}

    /**
     * The counters of a load at one instant of this machine's monotonic clock.
     *
     * @param sent by producer; empty where nobody produces
     * @param moved when one of them last grew; 0: never
     * @param done nobody has anything left to send or to be confirmed
     * @param gcMs milliseconds in which this machine collected garbage so far
     */
    record Sample(
            long at, long[] sent, long confirmed, long refused, long received, long moved, boolean done, long gcMs) {}

    record Result(Produced[] produced, Consumed[] consumed, Long held) {}

    /** What a producer saw. Numbers are bits in base 64, lowest first; distributions are pairs of nanoseconds and counts. */
    record Produced(
            long sent, long refused, String confirmed, long unknownConfirms, long[][] confirm, long[][] lateness) {}

    /** What a consumer saw; damages are of length, stamp and filling. */
    record Consumed(int queue, SeenOf[] seen, long[] damages, long redelivered, long[][] total, long[][] transit) {}

    /** What a consumer saw of one producer. */
    record SeenOf(String numbers, long duplicated, long reordered) {}
}
