import jakarta.jms.BytesMessage;
import jakarta.jms.CompletionListener;
import jakarta.jms.Connection;
import jakarta.jms.DeliveryMode;
import jakarta.jms.Destination;
import jakarta.jms.InvalidClientIDException;
import jakarta.jms.InvalidDestinationException;
import jakarta.jms.InvalidSelectorException;
import jakarta.jms.JMSException;
import jakarta.jms.JMSSecurityException;
import jakarta.jms.MapMessage;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.ObjectMessage;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.StreamMessage;
import jakarta.jms.TemporaryQueue;
import jakarta.jms.TemporaryTopic;
import jakarta.jms.TextMessage;
import jakarta.jms.Topic;
import java.net.URI;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.qpid.jms.JmsConnectionFactory;

/** What Jakarta Messaging programs do, over Qpid JMS, a client of AMQP 1.0: each scenario says what it got instead. */
public final class Client {
    /** Milliseconds for anything that must arrive. */
    private static final long WAIT = 10_000;
    /** Milliseconds in which nothing may arrive. */
    private static final long QUIET = 300;
    private static final String STORED = "interop.qpid-jms.stored";

    private static final List<Step> PATTERNS = List.of(
        new Step("autoAcknowledge", Client::autoAcknowledge), new Step("clientAcknowledge", Client::clientAcknowledge),
        new Step("dupsOkAcknowledge", Client::dupsOkAcknowledge), new Step("listener", Client::listener),
        new Step("asyncSend", Client::asyncSend), new Step("bodies", Client::bodies), new Step("headers", Client::headers),
        new Step("large", Client::large), new Step("priorities", Client::priorities), new Step("timeToLive", Client::timeToLive),
        new Step("deliveryDelay", Client::deliveryDelay), new Step("selector", Client::selector), new Step("browser", Client::browser),
        new Step("requestReply", Client::requestReply), new Step("receiveTimeout", Client::receiveTimeout),
        new Step("redelivery", Client::redelivery), new Step("closedConsumer", Client::closedConsumer),
        new Step("manySessions", Client::manySessions), new Step("refusals", Client::refusals), new Step("wrongPassword", Client::wrongPassword));
    private static final List<Step> TRANSACTIONS = List.of(
        new Step("commit", Client::commit), new Step("rollback", Client::rollback), new Step("acrossQueues", Client::acrossQueues),
        new Step("rollbackOfMany", Client::rollbackOfMany), new Step("lostTransaction", Client::lostTransaction));
    private static final List<Step> TOPICS = List.of(
        new Step("subscribe", Client::subscribe), new Step("durable", Client::durable), new Step("shared", Client::shared),
        new Step("sharedDurable", Client::sharedDurable), new Step("noLocal", Client::noLocal), new Step("temporaryTopic", Client::temporaryTopic));
    private static final List<Step> STORE = List.of(new Step("store", Client::store));
    private static final List<Step> FETCH = List.of(new Step("fetch", Client::fetch));

    private record Step(String name, Scenario scenario) {}

    private interface Scenario {
        void run(Connection connection) throws Exception;
    }

    private Client() {}

    public static void main(String[] arguments) throws Exception {
        List<Step> steps = switch (arguments.length > 0 ? arguments[0] : "") {
            case "patterns" -> PATTERNS;
            case "transactions" -> TRANSACTIONS;
            case "topics" -> TOPICS;
            case "store" -> STORE;
            case "fetch" -> FETCH;
            default -> List.of();
        };
        if (steps.isEmpty()) {
            System.err.println("failed: name one phase: patterns, transactions, topics, store or fetch");
            System.exit(2);
        }
        int failed = 0;
        for (Step step : steps) {
            try (Connection connection = connect(null)) {
                connection.start();
                step.scenario().run(connection);
                System.out.println("ok " + step.name());
            } catch (Exception | AssertionError error) {
                failed++;
                System.out.println("FAILED " + step.name() + ": " + error + at(error));
            }
        }
        System.exit(failed > 0 ? 1 : 0);
    }

    /** The line of this program that failed. */
    private static String at(Throwable error) {
        return Arrays.stream(error.getStackTrace()).filter(frame -> frame.getClassName().equals("Client")
            && !Set.of("expect", "check").contains(frame.getMethodName())).findFirst().map(frame -> " (line " + frame.getLineNumber() + ")").orElse("");
    }

    private static Connection connect(String clientId) throws JMSException {
        URI url = URI.create(System.getenv("AMQP_URL"));
        String[] login = url.getUserInfo().split(":");
        JmsConnectionFactory factory = new JmsConnectionFactory(login[0], login[1],
            "amqp://" + url.getHost() + ":" + url.getPort() + "?amqp.saslMechanisms=PLAIN&jms.requestTimeout=20000");
        Connection connection = factory.createConnection();
        if (clientId != null) {
            connection.setClientID(clientId);
        }
        return connection;
    }

    private static String unique(String name) {
        return "interop.qpid-jms." + name + "." + System.nanoTime();
    }

    private static void expect(String what, Object found, Object expected) {
        if (!Objects.deepEquals(found, expected)) {
            throw new AssertionError(what + ": expected " + expected + ", found " + found);
        }
    }

    private static void check(boolean holds, String otherwise) {
        if (!holds) {
            throw new AssertionError(otherwise);
        }
    }

    private static String text(MessageConsumer consumer) throws JMSException {
        return text(next(consumer));
    }

    private static String text(Message message) throws JMSException {
        return ((TextMessage) message).getText();
    }

    private static Message next(MessageConsumer consumer) throws JMSException {
        Message message = consumer.receive(WAIT);
        check(message != null, "waited in vain for a message");
        return message;
    }

    private static void nothing(MessageConsumer consumer, String why) throws JMSException {
        Message message = consumer.receive(QUIET);
        check(message == null, why + ", and a message came: " + message);
    }

    private static void send(Session session, Destination destination, String... texts) throws JMSException {
        MessageProducer producer = session.createProducer(destination);
        for (String text : texts) {
            producer.send(session.createTextMessage(text));
        }
        producer.close();
    }

    /** What was received is acknowledged by itself, also when the session ends at once. */
    private static void autoAcknowledge(Connection connection) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue(unique("auto"));
        send(session, queue, "one", "two");
        MessageConsumer consumer = session.createConsumer(queue);
        expect("body", text(consumer), "one");
        session.close();
        Session again = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageConsumer rest = again.createConsumer(queue);
        Message message = next(rest);
        expect("body", text(message), "two");
        expect("redelivered, though only prefetched", message.getJMSRedelivered(), false);
        nothing(rest, "two were sent");
    }

    /** One acknowledgement is for all of the session; without it all come back, counted. */
    private static void clientAcknowledge(Connection connection) throws Exception {
        Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        Queue queue = session.createQueue(unique("client"));
        send(session, queue, "one", "two", "three");
        MessageConsumer consumer = session.createConsumer(queue);
        next(consumer);
        Message second = next(consumer);
        second.acknowledge();
        expect("body", text(consumer), "three");
        session.close();
        Session again = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        MessageConsumer rest = again.createConsumer(queue);
        Message third = next(rest);
        expect("body", text(third), "three");
        expect("delivery count", third.getIntProperty("JMSXDeliveryCount"), 2);
        expect("redelivered", third.getJMSRedelivered(), true);
        third.acknowledge();
        nothing(rest, "all are acknowledged");
    }

    private static void dupsOkAcknowledge(Connection connection) throws Exception {
        Session session = connection.createSession(false, Session.DUPS_OK_ACKNOWLEDGE);
        Queue queue = session.createQueue(unique("dups"));
        MessageConsumer consumer = session.createConsumer(queue);
        for (int number = 0; number < 50; number++) {
            send(session, queue, "m" + number);
        }
        for (int number = 0; number < 50; number++) {
            expect("body", text(consumer), "m" + number);
        }
        nothing(consumer, "fifty were sent");
    }

    /** A listener gets all in order. */
    private static void listener(Connection connection) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue(unique("listener"));
        BlockingQueue<String> seen = new LinkedBlockingQueue<>();
        session.createConsumer(queue).setMessageListener(message -> {
            try {
                seen.add(text(message));
            } catch (JMSException error) {
                seen.add(error.toString());
            }
        });
        Session sending = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = sending.createProducer(queue);
        producer.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
        for (int number = 0; number < 2_500; number++) {
            producer.send(sending.createTextMessage("m" + number));
        }
        for (int number = 0; number < 2_500; number++) {
            expect("body", seen.poll(WAIT, TimeUnit.MILLISECONDS), "m" + number);
        }
    }

    /** Sends with a completion listener are confirmed, in order. */
    private static void asyncSend(Connection connection) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue(unique("async"));
        MessageProducer producer = session.createProducer(queue);
        int count = 2_000;
        CountDownLatch done = new CountDownLatch(count);
        List<String> confirmed = Collections.synchronizedList(new ArrayList<>());
        CompletionListener listener = new CompletionListener() {
            @Override
            public void onCompletion(Message message) {
                try {
                    confirmed.add(text(message));
                } catch (JMSException error) {
                    confirmed.add(error.toString());
                }
                done.countDown();
            }

            @Override
            public void onException(Message message, Exception error) {
                confirmed.add(error.toString());
                done.countDown();
            }
        };
        List<String> sent = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            sent.add("m" + number);
            producer.send(session.createTextMessage("m" + number), listener);
        }
        check(done.await(30, TimeUnit.SECONDS), "confirms are missing: " + done.getCount());
        expect("confirms", confirmed, sent);
        MessageConsumer consumer = session.createConsumer(queue);
        for (String body : sent) {
            expect("body", text(consumer), body);
        }
    }

    /** All six kinds of messages, with what a Java program puts into them. */
    private static void bodies(Connection connection) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue(unique("bodies"));
        MessageProducer producer = session.createProducer(queue);
        MessageConsumer consumer = session.createConsumer(queue);

        producer.send(session.createMessage());
        Message empty = next(consumer);
        check(!(empty instanceof TextMessage) && !(empty instanceof BytesMessage), "a message without body became " + empty.getClass());

        producer.send(session.createTextMessage("grün 🥕"));
        expect("text", text(consumer), "grün 🥕");
        producer.send(session.createTextMessage(null));
        expect("no text", text(consumer), null);

        BytesMessage bytes = session.createBytesMessage();
        bytes.writeLong(1L << 40);
        bytes.writeUTF("utf");
        bytes.writeBytes(new byte[] {0, 1, -1});
        producer.send(bytes);
        BytesMessage gotBytes = (BytesMessage) next(consumer);
        expect("length", gotBytes.getBodyLength(), 8L + 5 + 3);
        expect("long", gotBytes.readLong(), 1L << 40);
        expect("utf", gotBytes.readUTF(), "utf");

        MapMessage map = session.createMapMessage();
        map.setInt("int", -5);
        map.setString("string", "text");
        map.setBytes("bytes", new byte[] {1, 2});
        map.setChar("char", 'ß');
        map.setDouble("double", 1.25);
        map.setObject("null", null);
        producer.send(map);
        MapMessage gotMap = (MapMessage) next(consumer);
        expect("int", gotMap.getInt("int"), -5);
        expect("string", gotMap.getString("string"), "text");
        expect("bytes", gotMap.getBytes("bytes"), new byte[] {1, 2});
        expect("char", gotMap.getChar("char"), 'ß');
        expect("double", gotMap.getDouble("double"), 1.25);
        check(gotMap.itemExists("null") && gotMap.getObject("null") == null, "a null in a map is lost");

        StreamMessage stream = session.createStreamMessage();
        stream.writeShort((short) 7);
        stream.writeString("text");
        stream.writeBoolean(true);
        stream.writeBytes(new byte[] {9});
        producer.send(stream);
        StreamMessage gotStream = (StreamMessage) next(consumer);
        expect("short", gotStream.readShort(), (short) 7);
        expect("string", gotStream.readString(), "text");
        expect("boolean", gotStream.readBoolean(), true);
        expect("bytes", gotStream.readObject(), new byte[] {9});

        producer.send(session.createObjectMessage(new ArrayList<>(List.of("a", 1))));
        ObjectMessage object = (ObjectMessage) next(consumer);
        check(object.getObject() instanceof List<?> list && list.equals(List.of("a", 1)), "the object came back changed");
    }

    /** Headers and properties arrive, and those that the provider sets are there. */
    private static void headers(Connection connection) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue(unique("headers"));
        Queue replies = session.createQueue(unique("replies"));
        TextMessage sent = session.createTextMessage("body");
        sent.setJMSCorrelationID("c-1");
        sent.setJMSType("type");
        sent.setJMSReplyTo(replies);
        sent.setBooleanProperty("boolean", true);
        sent.setByteProperty("byte", (byte) 1);
        sent.setShortProperty("short", (short) 2);
        sent.setIntProperty("int", 3);
        sent.setLongProperty("long", 1L << 40);
        sent.setFloatProperty("float", 1.5f);
        sent.setDoubleProperty("double", 2.25);
        sent.setStringProperty("string", "text");
        sent.setStringProperty("JMSXGroupID", "group");
        sent.setIntProperty("JMSXGroupSeq", 3);
        MessageProducer producer = session.createProducer(queue);
        producer.setPriority(7);
        producer.send(sent);
        Message found = next(session.createConsumer(queue));
        expect("correlation id", found.getJMSCorrelationID(), "c-1");
        expect("type", found.getJMSType(), "type");
        expect("reply to", found.getJMSReplyTo(), replies);
        expect("destination", found.getJMSDestination(), queue);
        expect("message id", found.getJMSMessageID(), sent.getJMSMessageID());
        expect("timestamp", found.getJMSTimestamp(), sent.getJMSTimestamp());
        expect("delivery mode", found.getJMSDeliveryMode(), DeliveryMode.PERSISTENT);
        expect("priority", found.getJMSPriority(), 7);
        expect("expiration", found.getJMSExpiration(), 0L);
        expect("redelivered", found.getJMSRedelivered(), false);
        expect("delivery count", found.getIntProperty("JMSXDeliveryCount"), 1);
        for (String name : List.of("boolean", "byte", "short", "int", "long", "float", "double", "string", "JMSXGroupID", "JMSXGroupSeq")) {
            expect(name, found.getObjectProperty(name), sent.getObjectProperty(name));
        }
    }

    /** A body of several frames. */
    private static void large(Connection connection) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue(unique("large"));
        byte[] body = new byte[3_000_000];
        for (int at = 0; at < body.length; at++) {
            body[at] = (byte) (at * 7 / 3);
        }
        BytesMessage message = session.createBytesMessage();
        message.writeBytes(body);
        session.createProducer(queue).send(message);
        BytesMessage found = (BytesMessage) next(session.createConsumer(queue));
        byte[] back = new byte[body.length];
        expect("length", found.readBytes(back), body.length);
        check(Arrays.equals(back, body), "a body of 3 MB came back changed");
    }

    /** What has a higher priority comes first, and in order within each. */
    private static void priorities(Connection connection) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue(unique("priorities"));
        MessageProducer producer = session.createProducer(queue);
        for (int priority : new int[] {4, 9, 0, 9, 4}) {
            producer.setPriority(priority);
            producer.send(session.createTextMessage("p" + priority));
        }
        MessageConsumer consumer = session.createConsumer(queue);
        List<String> found = new ArrayList<>();
        for (int count = 0; count < 5; count++) {
            found.add(text(consumer));
        }
        expect("order", found, List.of("p9", "p9", "p4", "p4", "p0"));
    }

    private static void timeToLive(Connection connection) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue(unique("ttl"));
        MessageProducer producer = session.createProducer(queue);
        producer.setTimeToLive(100);
        producer.send(session.createTextMessage("short-lived"));
        producer.setTimeToLive(60_000);
        producer.send(session.createTextMessage("long-lived"));
        Thread.sleep(300);
        MessageConsumer consumer = session.createConsumer(queue);
        Message found = next(consumer);
        expect("body", text(found), "long-lived");
        check(found.getJMSExpiration() > System.currentTimeMillis(), "the expiration is " + found.getJMSExpiration());
        nothing(consumer, "the other one has expired");
    }

    /** A delayed message comes late, and not before one that is sent after it. */
    private static void deliveryDelay(Connection connection) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue(unique("delay"));
        MessageProducer producer = session.createProducer(queue);
        producer.setDeliveryDelay(1_000);
        long start = System.currentTimeMillis();
        producer.send(session.createTextMessage("late"));
        producer.setDeliveryDelay(0);
        producer.send(session.createTextMessage("at once"));
        MessageConsumer consumer = session.createConsumer(queue);
        expect("body", text(consumer), "at once");
        Message late = next(consumer);
        expect("body", text(late), "late");
        long after = System.currentTimeMillis() - start;
        check(after >= 1_000, "it came after " + after + " ms");
        check(late.getJMSDeliveryTime() >= start + 1_000, "the delivery time is " + (late.getJMSDeliveryTime() - start) + " ms after the send");
    }

    private static void selector(Connection connection) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue(unique("selector"));
        MessageProducer producer = session.createProducer(queue);
        for (int number = 0; number < 6; number++) {
            TextMessage message = session.createTextMessage("m" + number);
            message.setIntProperty("number", number);
            message.setJMSType(number % 2 == 0 ? "even" : "odd");
            producer.send(message, DeliveryMode.PERSISTENT, number < 4 ? 4 : 8, 0);
        }
        MessageConsumer chosen = session.createConsumer(queue, "JMSType = 'odd' AND number BETWEEN 1 AND 4");
        expect("body", text(chosen), "m1");
        expect("body", text(chosen), "m3");
        nothing(chosen, "the selector is true for no other");
        chosen.close();
        MessageConsumer urgent = session.createConsumer(queue, "JMSPriority > 5 AND JMSDeliveryMode = 'PERSISTENT'");
        expect("body", text(urgent), "m4");
        expect("body", text(urgent), "m5");
        urgent.close();
        MessageConsumer rest = session.createConsumer(queue);
        expect("body", text(rest), "m0");
        expect("body", text(rest), "m2");
    }

    /** A browser sees all, or what its selector chooses, and takes nothing away. */
    private static void browser(Connection connection) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue(unique("browser"));
        MessageProducer producer = session.createProducer(queue);
        List<String> sent = new ArrayList<>();
        for (int number = 0; number < 20; number++) {
            TextMessage message = session.createTextMessage("m" + number);
            message.setIntProperty("number", number);
            producer.send(message);
            sent.add("m" + number);
        }
        for (int round = 0; round < 2; round++) {
            List<String> seen = new ArrayList<>();
            for (Object message : Collections.list(session.createBrowser(queue).getEnumeration())) {
                seen.add(text((Message) message));
            }
            expect("browsed", seen, sent);
        }
        expect("chosen", Collections.list(session.createBrowser(queue, "number > 17").getEnumeration()).size(), 2);
        MessageConsumer consumer = session.createConsumer(queue);
        for (String body : sent) {
            expect("body", text(consumer), body);
        }
        expect("left", Collections.list(session.createBrowser(queue).getEnumeration()).size(), 0);
    }

    /** A request and its reply over a temporary queue, which is deleted then. */
    private static void requestReply(Connection connection) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue(unique("requests"));
        TemporaryQueue replies = session.createTemporaryQueue();
        TextMessage request = session.createTextMessage("question");
        request.setJMSReplyTo(replies);
        session.createProducer(queue).send(request);
        try (Connection other = connect(null)) {
            other.start();
            Session server = other.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Message asked = next(server.createConsumer(queue));
            TextMessage reply = server.createTextMessage("answer");
            reply.setJMSCorrelationID(asked.getJMSMessageID());
            server.createProducer(null).send(asked.getJMSReplyTo(), reply);
        }
        MessageConsumer consumer = session.createConsumer(replies);
        Message answer = next(consumer);
        expect("reply", text(answer), "answer");
        expect("correlation id", answer.getJMSCorrelationID(), request.getJMSMessageID());
        consumer.close();
        replies.delete();
    }

    /** Waits in vain end in time, and lose nothing that comes later. */
    private static void receiveTimeout(Connection connection) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue(unique("timeout"));
        MessageConsumer consumer = session.createConsumer(queue);
        expect("received without wait", consumer.receiveNoWait(), null);
        nothing(consumer, "nothing was sent");
        send(session, queue, "late");
        expect("body", text(consumer), "late");
        send(session, queue, "there");
        Message there = null;
        for (int attempt = 0; there == null && attempt < 100; attempt++) {
            there = consumer.receiveNoWait();
        }
        check(there != null, "receiveNoWait does not find what is there");
    }

    /** What is recovered comes again at its place, with its count, also the fifth time. */
    private static void redelivery(Connection connection) throws Exception {
        Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        Queue queue = session.createQueue(unique("redelivery"));
        send(session, queue, "one", "two");
        MessageConsumer consumer = session.createConsumer(queue);
        for (int count = 1; count <= 5; count++) {
            Message message = next(consumer);
            expect("body", text(message), "one");
            expect("delivery count", message.getIntProperty("JMSXDeliveryCount"), count);
            expect("redelivered", message.getJMSRedelivered(), count > 1);
            session.recover();
        }
        Message last = next(consumer);
        last.acknowledge();
        expect("body", text(consumer), "two");
    }

    /** What a consumer had prefetched is another's when it closes. */
    private static void closedConsumer(Connection connection) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue(unique("closed"));
        send(session, queue, "one", "two", "three");
        MessageConsumer first = session.createConsumer(queue);
        expect("body", text(first), "one");
        first.close();
        MessageConsumer second = session.createConsumer(queue);
        expect("body", text(second), "two");
        expect("body", text(second), "three");
    }

    /** Sessions of one connection work side by side. */
    private static void manySessions(Connection connection) throws Exception {
        List<MessageConsumer> consumers = new ArrayList<>();
        String name = unique("sessions");
        for (int number = 0; number < 30; number++) {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Queue queue = session.createQueue(name + "." + number);
            consumers.add(session.createConsumer(queue));
            send(session, queue, "for " + number);
        }
        for (int number = 0; number < 30; number++) {
            expect("body", text(consumers.get(number)), "for " + number);
        }
    }

    /** What can't be is refused by the exception that the API has for it, and the connection goes on. */
    private static void refusals(Connection connection) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue(unique("refusals"));
        refused(InvalidSelectorException.class, () -> session.createConsumer(queue, "number >"));
        String id = unique("id");
        try (Connection one = connect(id)) {
            one.start();
            refused(InvalidClientIDException.class, () -> connect(id).start());
        }
        connect(id).close();
        send(session, queue, "still here");
        expect("body", text(session.createConsumer(queue)), "still here");
    }

    private static void wrongPassword(Connection connection) throws Exception {
        URI url = URI.create(System.getenv("AMQP_URL"));
        String address = "amqp://" + url.getHost() + ":" + url.getPort() + "?amqp.saslMechanisms=PLAIN";
        refused(JMSSecurityException.class, () -> new JmsConnectionFactory("guest", "wrong", address).createConnection().start());
    }

    private interface Attempt {
        void run() throws Exception;
    }

    private static void refused(Class<? extends Exception> kind, Attempt attempt) throws Exception {
        try {
            attempt.run();
        } catch (Exception error) {
            check(kind.isInstance(error), "expected " + kind.getSimpleName() + ", found " + error);
            return;
        }
        throw new AssertionError("expected " + kind.getSimpleName() + ", and it was let through");
    }

    /** What a session sends and takes counts from its commit on. */
    private static void commit(Connection connection) throws Exception {
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        Session watching = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue(unique("commit"));
        MessageConsumer watcher = watching.createConsumer(queue);
        send(session, queue, "one", "two");
        nothing(watcher, "it was not committed");
        session.commit();
        expect("body", text(watcher), "one");
        expect("body", text(watcher), "two");
        watcher.close();
        send(watching, queue, "three");
        MessageConsumer consumer = session.createConsumer(queue);
        expect("body", text(consumer), "three");
        session.commit();
        nothing(consumer, "it was taken and committed");
    }

    /** What was sent is gone and what was taken is back, in order, counted. */
    private static void rollback(Connection connection) throws Exception {
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        Queue queue = session.createQueue(unique("rollback"));
        send(session, queue, "never");
        session.rollback();
        send(session, queue, "one", "two");
        session.commit();
        MessageConsumer consumer = session.createConsumer(queue);
        for (int count = 1; count <= 3; count++) {
            for (String body : List.of("one", "two")) {
                Message message = next(consumer);
                expect("body", text(message), body);
                expect("delivery count of " + body, message.getIntProperty("JMSXDeliveryCount"), count);
            }
            if (count < 3) {
                session.rollback();
            }
        }
        session.commit();
        nothing(consumer, "all was committed");
    }

    /** One transaction takes from one queue and sends to others. */
    private static void acrossQueues(Connection connection) throws Exception {
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        Queue from = session.createQueue(unique("from"));
        List<Queue> to = List.of(session.createQueue(unique("to")), session.createQueue(unique("to")));
        send(session, from, "moved");
        session.commit();
        MessageConsumer consumer = session.createConsumer(from);
        for (boolean keep : new boolean[] {false, true}) {
            expect("body", text(consumer), "moved");
            for (Queue queue : to) {
                send(session, queue, "copy");
            }
            if (keep) {
                session.commit();
            } else {
                session.rollback();
            }
        }
        Session watching = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        for (Queue queue : to) {
            MessageConsumer watcher = watching.createConsumer(queue);
            expect("body", text(watcher), "copy");
            nothing(watcher, "one transaction was committed");
        }
        nothing(watching.createConsumer(from), "it was moved");
    }

    /** A rollback with a thousand messages taken ahead. */
    private static void rollbackOfMany(Connection connection) throws Exception {
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        Queue queue = session.createQueue(unique("many"));
        MessageProducer producer = session.createProducer(queue);
        for (int number = 0; number < 1_500; number++) {
            producer.send(session.createTextMessage("m" + number));
        }
        session.commit();
        MessageConsumer consumer = session.createConsumer(queue);
        for (int round = 0; round < 2; round++) {
            for (int number = 0; number < 700; number++) {
                expect("body", text(consumer), "m" + number);
            }
            if (round == 0) {
                session.rollback();
            }
        }
        session.commit();
        for (int number = 700; number < 1_500; number++) {
            expect("body", text(consumer), "m" + number);
        }
        session.commit();
        nothing(consumer, "all was committed");
    }

    /** A connection that ends takes its open transaction back. */
    private static void lostTransaction(Connection connection) throws Exception {
        String name = unique("lost");
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue(name);
        send(session, queue, "kept");
        try (Connection other = connect(null)) {
            other.start();
            Session lost = other.createSession(true, Session.SESSION_TRANSACTED);
            expect("body", text(lost.createConsumer(queue)), "kept");
            send(lost, queue, "never");
        }
        MessageConsumer consumer = session.createConsumer(queue);
        expect("body", text(consumer), "kept");
        nothing(consumer, "the other one was never committed");
    }

    /** Each subscriber gets what is sent after it came. */
    private static void subscribe(Connection connection) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Topic topic = session.createTopic(unique("topic"));
        send(session, topic, "before");
        List<MessageConsumer> subscribers = List.of(session.createConsumer(topic), session.createConsumer(topic, "kind = 'a'"));
        MessageProducer producer = session.createProducer(topic);
        for (String kind : List.of("a", "b")) {
            TextMessage message = session.createTextMessage(kind);
            message.setStringProperty("kind", kind);
            producer.send(message);
        }
        expect("body", text(subscribers.get(0)), "a");
        expect("body", text(subscribers.get(0)), "b");
        expect("body", text(subscribers.get(1)), "a");
        nothing(subscribers.get(1), "the selector is true for no other");
    }

    /** A durable subscription gathers while its client is away, and ends when it is unsubscribed. */
    private static void durable(Connection connection) throws Exception {
        String id = unique("client");
        Session sending = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Topic topic = sending.createTopic(unique("durable"));
        try (Connection client = connect(id)) {
            client.start();
            Session session = client.createSession(false, Session.AUTO_ACKNOWLEDGE);
            session.createDurableSubscriber(topic, "sub").close();
        }
        send(sending, topic, "while away");
        try (Connection client = connect(id)) {
            client.start();
            Session session = client.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageConsumer consumer = session.createDurableSubscriber(topic, "sub");
            expect("body", text(consumer), "while away");
            refused(JMSException.class, () -> session.unsubscribe("sub"));
            consumer.close();
            session.unsubscribe("sub");
            refused(InvalidDestinationException.class, () -> session.unsubscribe("sub"));
            send(sending, topic, "never");
            nothing(session.createDurableSubscriber(topic, "sub"), "the subscription is a new one");
        }
    }

    /** The consumers of a shared subscription share its messages. */
    private static void shared(Connection connection) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Topic topic = session.createTopic(unique("shared"));
        share(session, topic, List.of(session.createSharedConsumer(topic, "sub"), session.createSharedConsumer(topic, "sub")));
    }

    private static void share(Session session, Topic topic, List<MessageConsumer> consumers) throws Exception {
        Set<String> sent = new HashSet<>();
        for (int number = 0; number < 10; number++) {
            send(session, topic, "m" + number);
            sent.add("m" + number);
        }
        Set<String> found = new HashSet<>();
        long end = System.currentTimeMillis() + WAIT;
        while (found.size() < sent.size() && System.currentTimeMillis() < end) {
            for (MessageConsumer consumer : consumers) {
                Message message = consumer.receive(50);
                if (message != null) {
                    check(found.add(text(message)), "twice: " + text(message));
                }
            }
        }
        expect("messages of all consumers", found, sent);
    }

    private static void sharedDurable(Connection connection) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Topic topic = session.createTopic(unique("shared"));
        String name = "sub" + System.nanoTime();
        MessageConsumer one = session.createSharedDurableConsumer(topic, name);
        share(session, topic, List.of(one, session.createSharedDurableConsumer(topic, name)));
        session.close();
        Session again = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        send(again, topic, "while away");
        MessageConsumer consumer = again.createSharedDurableConsumer(topic, name);
        expect("body", text(consumer), "while away");
        consumer.close();
        again.unsubscribe(name);
    }

    /** A subscriber that wants nothing of its own connection gets others' messages alone. */
    private static void noLocal(Connection connection) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Topic topic = session.createTopic(unique("local"));
        MessageConsumer consumer = session.createConsumer(topic, null, true);
        send(session, topic, "own");
        try (Connection other = connect(null)) {
            send(other.createSession(false, Session.AUTO_ACKNOWLEDGE), topic, "other's");
        }
        expect("body", text(consumer), "other's");
        nothing(consumer, "the other message was its own");
    }

    private static void temporaryTopic(Connection connection) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        TemporaryTopic topic = session.createTemporaryTopic();
        MessageConsumer consumer = session.createConsumer(topic);
        send(session, topic, "here");
        expect("body", text(consumer), "here");
        consumer.close();
        topic.delete();
    }

    private static void store(Connection connection) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue(STORED);
        MessageConsumer old = session.createConsumer(queue);
        while (old.receive(QUIET) != null) {
            // What an earlier run left.
        }
        old.close();
        for (int number = 0; number < 10; number++) {
            send(session, queue, "stored " + number);
        }
    }

    private static void fetch(Connection connection) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageConsumer consumer = session.createConsumer(session.createQueue(STORED));
        for (int number = 0; number < 10; number++) {
            Message message = next(consumer);
            expect("stored message", text(message), "stored " + number);
            expect("redelivered", message.getJMSRedelivered(), false);
        }
        nothing(consumer, "ten were stored");
    }
}
