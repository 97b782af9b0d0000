using System;
using System.Text;
using System.Threading;
using RabbitMQ.Client;
using RabbitMQ.Client.Events;

class HelloReceive
{
    static void Main(string[] args)
    {
        var url = Environment.GetEnvironmentVariable("AMQP_URL") ?? "amqp://guest:guest@localhost:5672/%2f";
        var factory = new ConnectionFactory { Uri = new Uri(url) };
        using (var connection = factory.CreateConnection())
        using (var channel = connection.CreateModel())
        {
            channel.QueueDeclare("hello", durable: true, exclusive: false, autoDelete: false);
            var consumer = new EventingBasicConsumer(channel);
            consumer.Received += (_, message) =>
            {
                Console.WriteLine($"received: {Encoding.UTF8.GetString(message.Body)}");
                channel.BasicAck(message.DeliveryTag, multiple: false);
            };
            channel.BasicConsume("hello", autoAck: false, consumer: consumer);
            Console.WriteLine("waiting, Ctrl-C ends it");
            Thread.Sleep(Timeout.Infinite);
        }
    }
}
