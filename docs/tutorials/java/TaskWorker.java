import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DeliverCallback;

public class TaskWorker {
    public static void main(String[] args) throws Exception {
        var factory = new ConnectionFactory();
        factory.setUri(System.getenv().getOrDefault("AMQP_URL", "amqp://guest:guest@localhost:5672/%2f"));
        var connection = factory.newConnection();
        var channel = connection.createChannel();
        channel.queueDeclare("tasks", true, false, false, null);
        channel.basicQos(1); // one task at a time
        DeliverCallback work = (tag, message) -> {
            var task = new String(message.getBody());
            System.out.println("started: " + task);
            pause(task.chars().filter(letter -> letter == '.').count());
            System.out.println("done: " + task);
            channel.basicAck(message.getEnvelope().getDeliveryTag(), false); // only now is the task off the queue
        };
        channel.basicConsume("tasks", false, work, tag -> {});
        System.out.println("waiting, Ctrl-C ends it");
    }

    /** Stands for real work. */
    private static void pause(long seconds) {
        try {
            Thread.sleep(1000 * seconds);
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        }
    }
}
