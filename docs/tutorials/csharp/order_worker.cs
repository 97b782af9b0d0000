using System;
using System.Collections.Generic;
using System.Text;
using System.Threading;
using RabbitMQ.Client;
using RabbitMQ.Client.Events;

class OrderWorker
{
    static void Main(string[] args)
    {
        var url = Environment.GetEnvironmentVariable("AMQP_URL") ?? "amqp://guest:guest@localhost:5672/%2f";
        var factory = new ConnectionFactory { Uri = new Uri(url) };
        using (var connection = factory.CreateConnection())
        using (var channel = connection.CreateModel())
        {
            channel.QueueDeclare("orders.dead", durable: true, exclusive: false, autoDelete: false);
            var arguments = new Dictionary<string, object>
            {
                ["x-delayed-retry-type"] = "all", // a failed order comes back
                ["x-delayed-retry-min"] = 1000, // after a second
                ["x-delivery-limit"] = 3, // three times; then it dies
                ["x-dead-letter-exchange"] = "",
                ["x-dead-letter-routing-key"] = "orders.dead",
            };
            channel.QueueDeclare("orders", durable: true, exclusive: false, autoDelete: false, arguments: arguments);
            channel.BasicQos(prefetchSize: 0, prefetchCount: 1, global: false);
            var consumer = new EventingBasicConsumer(channel);
            consumer.Received += (_, message) =>
            {
                var order = Encoding.UTF8.GetString(message.Body);
                if (order.Contains("broken"))
                {
                    Console.WriteLine($"failed: {order}");
                    channel.BasicReject(message.DeliveryTag, requeue: true); // again in a second
                }
                else
                {
                    Console.WriteLine($"done: {order}");
                    channel.BasicAck(message.DeliveryTag, multiple: false);
                }
            };
            channel.BasicConsume("orders", autoAck: false, consumer: consumer);
            Console.WriteLine("waiting, Ctrl-C ends it");
            Thread.Sleep(Timeout.Infinite);
        }
    }
}
