package main

import (
	"fmt"
	"log"
	"os"

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
	must(channel.Confirm(false))
	_, err = channel.QueueDeclare("hello", true, false, false, false, nil) // durable
	must(err)
	message := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte("Hello, world")}
	confirm, err := channel.PublishWithDeferredConfirm("", "hello", false, false, message)
	must(err)
	if !confirm.Wait() { // waits until the broker has stored the message
		log.Fatal("the broker refused the message")
	}
	fmt.Println("sent: Hello, world")
}
