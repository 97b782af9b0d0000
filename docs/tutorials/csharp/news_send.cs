using System;
using System.Text;
using RabbitMQ.Client;

class NewsSend
{
    static void Main(string[] args)
    {
        var url = Environment.GetEnvironmentVariable("AMQP_URL") ?? "amqp://guest:guest@localhost:5672/%2f";
        var factory = new ConnectionFactory { Uri = new Uri(url) };
        using (var connection = factory.CreateConnection())
        using (var channel = connection.CreateModel())
        {
            channel.ConfirmSelect();
            channel.ExchangeDeclare("news", ExchangeType.Fanout, durable: true);
            channel.BasicPublish("news", "", null, Encoding.UTF8.GetBytes(args[0]));
            channel.WaitForConfirmsOrDie();
            Console.WriteLine($"sent: {args[0]}");
        }
    }
}
