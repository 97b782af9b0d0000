package main

import (
	"bytes"
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
	_, err = channel.QueueDeclare("orders.dead", true, false, false, false, nil) // durable
	must(err)
	arguments := amqp.Table{
		"x-delayed-retry-type":      "all", // a failed order comes back
		"x-delayed-retry-min":       1000,  // after a second
		"x-delivery-limit":          3,     // three times; then it dies
		"x-dead-letter-exchange":    "",
		"x-dead-letter-routing-key": "orders.dead",
	}
	_, err = channel.QueueDeclare("orders", true, false, false, false, arguments)
	must(err)
	must(channel.Qos(1, 0, false))
	messages, err := channel.Consume("orders", "", false, false, false, false, nil)
	must(err)
	fmt.Println("waiting, Ctrl-C ends it")
	for message := range messages {
		if bytes.Contains(message.Body, []byte("broken")) {
			fmt.Printf("failed: %s\n", message.Body)
			must(message.Reject(true)) // again in a second
		} else {
			fmt.Printf("done: %s\n", message.Body)
			must(message.Ack(false))
		}
	}
}
