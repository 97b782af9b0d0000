import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DeliverCallback;

public class NewsReceive {
    public static void main(String[] args) throws Exception {
        var factory = new ConnectionFactory();
        factory.setUri(System.getenv().getOrDefault("AMQP_URL", "amqp://guest:guest@localhost:5672/%2f"));
        var connection = factory.newConnection();
        var channel = connection.createChannel();
        channel.exchangeDeclare("news", "fanout", true);
        var queue = channel.queueDeclare().getQueue(); // exclusive; the broker picks the name
        channel.queueBind(queue, "news", "");
        DeliverCallback received = (tag, message) -> System.out.println("received: " + new String(message.getBody()));
        channel.basicConsume(queue, true, received, tag -> {});
        System.out.println("waiting, Ctrl-C ends it");
    }
}
