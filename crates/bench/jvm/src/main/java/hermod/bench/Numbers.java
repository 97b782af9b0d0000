package hermod.bench;

import java.util.Arrays;
import java.util.Base64;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** A growing set of sequence numbers, as bits. */
final class Numbers {
    private long[] words = new long[1024];

    /** Adds {@code number}; false if it was there already. The caller bounds it. */
    boolean insert(long number) {
        int word = (int) (number >>> 6);
        long bit = 1L << number;
        if (word >= words.length) {
            words = Arrays.copyOf(words, Math.max(word + 1, words.length * 2));
        }
        boolean fresh = (words[word] & bit) == 0;
        words[word] |= bit;
        return fresh;
    }

    /** The bits in base 64: bytes from the lowest number on, without zeros at the end. */
    String encoded() {
        int used = words.length;
        while (used > 0 && words[used - 1] == 0) {
            used--;
        }
        ByteBuffer bytes = ByteBuffer.allocate(used * 8).order(ByteOrder.LITTLE_ENDIAN);
        bytes.asLongBuffer().put(words, 0, used);
        return Base64.getEncoder().encodeToString(bytes.array());
    }
}
