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
	task := os.Args[1]
	must(channel.Confirm(false))
	_, err = channel.QueueDeclare("tasks", true, false, false, false, nil) // durable
	must(err)
	message := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(task)}
	confirm, err := channel.PublishWithDeferredConfirm("", "tasks", false, false, message)
	must(err)
	if !confirm.Wait() {
		log.Fatal("the broker refused the message")
	}
	fmt.Println("sent:", task)
}
