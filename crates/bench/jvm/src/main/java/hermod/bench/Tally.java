package hermod.bench;

import java.util.concurrent.atomic.AtomicLongArray;

/** Counters of every thread of a load, each alone on its cache lines and written by one thread at a time. */
final class Tally {
    /** Longs between two threads' counters: two cache lines. */
    private static final int STRIDE = 16;

    private static final int SENT = 0;
    private static final int CONFIRMED = 1;
    private static final int REFUSED = 2;
    private static final int RECEIVED = 3;
    /** When one of these last grew, for threads that send, are confirmed, and receive. */
    private static final int SENT_AT = 4;

    private static final int CONFIRMED_AT = 5;
    private static final int RECEIVED_AT = 6;

    private final AtomicLongArray counters;
    private final int threads;

    Tally(int threads) {
        this.threads = threads;
        counters = new AtomicLongArray((threads + 1) * STRIDE);
    }

    void sent(int thread, long at) {
        add(thread, SENT);
        set(thread, SENT_AT, at);
    }

    void confirmed(int thread, long at) {
        add(thread, CONFIRMED);
        set(thread, CONFIRMED_AT, at);
    }

    void refused(int thread, long at) {
        add(thread, REFUSED);
        set(thread, CONFIRMED_AT, at);
    }

    void received(int thread, long at) {
        add(thread, RECEIVED);
        set(thread, RECEIVED_AT, at);
    }

    long sent() {
        return sum(SENT);
    }

    /** What each of the first {@code count} threads has sent. */
    long[] sentBy(int count) {
        long[] by = new long[count];
        for (int thread = 0; thread < count; thread++) {
            by[thread] = get(thread, SENT);
        }
        return by;
    }

    /** When anything last grew; 0: nothing did. */
    long moved() {
        long newest = 0;
        for (int thread = 0; thread < threads; thread++) {
            for (int what : new int[] {SENT_AT, CONFIRMED_AT, RECEIVED_AT}) {
                newest = Math.max(newest, get(thread, what));
            }
        }
        return newest;
    }

    long confirmed() {
        return sum(CONFIRMED);
    }

    long refused() {
        return sum(REFUSED);
    }

    long received() {
        return sum(RECEIVED);
    }

    private void add(int thread, int what) {
        int at = (thread + 1) * STRIDE + what;
        counters.setRelease(at, counters.getPlain(at) + 1);
    }

    private void set(int thread, int what, long value) {
        counters.setRelease((thread + 1) * STRIDE + what, value);
    }

    private long get(int thread, int what) {
        return counters.getAcquire((thread + 1) * STRIDE + what);
    }

    private long sum(int what) {
        long sum = 0;
        for (int thread = 0; thread < threads; thread++) {
            sum += get(thread, what);
        }
        return sum;
    }
}
