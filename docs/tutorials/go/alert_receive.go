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
	must(channel.ExchangeDeclare("alerts", "topic", true, false, false, false, nil)) // durable
	queue, err := channel.QueueDeclare("", false, false, true, false, nil)           // exclusive; the broker picks the name
	must(err)
	for _, pattern := range os.Args[1:] {
		must(channel.QueueBind(queue.Name, pattern, "alerts", false, nil))
	}
	messages, err := channel.Consume(queue.Name, "", true, true, false, false, nil)
	must(err)
	fmt.Println("waiting, Ctrl-C ends it")
	for message := range messages {
		fmt.Printf("received %s: %s\n", message.RoutingKey, message.Body)
	}
}
