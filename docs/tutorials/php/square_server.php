<?php
require __DIR__ . '/vendor/autoload.php';

use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Message\AMQPMessage;

$url = parse_url(getenv('AMQP_URL') ?: 'amqp://guest:guest@localhost:5672/%2f');
$connection = new AMQPStreamConnection($url['host'], $url['port'], $url['user'], $url['pass']);
$channel = $connection->channel();
$channel->queue_declare('square', false, true, false, false); // durable
$channel->basic_qos(0, 1, false);
$answer = function (AMQPMessage $message) use ($channel) {
    $number = (int) $message->getBody();
    $reply = new AMQPMessage($number * $number, ['correlation_id' => $message->get('correlation_id')]);
    $channel->basic_publish($reply, '', $message->get('reply_to'));
    $message->ack();
    echo "answered: $number\n";
};
$channel->basic_consume('square', '', false, false, false, false, $answer);
echo "waiting, Ctrl-C ends it\n";
$channel->consume();
