package hermod.bench;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * Makes and reads the bodies of one load, byte for byte those of the coordinator's {@code measure/stamp.rs}: a file of
 * vectors holds both to that. What fits depends on the size; every byte behind the stamp is compared with a known pattern.
 */
final class Bodies {
    /** How a body differs from every body that was sent; the order is that of the answer's damages. */
    enum Damage {
        LENGTH,
        STAMP,
        FILLING
    }

    /** What a body says about itself; what did not fit is 0. */
    static final class Stamp {
        int producer;
        long number;
        long intended;
        long sent;
    }

    private static final VarHandle WORD = MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.BIG_ENDIAN);
    private static final VarHandle PATTERN = MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
    /** "HMB1". */
    private static final long MAGIC = 0x484d4231L;

    private static final int NUMBER_BITS = 48;
    /** Digits of a counter, and bytes of that stamp. */
    private static final int COUNTER = 6;
    private static final byte[] DIGITS = "0123456789abcdef".getBytes(StandardCharsets.US_ASCII);
    private static final long PATTERN_SEED = 0x4845524d4f44L;

    private final long run;
    private final byte[] pattern;
    private final int stamped;
    /** Messages with higher numbers have bodies of this other size. */
    private final long shortAfter;

    private final int shortSize;

    Bodies(Spec.Bodies spec) {
        run = spec.run();
        stamped = spec.stamped();
        shortAfter = spec.shortAfter();
        shortSize = spec.shortSize();
        byte[] words = new byte[Math.addExact(spec.size(), 7) / 8 * 8];
        SplitMix random = new SplitMix(PATTERN_SEED);
        for (int at = 0; at < words.length && !spec.zero(); at += 8) {
            PATTERN.set(words, at, random.next());
        }
        pattern = Arrays.copyOf(words, spec.size());
    }

    /** Bytes of the longest body. */
    int size() {
        return pattern.length;
    }

    /** How long the body with this number is. */
    int length(long number) {
        return number > shortAfter ? shortSize : pattern.length;
    }

    /** True when bodies carry nothing, so that messages can only be counted. */
    boolean counted() {
        return stamped == 0;
    }

    /** A body to be stamped again and again. */
    byte[] blank() {
        return pattern.clone();
    }

    void write(byte[] body, int producer, long number, long intended, long sent) {
        if (stamped == COUNTER) {
            long rest = number;
            for (int at = COUNTER - 1; at >= 0; at--) {
                body[at] = DIGITS[(int) (rest % 16)];
                rest /= 16;
            }
            return;
        }
        long name = (long) producer << NUMBER_BITS | number;
        if (stamped >= 8) {
            WORD.set(body, 0, name);
        }
        if (stamped >= 16) {
            WORD.set(body, 8, intended);
        }
        if (stamped == 40) {
            WORD.set(body, 16, sent);
            WORD.set(body, 24, MAGIC << 32 | run);
            WORD.set(body, 32, seal(name, intended, sent));
        }
    }

    /** Reads the first {@code length} bytes of {@code body} into {@code stamp}; null when nothing is wrong with them. */
    Damage read(byte[] body, long length, Stamp stamp) {
        if (length != pattern.length && (shortAfter == Long.MAX_VALUE || length != shortSize)) {
            return Damage.LENGTH;
        }
        if (!Arrays.equals(body, stamped, (int) length, pattern, stamped, (int) length)) {
            return Damage.FILLING;
        }
        if (stamped == COUNTER) {
            return readCounter(body, stamp);
        }
        long name = stamped >= 8 ? (long) WORD.get(body, 0) : 0;
        stamp.producer = (int) (name >>> NUMBER_BITS);
        stamp.number = name & ((1L << NUMBER_BITS) - 1);
        stamp.intended = stamped >= 16 ? (long) WORD.get(body, 8) : 0;
        stamp.sent = 0;
        if (stamped == 40) {
            stamp.sent = (long) WORD.get(body, 16);
            boolean belongs = (long) WORD.get(body, 24) == (MAGIC << 32 | run);
            if (!belongs || (long) WORD.get(body, 32) != seal(name, stamp.intended, stamp.sent)) {
                return Damage.STAMP;
            }
        }
        return length == length(stamp.number) ? null : Damage.LENGTH;
    }

    /** The number in the first digits of a body: its producer is the only one. */
    private static Damage readCounter(byte[] body, Stamp stamp) {
        stamp.producer = 0;
        stamp.number = 0;
        stamp.intended = 0;
        stamp.sent = 0;
        for (int at = 0; at < COUNTER; at++) {
            int value;
            if (body[at] >= '0' && body[at] <= '9') {
                value = body[at] - '0';
            } else if (body[at] >= 'a' && body[at] <= 'f') {
                value = body[at] - 'a' + 10;
            } else {
                return Damage.STAMP;
            }
            stamp.number = stamp.number * 16 + value;
        }
        return stamp.number == 0 ? Damage.STAMP : null;
    }

    private long seal(long name, long intended, long sent) {
        return SplitMix.mix(SplitMix.mix(SplitMix.mix(run ^ name) + intended) + sent);
    }
}
