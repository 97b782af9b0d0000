using System;
using System.Text;
using RabbitMQ.Client;

class TaskSend
{
    static void Main(string[] args)
    {
        var url = Environment.GetEnvironmentVariable("AMQP_URL") ?? "amqp://guest:guest@localhost:5672/%2f";
        var factory = new ConnectionFactory { Uri = new Uri(url) };
        using (var connection = factory.CreateConnection())
        using (var channel = connection.CreateModel())
        {
            channel.ConfirmSelect();
            channel.QueueDeclare("tasks", durable: true, exclusive: false, autoDelete: false);
            var properties = channel.CreateBasicProperties();
            properties.Persistent = true;
            channel.BasicPublish("", "tasks", true, properties, Encoding.UTF8.GetBytes(args[0]));
            channel.WaitForConfirmsOrDie(); // throws unless the broker has stored it
            Console.WriteLine($"sent: {args[0]}");
        }
    }
}
