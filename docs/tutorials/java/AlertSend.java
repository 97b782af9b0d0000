import com.rabbitmq.client.ConnectionFactory;

public class AlertSend {
    public static void main(String[] args) throws Exception {
        var factory = new ConnectionFactory();
        factory.setUri(System.getenv().getOrDefault("AMQP_URL", "amqp://guest:guest@localhost:5672/%2f"));
        try (var connection = factory.newConnection(); var channel = connection.createChannel()) {
            channel.confirmSelect();
            channel.exchangeDeclare("alerts", "topic", true);
            channel.basicPublish("alerts", args[0], null, args[1].getBytes());
            channel.waitForConfirmsOrDie();
            System.out.println("sent to " + args[0] + ": " + args[1]);
        }
    }
}
