using System;
using System.Text;
using System.Threading;
using RabbitMQ.Client;
using RabbitMQ.Client.Events;

class AlertReceive
{
    static void Main(string[] args)
    {
        var url = Environment.GetEnvironmentVariable("AMQP_URL") ?? "amqp://guest:guest@localhost:5672/%2f";
        var factory = new ConnectionFactory { Uri = new Uri(url) };
        using (var connection = factory.CreateConnection())
        using (var channel = connection.CreateModel())
        {
            channel.ExchangeDeclare("alerts", ExchangeType.Topic, durable: true);
            var queue = channel.QueueDeclare().QueueName;
            foreach (var pattern in args)
            {
                channel.QueueBind(queue, "alerts", pattern);
            }
            var consumer = new EventingBasicConsumer(channel);
            consumer.Received += (_, message) =>
                Console.WriteLine($"received {message.RoutingKey}: {Encoding.UTF8.GetString(message.Body)}");
            channel.BasicConsume(queue, autoAck: true, consumer: consumer);
            Console.WriteLine("waiting, Ctrl-C ends it");
            Thread.Sleep(Timeout.Infinite);
        }
    }
}
