import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DeliverCallback;

public class AlertReceive {
    public static void main(String[] args) throws Exception {
        var factory = new ConnectionFactory();
        factory.setUri(System.getenv().getOrDefault("AMQP_URL", "amqp://guest:guest@localhost:5672/%2f"));
        var connection = factory.newConnection();
        var channel = connection.createChannel();
        channel.exchangeDeclare("alerts", "topic", true);
        var queue = channel.queueDeclare().getQueue();
        for (var pattern : args) {
            channel.queueBind(queue, "alerts", pattern);
        }
        DeliverCallback received = (tag, message) -> System.out.println(
                "received " + message.getEnvelope().getRoutingKey() + ": " + new String(message.getBody()));
        channel.basicConsume(queue, true, received, tag -> {});
        System.out.println("waiting, Ctrl-C ends it");
    }
}
