// The RabbitMQ tutorials' patterns with amqp091-go, each as a function that returns an error about what it got.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	wait   = 10 * time.Second       // for anything that must arrive
	quiet  = 300 * time.Millisecond // in which nothing may arrive
	stored = "interop.amqp091-go.stored"
)

type step struct {
	name string
	run  func(*amqp.Connection) error
}

var phases = map[string][]step{
	"patterns": {
		{"workQueue", workQueue}, {"publishSubscribe", publishSubscribe}, {"routing", routing}, {"topics", topics},
		{"rpc", rpc}, {"confirms", confirms}, {"refusals", refusals},
	},
	"extensions": {{"directReplyTo", directReplyTo}},
	"store":      {{"store", store}},
	"fetch":      {{"fetch", fetch}},
}

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "failed:", err)
		os.Exit(1)
	}
}

func run(phase string) error {
	connection, err := amqp.Dial(os.Getenv("AMQP_URL"))
	if err != nil {
		return err
	}
	for _, step := range phases[phase] {
		if err := step.run(connection); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Println("ok", step.name)
	}
	return connection.Close()
}

func unique(name string) string {
	return fmt.Sprintf("interop.amqp091-go.%s.%d", name, time.Now().UnixNano())
}

func expect(found, expected any, what string) error {
	if !reflect.DeepEqual(found, expected) {
		return fmt.Errorf("%s: expected %v, found %v", what, expected, found)
	}
	return nil
}

func send(channel *amqp.Channel, exchange, key, body string) error {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	return channel.PublishWithContext(ctx, exchange, key, false, false, amqp.Publishing{Body: []byte(body)})
}

// take returns the bodies of the next messages: all that arrive until the queue has been quiet for a while.
func take(channel *amqp.Channel, queue string) ([]string, error) {
	deliveries, err := channel.Consume(queue, "", true, false, false, false, nil)
	if err != nil {
		return nil, err
	}
	var bodies []string
	for {
		select {
		case delivery := <-deliveries:
			bodies = append(bodies, string(delivery.Body))
		case <-time.After(quiet):
			return bodies, nil
		}
	}
}

// own declares a queue that the server names and only this connection may use.
func own(channel *amqp.Channel) (string, error) {
	queue, err := channel.QueueDeclare("", false, true, true, false, nil)
	return queue.Name, err
}

// workQueue: two workers with a prefetch of one share ten tasks; one left unacknowledged comes back.
func workQueue(connection *amqp.Connection) error {
	name := unique("tasks")
	channel, err := connection.Channel()
	if err != nil {
		return err
	}
	defer channel.Close()
	if _, err := channel.QueueDeclare(name, true, false, false, false, nil); err != nil {
		return err
	}
	var expected []string
	for number := range 10 {
		expected = append(expected, fmt.Sprint("task ", number))
		if err := send(channel, "", name, expected[number]); err != nil {
			return err
		}
	}
	counts := make([]int, 2)
	var done []string
	workers := make([]<-chan amqp.Delivery, 2)
	for index := range workers {
		worker, err := connection.Channel()
		if err != nil {
			return err
		}
		defer worker.Close()
		if err := worker.Qos(1, 0, false); err != nil {
			return err
		}
		if workers[index], err = worker.Consume(name, "", false, false, false, false, nil); err != nil {
			return err
		}
	}
	for len(done) < 10 {
		var delivery amqp.Delivery
		select {
		case delivery = <-workers[0]:
			counts[0]++
		case delivery = <-workers[1]:
			counts[1]++
		case <-time.After(wait):
			return fmt.Errorf("only %d tasks arrived", len(done))
		}
		done = append(done, string(delivery.Body))
		time.Sleep(time.Millisecond)
		if err := delivery.Ack(false); err != nil {
			return err
		}
	}
	sort.Strings(done)
	if err := expect(done, expected, "tasks done"); err != nil {
		return err
	}
	if counts[0] == 0 || counts[1] == 0 {
		return fmt.Errorf("one worker did everything: %v", counts)
	}
	return comesBack(connection, channel)
}

// getSoon takes the next message of a queue: requeueing may take a moment after a channel has closed.
func getSoon(channel *amqp.Channel, queue string) (amqp.Delivery, error) {
	for deadline := time.Now().Add(wait); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if delivery, ok, err := channel.Get(queue, false); ok || err != nil {
			return delivery, err
		}
	}
	return amqp.Delivery{}, errors.New("nothing in " + queue)
}

// comesBack: the task of a worker that goes away is delivered again, marked as redelivered.
func comesBack(connection *amqp.Connection, channel *amqp.Channel) error {
	name, err := own(channel)
	if err != nil {
		return err
	}
	lazy, err := connection.Channel()
	if err != nil {
		return err
	}
	// On the channel that gets it: only within one channel does a get see an earlier publish for sure.
	if err := send(lazy, "", name, "left"); err != nil {
		return err
	}
	for _, expected := range []bool{false, true} {
		taker := lazy
		if expected {
			taker = channel
		}
		delivery, err := getSoon(taker, name)
		if err != nil {
			return err
		}
		if err := expect(delivery.Redelivered, expected, "redelivered"); err != nil {
			return err
		}
		if !expected {
			if err := lazy.Close(); err != nil {
				return err
			}
		} else if err := delivery.Reject(false); err != nil {
			return err
		}
	}
	_, err = channel.QueueDelete(name, false, false, false)
	return err
}

// bound declares an exchange and one queue of its own per list of keys.
func bound(channel *amqp.Channel, exchange, kind string, keys ...[]string) ([]string, error) {
	if err := channel.ExchangeDeclare(exchange, kind, false, true, false, false, nil); err != nil {
		return nil, err
	}
	var queues []string
	for _, list := range keys {
		queue, err := own(channel)
		if err != nil {
			return nil, err
		}
		for _, key := range list {
			if err := channel.QueueBind(queue, key, exchange, false, nil); err != nil {
				return nil, err
			}
		}
		queues = append(queues, queue)
	}
	return queues, nil
}

// routed publishes one message per key and checks what each queue got.
func routed(connection *amqp.Connection, kind string, bindings [][]string, keys []string, expected [][]string) error {
	channel, err := connection.Channel()
	if err != nil {
		return err
	}
	defer channel.Close()
	exchange := unique(kind)
	queues, err := bound(channel, exchange, kind, bindings...)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if err := send(channel, exchange, key, key); err != nil {
			return err
		}
	}
	for index, queue := range queues {
		bodies, err := take(channel, queue)
		if err != nil {
			return err
		}
		if err := expect(bodies, expected[index], fmt.Sprint(bindings[index])); err != nil {
			return err
		}
	}
	return nil
}

// publishSubscribe: a fanout exchange copies to every queue.
func publishSubscribe(connection *amqp.Connection) error {
	all := []string{"hello", "all"}
	return routed(connection, "fanout", [][]string{{""}, {"ignored"}}, all, [][]string{all, all})
}

// routing: a direct exchange routes by the whole key.
func routing(connection *amqp.Connection) error {
	bindings := [][]string{{"error"}, {"info", "warning", "error"}}
	keys := []string{"info", "error", "warning", "debug"}
	return routed(connection, "direct", bindings, keys, [][]string{{"error"}, {"info", "error", "warning"}})
}

// topics: `*` is one word, `#` is any number of words; two matching bindings deliver one copy.
func topics(connection *amqp.Connection) error {
	bindings := [][]string{{"*.orange.*"}, {"*.*.rabbit", "lazy.#"}}
	keys := []string{"quick.orange.rabbit", "lazy.orange.elephant", "quick.orange.fox", "lazy", "lazy.pink.rabbit", "orange"}
	return routed(connection, "topic", bindings, keys, [][]string{
		{"quick.orange.rabbit", "lazy.orange.elephant", "quick.orange.fox"},
		{"quick.orange.rabbit", "lazy.orange.elephant", "lazy", "lazy.pink.rabbit"},
	})
}

// rpc: request and reply with reply-to and correlation id, over a queue of the client's own.
func rpc(connection *amqp.Connection) error {
	return askAndAnswer(connection, func(client *amqp.Channel) (string, error) { return own(client) })
}

// directReplyTo: request and reply without a queue for the replies.
func directReplyTo(connection *amqp.Connection) error {
	return askAndAnswer(connection, func(*amqp.Channel) (string, error) { return "amq.rabbitmq.reply-to", nil })
}

func askAndAnswer(connection *amqp.Connection, choose func(*amqp.Channel) (string, error)) error {
	server, err := connection.Channel()
	if err != nil {
		return err
	}
	defer server.Close()
	requests, err := own(server)
	if err != nil {
		return err
	}
	arriving, err := server.Consume(requests, "", true, true, false, false, nil)
	if err != nil {
		return err
	}
	go func() {
		for request := range arriving {
			number, _ := strconv.Atoi(string(request.Body))
			_ = server.PublishWithContext(context.Background(), "", request.ReplyTo, false, false, amqp.Publishing{
				CorrelationId: request.CorrelationId, Body: []byte(strconv.Itoa(number * number))})
		}
	}()
	client, err := connection.Channel()
	if err != nil {
		return err
	}
	defer client.Close()
	replyTo, err := choose(client)
	if err != nil {
		return err
	}
	replies, err := client.Consume(replyTo, "", true, false, false, false, nil)
	if err != nil {
		return err
	}
	request := amqp.Publishing{ReplyTo: replyTo, CorrelationId: "n12", Body: []byte("12")}
	if err := client.PublishWithContext(context.Background(), "", requests, false, false, request); err != nil {
		return err
	}
	select {
	case reply := <-replies:
		return expect(string(reply.Body)+reply.CorrelationId, "144n12", "reply through "+replyTo)
	case <-time.After(wait):
		return fmt.Errorf("no reply through %s", replyTo)
	}
}

// confirms: a hundred deferred confirms, a returned message, and properties that survive the way.
func confirms(connection *amqp.Connection) error {
	channel, err := connection.Channel()
	if err != nil {
		return err
	}
	defer channel.Close()
	queue, err := own(channel)
	if err != nil {
		return err
	}
	if err := channel.Confirm(false); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	sent := amqp.Publishing{
		ContentType: "text/plain", CorrelationId: "c", MessageId: "m", Type: "t", AppId: "a", Priority: 2,
		DeliveryMode: amqp.Persistent, Timestamp: time.Unix(1700000000, 0), Body: bytes.Repeat([]byte{0, 255}, 200_000),
		Headers: amqp.Table{"text": "é", "number": int64(-5), "yes": true, "nested": amqp.Table{"list": []any{"two", nil}}},
	}
	var pending []*amqp.DeferredConfirmation
	for range 100 {
		confirmation, err := channel.PublishWithDeferredConfirmWithContext(ctx, "", queue, true, false, amqp.Publishing{})
		if err != nil {
			return err
		}
		pending = append(pending, confirmation)
	}
	confirmation, err := channel.PublishWithDeferredConfirmWithContext(ctx, "", queue, true, false, sent)
	if err != nil {
		return err
	}
	for _, confirmation := range append(pending, confirmation) {
		if acknowledged, err := confirmation.WaitContext(ctx); err != nil || !acknowledged {
			return fmt.Errorf("not confirmed: %v", err)
		}
	}
	if purged, err := channel.QueuePurge(queue, false); err != nil || purged != 101 {
		return fmt.Errorf("purged %d of 101: %v", purged, err)
	}
	if err := channel.PublishWithContext(ctx, "", queue, true, false, sent); err != nil {
		return err
	}
	deliveries, err := channel.Consume(queue, "", true, false, false, false, nil)
	if err != nil {
		return err
	}
	var found amqp.Delivery
	select {
	case found = <-deliveries:
	case <-time.After(wait):
		return errors.New("the message did not arrive")
	}
	for _, pair := range [][2]any{
		{found.ContentType, sent.ContentType}, {found.CorrelationId, sent.CorrelationId}, {found.MessageId, sent.MessageId},
		{found.Type, sent.Type}, {found.AppId, sent.AppId}, {found.Priority, sent.Priority}, {found.Headers, sent.Headers},
		{found.DeliveryMode, sent.DeliveryMode}, {found.Timestamp.Unix(), sent.Timestamp.Unix()}, {found.Body, sent.Body},
	} {
		if err := expect(pair[0], pair[1], "property"); err != nil {
			return err
		}
	}
	returns := channel.NotifyReturn(make(chan amqp.Return, 1))
	lost, err := channel.PublishWithDeferredConfirmWithContext(ctx, "", unique("nowhere"), true, false, amqp.Publishing{Body: []byte("lost")})
	if err != nil {
		return err
	}
	if acknowledged, err := lost.WaitContext(ctx); err != nil || !acknowledged {
		return fmt.Errorf("an unroutable message must be confirmed too: %v", err)
	}
	returned := <-returns
	return expect(fmt.Sprint(returned.ReplyCode, string(returned.Body)), fmt.Sprint(312, "lost"), "returned")
}

// refusals: mistakes close the channel with the code clients rely on.
func refusals(connection *amqp.Connection) error {
	queue := unique("arguments")
	for _, mistake := range []struct {
		code int
		make func(*amqp.Channel) error
	}{
		{404, func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclarePassive(unique("missing"), false, false, false, false, nil)
			return err
		}},
		{404, func(ch *amqp.Channel) error { return ch.QueueBind(unique("missing"), "", "amq.direct", false, nil) }},
		{403, func(ch *amqp.Channel) error {
			return ch.ExchangeDeclare("amq.mine", "direct", false, true, false, false, nil)
		}},
		{406, func(ch *amqp.Channel) error {
			if _, err := ch.QueueDeclare(queue, false, false, true, false, nil); err != nil {
				return err
			}
			_, err := ch.QueueDeclare(queue, false, true, true, false, nil)
			return err
		}},
		{405, func(*amqp.Channel) error { return foreign(queue) }},
	} {
		channel, err := connection.Channel()
		if err != nil {
			return err
		}
		var found *amqp.Error
		if err := mistake.make(channel); !errors.As(err, &found) || found.Code != mistake.code {
			return fmt.Errorf("expected %d, found %v", mistake.code, err)
		}
	}
	return nil
}

// foreign uses an exclusive queue of another connection.
func foreign(queue string) error {
	connection, err := amqp.Dial(os.Getenv("AMQP_URL"))
	if err != nil {
		return err
	}
	defer connection.Close()
	channel, err := connection.Channel()
	if err != nil {
		return err
	}
	_, err = channel.Consume(queue, "", false, false, false, false, nil)
	return err
}

func store(connection *amqp.Connection) error {
	channel, err := connection.Channel()
	if err != nil {
		return err
	}
	if _, err := channel.QueueDeclare(stored, true, false, false, false, nil); err != nil {
		return err
	}
	if _, err := channel.QueuePurge(stored, false); err != nil {
		return err
	}
	if err := channel.Confirm(false); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	for number := range 10 {
		message := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(fmt.Sprint("stored ", number))}
		confirmation, err := channel.PublishWithDeferredConfirmWithContext(ctx, "", stored, true, false, message)
		if err != nil {
			return err
		}
		if acknowledged, err := confirmation.WaitContext(ctx); err != nil || !acknowledged {
			return fmt.Errorf("message %d was not confirmed: %v", number, err)
		}
	}
	return nil
}

func fetch(connection *amqp.Connection) error {
	channel, err := connection.Channel()
	if err != nil {
		return err
	}
	for number := range 10 {
		delivery, ok, err := channel.Get(stored, false)
		if err != nil || !ok {
			return fmt.Errorf("message %d of 10 is lost: %v", number, err)
		}
		found := fmt.Sprint(string(delivery.Body), " ", delivery.Redelivered)
		if err := expect(found, fmt.Sprint("stored ", number, " false"), "stored message"); err != nil {
			return err
		}
		if err := delivery.Ack(false); err != nil {
			return err
		}
	}
	_, err = channel.QueueDelete(stored, false, false, false)
	return err
}
