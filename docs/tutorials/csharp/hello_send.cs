#:package RabbitMQ.Client@7.2.2

using RabbitMQ.Client;
using System.Text;

var url = Environment.GetEnvironmentVariable("AMQP_URL") ?? "amqp://guest:guest@localhost:5672/%2f";
var factory = new ConnectionFactory { Uri = new Uri(url) };
await using var connection = await factory.CreateConnectionAsync();
await using var channel = await connection.CreateChannelAsync(new CreateChannelOptions(true, true)); // with confirms
await channel.QueueDeclareAsync("hello", durable: true, exclusive: false, autoDelete: false);
var properties = new BasicProperties { Persistent = true };
await channel.BasicPublishAsync("", "hello", mandatory: true, properties, Encoding.UTF8.GetBytes("Hello, world")); // throws unless the broker has stored it
Console.WriteLine("sent: Hello, world");
