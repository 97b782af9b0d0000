using System;
using System.Text;
using RabbitMQ.Client;

class AlertSend
{
    static void Main(string[] args)
    {
        var url = Environment.GetEnvironmentVariable("AMQP_URL") ?? "amqp://guest:guest@localhost:5672/%2f";
        var factory = new ConnectionFactory { Uri = new Uri(url) };
        using (var connection = factory.CreateConnection())
        using (var channel = connection.CreateModel())
        {
            channel.ConfirmSelect();
            string key = args[0], text = args[1];
            channel.ExchangeDeclare("alerts", ExchangeType.Topic, durable: true);
            channel.BasicPublish("alerts", key, null, Encoding.UTF8.GetBytes(text));
            channel.WaitForConfirmsOrDie();
            Console.WriteLine($"sent to {key}: {text}");
        }
    }
}
