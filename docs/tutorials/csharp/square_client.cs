#:package RabbitMQ.Client@7.2.2

using RabbitMQ.Client;
using RabbitMQ.Client.Events;
using System.Text;

var url = Environment.GetEnvironmentVariable("AMQP_URL") ?? "amqp://guest:guest@localhost:5672/%2f";
var factory = new ConnectionFactory { Uri = new Uri(url) };
await using var connection = await factory.CreateConnectionAsync();
await using var channel = await connection.CreateChannelAsync();
var id = Guid.NewGuid().ToString();
var answer = new TaskCompletionSource<string>();
var consumer = new AsyncEventingBasicConsumer(channel);
consumer.ReceivedAsync += (_, message) =>
{
    if (message.BasicProperties.CorrelationId == id)
    {
        answer.TrySetResult(Encoding.UTF8.GetString(message.Body.Span));
    }
    return Task.CompletedTask;
};
// First listen for replies on this channel, then ask.
await channel.BasicConsumeAsync("amq.rabbitmq.reply-to", autoAck: true, consumer);
var question = new BasicProperties
{
    ReplyTo = "amq.rabbitmq.reply-to", CorrelationId = id, Expiration = "5000",
};
await channel.BasicPublishAsync("", "square", mandatory: true, question, Encoding.UTF8.GetBytes(args[0]));
Console.WriteLine($"{args[0]} squared is {await answer.Task.WaitAsync(TimeSpan.FromSeconds(5))}");
