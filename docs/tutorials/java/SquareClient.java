import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DeliverCallback;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

public class SquareClient {
    public static void main(String[] args) throws Exception {
        var factory = new ConnectionFactory();
        factory.setUri(System.getenv().getOrDefault("AMQP_URL", "amqp://guest:guest@localhost:5672/%2f"));
        try (var connection = factory.newConnection(); var channel = connection.createChannel()) {
            var id = UUID.randomUUID().toString();
            var answer = new CompletableFuture<String>();
            DeliverCallback answered = (tag, message) -> {
                if (id.equals(message.getProperties().getCorrelationId())) {
                    answer.complete(new String(message.getBody()));
                }
            };
            // First listen for replies on this channel, then ask.
            channel.basicConsume("amq.rabbitmq.reply-to", true, answered, tag -> {});
            var question = new BasicProperties.Builder()
                    .replyTo("amq.rabbitmq.reply-to").correlationId(id).expiration("5000").build();
            channel.basicPublish("", "square", question, args[0].getBytes());
            System.out.println(args[0] + " squared is " + answer.get(5, TimeUnit.SECONDS));
        }
    }
}
