import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.MessageProperties;

public class OrderSend {
    public static void main(String[] args) throws Exception {
        var factory = new ConnectionFactory();
        factory.setUri(System.getenv().getOrDefault("AMQP_URL", "amqp://guest:guest@localhost:5672/%2f"));
        try (var connection = factory.newConnection(); var channel = connection.createChannel()) {
            channel.confirmSelect();
            channel.queueDeclarePassive("orders"); // fails if the worker has not declared it yet
            channel.basicPublish("", "orders", MessageProperties.PERSISTENT_TEXT_PLAIN, args[0].getBytes());
            channel.waitForConfirmsOrDie();
            System.out.println("sent: " + args[0]);
        }
    }
}
