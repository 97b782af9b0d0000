#:package RabbitMQ.Client@7.2.2

using RabbitMQ.Client;
using System.Text;

var url = Environment.GetEnvironmentVariable("AMQP_URL") ?? "amqp://guest:guest@localhost:5672/%2f";
var factory = new ConnectionFactory { Uri = new Uri(url) };
await using var connection = await factory.CreateConnectionAsync();
await using var channel = await connection.CreateChannelAsync(new CreateChannelOptions(true, true)); // with confirms
await channel.QueueDeclarePassiveAsync("orders"); // fails if the worker has not declared it yet
var properties = new BasicProperties { Persistent = true };
await channel.BasicPublishAsync("", "orders", mandatory: true, properties, Encoding.UTF8.GetBytes(args[0]));
Console.WriteLine($"sent: {args[0]}");
