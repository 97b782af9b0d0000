import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DeliverCallback;
import java.util.Map;

public class OrderWorker {
    public static void main(String[] args) throws Exception {
        var factory = new ConnectionFactory();
        factory.setUri(System.getenv().getOrDefault("AMQP_URL", "amqp://guest:guest@localhost:5672/%2f"));
        var connection = factory.newConnection();
        var channel = connection.createChannel();
        channel.queueDeclare("orders.dead", true, false, false, null);
        channel.queueDeclare("orders", true, false, false, Map.of(
                "x-delayed-retry-type", "all", // a failed order comes back
                "x-delayed-retry-min", 1000, // after a second
                "x-delivery-limit", 3, // three times; then it dies
                "x-dead-letter-exchange", "",
                "x-dead-letter-routing-key", "orders.dead"));
        channel.basicQos(1);
        DeliverCallback work = (tag, message) -> {
            var order = new String(message.getBody());
            var delivery = message.getEnvelope().getDeliveryTag();
            if (order.contains("broken")) {
                System.out.println("failed: " + order);
                channel.basicReject(delivery, true); // again in a second
            } else {
                System.out.println("done: " + order);
                channel.basicAck(delivery, false);
            }
        };
        channel.basicConsume("orders", false, work, tag -> {});
        System.out.println("waiting, Ctrl-C ends it");
    }
}
