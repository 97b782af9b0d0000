import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DeliverCallback;

public class SquareServer {
    public static void main(String[] args) throws Exception {
        var factory = new ConnectionFactory();
        factory.setUri(System.getenv().getOrDefault("AMQP_URL", "amqp://guest:guest@localhost:5672/%2f"));
        var connection = factory.newConnection();
        var channel = connection.createChannel();
        channel.queueDeclare("square", true, false, false, null);
        channel.basicQos(1);
        DeliverCallback answer = (tag, message) -> {
            var number = Integer.parseInt(new String(message.getBody()));
            var asked = message.getProperties();
            var reply = new BasicProperties.Builder().correlationId(asked.getCorrelationId()).build();
            channel.basicPublish("", asked.getReplyTo(), reply, String.valueOf(number * number).getBytes());
            channel.basicAck(message.getEnvelope().getDeliveryTag(), false);
            System.out.println("answered: " + number);
        };
        channel.basicConsume("square", false, answer, tag -> {});
        System.out.println("waiting, Ctrl-C ends it");
    }
}
