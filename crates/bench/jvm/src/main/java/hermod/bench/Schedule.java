package hermod.bench;

/**
 * When each message of an open loop is meant to leave. The schedule never waits for the broker: a message that goes out late
 * keeps its intended time, so that a stall is charged to every message that it delayed.
 */
final class Schedule {
    private final double gap;
    private final boolean poisson;
    private final SplitMix random;
    private double next;

    /** Producer {@code id} of {@code spec}, from {@code begin} on. */
    Schedule(Spec spec, int id, long begin) {
        gap = 1e9 * spec.producers() / spec.rate();
        poisson = spec.poisson();
        random = new SplitMix(spec.seed() ^ id);
        next = begin + gap * id / spec.producers();
    }

    long next() {
        return (long) next;
    }

    void advance() {
        next += poisson ? -Math.log(random.unit()) * gap : gap;
    }
}
