package hermod.bench;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import jakarta.jms.BytesMessage;
import java.io.OutputStream;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

class BodyReaderTest {
    /** What the client was asked for. */
    private final List<String> asked = new ArrayList<>();

    /** A message whose client writes its body into a stream, in pieces and single bytes, or reads it at once. */
    private BytesMessage message(byte[] body) {
        return (BytesMessage) Proxy.newProxyInstance(
                BytesMessage.class.getClassLoader(), new Class<?>[] {BytesMessage.class}, (proxy, method, arguments) -> {
                    if (method.getName().equals("readBytes")) {
                        asked.add("readBytes");
                        System.arraycopy(body, 0, arguments[0], 0, body.length);
                        return body.length;
                    }
                    asked.add((String) arguments[0]);
                    OutputStream into = (OutputStream) arguments[1];
                    into.write(body[0]);
                    into.write(body, 1, 9);
                    into.write(body, 10, body.length - 10);
                    return null;
                });
    }

    @Test
    void largeBodiesAreStreamedWhereTheClientCan() throws Exception {
        for (String stream : new String[] {null, "save"}) {
            for (int length : new int[] {64, 400_000}) {
                asked.clear();
                byte[] body = new byte[length];
                new Random(7).nextBytes(body);
                byte[] read = new byte[length];
                new BodyReader(stream).read(message(body), read, length);
                assertArrayEquals(body, read);
                assertEquals(List.of(stream != null && length > 64 ? stream : "readBytes"), asked);
            }
        }
    }
}
