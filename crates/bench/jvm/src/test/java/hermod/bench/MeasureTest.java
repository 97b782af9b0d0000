package hermod.bench;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Base64;
import java.util.Locale;
import org.junit.jupiter.api.Test;

class MeasureTest {
    @Test
    void everyFaultIsCountedOnce() {
        // Arrivals of a producer that sent 1 to 6; their bits, duplicated, reordered.
        Object[][] cases = {
            {new long[] {1, 2, 3, 4, 5, 6}, 0x7e, 0L, 0L},
            {new long[] {1, 2, 3, 4, 6}, 0x5e, 0L, 0L},
            {new long[] {1, 2, 2, 5, 4, 6}, 0x76, 1L, 1L},
            {new long[] {6, 1, 2, 3, 4, 5}, 0x7e, 0L, 5L},
            {new long[] {1, 1, 1}, 0x02, 2L, 0L},
        };
        for (Object[] one : cases) {
            Seen seen = new Seen(-1, 1);
            for (long number : (long[]) one[0]) {
                assertTrue(seen.take(number));
            }
            Answer.SeenOf answer = seen.answer();
            byte[] bits = Base64.getDecoder().decode(answer.numbers());
            assertArrayEquals(new byte[] {(byte) (int) (Integer) one[1], 0, 0, 0, 0, 0, 0, 0}, bits);
            assertEquals(one[2], answer.duplicated());
            assertEquals(one[3], answer.reordered());
        }
        assertEquals("", new Numbers().encoded());
    }

    @Test
    void lanesAreInOrderByThemselves() {
        Seen seen = new Seen(10, 2);
        for (long number : new long[] {2, 4, 1, 3, 6, 8, 5}) {
            assertTrue(seen.take(number));
        }
        assertEquals(0, seen.answer().reordered());
        assertTrue(seen.take(10) && seen.take(7));
        assertEquals(0, seen.answer().reordered());
        Seen late = new Seen(10, 2);
        assertTrue(late.take(4) && late.take(2));
        assertEquals(1, late.answer().reordered());
    }

    @Test
    void numbersThatCanNotBeOfThisLoadAreRefused() {
        assertFalse(new Seen(-1, 1).take(1L << 40));
        assertFalse(new Seen(10, 1).take(11));
        Seen far = new Seen(100_000, 1);
        assertTrue(far.take(100_000));
        assertEquals(100_000 / 64 * 8 + 8, Base64.getDecoder().decode(far.answer().numbers()).length);
    }

    @Test
    void distributionsKeepEverySampleWithinAThousandth() {
        Samples samples = new Samples();
        long[] values = {-5, 0, 1000, 1000, 5_000_000, Long.MAX_VALUE};
        for (long value : values) {
            samples.record(value);
        }
        long[][] pairs = samples.answer();
        long count = 0;
        for (long[] pair : pairs) {
            count += pair[1];
        }
        assertEquals(values.length, count);
        assertEquals(2, pairs[1][1]);
        assertEquals(1000, pairs[1][0], 1);
        assertEquals(3_600_000_000_000L, pairs[pairs.length - 1][0], 3_600_000_000L);
    }

    @Test
    void schedulesNeverWait() {
        Spec spec = spec(2, 1000, false);
        Schedule schedule = new Schedule(spec, 1, 1_000);
        assertEquals(1_001_000, schedule.next());
        schedule.advance();
        assertEquals(3_001_000, schedule.next());
        Schedule poisson = new Schedule(spec(1, 1000, true), 0, 0);
        int count = 20_000;
        for (int n = 0; n < count; n++) {
            poisson.advance();
        }
        assertEquals(1e6, poisson.next() / (double) count, 3e4);
    }

    @Test
    void countersAreSumsAndRememberWhenTheyMoved() {
        Tally tally = new Tally(3);
        assertEquals(0, tally.moved());
        tally.sent(0, 5);
        tally.sent(1, 6);
        tally.sent(1, 9);
        tally.confirmed(1, 8);
        tally.refused(0, 7);
        tally.received(2, 11);
        assertArrayEquals(new long[] {1, 2}, tally.sentBy(2));
        assertArrayEquals(
                new long[] {3, 1, 1, 1, 11},
                new long[] {tally.sent(), tally.confirmed(), tally.refused(), tally.received(), tally.moved()});
    }

    @Test
    void loadsAreReadAsTheCoordinatorWritesThem() {
        Spec spec = spec(1, 0, false);
        assertEquals("kind = 'A'", spec.selector());
        assertEquals("ABBA", spec.kind(3) + spec.kind(4) + spec.kind(5) + spec.kind(6));
        assertEquals(2, spec.copies());
        assertTrue(spec.shared());
        assertEquals("a.B", spec.factory().className());
        assertEquals(7, spec.bodies().shortAfter());
        assertEquals(0, spec.repliesTo(0));
    }

    private static Spec spec(int producers, double rate, boolean poisson) {
        String line = """
                {"op":"prepare","spec":{"name":"n","bodies":{"run":4294967295,"size":64,"stamped":40,"zero":false,"short_after":7,
                "short_size":3},"factory":{"class_name":"a.B","argument":null,"lookup":null,"properties":{"k":"v"}},"user":"",
                "producers":%d,"consumers":3,"queues":2,"topic":true,"selects":3,"rate":%s,"poisson":%s,"seed":3,"in_flight":0,
                "quotas":[1,1],"warmups":[0,0]}}""";
        return Main.GSON.fromJson(String.format(Locale.ROOT, line, producers, rate, poisson), Command.class).spec();
    }
}
