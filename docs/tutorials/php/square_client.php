<?php
require __DIR__ . '/vendor/autoload.php';

use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Message\AMQPMessage;

$url = parse_url(getenv('AMQP_URL') ?: 'amqp://guest:guest@localhost:5672/%2f');
$connection = new AMQPStreamConnection($url['host'], $url['port'], $url['user'], $url['pass']);
$channel = $connection->channel();
$id = uniqid();
$answer = null;
$answered = function (AMQPMessage $message) use ($id, &$answer) {
    if ($message->get('correlation_id') === $id) {
        $answer = $message->getBody();
    }
};
// First listen for replies on this channel, then ask.
$channel->basic_consume('amq.rabbitmq.reply-to', '', false, true, false, false, $answered);
$properties = ['reply_to' => 'amq.rabbitmq.reply-to', 'correlation_id' => $id, 'expiration' => '5000'];
$channel->basic_publish(new AMQPMessage($argv[1], $properties), '', 'square');
while ($answer === null) {
    $channel->wait(null, false, 5); // throws an AMQPTimeoutException after 5 seconds
}
echo "$argv[1] squared is $answer\n";
$connection->close();
