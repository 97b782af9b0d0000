import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.AlreadyClosedException;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.MessageProperties;
import com.rabbitmq.client.Return;
import com.rabbitmq.client.ShutdownSignalException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Date;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** The RabbitMQ tutorials' patterns with RabbitMQ's Java client, each as a method that checks what it gets. */
public final class Client {
    private static final long WAIT = 10_000; // milliseconds for anything that must arrive
    private static final long QUIET = 300; // milliseconds in which nothing may arrive
    private static final String STORED = "interop.amqp-client.stored";

    private interface Step {
        void run(Connection connection) throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Step> steps = new LinkedHashMap<>();
        switch (arguments[0]) {
            case "patterns" -> {
                steps.put("workQueue", Client::workQueue);
                steps.put("publishSubscribe", Client::publishSubscribe);
                steps.put("routing", Client::routing);
                steps.put("topics", Client::topics);
                steps.put("rpc", Client::rpc);
                steps.put("confirms", Client::confirms);
                steps.put("refusals", Client::refusals);
            }
            case "extensions" -> steps.put("directReplyTo", Client::directReplyTo);
            case "store" -> steps.put("store", Client::store);
            case "fetch" -> steps.put("fetch", Client::fetch);
            default -> throw new IllegalArgumentException("no such phase: " + arguments[0]);
        }
        ConnectionFactory factory = new ConnectionFactory();
        factory.setUri(System.getenv("AMQP_URL"));
        factory.setAutomaticRecoveryEnabled(false);
        try (Connection connection = factory.newConnection("interop")) {
            for (Map.Entry<String, Step> step : steps.entrySet()) {
                step.getValue().run(connection);
                System.out.println("ok " + step.getKey());
            }
        }
    }

    private static String unique(String name) {
        return "interop.amqp-client." + name + "." + UUID.randomUUID();
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }

    private static void expect(Object found, Object expected, String what) {
        if (!expected.equals(found)) {
            throw new AssertionError(what + ": expected " + expected + ", found " + found);
        }
    }

    private static String own(Channel channel) throws IOException {
        return channel.queueDeclare().getQueue();
    }

    private static BlockingQueue<Delivery> consume(Channel channel, String queue, boolean autoAck) throws IOException {
        BlockingQueue<Delivery> deliveries = new LinkedBlockingQueue<>();
        channel.basicConsume(queue, autoAck, (tag, delivery) -> deliveries.add(delivery), tag -> { });
        return deliveries;
    }

    private static Delivery next(BlockingQueue<Delivery> deliveries) throws InterruptedException {
        Delivery delivery = deliveries.poll(WAIT, TimeUnit.MILLISECONDS);
        if (delivery == null) {
            throw new AssertionError("nothing was delivered");
        }
        return delivery;
    }

    /** Two workers with a prefetch of one share ten tasks; one left unacknowledged comes back. */
    private static void workQueue(Connection connection) throws Exception {
        String queue = unique("tasks");
        Channel channel = connection.createChannel();
        channel.queueDeclare(queue, true, false, false, null);
        List<String> tasks = new ArrayList<>();
        for (int number = 0; number < 10; number++) {
            tasks.add("task " + number);
            channel.basicPublish("", queue, MessageProperties.PERSISTENT_TEXT_PLAIN, bytes("task " + number));
        }
        BlockingQueue<String> done = new LinkedBlockingQueue<>();
        List<int[]> counts = List.of(new int[1], new int[1]);
        List<Channel> workers = new ArrayList<>();
        for (int[] count : counts) {
            Channel worker = connection.createChannel();
            worker.basicQos(1);
            worker.basicConsume(queue, false, (tag, delivery) -> {
                count[0]++;
                worker.basicAck(delivery.getEnvelope().getDeliveryTag(), false);
                // At last: the channel is closed as soon as all tasks are done.
                done.add(text(delivery.getBody()));
            }, tag -> { });
            workers.add(worker);
        }
        List<String> found = new ArrayList<>();
        while (found.size() < 10) {
            String task = done.poll(WAIT, TimeUnit.MILLISECONDS);
            if (task == null) {
                throw new AssertionError("only " + found + " arrived");
            }
            found.add(task);
        }
        Collections.sort(found);
        expect(found, tasks, "tasks done");
        for (Channel worker : workers) {
            worker.close();
        }
        Channel lazy = connection.createChannel();
        lazy.basicPublish("", queue, null, bytes("left"));
        GetResponse first = lazy.basicGet(queue, false);
        expect(first.getEnvelope().isRedeliver(), false, "redelivered at first");
        lazy.close();
        GetResponse again = getSoon(channel, queue);
        expect(text(again.getBody()) + again.getEnvelope().isRedeliver(), "lefttrue", "second delivery");
        channel.basicReject(again.getEnvelope().getDeliveryTag(), false);
        channel.queueDelete(queue);
        channel.close();
    }

    /** The next message of a queue: requeueing may take a moment after a channel has closed. */
    private static GetResponse getSoon(Channel channel, String queue) throws Exception {
        for (long waited = 0; waited < WAIT; waited += 20) {
            GetResponse response = channel.basicGet(queue, false);
            if (response != null) {
                return response;
            }
            Thread.sleep(20);
        }
        throw new AssertionError("nothing in " + queue);
    }

    /** Publishes one message per key and checks what each queue gets. */
    private static void routed(Connection connection, String type, List<List<String>> bindings, List<String> keys,
            List<List<String>> expected) throws Exception {
        Channel channel = connection.createChannel();
        String exchange = unique(type);
        channel.exchangeDeclare(exchange, type, false, true, null);
        List<String> queues = new ArrayList<>();
        for (List<String> list : bindings) {
            String queue = own(channel);
            for (String key : list) {
                channel.queueBind(queue, exchange, key);
            }
            queues.add(queue);
        }
        for (String key : keys) {
            channel.basicPublish(exchange, key, null, bytes(key));
        }
        for (int index = 0; index < queues.size(); index++) {
            BlockingQueue<Delivery> deliveries = consume(channel, queues.get(index), true);
            List<String> found = new ArrayList<>();
            Delivery delivery;
            while ((delivery = deliveries.poll(QUIET, TimeUnit.MILLISECONDS)) != null) {
                found.add(text(delivery.getBody()));
            }
            expect(found, expected.get(index), "bound by " + bindings.get(index));
        }
        channel.close();
    }

    private static void publishSubscribe(Connection connection) throws Exception {
        List<String> all = List.of("hello", "all");
        routed(connection, "fanout", List.of(List.of(""), List.of("ignored")), all, List.of(all, all));
    }

    private static void routing(Connection connection) throws Exception {
        routed(connection, "direct", List.of(List.of("error"), List.of("info", "warning", "error")),
                List.of("info", "error", "warning", "debug"),
                List.of(List.of("error"), List.of("info", "error", "warning")));
    }

    private static void topics(Connection connection) throws Exception {
        routed(connection, "topic", List.of(List.of("*.orange.*"), List.of("*.*.rabbit", "lazy.#")),
                List.of("quick.orange.rabbit", "lazy.orange.elephant", "quick.orange.fox", "lazy", "lazy.pink.rabbit",
                        "orange"),
                List.of(List.of("quick.orange.rabbit", "lazy.orange.elephant", "quick.orange.fox"),
                        List.of("quick.orange.rabbit", "lazy.orange.elephant", "lazy", "lazy.pink.rabbit")));
    }

    /** Request and reply over a queue of the client's own. */
    private static void rpc(Connection connection) throws Exception {
        Channel client = connection.createChannel();
        askAndAnswer(connection, client, own(client));
    }

    /** Request and reply without a queue for the replies. */
    private static void directReplyTo(Connection connection) throws Exception {
        askAndAnswer(connection, connection.createChannel(), "amq.rabbitmq.reply-to");
    }

    private static void askAndAnswer(Connection connection, Channel client, String replyTo) throws Exception {
        Channel server = connection.createChannel();
        String requests = own(server);
        server.basicConsume(requests, true, (tag, request) -> {
            int number = Integer.parseInt(text(request.getBody()));
            BasicProperties properties = new BasicProperties.Builder()
                    .correlationId(request.getProperties().getCorrelationId()).build();
            server.basicPublish("", request.getProperties().getReplyTo(), properties, bytes("" + number * number));
        }, tag -> { });
        BlockingQueue<Delivery> replies = consume(client, replyTo, true);
        BasicProperties asked = new BasicProperties.Builder().replyTo(replyTo).correlationId("n12").build();
        client.basicPublish("", requests, asked, bytes("12"));
        Delivery reply = next(replies);
        expect(text(reply.getBody()) + reply.getProperties().getCorrelationId(), "144n12", "reply");
        client.close();
        server.close();
    }

    /** Confirms, a returned message, and properties that survive the way. */
    private static void confirms(Connection connection) throws Exception {
        Channel channel = connection.createChannel();
        channel.confirmSelect();
        String queue = own(channel);
        for (int number = 0; number < 100; number++) {
            channel.basicPublish("", queue, true, null, bytes("" + number));
        }
        channel.waitForConfirmsOrDie(WAIT);
        expect(channel.queuePurge(queue).getMessageCount(), 100, "purged");
        byte[] body = new byte[500_000];
        Arrays.fill(body, (byte) 0xa5);
        Map<String, Object> headers = Map.of("number", -5L, "yes", true, "list", List.of(1, 2));
        BasicProperties sent = new BasicProperties.Builder().contentType("text/plain").deliveryMode(2).priority(3)
                .messageId("m").timestamp(new Date(1_700_000_000_000L)).headers(headers).build();
        channel.basicPublish("", queue, true, sent, body);
        channel.waitForConfirmsOrDie(WAIT);
        GetResponse found = channel.basicGet(queue, true);
        expect(Arrays.equals(found.getBody(), body), true, "body");
        expect(found.getProps().getContentType(), "text/plain", "content type");
        expect(found.getProps().getPriority(), 3, "priority");
        expect(found.getProps().getTimestamp(), sent.getTimestamp(), "timestamp");
        expect(found.getProps().getHeaders(), headers, "headers");
        BlockingQueue<Return> returned = new LinkedBlockingQueue<>();
        channel.addReturnListener(returned::add);
        channel.basicPublish("", unique("nowhere"), true, null, bytes("lost"));
        channel.waitForConfirmsOrDie(WAIT);
        Return back = returned.poll(WAIT, TimeUnit.MILLISECONDS);
        expect(back == null ? "nothing" : back.getReplyCode() + text(back.getBody()), "312lost", "returned");
        channel.close();
    }

    /** Mistakes close the channel with the code clients rely on. */
    private static void refusals(Connection connection) throws Exception {
        Map<Integer, Step> mistakes = new LinkedHashMap<>();
        mistakes.put(AMQP.NOT_FOUND, open -> open.createChannel().queueDeclarePassive(unique("missing")));
        mistakes.put(AMQP.ACCESS_REFUSED, open -> open.createChannel().exchangeDeclare("amq.mine", "direct"));
        mistakes.put(AMQP.PRECONDITION_FAILED, open -> open.createChannel().exchangeDeclare("amq.direct", "fanout", true));
        for (Map.Entry<Integer, Step> mistake : mistakes.entrySet()) {
            Throwable signal = null;
            try {
                mistake.getValue().run(connection);
            } catch (IOException error) {
                signal = error.getCause();
            } catch (AlreadyClosedException error) {
                signal = error;
            }
            if (!(signal instanceof ShutdownSignalException shutdown)) {
                throw new AssertionError("expected " + mistake.getKey() + ", but the channel stayed open", signal);
            }
            expect(((AMQP.Channel.Close) shutdown.getReason()).getReplyCode(), mistake.getKey(), "reply code");
        }
    }

    private static void store(Connection connection) throws Exception {
        Channel channel = connection.createChannel();
        channel.queueDeclare(STORED, true, false, false, null);
        channel.queuePurge(STORED);
        channel.confirmSelect();
        for (int number = 0; number < 10; number++) {
            channel.basicPublish("", STORED, true, MessageProperties.PERSISTENT_TEXT_PLAIN, bytes("stored " + number));
        }
        channel.waitForConfirmsOrDie(WAIT);
    }

    private static void fetch(Connection connection) throws Exception {
        Channel channel = connection.createChannel();
        for (int number = 0; number < 10; number++) {
            GetResponse message = channel.basicGet(STORED, false);
            if (message == null) {
                throw new AssertionError("message " + number + " of 10 is lost");
            }
            expect(text(message.getBody()) + " " + message.getEnvelope().isRedeliver(), "stored " + number + " false",
                    "stored message");
            channel.basicAck(message.getEnvelope().getDeliveryTag(), false);
        }
        channel.queueDelete(STORED);
    }
}
