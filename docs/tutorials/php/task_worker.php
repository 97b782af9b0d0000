<?php
require __DIR__ . '/vendor/autoload.php';

use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Message\AMQPMessage;

$url = parse_url(getenv('AMQP_URL') ?: 'amqp://guest:guest@localhost:5672/%2f');
$connection = new AMQPStreamConnection($url['host'], $url['port'], $url['user'], $url['pass']);
$channel = $connection->channel();
$channel->queue_declare('tasks', false, true, false, false); // durable
$channel->basic_qos(0, 1, false); // one task at a time
$work = function (AMQPMessage $message) {
    $task = $message->getBody();
    echo "started: $task\n";
    sleep(substr_count($task, '.')); // stands for real work: a second for each dot
    echo "done: $task\n";
    $message->ack(); // only now is the task off the queue
};
$channel->basic_consume('tasks', '', false, false, false, false, $work);
echo "waiting, Ctrl-C ends it\n";
$channel->consume();
