// Watermill as its users set it up: durable queues, publish and subscribe by consumer group, a router with retries and a
// poison queue. Each is a function that checks what it gets.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
)

const (
	wait   = 20 * time.Second // for anything that must arrive
	stored = "interop.watermill.stored"
)

var (
	url    = os.Getenv("AMQP_URL")
	logger = watermill.NopLogger{}
)

type step struct {
	name string
	run  func() error
}

func main() {
	phases := map[string][]step{
		"patterns": {
			{"durable queue", durableQueue},
			{"publish and subscribe", publishSubscribe},
			{"nack comes again", nackComesAgain},
			{"router retries", routerRetries},
			{"poison queue", poisonQueue},
		},
		"extensions": {},
		"store":      {{"store", store}},
		"fetch":      {{"fetch", fetch}},
	}
	steps, known := phases[os.Args[1]]
	if !known {
		log.Fatalf("no such phase: %q", os.Args[1])
	}
	for _, step := range steps {
		if err := step.run(); err != nil {
			log.Fatalf("%s: %v", step.name, err)
		}
		fmt.Println("ok", step.name)
	}
}

// A durable queue whose publisher waits for confirms.
func queueConfig() amqp.Config {
	config := amqp.NewDurableQueueConfig(url)
	config.Publish.ConfirmDelivery = true
	return config
}

func publish(config amqp.Config, topic string, bodies ...string) error {
	publisher, err := amqp.NewPublisher(config, logger)
	if err != nil {
		return err
	}
	defer publisher.Close()
	for _, body := range bodies {
		if err := publisher.Publish(topic, message.NewMessage(watermill.NewUUID(), []byte(body))); err != nil {
			return err
		}
	}
	return nil
}

// A subscriber and its messages. It has declared its queue when this returns.
func subscribe(config amqp.Config, topic string) (*amqp.Subscriber, <-chan *message.Message, error) {
	subscriber, err := amqp.NewSubscriber(config, logger)
	if err != nil {
		return nil, nil, err
	}
	messages, err := subscriber.Subscribe(context.Background(), topic)
	return subscriber, messages, err
}

func next(messages <-chan *message.Message) (*message.Message, error) {
	select {
	case arrived := <-messages:
		return arrived, nil
	case <-time.After(wait):
		return nil, errors.New("nothing came")
	}
}

// Takes and acknowledges messages, which must have these bodies.
func expect(messages <-chan *message.Message, bodies ...string) error {
	for _, body := range bodies {
		arrived, err := next(messages)
		if err != nil {
			return fmt.Errorf("%w; expected %q", err, body)
		}
		if string(arrived.Payload) != body {
			return fmt.Errorf("expected %q, found %q", body, arrived.Payload)
		}
		arrived.Ack()
	}
	return nil
}

func durableQueue() error {
	topic := "interop.watermill.queue"
	subscriber, messages, err := subscribe(queueConfig(), topic)
	if err != nil {
		return err
	}
	defer subscriber.Close()
	bodies := []string{"one", "two", "three"}
	if err := publish(queueConfig(), topic, bodies...); err != nil {
		return err
	}
	return expect(messages, bodies...)
}

// Each group gets every message, through a queue of its own.
func publishSubscribe() error {
	topic := "interop.watermill.news"
	group := func(name string) amqp.Config {
		return amqp.NewDurablePubSubConfig(url, amqp.GenerateQueueNameTopicNameWithSuffix(name))
	}
	var all []<-chan *message.Message
	for _, name := range []string{"web", "search"} {
		subscriber, messages, err := subscribe(group(name), topic)
		if err != nil {
			return err
		}
		defer subscriber.Close()
		all = append(all, messages)
	}
	if err := publish(group(""), topic, "to all"); err != nil {
		return err
	}
	for _, messages := range all {
		if err := expect(messages, "to all"); err != nil {
			return err
		}
	}
	return nil
}

func nackComesAgain() error {
	topic := "interop.watermill.nack"
	subscriber, messages, err := subscribe(queueConfig(), topic)
	if err != nil {
		return err
	}
	defer subscriber.Close()
	if err := publish(queueConfig(), topic, "again"); err != nil {
		return err
	}
	first, err := next(messages)
	if err != nil {
		return err
	}
	first.Nack()
	return expect(messages, "again")
}

// A running router with one handler and these middlewares.
func routed(topic string, handle message.NoPublishHandlerFunc, with ...message.HandlerMiddleware) (func(), error) {
	subscriber, err := amqp.NewSubscriber(queueConfig(), logger)
	if err != nil {
		return nil, err
	}
	router, err := message.NewRouter(message.RouterConfig{}, logger)
	if err != nil {
		return nil, err
	}
	router.AddMiddleware(with...)
	router.AddNoPublisherHandler("handler", topic, subscriber, handle)
	go func() {
		if err := router.Run(context.Background()); err != nil {
			log.Println("the router:", err)
		}
	}()
	<-router.Running()
	return func() { router.Close() }, nil
}

func routerRetries() error {
	topic := "interop.watermill.retries"
	var tries atomic.Int32
	done := make(chan struct{})
	handle := func(*message.Message) error {
		if tries.Add(1) < 3 {
			return errors.New("not yet")
		}
		close(done)
		return nil
	}
	retry := middleware.Retry{MaxRetries: 5, InitialInterval: 10 * time.Millisecond, Logger: logger}
	end, err := routed(topic, handle, retry.Middleware)
	if err != nil {
		return err
	}
	defer end()
	if err := publish(queueConfig(), topic, "stubborn"); err != nil {
		return err
	}
	select {
	case <-done:
		return nil
	case <-time.After(wait):
		return fmt.Errorf("%d tries, expected 3", tries.Load())
	}
}

func poisonQueue() error {
	topic, poisoned := "interop.watermill.poison", "interop.watermill.poisoned"
	subscriber, messages, err := subscribe(queueConfig(), poisoned)
	if err != nil {
		return err
	}
	defer subscriber.Close()
	publisher, err := amqp.NewPublisher(queueConfig(), logger)
	if err != nil {
		return err
	}
	defer publisher.Close()
	poison, err := middleware.PoisonQueue(publisher, poisoned)
	if err != nil {
		return err
	}
	end, err := routed(topic, func(*message.Message) error { return errors.New("never") }, poison)
	if err != nil {
		return err
	}
	defer end()
	if err := publish(queueConfig(), topic, "broken"); err != nil {
		return err
	}
	return expect(messages, "broken")
}

func bodies() (all []string) {
	for number := range 10 {
		all = append(all, fmt.Sprintf("message %d", number))
	}
	return all
}

func store() error {
	// The queue is made by a subscriber, as Watermill has it.
	subscriber, err := amqp.NewSubscriber(queueConfig(), logger)
	if err != nil {
		return err
	}
	defer subscriber.Close()
	if err := subscriber.SubscribeInitialize(stored); err != nil {
		return err
	}
	return publish(queueConfig(), stored, bodies()...)
}

func fetch() error {
	subscriber, messages, err := subscribe(queueConfig(), stored)
	if err != nil {
		return err
	}
	defer subscriber.Close()
	return expect(messages, bodies()...)
}
