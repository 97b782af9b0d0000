<?php
require __DIR__ . '/vendor/autoload.php';

use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Message\AMQPMessage;

$url = parse_url(getenv('AMQP_URL') ?: 'amqp://guest:guest@localhost:5672/%2f');
$connection = new AMQPStreamConnection($url['host'], $url['port'], $url['user'], $url['pass']);
$channel = $connection->channel();
$channel->confirm_select();
$channel->set_nack_handler(fn () => throw new Exception('the broker refused the message'));
$channel->exchange_declare('alerts', 'topic', false, true, false);
$channel->basic_publish(new AMQPMessage($argv[2]), 'alerts', $argv[1]);
$channel->wait_for_pending_acks(5);
echo "sent to $argv[1]: $argv[2]\n";
$connection->close();
