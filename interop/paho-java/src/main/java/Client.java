import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.logging.LogManager;
import java.util.stream.IntStream;
import org.eclipse.paho.mqttv5.common.MqttMessage;
import org.eclipse.paho.mqttv5.common.packet.MqttProperties;
import org.eclipse.paho.mqttv5.common.packet.UserProperty;

/** What MQTT clients do, with Paho's two Java clients, each as a method that checks what it gets. */
public final class Client {
    static final long WAIT = 10_000; // milliseconds for anything that must arrive
    private static final long QUIET = 300; // milliseconds in which nothing may arrive
    private static final String URL = "tcp://" + System.getenv("MQTT_HOST") + ":" + System.getenv("MQTT_PORT");
    private static final int SESSION_TAKEN_OVER = 0x8e;
    private static final int NOBODY_SUBSCRIBES = 0x10;
    private static final int LARGE = 3_000_000; // bytes

    private enum Version {
        OLD,
        NEW
    }

    private interface Step {
        void run() throws Exception;
    }

    private interface Both {
        void run(Version version) throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        // The library has a line for each message of quality 2.
        LogManager.getLogManager().reset();
        Map<String, Step> steps = new LinkedHashMap<>();
        switch (arguments[0]) {
            case "patterns" -> {
                steps.put("qualities and wildcards", both(Client::qualitiesAndWildcards));
                steps.put("many in order", both(Client::manyInOrder));
                steps.put("retained", both(Client::retained));
                steps.put("sessions", both(Client::sessions));
                steps.put("wills", both(Client::wills));
                steps.put("shared", Client::shared);
                steps.put("exactly once", both(Client::exactlyOnce));
                steps.put("large", both(Client::large));
                steps.put("refusals", both(Client::refusals));
                steps.put("properties", Client::properties);
                steps.put("take-over", Client::takeOver);
            }
            case "store" -> steps.put("store", both(Client::store));
            case "fetch" -> steps.put("fetch", both(Client::fetch));
            default -> throw new IllegalArgumentException("no such phase: " + arguments[0]);
        }
        for (Map.Entry<String, Step> step : steps.entrySet()) {
            step.getValue().run();
            System.out.println("ok " + step.getKey());
        }
        // Threads of a client that was dropped may still wait.
        System.exit(0);
    }

    private static Step both(Both step) {
        return () -> {
            for (Version version : Version.values()) {
                step.run(version);
            }
        };
    }

    private static Peer peer(Version version, String name) throws Exception {
        return open(version, name, true, null, "guest");
    }

    private static Peer stored(Version version, String name) throws Exception {
        return open(version, name, false, null, "guest");
    }

    private static Peer open(Version version, String name, boolean clean, String will, String password) throws Exception {
        String whole = "paho-java-" + name + "-" + version;
        return version == Version.OLD ? new Old(URL, whole, clean, will, password) : new New(URL, whole, clean, will, password);
    }

    private static void expect(Object found, Object expected, String what) {
        if (!expected.equals(found)) {
            throw new AssertionError(what + ": " + found + " instead of " + expected);
        }
    }

    private static List<String> bodies(Peer peer, int count, long wait) throws Exception {
        List<String> found = new ArrayList<>();
        while (found.size() < count) {
            Peer.Message message = peer.next(wait);
            if (message == null) {
                break;
            }
            found.add(message.body());
        }
        return found;
    }

    private static void nothing(Peer peer, String what) throws Exception {
        expect(bodies(peer, 1, QUIET), List.of(), what);
    }

    private static List<String> numbers(int count) {
        return IntStream.range(0, count).mapToObj(Integer::toString).toList();
    }

    private static void send(Peer peer, String topic, int count, int qos) throws Exception {
        for (String number : numbers(count)) {
            peer.publish(topic, number.getBytes(), qos, false);
        }
    }

    private static void qualitiesAndWildcards(Version version) throws Exception {
        try (Peer peer = peer(version, "qualities")) {
            expect(peer.subscribe("j/+/0", 0), 0, "quality 0");
            expect(peer.subscribe("j/#", 2), 2, "quality 2");
            peer.publish("j/a/0", "one".getBytes(), 0, false);
            peer.publish("j/b", "two".getBytes(), 1, false);
            peer.publish("j/c", "three".getBytes(), 2, false);
            for (Peer.Message expected : List.of(new Peer.Message("j/a/0", "one", 0, false),
                    new Peer.Message("j/b", "two", 1, false), new Peer.Message("j/c", "three", 2, false))) {
                expect(peer.next(WAIT), expected, "a message");
            }
            peer.unsubscribe("j/#");
            peer.publish("j/b", "unheard".getBytes(), 1, false);
            nothing(peer, "after UNSUBSCRIBE");
        }
    }

    private static void manyInOrder(Version version) throws Exception {
        try (Peer receiver = peer(version, "receiver"); Peer sender = peer(version, "sender")) {
            receiver.subscribe("many/" + version, 1);
            send(sender, "many/" + version, 500, 1);
            expect(bodies(receiver, 500, WAIT), numbers(500), "messages in order");
        }
    }

    private static void retained(Version version) throws Exception {
        String topic = "kept/" + version;
        try (Peer sender = peer(version, "keeper")) {
            sender.publish(topic + "/a", "old".getBytes(), 1, true);
            sender.publish(topic + "/a", "new".getBytes(), 1, true);
            sender.publish(topic + "/b", "gone".getBytes(), 1, true);
            sender.publish(topic + "/b", new byte[0], 1, true);
        }
        try (Peer late = peer(version, "late")) {
            late.subscribe(topic + "/#", 1);
            expect(late.next(WAIT), new Peer.Message(topic + "/a", "new", 1, true), "the last value");
            nothing(late, "a value that was taken away");
        }
    }

    private static void sessions(Version version) throws Exception {
        String topic = "away/" + version;
        try (Peer first = stored(version, "session")) {
            first.subscribe(topic, 1);
        }
        try (Peer sender = peer(version, "other")) {
            send(sender, topic, 3, 1);
        }
        try (Peer again = stored(version, "session")) {
            expect(again.present(), true, "the session");
            expect(bodies(again, 3, WAIT), numbers(3), "what came while away");
        }
        try (Peer gone = peer(version, "session")) {
            expect(gone.present(), false, "a session that was ended");
        }
    }

    private static void wills(Version version) throws Exception {
        String topic = "wills/" + version;
        try (Peer watcher = peer(version, "watcher")) {
            watcher.subscribe(topic, 1);
            open(version, "polite", true, topic, "guest").close();
            nothing(watcher, "the will of a client that said good-bye");
            open(version, "dropped", true, topic, "guest").drop();
            expect(bodies(watcher, 1, WAIT), List.of("gone"), "a will");
        }
    }

    private static void shared() throws Exception {
        try (Peer one = peer(Version.OLD, "worker"); Peer two = peer(Version.NEW, "worker"); Peer boss = peer(Version.NEW, "boss")) {
            one.subscribe("$share/workers/jobs/#", 1);
            two.subscribe("$share/workers/jobs/#", 1);
            send(boss, "jobs/x", 10, 1);
            List<String> first = bodies(one, 10, QUIET);
            List<String> second = bodies(two, 10, QUIET);
            List<String> all = new ArrayList<>(first);
            all.addAll(second);
            all.sort(null);
            expect(all, numbers(10), "each job once");
            expect(first.isEmpty() || second.isEmpty(), false, "a worker without a job");
        }
    }

    private static void exactlyOnce(Version version) throws Exception {
        String topic = "once/" + version;
        try (Peer peer = peer(version, "once")) {
            peer.subscribe(topic, 2);
            send(peer, topic, 100, 2);
            expect(bodies(peer, 100, WAIT), numbers(100), "each once");
            nothing(peer, "one more");
        }
    }

    private static void large(Version version) throws Exception {
        try (Peer peer = peer(version, "large")) {
            peer.subscribe("large/" + version, 1);
            peer.publish("large/" + version, new byte[LARGE], 1, false);
            expect(peer.next(WAIT).body().length(), LARGE, "bytes");
        }
    }

    private static void refusals(Version version) throws Exception {
        try {
            open(version, "wrong", true, null, "wrong").close();
        } catch (org.eclipse.paho.client.mqttv3.MqttException refused) {
            expect(refused.getReasonCode(), 4, "a bad password in MQTT 3.1.1");
            return;
        } catch (org.eclipse.paho.mqttv5.common.MqttException refused) {
            expect(refused.getReasonCode(), 0x86, "a bad password in MQTT 5");
            return;
        }
        throw new AssertionError("a wrong password was taken");
    }

    private static void properties() throws Exception {
        MqttProperties sent = new MqttProperties();
        sent.setMessageExpiryInterval(100L);
        sent.setContentType("text/plain");
        sent.setResponseTopic("answers");
        sent.setCorrelationData(new byte[] {0, 1});
        List<UserProperty> pairs = List.of(new UserProperty("b", "1"), new UserProperty("a", "2"), new UserProperty("b", "3"));
        sent.setUserProperties(pairs);
        try (New peer = (New) peer(Version.NEW, "properties")) {
            peer.subscribeAsPublished("p/#", 300);
            peer.publish("p/dots.and/slashes", new MqttMessage("x".getBytes(), 1, true, sent));
            Peer.Message came = peer.next(WAIT);
            expect(came, new Peer.Message("p/dots.and/slashes", "x", 1, true), "a message as it was published");
            MqttProperties got = peer.messages.remove().getProperties();
            expect(got.getContentType() + got.getResponseTopic() + got.getCorrelationData()[1], "text/plainanswers1", "properties");
            expect(got.getUserProperties(), pairs, "pairs in their order");
            expect(got.getSubscriptionIdentifiers(), List.of(300), "identifiers of subscriptions");
            long left = got.getMessageExpiryInterval();
            expect(left >= 95 && left <= 100, true, "what is left of its time");
            peer.publish("p/dots.and/slashes", new byte[0], 1, true);
            MqttMessage unheard = new MqttMessage("x".getBytes(), 1, false, new MqttProperties());
            expect(peer.publish("nobody/listens", unheard), NOBODY_SUBSCRIBES, "the reason of PUBACK");
        }
    }

    private static void takeOver() throws Exception {
        New first = (New) peer(Version.NEW, "same");
        try (Peer second = peer(Version.NEW, "same")) {
            expect(first.ends.poll(WAIT, TimeUnit.MILLISECONDS), SESSION_TAKEN_OVER, "why the first one was ended");
        }
    }

    private static void store(Version version) throws Exception {
        try (Peer session = stored(version, "stored")) {
            session.subscribe("stored/" + version, 2);
        }
        try (Peer sender = peer(version, "store")) {
            send(sender, "stored/" + version, 50, 1);
            sender.publish("lasting/" + version, "kept".getBytes(), 1, true);
        }
    }

    private static void fetch(Version version) throws Exception {
        try (Peer session = stored(version, "stored")) {
            expect(session.present(), true, "the session has survived");
            expect(bodies(session, 50, WAIT), numbers(50), "what was stored");
            session.subscribe("lasting/" + version, 1);
            expect(session.next(WAIT), new Peer.Message("lasting/" + version, "kept", 1, true), "the retained message");
        }
    }
}
