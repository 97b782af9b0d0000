<?php
require __DIR__ . '/vendor/autoload.php';

use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Message\AMQPMessage;

$url = parse_url(getenv('AMQP_URL') ?: 'amqp://guest:guest@localhost:5672/%2f');
$connection = new AMQPStreamConnection($url['host'], $url['port'], $url['user'], $url['pass']);
$channel = $connection->channel();
$channel->confirm_select();
$channel->set_nack_handler(fn () => throw new Exception('the broker refused the message'));
$channel->queue_declare('hello', false, true, false, false); // durable
$message = new AMQPMessage('Hello, world', ['delivery_mode' => AMQPMessage::DELIVERY_MODE_PERSISTENT]);
$channel->basic_publish($message, '', 'hello');
$channel->wait_for_pending_acks(5); // the broker has stored the message
echo "sent: Hello, world\n";
$connection->close();
