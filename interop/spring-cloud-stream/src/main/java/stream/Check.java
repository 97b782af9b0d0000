package stream;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.springframework.amqp.rabbit.connection.CorrelationData;
import org.springframework.amqp.rabbit.core.RabbitTemplate;
import org.springframework.amqp.support.AmqpHeaders;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.cloud.stream.function.StreamBridge;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.messaging.Message;
import org.springframework.messaging.support.MessageBuilder;

/**
 * Spring Cloud Stream with its binder for RabbitMQ, as applications set it up by properties: consumer groups, competing
 * consumers, retries with a dead-letter queue, delayed messages. Each step is an application of its own.
 */
@Configuration
@EnableAutoConfiguration
public class Check {
    private static final long WAIT_SECONDS = 30;
    private static final String STREAM = "spring.cloud.stream.";
    /** What the consumers of the current step got, with the name of the function. */
    private static final BlockingQueue<String> GOT = new LinkedBlockingQueue<>();
    private static final List<Boolean> REDELIVERED = Collections.synchronizedList(new ArrayList<>());

    @Bean
    public Consumer<Message<String>> first() {
        return message -> took("first", message);
    }

    @Bean
    public Consumer<Message<String>> second() {
        return message -> took("second", message);
    }

    @Bean
    public Consumer<Message<String>> broken() {
        return message -> {
            took("broken", message);
            throw new IllegalStateException("never");
        };
    }

    private static void took(String name, Message<String> message) {
        REDELIVERED.add(Boolean.TRUE.equals(message.getHeaders().get(AmqpHeaders.REDELIVERED)));
        GOT.add(name + " " + message.getPayload());
    }

    /** An application with these functions and properties. */
    private static ConfigurableApplicationContext start(String functions, Map<String, String> properties) {
        GOT.clear();
        REDELIVERED.clear();
        var application = new SpringApplicationBuilder(Check.class).web(WebApplicationType.NONE).logStartupInfo(false);
        properties.forEach((name, value) -> application.properties(STREAM + name + "=" + value));
        return application.properties(
                "spring.main.banner-mode=off",
                "logging.level.root=OFF",
                "spring.rabbitmq.addresses=" + System.getenv("AMQP_URL").replaceFirst("%2[Ff]$", ""),
                "spring.rabbitmq.publisher-confirm-type=correlated",
                "spring.cloud.function.definition=" + functions).run();
    }

    /** Sends a message, and waits until the broker has confirmed it. */
    private static void send(ConfigurableApplicationContext application, String binding, String body) throws Exception {
        var confirm = new CorrelationData(UUID.randomUUID().toString());
        var message = MessageBuilder.withPayload(body).setHeader(AmqpHeaders.PUBLISH_CONFIRM_CORRELATION, confirm);
        application.getBean(StreamBridge.class).send(binding, message.build());
        expect(confirm.getFuture().get(WAIT_SECONDS, TimeUnit.SECONDS).isAck(), true, "the confirm of " + body);
    }

    private static List<String> take(int count) throws InterruptedException {
        var taken = new ArrayList<String>();
        while (taken.size() < count) {
            var next = GOT.poll(WAIT_SECONDS, TimeUnit.SECONDS);
            if (next == null) {
                throw new AssertionError("only " + taken + " of " + count);
            }
            taken.add(next);
        }
        return taken;
    }

    private static void expect(Object found, Object expected, String what) {
        if (!found.equals(expected)) {
            throw new AssertionError(what + ": expected " + expected + ", found " + found);
        }
    }

    /** What an output needs so that sends are confirmed. */
    private static String confirmed(String binding) {
        return "rabbit.bindings." + binding + ".producer.use-confirm-header";
    }

    /** Each group gets every message. */
    static void groups() throws Exception {
        var news = "interop.scs.news";
        try (var application = start("first;second", Map.of(
                "bindings.first-in-0.destination", news, "bindings.first-in-0.group", "web",
                "bindings.second-in-0.destination", news, "bindings.second-in-0.group", "search",
                "bindings.out.destination", news, confirmed("out"), "true"))) {
            send(application, "out", "to all");
            var taken = take(2);
            Collections.sort(taken);
            expect(taken, List.of("first to all", "second to all"), "both groups");
        }
    }

    /** In a group each message goes to one consumer. */
    static void competing() throws Exception {
        var tasks = "interop.scs.tasks";
        try (var application = start("first", Map.of(
                "bindings.first-in-0.destination", tasks, "bindings.first-in-0.group", "workers",
                "bindings.first-in-0.consumer.concurrency", "3",
                "bindings.out.destination", tasks, confirmed("out"), "true"))) {
            var expected = new ArrayList<String>();
            for (int number = 10; number < 40; number++) {
                send(application, "out", "task " + number);
                expected.add("first task " + number);
            }
            var taken = take(30);
            Collections.sort(taken);
            expect(taken, expected, "each task once");
            expect(GOT.size(), 0, "more than that");
        }
    }

    /** What fails as often as it may goes to the dead-letter queue that the binder has declared. */
    static void deadLetters() throws Exception {
        var orders = "interop.scs.orders";
        try (var application = start("broken", Map.of(
                "bindings.broken-in-0.destination", orders, "bindings.broken-in-0.group", "shop",
                "bindings.broken-in-0.consumer.max-attempts", "2",
                "bindings.broken-in-0.consumer.back-off-initial-interval", "50",
                "rabbit.bindings.broken-in-0.consumer.auto-bind-dlq", "true",
                "rabbit.bindings.broken-in-0.consumer.republish-to-dlq", "false",
                "bindings.out.destination", orders, confirmed("out"), "true"))) {
            send(application, "out", "broken lamp");
            expect(take(2), List.of("broken broken lamp", "broken broken lamp"), "both tries");
            var template = application.getBean(RabbitTemplate.class);
            var dead = template.receive(orders + ".shop.dlq", 1000 * WAIT_SECONDS);
            expect(new String(dead.getBody()), "broken lamp", "the dead letter");
            expect(dead.getMessageProperties().getXDeathHeader().get(0).get("reason"), "rejected", "why it died");
        }
    }

    /** A delayed exchange holds messages back, as the plugin of RabbitMQ does. */
    static void delays() throws Exception {
        var later = "interop.scs.later";
        try (var application = start("first", Map.of(
                "bindings.first-in-0.destination", later, "bindings.first-in-0.group", "waiting",
                "rabbit.bindings.first-in-0.consumer.delayed-exchange", "true",
                "bindings.out.destination", later, confirmed("out"), "true",
                "rabbit.bindings.out.producer.delayed-exchange", "true",
                "rabbit.bindings.out.producer.delay-expression", "payload.length > 5 ? 1000 : 0"))) {
            send(application, "out", "delayed");
            send(application, "out", "now");
            expect(take(2), List.of("first now", "first delayed"), "the order");
        }
    }

    /** Stores ten messages in the queue of a group that nothing consumes from yet. */
    static void store() throws Exception {
        try (var application = start("", Map.of(
                "bindings.out.destination", "interop.scs.stored", "bindings.out.producer.required-groups", "kept",
                confirmed("out"), "true"))) {
            for (int number = 0; number < 10; number++) {
                send(application, "out", "message " + number);
            }
        }
    }

    static void fetch() throws Exception {
        try (var application = start("first", Map.of(
                "bindings.first-in-0.destination", "interop.scs.stored", "bindings.first-in-0.group", "kept"))) {
            var expected = new ArrayList<String>();
            for (int number = 0; number < 10; number++) {
                expected.add("first message " + number);
            }
            expect(take(10), expected, "what was stored");
            expect(REDELIVERED.contains(true), false, "marked as redelivered");
        }
    }

    /** A part of a phase. */
    private interface Step {
        void run() throws Exception;
    }

    private static final Map<String, List<Map.Entry<String, Step>>> PHASES = Map.of(
            "patterns", List.of(
                    Map.entry("groups", Check::groups), Map.entry("competing", Check::competing),
                    Map.entry("dead letters", Check::deadLetters), Map.entry("delays", Check::delays)),
            "extensions", List.of(),
            "store", List.of(Map.entry("store", Check::store)),
            "fetch", List.of(Map.entry("fetch", Check::fetch)));

    public static void main(String[] arguments) throws Exception {
        for (var step : PHASES.get(arguments[0])) {
            step.getValue().run();
            System.out.println("ok " + step.getKey());
        }
        System.exit(0);
    }
}
