<?php
require __DIR__ . '/vendor/autoload.php';

use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Message\AMQPMessage;

$url = parse_url(getenv('AMQP_URL') ?: 'amqp://guest:guest@localhost:5672/%2f');
$connection = new AMQPStreamConnection($url['host'], $url['port'], $url['user'], $url['pass']);
$channel = $connection->channel();
$channel->confirm_select();
$channel->set_nack_handler(fn () => throw new Exception('the broker refused the message'));
$channel->exchange_declare('news', 'fanout', false, true, false); // durable
$channel->basic_publish(new AMQPMessage($argv[1]), 'news');
$channel->wait_for_pending_acks(5);
echo "sent: $argv[1]\n";
$connection->close();
