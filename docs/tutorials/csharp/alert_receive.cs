#:package RabbitMQ.Client@7.2.2

using RabbitMQ.Client;
using RabbitMQ.Client.Events;
using System.Text;

var url = Environment.GetEnvironmentVariable("AMQP_URL") ?? "amqp://guest:guest@localhost:5672/%2f";
var factory = new ConnectionFactory { Uri = new Uri(url) };
await using var connection = await factory.CreateConnectionAsync();
await using var channel = await connection.CreateChannelAsync();
await channel.ExchangeDeclareAsync("alerts", ExchangeType.Topic, durable: true);
QueueDeclareOk queue = await channel.QueueDeclareAsync();
foreach (var pattern in args)
{
    await channel.QueueBindAsync(queue.QueueName, "alerts", pattern);
}
var consumer = new AsyncEventingBasicConsumer(channel);
consumer.ReceivedAsync += (_, message) =>
{
    Console.WriteLine($"received {message.RoutingKey}: {Encoding.UTF8.GetString(message.Body.Span)}");
    return Task.CompletedTask;
};
await channel.BasicConsumeAsync(queue.QueueName, autoAck: true, consumer);
Console.WriteLine("waiting, Ctrl-C ends it");
await Task.Delay(Timeout.Infinite);
