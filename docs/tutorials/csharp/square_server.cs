#:package RabbitMQ.Client@7.2.2

using RabbitMQ.Client;
using RabbitMQ.Client.Events;
using System.Text;

var url = Environment.GetEnvironmentVariable("AMQP_URL") ?? "amqp://guest:guest@localhost:5672/%2f";
var factory = new ConnectionFactory { Uri = new Uri(url) };
await using var connection = await factory.CreateConnectionAsync();
await using var channel = await connection.CreateChannelAsync();
await channel.QueueDeclareAsync("square", durable: true, exclusive: false, autoDelete: false);
await channel.BasicQosAsync(prefetchSize: 0, prefetchCount: 1, global: false);
var consumer = new AsyncEventingBasicConsumer(channel);
consumer.ReceivedAsync += async (_, message) =>
{
    var number = int.Parse(Encoding.UTF8.GetString(message.Body.Span));
    var asked = message.BasicProperties;
    var reply = new BasicProperties { CorrelationId = asked.CorrelationId };
    var body = Encoding.UTF8.GetBytes((number * number).ToString());
    await channel.BasicPublishAsync("", asked.ReplyTo!, mandatory: false, reply, body);
    await channel.BasicAckAsync(message.DeliveryTag, multiple: false);
    Console.WriteLine($"answered: {number}");
};
await channel.BasicConsumeAsync("square", autoAck: false, consumer);
Console.WriteLine("waiting, Ctrl-C ends it");
await Task.Delay(Timeout.Infinite);
