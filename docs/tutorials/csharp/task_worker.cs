#:package RabbitMQ.Client@7.2.2

using RabbitMQ.Client;
using RabbitMQ.Client.Events;
using System.Text;

var url = Environment.GetEnvironmentVariable("AMQP_URL") ?? "amqp://guest:guest@localhost:5672/%2f";
var factory = new ConnectionFactory { Uri = new Uri(url) };
await using var connection = await factory.CreateConnectionAsync();
await using var channel = await connection.CreateChannelAsync();
await channel.QueueDeclareAsync("tasks", durable: true, exclusive: false, autoDelete: false);
await channel.BasicQosAsync(prefetchSize: 0, prefetchCount: 1, global: false); // one task at a time
var consumer = new AsyncEventingBasicConsumer(channel);
consumer.ReceivedAsync += async (_, message) =>
{
    var task = Encoding.UTF8.GetString(message.Body.Span);
    Console.WriteLine($"started: {task}");
    var dots = task.Count(letter => letter == '.');
    await Task.Delay(TimeSpan.FromSeconds(dots)); // stands for real work: a second for each dot
    Console.WriteLine($"done: {task}");
    await channel.BasicAckAsync(message.DeliveryTag, multiple: false); // only now is the task off the queue
};
await channel.BasicConsumeAsync("tasks", autoAck: false, consumer);
Console.WriteLine("waiting, Ctrl-C ends it");
await Task.Delay(Timeout.Infinite);
