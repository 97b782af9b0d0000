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
	_, err = channel.QueueDeclare("hello", true, false, false, false, nil) // durable
	must(err)
	messages, err := channel.Consume("hello", "", false, false, false, false, nil)
	must(err)
	fmt.Println("waiting, Ctrl-C ends it")
	for message := range messages {
		fmt.Printf("received: %s\n", message.Body)
		must(message.Ack(false))
	}
}
