package hermod.bench;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.List;
import java.util.Objects;
import org.junit.jupiter.api.Test;

/** The coordinator writes the same bodies: its own test reads the same vectors. */
class BodiesTest {
    private static Bodies bodies(long run, int size) {
        int stamped = size >= 40 ? 40 : size >= 16 ? 16 : size >= 8 ? 8 : 0;
        return new Bodies(new Spec.Bodies(run, size, stamped, false, Long.MAX_VALUE, 0));
    }

    /** run, size, producer, number, intended, sent and the body. */
    private static List<String[]> vectors() throws Exception {
        try (var in = Objects.requireNonNull(BodiesTest.class.getResourceAsStream("/stamps.txt"));
                var lines = new BufferedReader(new InputStreamReader(in, StandardCharsets.UTF_8))) {
            return lines.lines().filter(line -> !line.startsWith("#")).map(line -> line.split(" ", -1)).toList();
        }
    }

    @Test
    void bodiesAreThoseOfTheCoordinator() throws Exception {
        List<String[]> vectors = vectors();
        assertTrue(vectors.size() >= 9);
        for (String[] vector : vectors) {
            Bodies bodies = bodies(Long.parseLong(vector[0]), Integer.parseInt(vector[1]));
            byte[] body = bodies.blank();
            int producer = Integer.parseInt(vector[2]);
            long number = Long.parseLong(vector[3]);
            long intended = Long.parseLong(vector[4]);
            long sent = Long.parseLong(vector[5]);
            bodies.write(body, producer, number, intended, sent);
            assertEquals(vector[6], HexFormat.of().formatHex(body));
            Bodies.Stamp stamp = new Bodies.Stamp();
            assertNull(bodies.read(body, body.length, stamp));
            boolean numbered = body.length >= 8;
            assertArrayEquals(
                    new long[] {numbered ? producer : 0, numbered ? number : 0, body.length >= 16 ? intended : 0,
                        body.length >= 40 ? sent : 0},
                    new long[] {stamp.producer, stamp.number, stamp.intended, stamp.sent});
        }
    }

    @Test
    void anyChangedBitIsNoticed() {
        Bodies bodies = bodies(5, 64);
        byte[] body = bodies.blank();
        bodies.write(body, 7, 123_456_789, 99, 101);
        for (int bit = 0; bit < body.length * 8; bit++) {
            body[bit / 8] ^= (byte) (1 << bit % 8);
            Bodies.Damage expected = bit < 40 * 8 ? Bodies.Damage.STAMP : Bodies.Damage.FILLING;
            assertEquals(expected, bodies.read(body, body.length, new Bodies.Stamp()), "bit " + bit);
            body[bit / 8] ^= (byte) (1 << bit % 8);
        }
        assertEquals(Bodies.Damage.LENGTH, bodies.read(body, 63, new Bodies.Stamp()));
        assertEquals(Bodies.Damage.STAMP, bodies(6, 64).read(body, 64, new Bodies.Stamp()));
    }

    @Test
    void countersAreSixDigitsAndTheirPaddingIsLookedAt() {
        for (int size : new int[] {6, 50}) {
            Bodies bodies = new Bodies(new Spec.Bodies(5, size, 6, true, Long.MAX_VALUE, 0));
            byte[] body = bodies.blank();
            bodies.write(body, 0, 4711, 9, 9);
            assertEquals("001267", new String(body, 0, 6, StandardCharsets.US_ASCII));
            Bodies.Stamp stamp = new Bodies.Stamp();
            assertNull(bodies.read(body, size, stamp));
            assertArrayEquals(new long[] {0, 4711, 0, 0}, new long[] {stamp.producer, stamp.number, stamp.intended, stamp.sent});
            bodies.write(body, 0, 0xffabc9, 9, 9);
            assertEquals("ffabc9", new String(body, 0, 6, StandardCharsets.US_ASCII));
            assertNull(bodies.read(body, size, stamp));
            assertEquals(0xffabc9, stamp.number);
            for (char bad : "x/:`gAF ".toCharArray()) {
                body[2] = (byte) bad;
                assertEquals(Bodies.Damage.STAMP, bodies.read(body, size, stamp));
            }
            body[size - 1] = 'x';
            assertEquals(size == 6 ? Bodies.Damage.STAMP : Bodies.Damage.FILLING, bodies.read(body, size, stamp));
        }
    }

    @Test
    void theLastMessagesMayBeShorterAndOnlyThey() {
        Bodies bodies = new Bodies(new Spec.Bodies(5, 400, 40, true, 3, 100));
        for (int number = 1; number <= 5; number++) {
            int length = number > 3 ? 100 : 400;
            assertEquals(length, bodies.length(number));
            byte[] body = bodies.blank();
            bodies.write(body, 7, number, 1, 2);
            assertNull(bodies.read(body, length, new Bodies.Stamp()));
            assertEquals(Bodies.Damage.LENGTH, bodies.read(body, 500 - length, new Bodies.Stamp()));
        }
    }
}
