package shop;

import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Semaphore;
import org.springframework.amqp.core.ExchangeTypes;
import org.springframework.amqp.rabbit.annotation.Exchange;
import org.springframework.amqp.rabbit.annotation.Queue;
import org.springframework.amqp.rabbit.annotation.QueueBinding;
import org.springframework.amqp.rabbit.annotation.RabbitListener;
import org.springframework.amqp.rabbit.core.RabbitTemplate;
import org.springframework.amqp.support.AmqpHeaders;
import org.springframework.beans.factory.annotation.Qualifier;
import org.springframework.messaging.handler.annotation.Header;
import org.springframework.stereotype.Component;

/** What the application does with its messages. It notes what it did, for whoever checks. */
@Component
public class Listeners {
    final Collection<String> journal = new ConcurrentLinkedQueue<>();
    /** The consumers that were given turns. */
    final Set<String> active = ConcurrentHashMap.newKeySet();
    /** A parcel is sent only with a permit, so that a check can hold the listener. */
    final Semaphore permits = new Semaphore(0);
    private final RabbitTemplate bookings;

    Listeners(@Qualifier("transactedTemplate") RabbitTemplate bookings) {
        this.bookings = bookings;
    }

    @RabbitListener(id = "orders", queues = Shop.ORDERS, containerFactory = "retrying")
    void order(String order) {
        journal.add("order " + order);
        if (order.startsWith("bad")) {
            throw new IllegalStateException("no such article");
        }
    }

    @RabbitListener(id = "parcels", queues = Shop.PARCELS, containerFactory = "direct")
    void parcel(String parcel) throws InterruptedException {
        permits.acquire();
        journal.add("parcel " + parcel);
    }

    /** Sends before it fails: the broker must forget what was sent. */
    @RabbitListener(id = "accounts", queues = Shop.ACCOUNTS, containerFactory = "transacted")
    void account(String transfer) {
        bookings.convertAndSend(Shop.BOOKINGS, "debit " + transfer);
        bookings.convertAndSend(Shop.BOOKINGS, "credit " + transfer);
        if (transfer.startsWith("bad")) {
            throw new IllegalStateException("no such account");
        }
    }

    /** What it returns is the reply. */
    @RabbitListener(id = "quotes", queues = Shop.QUOTES, containerFactory = "direct")
    String quote(String article) {
        return article + " costs " + article.length();
    }

    /** Each instance of the application has a queue of its own, which goes with it. */
    @RabbitListener(id = "news", bindings = @QueueBinding(value = @Queue,
            exchange = @Exchange(value = Shop.NEWS, type = ExchangeTypes.FANOUT)), containerFactory = "direct")
    void news(String text) {
        journal.add("news " + text);
    }

    /** Two candidates, of which one is active: what it fails at comes back, and the order stays. */
    @RabbitListener(id = "turns", queues = Shop.TURNS, containerFactory = "requeueing", concurrency = "2")
    void turn(String text, @Header(AmqpHeaders.CONSUMER_TAG) String consumer) {
        journal.add("turn " + text);
        active.add(consumer);
        if (text.startsWith("bad")) {
            throw new IllegalStateException("not this one");
        }
    }

    @RabbitListener(id = "lines", queues = Shop.LINES, containerFactory = "batching", autoStartup = "false")
    void lines(List<String> lines) {
        journal.add("lines " + lines.size());
    }

    @RabbitListener(id = "stored", queues = Shop.STORED, containerFactory = "direct", autoStartup = "false")
    void stored(String text, @Header(AmqpHeaders.REDELIVERED) boolean redelivered) {
        journal.add(text + " " + redelivered);
    }
}
