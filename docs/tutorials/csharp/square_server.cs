using System;
using System.Text;
using System.Threading;
using RabbitMQ.Client;
using RabbitMQ.Client.Events;

class SquareServer
{
    static void Main(string[] args)
    {
        var url = Environment.GetEnvironmentVariable("AMQP_URL") ?? "amqp://guest:guest@localhost:5672/%2f";
        var factory = new ConnectionFactory { Uri = new Uri(url) };
        using (var connection = factory.CreateConnection())
        using (var channel = connection.CreateModel())
        {
            channel.QueueDeclare("square", durable: true, exclusive: false, autoDelete: false);
            channel.BasicQos(prefetchSize: 0, prefetchCount: 1, global: false);
            var consumer = new EventingBasicConsumer(channel);
            consumer.Received += (_, message) =>
            {
                var number = int.Parse(Encoding.UTF8.GetString(message.Body));
                var reply = channel.CreateBasicProperties();
                reply.CorrelationId = message.BasicProperties.CorrelationId;
                var body = Encoding.UTF8.GetBytes((number * number).ToString());
                channel.BasicPublish("", message.BasicProperties.ReplyTo, reply, body);
                channel.BasicAck(message.DeliveryTag, multiple: false);
                Console.WriteLine($"answered: {number}");
            };
            channel.BasicConsume("square", autoAck: false, consumer: consumer);
            Console.WriteLine("waiting, Ctrl-C ends it");
            Thread.Sleep(Timeout.Infinite);
        }
    }
}
