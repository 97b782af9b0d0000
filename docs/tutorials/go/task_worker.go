package main

import (
	"bytes"
	"fmt"
	"log"
	"os"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	url := os.Getenv("AMQP_URL")
	if url == "" {
		url = "amqp://guest:guest@localhost:5672/%2f"
	}
	connection, err := amqp.Dial(url)
	must(err)
	defer connection.Close()
	channel, err := connection.Channel()
	must(err)
	_, err = channel.QueueDeclare("tasks", true, false, false, false, nil) // durable
	must(err)
	must(channel.Qos(1, 0, false)) // one task at a time
	messages, err := channel.Consume("tasks", "", false, false, false, false, nil)
	must(err)
	fmt.Println("waiting, Ctrl-C ends it")
	for message := range messages {
		fmt.Printf("started: %s\n", message.Body)
		dots := bytes.Count(message.Body, []byte("."))
		time.Sleep(time.Duration(dots) * time.Second) // stands for real work: a second for each dot
		fmt.Printf("done: %s\n", message.Body)
		must(message.Ack(false)) // only now is the task off the queue
	}
}
