package hermod.bench;

import jakarta.jms.BytesMessage;
import jakarta.jms.JMSException;
import java.io.OutputStream;

/** Reads the bodies of received messages, in the way in which the client does it fast. */
final class BodyReader {
    /** Clients that keep large bodies apart begin to at some 100 KiB, with what they add to a message. */
    private static final int LARGE = 100_000;

    /** The property that, set to a stream, has the client write a body into it; null: there is none. */
    private final String stream;

    BodyReader(String stream) {
        this.stream = stream;
    }

    /** Reads a body of {@code length} bytes, for which there is room in {@code body}. */
    void read(BytesMessage message, byte[] body, int length) throws JMSException {
        if (stream == null || length < LARGE) {
            message.readBytes(body);
        } else {
            message.setObjectProperty(stream, new Into(body));
        }
    }

    /** Writes into an array from its beginning on; what has no room there is refused by the array. */
    private static final class Into extends OutputStream {
        private final byte[] body;
        private int at;

        Into(byte[] body) {
            this.body = body;
        }

        @Override
        public void write(int single) {
            body[at++] = (byte) single;
        }

        @Override
        public void write(byte[] from, int offset, int length) {
            System.arraycopy(from, offset, body, at, length);
            at += length;
        }
    }
}
