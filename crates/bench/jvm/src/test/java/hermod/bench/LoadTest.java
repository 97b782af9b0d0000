package hermod.bench;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.jms.Connection;
import jakarta.jms.ConnectionFactory;
import jakarta.jms.JMSContext;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.Test;

class LoadTest {
    /** A client that has properties, and no broker unless it notes what it is asked for. */
    public static final class Factory implements ConnectionFactory {
        static int port;
        /** What connections and sessions were asked for; null: there is no broker. */
        static List<String> asked;

        public void setPort(int port) {
            Factory.port = port;
        }

        @Override
        public Connection createConnection() {
            if (asked == null) {
                throw new IllegalStateException("no broker");
            }
            return noting(Connection.class);
        }

        /** Notes the names of all methods; what these return does the same, and there is no message. */
        private static <T> T noting(Class<T> type) {
            InvocationHandler handler = (proxy, method, arguments) -> {
                asked.add(method.getName());
                Class<?> returned = method.getReturnType();
                if (method.getName().equals("receive")) {
                    Thread.sleep((Long) arguments[0]);
                    return null;
                }
                return returned.isInterface() ? noting(returned) : returned == int.class ? (Object) 0 : null;
            };
            return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, handler));
        }

        @Override
        public Connection createConnection(String user, String password) {
            return createConnection();
        }

        @Override
        public JMSContext createContext() {
            throw new UnsupportedOperationException();
        }

        @Override
        public JMSContext createContext(String user, String password) {
            return createContext();
        }

        @Override
        public JMSContext createContext(String user, String password, int mode) {
            return createContext();
        }

        @Override
        public JMSContext createContext(int mode) {
            return createContext();
        }
    }

    private static Spec spec(int consumers, String property) {
        return spec(consumers, property, false);
    }

    private static Spec spec(int consumers, String property, boolean produce) {
        String line = """
                {"op":"prepare","spec":{"name":"n","bodies":{"run":1,"size":64,"stamped":40,"zero":false,"short_after":9,"short_size":0},
                "factory":{"class_name":"%s","properties":{%s}},"user":"","password":"","producers":1,"consumers":%d,"queues":1,
                "produce":%s,"keep":true,"ack":1,"quotas":[0],"warmups":[0],"in_flight":0}}""";
        String text = String.format(Locale.ROOT, line, Factory.class.getName(), property, consumers, produce);
        return Main.GSON.fromJson(text, Command.class).spec();
    }

    @Test
    void nobodyIsDoneBeforeTheStart() throws Exception {
        Load load = new Load(spec(0, "\"port\":\"77\""));
        assertEquals(77, Factory.port);
        assertFalse(load.sample().done());
        load.start();
        assertTrue(load.sample().done());
        // What an earlier load sent is not this one's to tell.
        assertArrayEquals(new long[0], load.sample().sent());
    }

    @Test
    void theMeasuredTimeIsToldAndPhasesNeverGoBack() throws Exception {
        Load load = new Load(spec(0, ""));
        assertFalse(load.measures(15) || load.gateIsOpen());
        load.steer(new Command("steer", 0, 0, null, 10, 20, true, true));
        assertTrue(load.measures(10) && load.measures(19) && load.gateIsOpen());
        assertFalse(load.measures(9) || load.measures(20) || load.running());
        load.steer(new Command("steer", 0, 0, null, 10, 20, true, false));
        assertFalse(load.running() || load.ended());
        load.end();
        assertTrue(load.ended());
    }

    @Test
    void nothingIsFetchedBeforeTheTimeOfADrainBegins() throws Exception {
        Factory.asked = new CopyOnWriteArrayList<>();
        try {
            Load drain = new Load(spec(1, ""));
            assertTrue(Factory.asked.contains("createSession"));
            assertFalse(Factory.asked.contains("createConsumer") || Factory.asked.contains("start"));
            drain.start();
            await("receive");
            assertTrue(Factory.asked.indexOf("createConsumer") < Factory.asked.indexOf("start"));
            assertEquals(1, drain.end().consumed().length);
            // Where something is sent meanwhile, nothing of it may come before there are consumers.
            Factory.asked.clear();
            Load both = new Load(spec(1, "", true));
            assertTrue(Factory.asked.contains("createConsumer"));
            both.start();
            await("receive");
            both.end();
        } finally {
            Factory.asked = null;
        }
    }

    private static void await(String asked) throws InterruptedException {
        for (int glance = 0; !Factory.asked.contains(asked); glance++) {
            assertTrue(glance < 10_000, asked + " was never asked for");
            Thread.sleep(1);
        }
    }

    @Test
    void whatTheClientRefusesIsSaid() {
        assertThrows(IllegalStateException.class, () -> new Load(spec(1, "")));
        assertThrows(IllegalArgumentException.class, () -> new Load(spec(0, "\"speed\":\"9\"")));
    }
}
