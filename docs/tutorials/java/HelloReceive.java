import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DeliverCallback;

public class HelloReceive {
    public static void main(String[] args) throws Exception {
        var factory = new ConnectionFactory();
        factory.setUri(System.getenv().getOrDefault("AMQP_URL", "amqp://guest:guest@localhost:5672/%2f"));
        var connection = factory.newConnection();
        var channel = connection.createChannel();
        channel.queueDeclare("hello", true, false, false, null); // durable
        DeliverCallback received = (tag, message) -> {
            System.out.println("received: " + new String(message.getBody()));
            channel.basicAck(message.getEnvelope().getDeliveryTag(), false);
        };
        channel.basicConsume("hello", false, received, tag -> {});
        System.out.println("waiting, Ctrl-C ends it");
    }
}
