<?php
require __DIR__ . '/vendor/autoload.php';

use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Message\AMQPMessage;

$url = parse_url(getenv('AMQP_URL') ?: 'amqp://guest:guest@localhost:5672/%2f');
$connection = new AMQPStreamConnection($url['host'], $url['port'], $url['user'], $url['pass']);
$channel = $connection->channel();
$channel->exchange_declare('alerts', 'topic', false, true, false);
[$queue] = $channel->queue_declare('', false, false, true);
foreach (array_slice($argv, 1) as $pattern) {
    $channel->queue_bind($queue, 'alerts', $pattern);
}
$received = function (AMQPMessage $message) {
    echo "received {$message->getRoutingKey()}: {$message->getBody()}\n";
};
$channel->basic_consume($queue, '', false, true, false, false, $received);
echo "waiting, Ctrl-C ends it\n";
$channel->consume();
