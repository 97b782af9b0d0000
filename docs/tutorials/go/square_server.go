package main

import (
	"fmt"
	"log"
	"os"
	"strconv"

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
	_, err = channel.QueueDeclare("square", true, false, false, false, nil) // durable
	must(err)
	must(channel.Qos(1, 0, false))
	messages, err := channel.Consume("square", "", false, false, false, false, nil)
	must(err)
	fmt.Println("waiting, Ctrl-C ends it")
	for message := range messages {
		number, err := strconv.Atoi(string(message.Body))
		must(err)
		reply := amqp.Publishing{
			CorrelationId: message.CorrelationId,
			Body:          []byte(strconv.Itoa(number * number)),
		}
		must(channel.Publish("", message.ReplyTo, false, false, reply))
		must(message.Ack(false))
		fmt.Printf("answered: %d\n", number)
	}
}
