#:package RabbitMQ.Client@7.2.2

using RabbitMQ.Client;
using RabbitMQ.Client.Events;
using System.Text;

var url = Environment.GetEnvironmentVariable("AMQP_URL") ?? "amqp://guest:guest@localhost:5672/%2f";
var factory = new ConnectionFactory { Uri = new Uri(url) };
await using var connection = await factory.CreateConnectionAsync();
await using var channel = await connection.CreateChannelAsync();
await channel.QueueDeclareAsync("hello", durable: true, exclusive: false, autoDelete: false);
var consumer = new AsyncEventingBasicConsumer(channel);
consumer.ReceivedAsync += async (_, message) =>
{
    Console.WriteLine($"received: {Encoding.UTF8.GetString(message.Body.Span)}");
    await channel.BasicAckAsync(message.DeliveryTag, multiple: false);
};
await channel.BasicConsumeAsync("hello", autoAck: false, consumer);
Console.WriteLine("waiting, Ctrl-C ends it");
await Task.Delay(Timeout.Infinite);
