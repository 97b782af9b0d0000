using System;
using System.Linq;
using System.Text;
using System.Threading;
using RabbitMQ.Client;
using RabbitMQ.Client.Events;

class TaskWorker
{
    static void Main(string[] args)
    {
        var url = Environment.GetEnvironmentVariable("AMQP_URL") ?? "amqp://guest:guest@localhost:5672/%2f";
        var factory = new ConnectionFactory { Uri = new Uri(url) };
        using (var connection = factory.CreateConnection())
        using (var channel = connection.CreateModel())
        {
            channel.QueueDeclare("tasks", durable: true, exclusive: false, autoDelete: false);
            channel.BasicQos(prefetchSize: 0, prefetchCount: 1, global: false); // one task at a time
            var consumer = new EventingBasicConsumer(channel);
            consumer.Received += (_, message) =>
            {
                var task = Encoding.UTF8.GetString(message.Body);
                Console.WriteLine($"started: {task}");
                var dots = task.Count(letter => letter == '.');
                Thread.Sleep(TimeSpan.FromSeconds(dots)); // stands for real work: a second for each dot
                Console.WriteLine($"done: {task}");
                channel.BasicAck(message.DeliveryTag, multiple: false); // only now is the task off the queue
            };
            channel.BasicConsume("tasks", autoAck: false, consumer: consumer);
            Console.WriteLine("waiting, Ctrl-C ends it");
            Thread.Sleep(Timeout.Infinite);
        }
    }
}
