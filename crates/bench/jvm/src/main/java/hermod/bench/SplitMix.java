package hermod.bench;

/** SplitMix64 (Steele, Lea, Flood 2014): the same sequence for a seed as the coordinator's. */
final class SplitMix {
    private long state;

    SplitMix(long seed) {
        state = seed;
    }

    long next() {
        state += 0x9e3779b97f4a7c15L;
        return mix(state);
    }

    /** A number in (0, 1]. */
    double unit() {
        return ((next() >>> 11) + 1) / (double) (1L << 53);
    }

    /** Spreads every bit of {@code word} over all bits of the result. */
    static long mix(long word) {
        word = (word ^ (word >>> 30)) * 0xbf58476d1ce4e5b9L;
        word = (word ^ (word >>> 27)) * 0x94d049bb133111ebL;
        return word ^ (word >>> 31);
    }
}
