package hermod.bench;

import java.util.ArrayList;
import java.util.List;
import org.HdrHistogram.Histogram;
import org.HdrHistogram.HistogramIterationValue;

/** Every sample of one kind, in nanoseconds: the bounds and digits of the coordinator's distributions. */
final class Samples {
    private static final long LONGEST_NS = 3_600_000_000_000L;
    private final Histogram histogram = new Histogram(1, LONGEST_NS, 3);

    void record(long ns) {
        histogram.recordValue(Math.min(Math.max(ns, 0), LONGEST_NS));
    }

    /** Pairs of nanoseconds and counts: a bucket of the coordinator's distribution each, so nothing is lost. */
    long[][] answer() {
        List<long[]> pairs = new ArrayList<>();
        for (HistogramIterationValue value : histogram.recordedValues()) {
            pairs.add(new long[] {value.getValueIteratedTo(), value.getCountAddedInThisIterationStep()});
        }
        return pairs.toArray(long[][]::new);
    }
}
