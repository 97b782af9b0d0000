package hermod.bench;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.jms.Connection;
import jakarta.jms.ConnectionFactory;
import jakarta.jms.JMSContext;
import java.util.Locale;
import org.junit.jupiter.api.Test;

class LoadTest {
    /** A client that has properties and no broker. */
    public static final class Factory implements ConnectionFactory {
        static int port;

        public void setPort(int port) {
            Factory.port = port;
        }

        @Override
        public Connection createConnection() {
            throw new IllegalStateException("no broker");
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
        String line = """
                {"op":"prepare","spec":{"name":"n","bodies":{"run":1,"size":64,"stamped":40,"zero":false,"short_after":9,"short_size":0},
                "factory":{"class_name":"%s","properties":{%s}},"user":"","password":"","producers":1,"consumers":%d,"queues":1,
                "produce":false,"keep":true,"ack":1,"quotas":[5],"warmups":[5],"in_flight":0}}""";
        String text = String.format(Locale.ROOT, line, Factory.class.getName(), property, consumers);
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
    void whatTheClientRefusesIsSaid() {
        assertThrows(IllegalStateException.class, () -> new Load(spec(1, "")));
        assertThrows(IllegalArgumentException.class, () -> new Load(spec(0, "\"speed\":\"9\"")));
    }
}
