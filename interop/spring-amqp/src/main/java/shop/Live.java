package shop;

import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.springframework.amqp.AmqpException;
import org.springframework.amqp.rabbit.annotation.RabbitListener;
import org.springframework.amqp.rabbit.connection.CorrelationData;
import org.springframework.amqp.rabbit.core.RabbitTemplate;
import org.springframework.amqp.rabbit.listener.RabbitListenerEndpointRegistry;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.stereotype.Component;

/**
 * The application as a process of its own, which publishes and handles while the server dies and comes back. It ends when it has been
 * asked what became of its messages.
 */
@Component
public class Live {
    private static final long LIFE = 3; // minutes, if nobody asks
    private static final int MORE = 50; // messages confirmed after the question, so that it is known to go on

    private final Set<String> confirmed = ConcurrentHashMap.newKeySet();
    private final Set<String> handled = ConcurrentHashMap.newKeySet();
    private final CountDownLatch asked = new CountDownLatch(1);
    private final RabbitTemplate template;

    Live(RabbitTemplate template) {
        this.template = template;
    }

    public static void main(String[] arguments) throws Exception {
        try (AnnotationConfigApplicationContext context = new AnnotationConfigApplicationContext(Shop.class)) {
            RabbitListenerEndpointRegistry containers = context.getBean(RabbitListenerEndpointRegistry.class);
            containers.getListenerContainer("live").start();
            containers.getListenerContainer("report").start();
            context.getBean(Live.class).publish();
        }
    }

    @RabbitListener(id = "live", queues = Shop.LIVE, containerFactory = "direct", autoStartup = "false")
    void handle(String order) {
        handled.add(order);
    }

    /** Which confirmed messages have not been handled, when all have had their time. */
    @RabbitListener(id = "report", queues = Shop.REPORT, containerFactory = "direct", autoStartup = "false")
    String report(String question) throws InterruptedException {
        int enough = confirmed.size() + MORE;
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(Check.WAIT / 2);
        while (System.nanoTime() < end && (confirmed.size() < enough || !handled.containsAll(confirmed))) {
            Thread.sleep(5);
        }
        Set<String> missing = new TreeSet<>(confirmed);
        missing.removeAll(handled);
        String outcome = confirmed.size() < enough ? "publishes no more" : "missing: " + missing;
        asked.countDown();
        return outcome;
    }

    /** A message each few milliseconds until somebody has asked. What is not confirmed counts as not sent. */
    private void publish() throws InterruptedException {
        long end = System.nanoTime() + TimeUnit.MINUTES.toNanos(LIFE);
        for (int number = 0; System.nanoTime() < end && !asked.await(5, TimeUnit.MILLISECONDS); number++) {
            CorrelationData data = new CorrelationData("order " + number);
            data.getFuture().thenAccept(confirm -> {
                if (confirm.ack()) {
                    confirmed.add(data.getId());
                }
            });
            try {
                template.convertAndSend("", Shop.LIVE, data.getId(), data);
            } catch (AmqpException noConnection) {
                Thread.sleep(200);
            }
        }
    }
}
