<?php
require __DIR__ . '/vendor/autoload.php';

use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Message\AMQPMessage;

$url = parse_url(getenv('AMQP_URL') ?: 'amqp://guest:guest@localhost:5672/%2f');
$connection = new AMQPStreamConnection($url['host'], $url['port'], $url['user'], $url['pass']);
$channel = $connection->channel();
$channel->confirm_select();
$channel->set_nack_handler(fn () => throw new Exception('the broker refused the message'));
$channel->queue_declare('orders', true); // fails if the worker has not declared it yet
$message = new AMQPMessage($argv[1], ['delivery_mode' => AMQPMessage::DELIVERY_MODE_PERSISTENT]);
$channel->basic_publish($message, '', 'orders');
$channel->wait_for_pending_acks(5);
echo "sent: $argv[1]\n";
$connection->close();
