package shop;

import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.springframework.jms.annotation.JmsListener;
import org.springframework.messaging.handler.annotation.Header;
import org.springframework.messaging.handler.annotation.SendTo;

/** What the application does with messages. */
public class Listeners {
    /** What has come to a listener. */
    record Taken(String body, int deliveries) {}

    final BlockingQueue<Taken> fragile = new LinkedBlockingQueue<>();
    final BlockingQueue<String> durable = new LinkedBlockingQueue<>();
    final BlockingQueue<String> shared = new LinkedBlockingQueue<>();

    /** Answers each order where its sender waits. */
    @JmsListener(id = "orders", destination = Shop.ORDERS, containerFactory = "transacted")
    @SendTo("interop.spring-jms.nobody")
    public String order(String order) {
        return "done: " + order;
    }

    /** Fails at the first two deliveries of what is called so. */
    @JmsListener(id = "fragile", destination = Shop.FRAGILE, containerFactory = "transacted")
    public void fragile(String body, @Header("JMSXDeliveryCount") int deliveries) {
        fragile.add(new Taken(body, deliveries));
        if (body.startsWith("fragile") && deliveries < 3) {
            throw new IllegalStateException("not yet");
        }
    }

    @JmsListener(id = "durable", destination = Shop.PRICES, subscription = "prices", containerFactory = "durable")
    public void durable(String price) {
        durable.add(price);
    }

    @JmsListener(id = "shared", destination = Shop.PRICES, subscription = "all-prices", containerFactory = "shared")
    public void shared(String price) {
        shared.add(price);
    }
}
