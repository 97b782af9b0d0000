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
	text := os.Args[1]
	must(channel.Confirm(false))
	must(channel.ExchangeDeclare("news", "fanout", true, false, false, false, nil)) // durable
	message := amqp.Publishing{Body: []byte(text)}
	confirm, err := channel.PublishWithDeferredConfirm("news", "", false, false, message)
	must(err)
	if !confirm.Wait() {
		log.Fatal("the broker refused the message")
	}
	fmt.Println("sent:", text)
}
