import com.rabbitmq.client.ConnectionFactory;

public class NewsSend {
    public static void main(String[] args) throws Exception {
        var factory = new ConnectionFactory();
        factory.setUri(System.getenv().getOrDefault("AMQP_URL", "amqp://guest:guest@localhost:5672/%2f"));
        try (var connection = factory.newConnection(); var channel = connection.createChannel()) {
            channel.confirmSelect();
            channel.exchangeDeclare("news", "fanout", true); // durable
            channel.basicPublish("news", "", null, args[0].getBytes());
            channel.waitForConfirmsOrDie();
            System.out.println("sent: " + args[0]);
        }
    }
}
