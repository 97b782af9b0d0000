// What a program on MQTT 5 does with autopaho: it publishes with confirms, connects again by itself,
// and finds its session after a kill of the broker.
package main

import (
	"context"
	"fmt"
	"log"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eclipse/paho.golang/autopaho"
	"github.com/eclipse/paho.golang/paho"
)

const (
	wait  = 20 * time.Second // for anything that must happen
	count = 100
)

// peer is one client with its inbox.
type peer struct {
	manager *autopaho.ConnectionManager
	came    chan *paho.Publish
	// Whether the broker had a session, of each connection.
	present chan bool
	// Whether it connects again.
	stays atomic.Bool
}

func open(name string, expiry uint32, will *paho.WillMessage) *peer {
	server, err := url.Parse("mqtt://" + os.Getenv("MQTT_HOST") + ":" + os.Getenv("MQTT_PORT"))
	check(err)
	ctx := context.Background()
	made := &peer{came: make(chan *paho.Publish, 1000), present: make(chan bool, 10)}
	made.stays.Store(true)
	made.manager, err = autopaho.NewConnection(ctx, autopaho.ClientConfig{
		ServerUrls:            []*url.URL{server},
		KeepAlive:             20,
		SessionExpiryInterval: expiry,
		ConnectUsername:       "guest",
		ConnectPassword:       []byte("guest"),
		WillMessage:           will,
		ReconnectBackoff:      autopaho.NewConstantBackoff(50 * time.Millisecond),
		OnConnectionUp: func(_ *autopaho.ConnectionManager, connack *paho.Connack) {
			made.present <- connack.SessionPresent
		},
		OnConnectionDown: made.stays.Load,
		ClientConfig: paho.ClientConfig{
			ClientID: name,
			OnPublishReceived: []func(paho.PublishReceived) (bool, error){
				func(received paho.PublishReceived) (bool, error) {
					made.came <- received.Packet
					return true, nil
				},
			},
		},
	})
	check(err)
	within, stop := context.WithTimeout(ctx, wait)
	defer stop()
	check(made.manager.AwaitConnection(within))
	return made
}

func (p *peer) subscribe(filter string, qos byte) {
	within, stop := context.WithTimeout(context.Background(), wait)
	defer stop()
	filters := []paho.SubscribeOptions{{Topic: filter, QoS: qos}}
	granted, err := p.manager.Subscribe(within, &paho.Subscribe{Subscriptions: filters})
	check(err)
	expect("the granted quality", granted.Reasons[0], qos)
}

func (p *peer) publish(message *paho.Publish) {
	within, stop := context.WithTimeout(context.Background(), wait)
	defer stop()
	_, err := p.manager.Publish(within, message)
	check(err)
}

func (p *peer) take() *paho.Publish {
	select {
	case message := <-p.came:
		return message
	case <-time.After(wait):
		log.Fatal("no message came")
		return nil
	}
}

func (p *peer) close() {
	within, stop := context.WithTimeout(context.Background(), wait)
	defer stop()
	check(p.manager.Disconnect(within))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func expect[T comparable](what string, found, expected T) {
	if found != expected {
		log.Fatalf("%s: %v instead of %v", what, found, expected)
	}
}

func qualitiesAndProperties() {
	client := open("go-properties", 0, nil)
	client.subscribe("go/#", 2)
	for qos := range 3 {
		properties := &paho.PublishProperties{ContentType: "text/plain", CorrelationData: []byte{0, 1}}
		properties.User.Add("a", "1")
		properties.User.Add("a", "2")
		topic := fmt.Sprintf("go/%d", qos)
		client.publish(&paho.Publish{Topic: topic, QoS: byte(qos), Payload: []byte("body"), Properties: properties})
		message := client.take()
		expect("the topic", message.Topic, topic)
		expect("the quality", message.QoS, byte(qos))
		expect("the content type", message.Properties.ContentType, "text/plain")
		expect("the user properties", fmt.Sprint(message.Properties.User), fmt.Sprint(properties.User))
	}
	client.close()
}

func manyAtOnce() {
	client := open("go-many", 0, nil)
	client.subscribe("many", 1)
	var all sync.WaitGroup
	for number := range count {
		all.Go(func() { client.publish(&paho.Publish{Topic: "many", QoS: 1, Payload: fmt.Append(nil, number)}) })
	}
	all.Wait()
	for range count {
		client.take()
	}
	client.close()
}

func takenOverWithAWill() {
	watcher := open("go-watcher", 0, nil)
	watcher.subscribe("go-will", 1)
	first := open("go-twice", 0, &paho.WillMessage{Topic: "go-will", QoS: 1, Payload: []byte("gone")})
	first.stays.Store(false)
	second := open("go-twice", 0, nil)
	expect("the will", string(watcher.take().Payload), "gone")
	second.close()
	watcher.close()
}

func patterns() {
	for name, pattern := range map[string]func(){
		"qualities and properties": qualitiesAndProperties,
		"many at once":             manyAtOnce,
		"taken over, with a will":  takenOverWithAWill,
	} {
		pattern()
		fmt.Println("autopaho:", name)
	}
}

func store() {
	session := open("go-stored", 3600, nil)
	session.subscribe("stored", 1)
	session.close()
	sender := open("go-store", 0, nil)
	for number := range count {
		sender.publish(&paho.Publish{Topic: "stored", QoS: 1, Payload: fmt.Append(nil, number)})
	}
	sender.close()
}

func fetch() {
	session := open("go-stored", 3600, nil)
	expect("a session is present", <-session.present, true)
	for number := range count {
		expect("the message", string(session.take().Payload), fmt.Sprint(number))
	}
	session.close()
}

func main() {
	map[string]func(){"patterns": patterns, "store": store, "fetch": fetch}[os.Args[1]]()
}
