using System;
using System.Text;
using System.Threading.Tasks;
using RabbitMQ.Client;
using RabbitMQ.Client.Events;

class SquareClient
{
    static void Main(string[] args)
    {
        var url = Environment.GetEnvironmentVariable("AMQP_URL") ?? "amqp://guest:guest@localhost:5672/%2f";
        var factory = new ConnectionFactory { Uri = new Uri(url) };
        using (var connection = factory.CreateConnection())
        using (var channel = connection.CreateModel())
        {
            var id = Guid.NewGuid().ToString();
            var answer = new TaskCompletionSource<string>();
            var consumer = new EventingBasicConsumer(channel);
            consumer.Received += (_, message) =>
            {
                if (message.BasicProperties.CorrelationId == id)
                {
                    answer.TrySetResult(Encoding.UTF8.GetString(message.Body));
                }
            };
            // First listen for replies on this channel, then ask.
            channel.BasicConsume("amq.rabbitmq.reply-to", autoAck: true, consumer: consumer);
            var question = channel.CreateBasicProperties();
            question.ReplyTo = "amq.rabbitmq.reply-to";
            question.CorrelationId = id;
            question.Expiration = "5000";
            channel.BasicPublish("", "square", true, question, Encoding.UTF8.GetBytes(args[0]));
            if (!answer.Task.Wait(TimeSpan.FromSeconds(5)))
            {
                throw new TimeoutException("no answer within 5 seconds");
            }
            Console.WriteLine($"{args[0]} squared is {answer.Task.Result}");
        }
    }
}
