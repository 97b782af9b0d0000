// What programs do with go-amqp, a client of AMQP 1.0 that knows no broker: each scenario is a function that says what it got instead.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"reflect"
	"sort"
	"time"

	amqp "github.com/Azure/go-amqp"
)

const (
	wait   = 10 * time.Second       // for anything that must arrive
	quiet  = 300 * time.Millisecond // in which nothing may arrive
	stored = "interop.go-amqp.stored"
)

type step struct {
	name string
	run  func(*scene)
}

var phases = map[string][]step{
	"patterns": {
		{"workQueue", workQueue}, {"outcomes", outcomes}, {"settled", settled}, {"sections", sections}, {"bodies", bodies},
		{"large", large}, {"drain", drain}, {"receiveTimeout", receiveTimeout}, {"selector", selector}, {"browse", browse},
		{"requestReply", requestReply}, {"manyLinks", manyLinks}, {"refusals", refusals}, {"durableLink", durableLink},
	},
	"topics": {{"topic", topic}, {"durableTopic", durableTopic}, {"sharedTopic", sharedTopic}},
	"store":  {{"store", store}},
	"fetch":  {{"fetch", fetch}},
}

// A scene is one scenario's own session on the connection that all share.
type scene struct {
	conn    *amqp.Conn
	session *amqp.Session
	ctx     context.Context
}

// A failure ends a scenario.
type failure struct{ text string }

func fail(format string, values ...any) { panic(failure{fmt.Sprintf(format, values...)}) }

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		fail("%v", err)
	}
}

func expect(what string, found, expected any) {
	if !reflect.DeepEqual(found, expected) {
		fail("%s: expected %v (%T), found %v (%T)", what, expected, expected, found, found)
	}
}

func main() {
	if len(os.Args) < 2 || phases[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "failed: name one phase: patterns, topics, store or fetch")
		os.Exit(2)
	}
	address := must(url.Parse(os.Getenv("AMQP_URL")))
	address.Path = ""
	ctx := context.Background()
	conn, err := amqp.Dial(ctx, address.String(), &amqp.ConnOptions{ContainerID: "interop.go-amqp"})
	if err != nil {
		fmt.Fprintln(os.Stderr, "failed: connecting:", err)
		os.Exit(1)
	}
	failed := 0
	for _, step := range phases[os.Args[1]] {
		if text := run(conn, step); text != "" {
			fmt.Println("FAILED", step.name+":", text)
			failed++
		} else {
			fmt.Println("ok", step.name)
		}
	}
	if err := conn.Close(); err != nil {
		fmt.Println("FAILED to close:", err)
		failed++
	}
	if failed > 0 {
		os.Exit(1)
	}
}

// run returns what failed.
func run(conn *amqp.Conn, step step) (text string) {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	defer func() {
		switch found := recover().(type) {
		case nil:
		case failure:
			text = found.text
		default:
			panic(found)
		}
	}()
	session := must(conn.NewSession(ctx, nil))
	step.run(&scene{conn, session, ctx})
	check(session.Close(ctx))
	return ""
}

func unique(name string) string {
	return fmt.Sprintf("interop.go-amqp.%s.%d", name, time.Now().UnixNano())
}

func (s *scene) sender(queue string) *amqp.Sender {
	return must(s.session.NewSender(s.ctx, queue, &amqp.SenderOptions{TargetCapabilities: []string{"queue"}}))
}

// receiver takes from a queue. Its credit is manual if it is below zero.
func (s *scene) receiver(queue string, options amqp.ReceiverOptions) *amqp.Receiver {
	options.SourceCapabilities = []string{"queue"}
	return must(s.session.NewReceiver(s.ctx, queue, &options))
}

func (s *scene) send(sender *amqp.Sender, messages ...string) {
	for _, message := range messages {
		check(sender.Send(s.ctx, amqp.NewMessage([]byte(message)), nil))
	}
}

func (s *scene) next(receiver *amqp.Receiver) *amqp.Message {
	ctx, cancel := context.WithTimeout(s.ctx, wait)
	defer cancel()
	return must(receiver.Receive(ctx, nil))
}

// text takes the next message, accepts it, and returns its body.
func (s *scene) text(receiver *amqp.Receiver) string {
	message := s.next(receiver)
	check(receiver.AcceptMessage(s.ctx, message))
	return string(message.GetData())
}

// nothing fails if a message comes soon.
func (s *scene) nothing(receiver *amqp.Receiver, why string) {
	ctx, cancel := context.WithTimeout(s.ctx, quiet)
	defer cancel()
	if message, err := receiver.Receive(ctx, nil); err == nil {
		fail("%s, and %q came", why, message.GetData())
	} else if !errors.Is(err, context.DeadlineExceeded) {
		fail("%s: %v", why, err)
	}
}

// workQueue: two receivers with a credit of one share ten tasks, each of which is done once.
func workQueue(s *scene) {
	queue := unique("tasks")
	sender := s.sender(queue)
	var expected []string
	for number := range 10 {
		expected = append(expected, fmt.Sprint("task ", number))
	}
	workers := []*amqp.Receiver{s.receiver(queue, amqp.ReceiverOptions{Credit: 1}), s.receiver(queue, amqp.ReceiverOptions{Credit: 1})}
	s.send(sender, expected...)
	var done []string
	for len(done) < 10 {
		for _, worker := range workers {
			done = append(done, s.text(worker))
		}
	}
	sort.Strings(done)
	expect("tasks", done, expected)
	for _, worker := range workers {
		s.nothing(worker, "all was done")
	}
}

// outcomes: each of the four does what it is for.
func outcomes(s *scene) {
	queue := unique("outcomes")
	sender := s.sender(queue)
	receiver := s.receiver(queue, amqp.ReceiverOptions{Credit: 1})
	s.send(sender, "accepted")
	expect("body", s.text(receiver), "accepted")

	s.send(sender, "released")
	message := s.next(receiver)
	check(receiver.ReleaseMessage(s.ctx, message))
	message = s.next(receiver)
	expect("body after a release", string(message.GetData()), "released")
	expect("failed deliveries after a release", count(message), uint32(0))
	check(receiver.AcceptMessage(s.ctx, message))

	s.send(sender, "failed")
	message = s.next(receiver)
	expect("failed deliveries at first", count(message), uint32(0))
	check(receiver.ModifyMessage(s.ctx, message, &amqp.ModifyMessageOptions{DeliveryFailed: true}))
	message = s.next(receiver)
	expect("body after a failure", string(message.GetData()), "failed")
	expect("failed deliveries after a failure", count(message), uint32(1))
	check(receiver.AcceptMessage(s.ctx, message))

	s.send(sender, "rejected")
	check(receiver.RejectMessage(s.ctx, s.next(receiver), &amqp.Error{Condition: "interop:broken", Description: "on purpose"}))
	s.nothing(receiver, "it was rejected")
}

func count(message *amqp.Message) uint32 {
	if message.Header == nil {
		return 0
	}
	return message.Header.DeliveryCount
}

// settled: what the sender settles has no answer, and what a receiver gets settled needs none.
func settled(s *scene) {
	queue := unique("settled")
	sender := must(s.session.NewSender(s.ctx, queue, &amqp.SenderOptions{
		SettlementMode: amqp.SenderSettleModeSettled.Ptr(), TargetCapabilities: []string{"queue"},
	}))
	s.send(sender, "one", "two")
	receiver := s.receiver(queue, amqp.ReceiverOptions{Credit: 10, RequestedSenderSettleMode: amqp.SenderSettleModeSettled.Ptr()})
	for _, body := range []string{"one", "two"} {
		expect("body", string(s.next(receiver).GetData()), body)
	}
	check(receiver.Close(s.ctx))
	s.nothing(s.receiver(queue, amqp.ReceiverOptions{Credit: 1}), "all was sent settled")
}

// sections: header, properties, annotations and properties of the application arrive as they were sent.
func sections(s *scene) {
	queue := unique("sections")
	text := func(value string) *string { return &value }
	moment := time.UnixMilli(time.Now().UnixMilli())
	sequence := uint32(7)
	sent := &amqp.Message{
		Header:      &amqp.MessageHeader{Durable: true, Priority: 7},
		Annotations: amqp.Annotations{"x-opt-interop": "kept"},
		Properties: &amqp.MessageProperties{
			MessageID: "id-1", To: text("to"), Subject: text("subject"), ReplyTo: text("reply"), CorrelationID: uint64(1) << 40,
			ContentType: text("text/plain"), ContentEncoding: text("identity"), CreationTime: &moment, GroupID: text("group"),
			GroupSequence: &sequence, ReplyToGroupID: text("replies"), UserID: []byte("guest"),
		},
		ApplicationProperties: map[string]any{
			"bool": true, "u8": uint8(200), "u16": uint16(60_000), "u32": uint32(4_000_000_000), "u64": uint64(1) << 63, "i8": int8(-100),
			"i16": int16(-30_000), "i32": int32(-2_000_000_000), "i64": int64(-1) << 62, "f32": float32(1.5), "f64": 2.25, "text": "grün",
			"binary": []byte{0, 1, 255}, "time": moment, "uuid": amqp.UUID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, "null": nil,
		},
		Data: [][]byte{[]byte("body")},
	}
	check(s.sender(queue).Send(s.ctx, sent, nil))
	receiver := s.receiver(queue, amqp.ReceiverOptions{Credit: 1})
	found := s.next(receiver)
	expect("durable", found.Header.Durable, true)
	expect("priority", found.Header.Priority, uint8(7))
	expect("annotation", found.Annotations["x-opt-interop"], "kept")
	moments(found.Properties.CreationTime)
	moments(sent.Properties.CreationTime)
	expect("properties", found.Properties, sent.Properties)
	for name, value := range sent.ApplicationProperties {
		if instant, ok := found.ApplicationProperties[name].(time.Time); ok {
			expect(name, instant.UnixMilli(), value.(time.Time).UnixMilli())
			continue
		}
		expect(name, found.ApplicationProperties[name], value)
	}
	expect("number of properties", len(found.ApplicationProperties), len(sent.ApplicationProperties))
	check(receiver.AcceptMessage(s.ctx, found))
}

// moments makes a time comparable: only its instant counts.
func moments(moment *time.Time) { *moment = moment.UTC() }

// bodies: every kind of body arrives as it was sent.
func bodies(s *scene) {
	queue := unique("bodies")
	sender := s.sender(queue)
	receiver := s.receiver(queue, amqp.ReceiverOptions{Credit: 10})
	for _, sent := range []*amqp.Message{
		{Value: "text"}, {Value: int64(-5)}, {Value: map[string]any{"a": int32(1), "b": []byte("two")}}, {Value: []any{"x", true}},
		{Sequence: [][]any{{"one", int32(2)}, {"three"}}}, {Data: [][]byte{{}}}, {Data: [][]byte{[]byte("in two "), []byte("pieces")}},
	} {
		check(sender.Send(s.ctx, sent, nil))
		found := s.next(receiver)
		expect("value", found.Value, sent.Value)
		expect("sequences", found.Sequence, sent.Sequence)
		expect("data", bytes.Join(found.Data, nil), bytes.Join(sent.Data, nil))
		check(receiver.AcceptMessage(s.ctx, found))
	}
}

// large: messages of several frames, on two links at once.
func large(s *scene) {
	queue := unique("large")
	body := make([]byte, 3_000_000)
	for at := range body {
		body[at] = byte(at * 7 / 3)
	}
	errs := make(chan error, 2)
	for range 2 {
		sender := s.sender(queue)
		go func() { errs <- sender.Send(s.ctx, amqp.NewMessage(body), nil) }()
	}
	check(<-errs)
	check(<-errs)
	receiver := s.receiver(queue, amqp.ReceiverOptions{Credit: 2})
	for range 2 {
		if !bytes.Equal([]byte(s.text(receiver)), body) {
			fail("a body of 3 MB came back changed")
		}
	}
}

// drain: what is there comes, the rest of the credit is given up, and the link goes on. The library asks with a credit of 0, which some brokers leave
// unanswered.
func drain(s *scene) {
	queue := unique("drain")
	sender := s.sender(queue)
	receiver := s.receiver(queue, amqp.ReceiverOptions{Credit: -1})
	s.send(sender, "one", "two")
	check(receiver.IssueCredit(5))
	expect("body", s.text(receiver), "one")
	expect("body", s.text(receiver), "two")
	ctx, cancel := context.WithTimeout(s.ctx, wait)
	defer cancel()
	check(receiver.DrainCredit(ctx, nil))
	s.send(sender, "three")
	s.nothing(receiver, "there was no credit")
	check(receiver.IssueCredit(1))
	expect("body", s.text(receiver), "three")
}

// receiveTimeout: a wait in vain loses nothing that comes later.
func receiveTimeout(s *scene) {
	queue := unique("timeout")
	receiver := s.receiver(queue, amqp.ReceiverOptions{Credit: 1})
	s.nothing(receiver, "nothing was sent")
	s.send(s.sender(queue), "late")
	expect("body", s.text(receiver), "late")
}

// selector: a receiver gets what its selector is true for; the rest stays.
func selector(s *scene) {
	queue := unique("selector")
	sender := s.sender(queue)
	for number := range 6 {
		message := amqp.NewMessage([]byte(fmt.Sprint(number)))
		message.ApplicationProperties = map[string]any{"number": int32(number)}
		check(sender.Send(s.ctx, message, nil))
	}
	chosen := s.receiver(queue, amqp.ReceiverOptions{Credit: 10, Filters: []amqp.LinkFilter{amqp.NewSelectorFilter("number >= 2 AND number <> 4")}})
	for _, body := range []string{"2", "3", "5"} {
		expect("selected body", s.text(chosen), body)
	}
	s.nothing(chosen, "the selector is true for no other")
	check(chosen.Close(s.ctx))
	rest := s.receiver(queue, amqp.ReceiverOptions{Credit: 10})
	for _, body := range []string{"0", "1", "4"} {
		expect("other body", s.text(rest), body)
	}
}

// browse: a receiver that copies takes nothing away.
func browse(s *scene) {
	queue := unique("browse")
	s.send(s.sender(queue), "one", "two")
	for range 2 {
		browser := s.receiver(queue, amqp.ReceiverOptions{
			Credit: 10, SourceDistributionMode: amqp.SourceDistributionModeCopy, RequestedSenderSettleMode: amqp.SenderSettleModeSettled.Ptr(),
		})
		for _, body := range []string{"one", "two"} {
			expect("seen body", string(s.next(browser).GetData()), body)
		}
		check(browser.Close(s.ctx))
	}
	receiver := s.receiver(queue, amqp.ReceiverOptions{Credit: 10})
	for _, body := range []string{"one", "two"} {
		expect("body", s.text(receiver), body)
	}
}

// requestReply: the reply goes to an address that the broker has made up, by a link without one.
func requestReply(s *scene) {
	queue := unique("requests")
	replies := must(s.session.NewReceiver(s.ctx, "", &amqp.ReceiverOptions{Credit: 1, DynamicAddress: true, SourceCapabilities: []string{"temporary-queue"}}))
	address := replies.Address()
	if address == "" {
		fail("a dynamic source has no address")
	}
	request := amqp.NewMessage([]byte("question"))
	request.Properties = &amqp.MessageProperties{ReplyTo: &address, MessageID: "m1"}
	check(s.sender(queue).Send(s.ctx, request, nil))
	server := s.receiver(queue, amqp.ReceiverOptions{Credit: 1})
	asked := s.next(server)
	check(server.AcceptMessage(s.ctx, asked))
	anonymous := must(s.session.NewSender(s.ctx, "", nil))
	reply := amqp.NewMessage([]byte("answer"))
	reply.Properties = &amqp.MessageProperties{To: asked.Properties.ReplyTo, CorrelationID: asked.Properties.MessageID}
	check(anonymous.Send(s.ctx, reply, nil))
	answer := s.next(replies)
	expect("reply", string(answer.GetData()), "answer")
	expect("correlation id", answer.Properties.CorrelationID, "m1")
	check(replies.AcceptMessage(s.ctx, answer))
}

// manyLinks: the hundred links of one session keep their messages apart.
func manyLinks(s *scene) {
	name := unique("many")
	var receivers []*amqp.Receiver
	for number := range 50 {
		queue := fmt.Sprint(name, ".", number)
		receivers = append(receivers, s.receiver(queue, amqp.ReceiverOptions{Credit: 1}))
		s.send(s.sender(queue), fmt.Sprint("for ", number))
	}
	for number, receiver := range receivers {
		expect("body", s.text(receiver), fmt.Sprint("for ", number))
	}
}

// refusals: what can't be is refused with a condition, and only the link ends.
func refusals(s *scene) {
	queue := unique("refusals")
	_, err := s.session.NewReceiver(s.ctx, queue, &amqp.ReceiverOptions{
		SourceCapabilities: []string{"queue"}, Filters: []amqp.LinkFilter{amqp.NewSelectorFilter("number >")},
	})
	var refused *amqp.Error
	if !errors.As(err, &refused) || refused.Condition != amqp.ErrCondInvalidField {
		fail("a broken selector: expected %s, found %v", amqp.ErrCondInvalidField, err)
	}
	s.send(s.sender(queue), "still here")
	expect("body", s.text(s.receiver(queue, amqp.ReceiverOptions{Credit: 1})), "still here")
}

// durableLink: a link that detaches and comes back finds what was not accepted.
func durableLink(s *scene) {
	queue := unique("again")
	s.send(s.sender(queue), "kept")
	receiver := s.receiver(queue, amqp.ReceiverOptions{Credit: 1, Name: "named"})
	s.next(receiver)
	check(receiver.Close(s.ctx))
	expect("body after a close", s.text(s.receiver(queue, amqp.ReceiverOptions{Credit: 1, Name: "named"})), "kept")
}

// topic: each subscriber gets what is sent after it came.
func topic(s *scene) {
	name := unique("topic")
	sender := must(s.session.NewSender(s.ctx, name, &amqp.SenderOptions{TargetCapabilities: []string{"topic"}}))
	s.send(sender, "before")
	var subscribers []*amqp.Receiver
	for range 2 {
		subscribers = append(subscribers, must(s.session.NewReceiver(s.ctx, name, &amqp.ReceiverOptions{Credit: 5, SourceCapabilities: []string{"topic"}})))
	}
	s.send(sender, "after")
	for _, subscriber := range subscribers {
		expect("body", s.text(subscriber), "after")
		s.nothing(subscriber, "one message was sent")
	}
}

// durableTopic: a durable subscription gathers while its session is away, and ends when its link is closed.
func durableTopic(s *scene) {
	name := unique("durable")
	sender := must(s.session.NewSender(s.ctx, name, &amqp.SenderOptions{TargetCapabilities: []string{"topic"}}))
	options := amqp.ReceiverOptions{
		Credit: 5, Name: name, Durability: amqp.DurabilityUnsettledState, ExpiryPolicy: amqp.ExpiryPolicyNever,
		SourceDurability: amqp.DurabilityUnsettledState, SourceExpiryPolicy: amqp.ExpiryPolicyNever, SourceCapabilities: []string{"topic"},
	}
	away := must(s.conn.NewSession(s.ctx, nil))
	must(away.NewReceiver(s.ctx, name, &options))
	check(away.Close(s.ctx))
	s.send(sender, "while away")
	subscriber := must(s.session.NewReceiver(s.ctx, name, &options))
	expect("body", s.text(subscriber), "while away")
	check(subscriber.Close(s.ctx))
	s.send(sender, "never")
	subscriber = must(s.session.NewReceiver(s.ctx, name, &options))
	s.nothing(subscriber, "the subscription is a new one")
	check(subscriber.Close(s.ctx))
}

// sharedTopic: the links of a shared subscription share its messages.
func sharedTopic(s *scene) {
	name := unique("shared")
	sender := must(s.session.NewSender(s.ctx, name, &amqp.SenderOptions{TargetCapabilities: []string{"topic"}}))
	var subscribers []*amqp.Receiver
	for number := range 2 {
		options := amqp.ReceiverOptions{Credit: 1, Name: fmt.Sprintf("%s|%d", name, number), SourceCapabilities: []string{"topic", "shared"}}
		subscribers = append(subscribers, must(s.session.NewReceiver(s.ctx, name, &options)))
	}
	s.send(sender, "one")
	s.send(sender, "two")
	found := []string{s.text(subscribers[0]), s.text(subscribers[1])}
	sort.Strings(found)
	expect("bodies", found, []string{"one", "two"})
}

func store(s *scene) {
	old := s.receiver(stored, amqp.ReceiverOptions{Credit: 10, RequestedSenderSettleMode: amqp.SenderSettleModeSettled.Ptr()})
	for {
		ctx, cancel := context.WithTimeout(s.ctx, quiet)
		_, err := old.Receive(ctx, nil)
		cancel()
		if err != nil {
			break
		}
	}
	check(old.Close(s.ctx))
	sender := s.sender(stored)
	for number := range 10 {
		message := amqp.NewMessage([]byte(fmt.Sprint("stored ", number)))
		message.Header = &amqp.MessageHeader{Durable: true}
		check(sender.Send(s.ctx, message, nil))
	}
}

func fetch(s *scene) {
	receiver := s.receiver(stored, amqp.ReceiverOptions{Credit: 10})
	for number := range 10 {
		message := s.next(receiver)
		found := fmt.Sprint(string(message.GetData()), " ", count(message))
		expect("stored message", found, fmt.Sprint("stored ", number, " 0"))
		check(receiver.AcceptMessage(s.ctx, message))
	}
	s.nothing(receiver, "ten were stored")
}
