using System;
using System.Text;
using RabbitMQ.Client;

class HelloSend
{
    static void Main(string[] args)
    {
        var url = Environment.GetEnvironmentVariable("AMQP_URL") ?? "amqp://guest:guest@localhost:5672/%2f";
        var factory = new ConnectionFactory { Uri = new Uri(url) };
        using (var connection = factory.CreateConnection())
        using (var channel = connection.CreateModel())
        {
            channel.ConfirmSelect();
            channel.QueueDeclare("hello", durable: true, exclusive: false, autoDelete: false);
            var properties = channel.CreateBasicProperties();
            properties.Persistent = true;
            channel.BasicPublish("", "hello", true, properties, Encoding.UTF8.GetBytes("Hello, world"));
            channel.WaitForConfirmsOrDie(); // throws unless the broker has stored it
            Console.WriteLine("sent: Hello, world");
        }
    }
}
