import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.MessageProperties;

public class HelloSend {
    public static void main(String[] args) throws Exception {
        var factory = new ConnectionFactory();
        factory.setUri(System.getenv().getOrDefault("AMQP_URL", "amqp://guest:guest@localhost:5672/%2f"));
        try (var connection = factory.newConnection(); var channel = connection.createChannel()) {
            channel.confirmSelect();
            channel.queueDeclare("hello", true, false, false, null); // durable
            channel.basicPublish("", "hello", MessageProperties.PERSISTENT_TEXT_PLAIN, "Hello, world".getBytes());
            channel.waitForConfirmsOrDie(); // the broker has stored the message
            System.out.println("sent: Hello, world");
        }
    }
}
