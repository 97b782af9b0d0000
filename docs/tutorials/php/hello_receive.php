<?php
require __DIR__ . '/vendor/autoload.php';

use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Message\AMQPMessage;

$url = parse_url(getenv('AMQP_URL') ?: 'amqp://guest:guest@localhost:5672/%2f');
$connection = new AMQPStreamConnection($url['host'], $url['port'], $url['user'], $url['pass']);
$channel = $connection->channel();
$channel->queue_declare('hello', false, true, false, false); // durable
$received = function (AMQPMessage $message) {
    echo "received: {$message->getBody()}\n";
    $message->ack();
};
$channel->basic_consume('hello', '', false, false, false, false, $received);
echo "waiting, Ctrl-C ends it\n";
$channel->consume();
