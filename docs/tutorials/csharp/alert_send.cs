#:package RabbitMQ.Client@7.2.2

using RabbitMQ.Client;
using System.Text;

var url = Environment.GetEnvironmentVariable("AMQP_URL") ?? "amqp://guest:guest@localhost:5672/%2f";
var factory = new ConnectionFactory { Uri = new Uri(url) };
await using var connection = await factory.CreateConnectionAsync();
await using var channel = await connection.CreateChannelAsync(new CreateChannelOptions(true, true)); // with confirms
var (key, text) = (args[0], args[1]);
await channel.ExchangeDeclareAsync("alerts", ExchangeType.Topic, durable: true);
await channel.BasicPublishAsync("alerts", key, Encoding.UTF8.GetBytes(text));
Console.WriteLine($"sent to {key}: {text}");
