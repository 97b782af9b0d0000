#:package RabbitMQ.Client@7.2.2

using RabbitMQ.Client;
using RabbitMQ.Client.Events;
using System.Text;

var url = Environment.GetEnvironmentVariable("AMQP_URL") ?? "amqp://guest:guest@localhost:5672/%2f";
var factory = new ConnectionFactory { Uri = new Uri(url) };
await using var connection = await factory.CreateConnectionAsync();
await using var channel = await connection.CreateChannelAsync();
await channel.QueueDeclareAsync("orders.dead", durable: true, exclusive: false, autoDelete: false);
var arguments = new Dictionary<string, object?>
{
    ["x-delayed-retry-type"] = "all", // a failed order comes back
    ["x-delayed-retry-min"] = 1000, // after a second
    ["x-delivery-limit"] = 3, // three times; then it dies
    ["x-dead-letter-exchange"] = "",
    ["x-dead-letter-routing-key"] = "orders.dead",
};
await channel.QueueDeclareAsync("orders", durable: true, exclusive: false, autoDelete: false, arguments);
await channel.BasicQosAsync(prefetchSize: 0, prefetchCount: 1, global: false);
var consumer = new AsyncEventingBasicConsumer(channel);
consumer.ReceivedAsync += async (_, message) =>
{
    var order = Encoding.UTF8.GetString(message.Body.Span);
    if (order.Contains("broken"))
    {
        Console.WriteLine($"failed: {order}");
        await channel.BasicRejectAsync(message.DeliveryTag, requeue: true); // again in a second
    }
    else
    {
        Console.WriteLine($"done: {order}");
        await channel.BasicAckAsync(message.DeliveryTag, multiple: false);
    }
};
await channel.BasicConsumeAsync("orders", autoAck: false, consumer);
Console.WriteLine("waiting, Ctrl-C ends it");
await Task.Delay(Timeout.Infinite);
