using System;
using System.Text;
using System.Threading;
using RabbitMQ.Client;
using RabbitMQ.Client.Events;

class NewsReceive
{
    static void Main(string[] args)
    {
        var url = Environment.GetEnvironmentVariable("AMQP_URL") ?? "amqp://guest:guest@localhost:5672/%2f";
        var factory = new ConnectionFactory { Uri = new Uri(url) };
        using (var connection = factory.CreateConnection())
        using (var channel = connection.CreateModel())
        {
            channel.ExchangeDeclare("news", ExchangeType.Fanout, durable: true);
            var queue = channel.QueueDeclare().QueueName; // exclusive; the broker picks the name
            channel.QueueBind(queue, "news", "");
            var consumer = new EventingBasicConsumer(channel);
            consumer.Received += (_, message) =>
                Console.WriteLine($"received: {Encoding.UTF8.GetString(message.Body)}");
            channel.BasicConsume(queue, autoAck: true, consumer: consumer);
            Console.WriteLine("waiting, Ctrl-C ends it");
            Thread.Sleep(Timeout.Infinite);
        }
    }
}
