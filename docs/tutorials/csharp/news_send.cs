#:package RabbitMQ.Client@7.2.2

using RabbitMQ.Client;
using System.Text;

var url = Environment.GetEnvironmentVariable("AMQP_URL") ?? "amqp://guest:guest@localhost:5672/%2f";
var factory = new ConnectionFactory { Uri = new Uri(url) };
await using var connection = await factory.CreateConnectionAsync();
await using var channel = await connection.CreateChannelAsync(new CreateChannelOptions(true, true)); // with confirms
await channel.ExchangeDeclareAsync("news", ExchangeType.Fanout, durable: true);
await channel.BasicPublishAsync("news", "", Encoding.UTF8.GetBytes(args[0]));
Console.WriteLine($"sent: {args[0]}");
