package shop;

import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.TextMessage;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.stream.IntStream;
import org.messaginghub.pooled.jms.JmsPoolConnectionFactory;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.jms.config.JmsListenerEndpointRegistry;
import org.springframework.jms.core.JmsTemplate;
import org.springframework.jms.listener.DefaultMessageListenerContainer;
import org.springframework.jms.listener.MessageListenerContainer;
import org.springframework.transaction.support.TransactionTemplate;

/** Runs the application and checks what its users build on, each as a method. */
public final class Check {
    /** Milliseconds for anything that must arrive. */
    static final long WAIT = 30_000;
    /** Milliseconds in which nothing may arrive. */
    private static final long QUIET = 300;
    private static final String QUEUE = "interop.spring-jms.";
    private static final String STORED = QUEUE + "stored";
    private static final int MESSAGES = 200;

    private final JmsTemplate queues;
    private final JmsTemplate topics;
    private final TransactionTemplate transactions;
    private final JmsPoolConnectionFactory pool;
    private final JmsListenerEndpointRegistry containers;
    private final Listeners listeners;

    private interface Step {
        void run() throws Exception;
    }

    private record Named(String name, Step step) {}

    private Check(AnnotationConfigApplicationContext context) {
        queues = context.getBean("queues", JmsTemplate.class);
        topics = context.getBean("topics", JmsTemplate.class);
        transactions = context.getBean(TransactionTemplate.class);
        pool = context.getBean(JmsPoolConnectionFactory.class);
        containers = context.getBean(JmsListenerEndpointRegistry.class);
        listeners = context.getBean(Listeners.class);
    }

    public static void main(String[] arguments) throws Exception {
        int failed = 0;
        try (AnnotationConfigApplicationContext context = new AnnotationConfigApplicationContext(Shop.class)) {
            Check check = new Check(context);
            for (Named named : check.steps(arguments[0])) {
                try {
                    named.step().run();
                    System.out.println("ok " + named.name());
                } catch (Exception | AssertionError error) {
                    failed++;
                    for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                        System.err.println("failed " + named.name() + ": " + cause);
                    }
                }
            }
        }
        System.exit(failed == 0 ? 0 : 1);
    }

    private List<Named> steps(String phase) {
        return switch (phase) {
            case "patterns" -> List.of(
                new Named("conversions", this::conversions), new Named("pooledThreads", this::pooledThreads),
                new Named("headers", this::headers), new Named("selected", this::selected), new Named("browse", this::browse),
                new Named("emptyQueue", this::emptyQueue), new Named("timeToLive", this::timeToLive),
                new Named("deliveryDelay", this::deliveryDelay), new Named("requestReply", this::requestReply),
                new Named("retries", this::retries), new Named("scaling", this::scaling));
            case "transactions" -> List.of(
                new Named("committed", this::committed), new Named("rolledBack", this::rolledBack), new Named("moved", this::moved));
            case "topics" -> List.of(
                new Named("durable", this::durable), new Named("sharedDurable", this::sharedDurable));
            case "store" -> List.of(new Named("store", this::store));
            case "fetch" -> List.of(new Named("fetch", this::fetch));
            default -> throw new IllegalArgumentException("no such phase: " + phase);
        };
    }

    /** Spring's converter makes text, bytes and map messages, and reads them again. */
    private void conversions() {
        for (Object body : List.of("text", Map.of("place", "Rome", "count", 3))) {
            queues.convertAndSend(QUEUE + "bodies", body);
            expect(body, queues.receiveAndConvert(QUEUE + "bodies"));
        }
        queues.convertAndSend(QUEUE + "bodies", new byte[] {0, 1, (byte) 255});
        byte[] bytes = (byte[]) queues.receiveAndConvert(QUEUE + "bodies");
        expect("[0, 1, -1]", Arrays.toString(bytes));
    }

    /** Twenty threads send and receive over two connections. */
    private void pooledThreads() throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(20);
        List<Callable<Set<String>>> work = new ArrayList<>();
        for (int thread = 0; thread < 20; thread++) {
            String name = "t" + thread + ".";
            work.add(() -> {
                IntStream.range(0, 10).forEach(at -> queues.convertAndSend(QUEUE + "pooled", name + at));
                Set<String> taken = new HashSet<>();
                for (int at = 0; at < 10; at++) {
                    taken.add((String) queues.receiveAndConvert(QUEUE + "pooled"));
                }
                return taken;
            });
        }
        Set<String> all = new HashSet<>();
        for (Future<Set<String>> one : threads.invokeAll(work)) {
            all.addAll(one.get());
        }
        threads.shutdown();
        expect(200, all.size());
        require(pool.getNumConnections() <= 2, "the pool has " + pool.getNumConnections() + " connections");
    }

    private void headers() throws JMSException {
        queues.convertAndSend(QUEUE + "headers", "order", message -> {
            message.setJMSType("order");
            message.setJMSCorrelationID("c-1");
            message.setStringProperty("region", "eu");
            message.setIntProperty("pieces", 7);
            message.setBooleanProperty("paid", true);
            return message;
        });
        Message message = queues.receive(QUEUE + "headers");
        expect("order c-1 eu 7 true", String.join(" ", message.getJMSType(), message.getJMSCorrelationID(),
            message.getStringProperty("region"), message.getStringProperty("pieces"), message.getStringProperty("paid")));
    }

    private void selected() throws JMSException {
        for (String region : List.of("us", "eu", "us")) {
            queues.convertAndSend(QUEUE + "selected", region, message -> {
                message.setStringProperty("region", region);
                return message;
            });
        }
        expect("eu", queues.receiveSelectedAndConvert(QUEUE + "selected", "region = 'eu'"));
        expect("us", queues.receiveAndConvert(QUEUE + "selected"));
        expect("us", queues.receiveAndConvert(QUEUE + "selected"));
    }

    private void browse() {
        IntStream.range(0, 5).forEach(at -> queues.convertAndSend(QUEUE + "browsed", "m" + at));
        List<String> seen = queues.browse(QUEUE + "browsed", (session, browser) -> {
            List<String> bodies = new ArrayList<>();
            for (Object message : Collections.list(browser.getEnumeration())) {
                bodies.add(((TextMessage) message).getText());
            }
            return bodies;
        });
        expect(List.of("m0", "m1", "m2", "m3", "m4"), seen);
        IntStream.range(0, 5).forEach(at -> expect("m" + at, queues.receiveAndConvert(QUEUE + "browsed")));
    }

    /** Without waiting: the client drains its credit, and the broker says at once that there is nothing. */
    private void emptyQueue() {
        JmsTemplate hasty = new JmsTemplate(pool);
        hasty.setReceiveTimeout(JmsTemplate.RECEIVE_TIMEOUT_NO_WAIT);
        for (int at = 0; at < 20; at++) {
            expect(null, hasty.receiveAndConvert(QUEUE + "empty"));
        }
        queues.convertAndSend(QUEUE + "empty", "one");
        expect("one", hasty.receiveAndConvert(QUEUE + "empty"));
    }

    private void timeToLive() throws InterruptedException {
        JmsTemplate brief = new JmsTemplate(pool);
        brief.setExplicitQosEnabled(true);
        brief.setTimeToLive(100);
        brief.convertAndSend(QUEUE + "brief", "brief");
        Thread.sleep(QUIET);
        queues.convertAndSend(QUEUE + "brief", "lasting");
        expect("lasting", queues.receiveAndConvert(QUEUE + "brief"));
    }

    private void deliveryDelay() {
        JmsTemplate late = new JmsTemplate(pool);
        late.setDeliveryDelay(500);
        late.convertAndSend(QUEUE + "late", "late");
        queues.convertAndSend(QUEUE + "late", "soon");
        expect("soon", queues.receiveAndConvert(QUEUE + "late"));
        expect("late", queues.receiveAndConvert(QUEUE + "late"));
    }

    /** The reply comes over a temporary queue, from a listener with a transaction. */
    private void requestReply() throws Exception {
        with("orders", () -> {
            for (int at = 0; at < 10; at++) {
                String order = "order " + at;
                Message reply = queues.sendAndReceive(Shop.ORDERS, session -> session.createTextMessage(order));
                expect("done: " + order, ((TextMessage) reply).getText());
            }
        });
    }

    /** What fails is rolled back, and comes again with a count. */
    private void retries() throws Exception {
        with("fragile", () -> {
            queues.convertAndSend(Shop.FRAGILE, "fragile");
            for (int delivery = 1; delivery <= 3; delivery++) {
                expect(new Listeners.Taken("fragile", delivery), take(listeners.fragile));
            }
            expect(null, listeners.fragile.poll(QUIET, TimeUnit.MILLISECONDS));
        });
    }

    /** Consumers come and go with the load, and no message is lost or taken twice. */
    private void scaling() throws Exception {
        with("fragile", () -> {
            DefaultMessageListenerContainer container =
                (DefaultMessageListenerContainer) containers.getListenerContainer("fragile");
            Set<String> taken = new HashSet<>();
            for (int consumers : List.of(4, 1, 3, 2)) {
                container.setConcurrency("1-" + consumers);
                IntStream.range(0, MESSAGES).forEach(at -> queues.convertAndSend(Shop.FRAGILE, consumers + "." + at));
                for (int at = 0; at < MESSAGES; at++) {
                    String body = take(listeners.fragile).body();
                    require(taken.add(body), body + " has come twice");
                }
            }
            container.setConcurrency("2-4");
            expect(4 * MESSAGES, taken.size());
        });
    }

    private void committed() {
        transactions.executeWithoutResult(status -> {
            queues.convertAndSend(QUEUE + "left", "l");
            queues.convertAndSend(QUEUE + "right", "r");
        });
        expect("l", queues.receiveAndConvert(QUEUE + "left"));
        expect("r", queues.receiveAndConvert(QUEUE + "right"));
    }

    private void rolledBack() {
        transactions.executeWithoutResult(status -> {
            queues.convertAndSend(QUEUE + "left", "never");
            queues.convertAndSend(QUEUE + "right", "never");
            status.setRollbackOnly();
        });
        queues.convertAndSend(QUEUE + "left", "l");
        queues.convertAndSend(QUEUE + "right", "r");
        expect("l", queues.receiveAndConvert(QUEUE + "left"));
        expect("r", queues.receiveAndConvert(QUEUE + "right"));
    }

    /** A message moves from one queue to another in one transaction, and not if that fails. */
    private void moved() throws JMSException {
        queues.convertAndSend(QUEUE + "left", "piece");
        transactions.executeWithoutResult(status -> {
            queues.convertAndSend(QUEUE + "right", queues.receiveAndConvert(QUEUE + "left"));
            status.setRollbackOnly();
        });
        transactions.executeWithoutResult(status -> {
            Message piece = queues.receive(QUEUE + "left");
            try {
                expect(2, piece.getIntProperty("JMSXDeliveryCount"));
                require(piece.getJMSRedelivered(), "it is not marked as redelivered");
            } catch (JMSException error) {
                throw new IllegalStateException(error);
            }
            queues.convertAndSend(QUEUE + "right", "moved");
        });
        expect("moved", queues.receiveAndConvert(QUEUE + "right"));
    }

    /** What is published while the listener is away waits for it. */
    private void durable() throws Exception {
        with("durable", () -> {
            topics.convertAndSend(Shop.PRICES, "1");
            expect("1", take(listeners.durable));
        });
        topics.convertAndSend(Shop.PRICES, "2");
        with("durable", () -> expect("2", take(listeners.durable)));
    }

    /** Two consumers share what comes; each message is taken once. */
    private void sharedDurable() throws Exception {
        with("shared", () -> {
            Set<String> sent = new HashSet<>();
            for (int at = 0; at < 50; at++) {
                sent.add("price " + at);
                topics.convertAndSend(Shop.PRICES, "price " + at);
            }
            Set<String> taken = new HashSet<>();
            for (int at = 0; at < 50; at++) {
                taken.add(take(listeners.shared));
            }
            expect(sent, taken);
            expect(null, listeners.shared.poll(QUIET, TimeUnit.MILLISECONDS));
        });
    }

    private void store() {
        IntStream.range(0, 10).forEach(at -> queues.convertAndSend(STORED, "stored " + at));
    }

    private void fetch() throws JMSException {
        for (int at = 0; at < 10; at++) {
            TextMessage message = (TextMessage) queues.receive(STORED);
            expect("stored " + at, message.getText());
            require(!message.getJMSRedelivered(), "it was never delivered before");
        }
    }

    /** Lets a listener run while this is done. */
    private void with(String listener, Step step) throws Exception {
        MessageListenerContainer container = containers.getListenerContainer(listener);
        DefaultMessageListenerContainer consumers = (DefaultMessageListenerContainer) container;
        container.start();
        await("the listener is registered", consumers::isRunning);
        await("it has consumers", () -> consumers.getActiveConsumerCount() > 0 && attached(consumers));
        try {
            step.run();
        } finally {
            container.stop();
            await("its consumers are gone", () -> consumers.getActiveConsumerCount() == 0 || !consumers.isRunning());
        }
    }

    /** A subscription must be there before anything is published to its topic. */
    private static boolean attached(DefaultMessageListenerContainer consumers) {
        return !consumers.isPubSubDomain() || consumers.isRegisteredWithDestination();
    }

    private static void await(String what, BooleanSupplier holds) throws InterruptedException {
        for (long end = System.currentTimeMillis() + WAIT; !holds.getAsBoolean(); Thread.sleep(10)) {
            require(System.currentTimeMillis() < end, "not in time: " + what);
        }
    }

    private static <T> T take(BlockingQueue<T> taken) throws InterruptedException {
        T one = taken.poll(WAIT, TimeUnit.MILLISECONDS);
        require(one != null, "nothing came");
        return one;
    }

    private static void expect(Object expected, Object found) {
        require(Objects.equals(expected, found), "expected " + expected + ", found " + found);
    }

    private static void require(boolean holds, String otherwise) {
        if (!holds) {
            throw new AssertionError(otherwise);
        }
    }
}
