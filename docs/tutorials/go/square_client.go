package main

import (
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
	number := os.Args[1]
	// First listen for replies on this channel, then ask.
	replies, err := channel.Consume("amq.rabbitmq.reply-to", "", true, false, false, false, nil)
	must(err)
	id := fmt.Sprint(os.Getpid())
	question := amqp.Publishing{
		ReplyTo:       "amq.rabbitmq.reply-to",
		CorrelationId: id,
		Expiration:    "5000",
		Body:          []byte(number),
	}
	must(channel.Publish("", "square", false, false, question))
	timeout := time.After(5 * time.Second)
	for {
		select {
		case reply := <-replies:
			if reply.CorrelationId == id {
				fmt.Printf("%s squared is %s\n", number, reply.Body)
				return
			}
		case <-timeout:
			log.Fatal("no answer within 5 seconds")
		}
	}
}
