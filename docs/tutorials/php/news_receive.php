<?php
require __DIR__ . '/vendor/autoload.php';

use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Message\AMQPMessage;

$url = parse_url(getenv('AMQP_URL') ?: 'amqp://guest:guest@localhost:5672/%2f');
$connection = new AMQPStreamConnection($url['host'], $url['port'], $url['user'], $url['pass']);
$channel = $connection->channel();
$channel->exchange_declare('news', 'fanout', false, true, false);
[$queue] = $channel->queue_declare('', false, false, true); // exclusive; the broker picks the name
$channel->queue_bind($queue, 'news');
$received = function (AMQPMessage $message) {
    echo "received: {$message->getBody()}\n";
};
$channel->basic_consume($queue, '', false, true, false, false, $received);
echo "waiting, Ctrl-C ends it\n";
$channel->consume();
