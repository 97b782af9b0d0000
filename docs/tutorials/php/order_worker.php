<?php
require __DIR__ . '/vendor/autoload.php';

use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Message\AMQPMessage;
use PhpAmqpLib\Wire\AMQPTable;

$url = parse_url(getenv('AMQP_URL') ?: 'amqp://guest:guest@localhost:5672/%2f');
$connection = new AMQPStreamConnection($url['host'], $url['port'], $url['user'], $url['pass']);
$channel = $connection->channel();
$channel->queue_declare('orders.dead', false, true, false, false); // durable
$channel->queue_declare('orders', false, true, false, false, false, new AMQPTable([
    'x-delayed-retry-type' => 'all', // a failed order comes back
    'x-delayed-retry-min' => 1000, // after a second
    'x-delivery-limit' => 3, // three times; then it dies
    'x-dead-letter-exchange' => '',
    'x-dead-letter-routing-key' => 'orders.dead',
]));
$channel->basic_qos(0, 1, false);
$work = function (AMQPMessage $message) {
    $order = $message->getBody();
    if (str_contains($order, 'broken')) {
        echo "failed: $order\n";
        $message->reject(true); // again in a second
    } else {
        echo "done: $order\n";
        $message->ack();
    }
};
$channel->basic_consume('orders', '', false, false, false, false, $work);
echo "waiting, Ctrl-C ends it\n";
$channel->consume();
