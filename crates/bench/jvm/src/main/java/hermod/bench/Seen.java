package hermod.bench;

/** What one consumer received from one producer, by the rules of the coordinator's {@code measure/sequence.rs}. */
final class Seen {
    /** Largest jump forward that is believed; a number further ahead can't be one of this load. */
    private static final long FURTHEST_JUMP = 1 << 24;

    private final Numbers numbers = new Numbers();
    /** The highest number there is, or -1 where that is not known. */
    private final long last;

    /** The highest number of each lane; number n is in lane n modulo their number. */
    private final long[] newest;

    private long duplicated;
    private long reordered;

    Seen(long last, int lanes) {
        this.last = last;
        newest = new long[lanes];
    }

    /** Notes the arrival of {@code number}; false when it can't be a number of this load. */
    boolean take(long number) {
        int lane = (int) (number % newest.length);
        if (number > (last >= 0 ? last : newest[lane] + FURTHEST_JUMP)) {
            return false;
        }
        if (!numbers.insert(number)) {
            duplicated++;
        } else if (number < newest[lane]) {
            reordered++;
        } else {
            newest[lane] = number;
        }
        return true;
    }

    Answer.SeenOf answer() {
        return new Answer.SeenOf(numbers.encoded(), duplicated, reordered);
    }
}
