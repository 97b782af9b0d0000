package shop;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import java.util.stream.IntStream;
import org.springframework.amqp.core.Message;
import org.springframework.amqp.core.ReturnedMessage;
import org.springframework.amqp.rabbit.connection.CachingConnectionFactory;
import org.springframework.amqp.rabbit.connection.CorrelationData;
import org.springframework.amqp.rabbit.core.RabbitAdmin;
import org.springframework.amqp.rabbit.core.RabbitTemplate;
import org.springframework.amqp.rabbit.listener.RabbitListenerEndpointRegistry;
import org.springframework.amqp.rabbit.transaction.RabbitTransactionManager;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.transaction.support.TransactionTemplate;

/** Runs the application and checks what its users build on, each as a method. */
public final class Check {
    static final long WAIT = 30_000; // milliseconds for anything that must arrive

    private final RabbitTemplate template;
    private final RabbitTemplate transacted;
    private final RabbitAdmin admin;
    private final Listeners listeners;
    private final RabbitListenerEndpointRegistry containers;
    private final TransactionTemplate transactions;
    private final CachingConnectionFactory connections;

    private interface Step {
        void run() throws Exception;
    }

    private Check(AnnotationConfigApplicationContext context) {
        template = context.getBean(RabbitTemplate.class);
        transacted = context.getBean("transactedTemplate", RabbitTemplate.class);
        admin = context.getBean(RabbitAdmin.class);
        listeners = context.getBean(Listeners.class);
        containers = context.getBean(RabbitListenerEndpointRegistry.class);
        transactions = new TransactionTemplate(context.getBean(RabbitTransactionManager.class));
        connections = context.getBean("connections", CachingConnectionFactory.class);
    }

    public static void main(String[] arguments) throws Exception {
        try (AnnotationConfigApplicationContext context = new AnnotationConfigApplicationContext(Shop.class)) {
            Check check = new Check(context);
            for (Map.Entry<String, Step> step : check.steps(arguments[0]).entrySet()) {
                step.getValue().run();
                System.out.println("ok " + step.getKey());
            }
        }
    }

    private Map<String, Step> steps(String phase) {
        Map<String, Step> steps = new LinkedHashMap<>();
        switch (phase) {
            case "patterns" -> {
                steps.put("declarables", this::declarables);
                steps.put("confirms", this::confirms);
                steps.put("listeners", this::listeners);
                steps.put("prefetch", this::prefetch);
                steps.put("retry", this::retry);
                steps.put("singleActiveConsumer", this::singleActiveConsumer);
                steps.put("publishSubscribe", this::publishSubscribe);
                steps.put("transactions", this::transactions);
                steps.put("transactedListener", this::transactedListener);
                steps.put("requestReply", this::requestReply);
                steps.put("batch", this::batch);
                steps.put("reconnect", this::reconnect);
            }
            case "extensions" -> { }
            case "store" -> steps.put("store", this::store);
            case "fetch" -> steps.put("fetch", this::fetch);
            default -> throw new IllegalArgumentException("no such phase: " + phase);
        }
        return steps;
    }

    private static void expect(Object found, Object expected, String what) {
        if (!expected.equals(found)) {
            throw new AssertionError(what + ": expected " + expected + ", found " + found);
        }
    }

    /** Waits until {@code found} gives what is expected. */
    private static void until(Supplier<Object> found, Object expected, String what) throws InterruptedException {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(WAIT);
        while (!expected.equals(found.get())) {
            if (System.nanoTime() > end) {
                expect(found.get(), expected, what);
            }
            Thread.sleep(20);
        }
    }

    private static List<String> numbered(String word, int count) {
        return IntStream.range(0, count).mapToObj(number -> word + " " + number).toList();
    }

    private long waiting(String queue) {
        return admin.getQueueInfo(queue).getMessageCount();
    }

    private List<String> done(String word) {
        return listeners.journal.stream().filter(line -> line.startsWith(word)).toList();
    }

    /** The next body of a queue; fails if none comes. */
    private String next(String queue) {
        Object body = template.receiveAndConvert(queue, WAIT);
        if (body == null) {
            throw new AssertionError("nothing in " + queue);
        }
        return (String) body;
    }

    /** The admin has declared all, and every listener consumes. */
    private void declarables() throws Exception {
        for (String queue : List.of(Shop.ORDERS, Shop.PARCELS, Shop.ACCOUNTS, Shop.BOOKINGS, Shop.QUOTES, Shop.LINES,
                Shop.SMALL, Shop.STORED, Shop.TURNS, Shop.DEAD)) {
            admin.purgeQueue(queue);
        }
        until(() -> admin.getQueueInfo(Shop.ORDERS).getConsumerCount(), 2, "consumers of orders");
        until(() -> admin.getQueueInfo(Shop.PARCELS).getConsumerCount(), 1, "consumers of parcels");
        expect(admin.getQueueInfo(Shop.LINES).getConsumerCount(), 0, "consumers of lines");
    }

    /** Every message's fate is told: stored, returned, refused. */
    private void confirms() throws Exception {
        List<CorrelationData> sent = new ArrayList<>();
        for (String text : numbered("line", 100)) {
            sent.add(new CorrelationData(text));
            template.convertAndSend("", Shop.LINES, text, sent.get(sent.size() - 1));
        }
        for (CorrelationData data : sent) {
            expect(data.getFuture().get(WAIT, TimeUnit.MILLISECONDS).ack(), true, data.getId());
        }
        expect(admin.purgeQueue(Shop.LINES), 100, "stored");

        CorrelationData nowhere = new CorrelationData("nowhere");
        template.convertAndSend(Shop.EXCHANGE, "nobody.wants.this", "lost", nowhere);
        expect(nowhere.getFuture().get(WAIT, TimeUnit.MILLISECONDS).ack(), true, "confirm of what is returned");
        ReturnedMessage returned = nowhere.getReturned();
        expect(returned == null ? "nothing" : returned.getReplyCode() + " " + returned.getRoutingKey(),
                "312 nobody.wants.this", "returned");

        for (boolean taken : new boolean[] {true, false}) {
            CorrelationData data = new CorrelationData("small");
            template.convertAndSend("", Shop.SMALL, "text", data);
            expect(data.getFuture().get(WAIT, TimeUnit.MILLISECONDS).ack(), taken, "place in a queue for one");
        }
        expect(next(Shop.SMALL), "text", "the one");
    }

    private void listeners() throws Exception {
        for (String order : numbered("good", 50)) {
            template.convertAndSend(Shop.EXCHANGE, "order.new", order);
        }
        until(() -> done("order good").size(), 50, "orders");
        // Two consumers share them, so they may pass each other.
        expect(done("order good").stream().sorted().toList(),
                numbered("order good", 50).stream().sorted().toList(), "each once");
    }

    /** A consumer takes what its prefetch allows, the rest waits in the queue. */
    private void prefetch() throws Exception {
        for (String parcel : numbered("small", 20)) {
            template.convertAndSend(Shop.EXCHANGE, "parcel.small", parcel);
        }
        until(() -> waiting(Shop.PARCELS), 20L - Shop.PREFETCH, "parcels that wait");
        listeners.permits.release(20);
        until(() -> done("parcel").size(), 20, "parcels");
        expect(done("parcel"), numbered("parcel small", 20), "in order");
    }

    /** What fails is tried again by the container, then becomes a dead letter that says why. */
    private void retry() throws Exception {
        template.convertAndSend(Shop.EXCHANGE, "order.new", "bad order");
        Message letter = template.receive(Shop.DEAD, WAIT);
        expect(letter == null ? "nothing" : new String(letter.getBody()), "bad order", "dead letter");
        expect(done("order bad").size(), 1 + Shop.RETRIES, "attempts");
        Map<String, Object> headers = letter.getMessageProperties().getHeaders();
        expect(headers.get("x-first-death-queue"), Shop.ORDERS, "where it died");
        expect(headers.get("x-first-death-reason"), "rejected", "why");
        expect(letter.getMessageProperties().getXDeathHeader().get(0).get("count"), 1L, "deaths");
    }

    /** One of two consumers gets everything in order; what it fails at comes back at once, until the queue has had enough. */
    private void singleActiveConsumer() throws Exception {
        until(() -> admin.getQueueInfo(Shop.TURNS).getConsumerCount(), 2, "candidates");
        for (String text : List.of("1", "bad", "2", "3")) {
            template.convertAndSend(Shop.TURNS, text);
        }
        until(() -> done("turn").size(), 3 + 1 + Shop.RETRIES, "turns");
        expect(done("turn"), List.of("turn 1", "turn bad", "turn bad", "turn bad", "turn 2", "turn 3"), "in order");
        expect(listeners.active.size(), 1, "active consumers");
        Message letter = template.receive(Shop.DEAD, WAIT);
        Object reason = letter == null ? "nothing" : letter.getMessageProperties().getHeader("x-first-death-reason");
        expect(reason, "delivery_limit", "dead letter");
    }

    private void publishSubscribe() throws Exception {
        template.convertAndSend(Shop.NEWS, "", "open on Sunday");
        until(() -> done("news"), List.of("news open on Sunday"), "news");
    }

    /** A transaction over two queues happens or does not. */
    private void transactions() {
        transactions.executeWithoutResult(status -> {
            transacted.convertAndSend(Shop.BOOKINGS, "rolled back");
            transacted.convertAndSend(Shop.LINES, "rolled back");
            expect(waiting(Shop.BOOKINGS) + waiting(Shop.LINES), 0L, "visible before the end");
            status.setRollbackOnly();
        });
        transactions.executeWithoutResult(status -> {
            transacted.convertAndSend(Shop.BOOKINGS, "committed");
            transacted.convertAndSend(Shop.LINES, "committed");
        });
        expect(List.of(next(Shop.BOOKINGS), next(Shop.LINES)), List.of("committed", "committed"), "sent");
        expect(waiting(Shop.BOOKINGS) + waiting(Shop.LINES), 0L, "left");
    }

    /** A listener's acknowledgement and what it sends are one: after a failure neither has happened. */
    private void transactedListener() {
        template.convertAndSend("", Shop.ACCOUNTS, "bad transfer");
        expect(next(Shop.DEAD), "bad transfer", "dead letter");
        template.convertAndSend("", Shop.ACCOUNTS, "transfer");
        expect(List.of(next(Shop.BOOKINGS), next(Shop.BOOKINGS)), List.of("debit transfer", "credit transfer"), "bookings");
        expect(waiting(Shop.BOOKINGS) + waiting(Shop.ACCOUNTS), 0L, "left");
    }

    /** Replies come back through the direct reply-to address, each to its asker. */
    private void requestReply() throws Exception {
        List<CompletableFuture<Object>> replies = new ArrayList<>();
        for (int number = 0; number < 20; number++) {
            String article = "a".repeat(number + 1);
            replies.add(CompletableFuture.supplyAsync(() -> template.convertSendAndReceive(Shop.QUOTES, article)));
        }
        for (int number = 0; number < 20; number++) {
            String expected = "a".repeat(number + 1) + " costs " + (number + 1);
            expect(replies.get(number).get(WAIT, TimeUnit.MILLISECONDS), expected, "reply");
        }
    }

    /** A listener takes messages by the batch, and all are acknowledged. */
    private void batch() throws Exception {
        for (String text : numbered("line", 25)) {
            template.convertAndSend(Shop.LINES, text);
        }
        containers.getListenerContainer("lines").start();
        until(() -> done("lines").stream().mapToInt(line -> Integer.parseInt(line.split(" ")[1])).sum(), 25, "lines");
        expect(done("lines").stream().anyMatch(("lines " + Shop.BATCH)::equals), true, "a full batch among " + done("lines"));
        containers.getListenerContainer("lines").stop();
        expect(waiting(Shop.LINES), 0L, "left");
    }

    /** After a lost connection the listeners are back, without anybody's doing. */
    private void reconnect() throws Exception {
        connections.resetConnection();
        template.convertAndSend(Shop.EXCHANGE, "order.new", "later");
        until(() -> done("order later").size(), 1, "an order after it");
        expect(template.convertSendAndReceive(Shop.QUOTES, "pen"), "pen costs 3", "reply after it");
    }

    /** Ten messages for nobody yet, and a process that publishes and handles while the server dies. */
    private void store() throws Exception {
        for (String queue : List.of(Shop.STORED, Shop.LIVE, Shop.REPORT)) {
            admin.purgeQueue(queue);
        }
        String java = ProcessHandle.current().info().command().orElse("java");
        new ProcessBuilder(java, "-cp", System.getProperty("java.class.path"), "shop.Live")
                .redirectOutput(ProcessBuilder.Redirect.DISCARD).redirectError(ProcessBuilder.Redirect.DISCARD).start();
        until(() -> admin.getQueueInfo(Shop.REPORT).getConsumerCount(), 1, "the process is ready");
        for (String text : numbered("stored", 10)) {
            CorrelationData data = new CorrelationData(text);
            template.convertAndSend("", Shop.STORED, text, data);
            expect(data.getFuture().get(WAIT, TimeUnit.MILLISECONDS).ack(), true, text);
        }
    }

    /** The ten are there, in order and new; the process has found its way back, and lost nothing that was confirmed. */
    private void fetch() throws Exception {
        containers.getListenerContainer("stored").start();
        until(() -> done("stored").size(), 10, "stored messages");
        expect(done("stored"), numbered("stored", 10).stream().map(text -> text + " false").toList(), "in order, new");
        containers.getListenerContainer("stored").stop();
        expect(waiting(Shop.STORED), 0L, "left");
        Object report = template.convertSendAndReceive(Shop.REPORT, "what became of your messages?");
        expect(report == null ? "no answer" : report, "missing: []", "report");
    }
}
