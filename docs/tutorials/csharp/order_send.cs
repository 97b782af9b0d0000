using System;
using System.Text;
using RabbitMQ.Client;

class OrderSend
{
    static void Main(string[] args)
    {
        var url = Environment.GetEnvironmentVariable("AMQP_URL") ?? "amqp://guest:guest@localhost:5672/%2f";
        var factory = new ConnectionFactory { Uri = new Uri(url) };
        using (var connection = factory.CreateConnection())
        using (var channel = connection.CreateModel())
        {
            channel.ConfirmSelect();
            channel.QueueDeclarePassive("orders"); // fails if the worker has not declared it yet
            var properties = channel.CreateBasicProperties();
            properties.Persistent = true;
            channel.BasicPublish("", "orders", true, properties, Encoding.UTF8.GetBytes(args[0]));
            channel.WaitForConfirmsOrDie();
            Console.WriteLine($"sent: {args[0]}");
        }
    }
}
