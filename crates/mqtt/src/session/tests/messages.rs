//! Messages in and out: qualities, order, answers, properties, aliases, other protocols.

use std::time::{Duration, Instant};

use broker::{Confirm, Publish as Published, Unroutable};
use testkit::broker::TextDialect;
use testkit::sim_disk::SimDisk;

use super::scene::{Scene, guest};
use crate::codec::{
    Connect, Options, PacketId, Properties, PropertyBlock, PropertyId, Publish, QoS, Reason, RetainHandling, Version,
};

const NONE: [&str; 0] = [];

#[test]
fn each_message_goes_once_with_the_lower_quality() {
    let scene = Scene::new();
    let (mut publisher, mut subscriber) = (scene.v3("p"), scene.v5("s"));
    subscriber.subscribe("a/#", QoS::AtMostOnce);
    subscriber.subscribe("+/b", QoS::ExactlyOnce);
    assert_eq!(subscriber.heard(), ["SUBACK 0x00", "SUBACK 0x02"]);
    publisher.publish(0, "a/b", "1");
    publisher.publish(5, "a/b", "2");
    publisher.publish(6, "a", "3");
    publisher.publish(7, "elsewhere", "4");
    assert_eq!(publisher.heard(), ["PUBACK 5 success", "PUBACK 6 success", "PUBACK 7 success"]);
    assert_eq!(subscriber.heard(), ["PUBLISH a/b 1", "PUBLISH 2 a/b 2", "PUBLISH a 3"]);
    subscriber.puback(2, Reason::Success);
    subscriber.unsubscribe("a/#");
    subscriber.unsubscribe("a/#");
    publisher.publish(0, "a", "5");
    assert_eq!(subscriber.heard(), ["UNSUBACK 0x00", "UNSUBACK 0x11"]);
}

/// [MQTT-3.3.4-9]
#[test]
fn a_client_gets_as_many_as_it_takes_before_it_answers() {
    let scene = Scene::new();
    let mut block = PropertyBlock::default();
    block.number(PropertyId::ReceiveMaximum, 2);
    let (mut subscriber, _) =
        scene.connect_with(&Connect { properties: block.as_properties(), ..guest(Version::V5, "s") });
    subscriber.subscribe("#", QoS::AtLeastOnce);
    let mut publisher = scene.v5("p");
    (1..=4).for_each(|number| publisher.publish(number, "t", &number.to_string()));
    assert_eq!(publisher.heard().len(), 4);
    assert_eq!(subscriber.heard(), ["SUBACK 0x01", "PUBLISH 1 t 1", "PUBLISH 2 t 2"]);
    subscriber.puback(2, Reason::Success);
    assert_eq!(subscriber.heard(), ["PUBLISH 3 t 3"]);
    // A refusal makes room, and the message does not come again [MQTT-4.4.0-2].
    subscriber.puback(1, Reason::Unspecified);
    assert_eq!(subscriber.heard(), ["PUBLISH 4 t 4"]);
}

#[test]
fn many_of_quality_0_flow_through_a_small_window() {
    let scene = Scene::new();
    let mut block = PropertyBlock::default();
    block.number(PropertyId::ReceiveMaximum, 1);
    let (mut subscriber, _) =
        scene.connect_with(&Connect { properties: block.as_properties(), ..guest(Version::V5, "s") });
    subscriber.subscribe("#", QoS::AtMostOnce);
    let mut publisher = scene.v3("p");
    (0..50).for_each(|number| publisher.publish(0, "t", &number.to_string()));
    let heard = subscriber.heard();
    let expected = (0..50).map(|number| format!("PUBLISH t {number}"));
    assert_eq!(heard, std::iter::once("SUBACK 0x00".to_owned()).chain(expected).collect::<Vec<_>>());
}

#[test]
fn the_answer_waits_for_the_disk_and_keeps_its_order() {
    let disk = SimDisk::new(1, 64 << 20);
    let scene = Scene::stepped_on(&disk);
    let (mut subscriber, heard) = scene.stored_flushed("s", 100);
    assert!(heard.starts_with("CONNACK success"), "{heard}");
    subscriber.subscribe("a", QoS::AtLeastOnce);
    assert_eq!(subscriber.heard(), NONE);
    scene.test.flush();
    assert_eq!(subscriber.heard(), ["SUBACK 0x01"]);
    let mut publisher = scene.v5("p");
    publisher.publish(1, "a", "1");
    publisher.publish(2, "nobody", "2");
    assert_eq!(publisher.heard(), NONE);
    scene.test.flush();
    assert_eq!(publisher.heard(), ["PUBACK 1 success", "PUBACK 2 no matching subscribers"]);
}

/// [MQTT-3.3.2-17], [MQTT-3.3.2-18]
#[test]
fn properties_reach_the_subscriber_as_they_were() {
    let scene = Scene::new();
    let (mut old, mut subscriber) = (scene.v3("o"), scene.v5("s"));
    old.subscribe("#", QoS::AtMostOnce);
    let mut numbered = PropertyBlock::default();
    numbered.number(PropertyId::SubscriptionId, 7);
    subscriber.subscribe_with(&[("a/#", Options::default()), ("+", Options::default())], numbered.as_properties());
    subscriber.subscribe("a.b/#", QoS::AtMostOnce);
    let mut block = PropertyBlock::default();
    block
        .number(PropertyId::PayloadFormat, 1)
        .text(PropertyId::ContentType, "text/plain")
        .text(PropertyId::ResponseTopic, "answers")
        .binary(PropertyId::CorrelationData, b"id")
        .pair("b", "1")
        .pair("a", "2")
        .pair("b", "3")
        .number(PropertyId::TopicAlias, 1);
    let own = " PayloadFormat=1 ContentType=text/plain ResponseTopic=answers CorrelationData=id b:1 a:2 b:3";
    let mut publisher = scene.v5("p");
    publisher.publish_with(Publish {
        topic: "a",
        payload: b"1",
        properties: block.as_properties(),
        ..Publish::default()
    });
    block.clear();
    block.number(PropertyId::TopicAlias, 1);
    publisher.publish_with(Publish { payload: b"2", properties: block.as_properties(), ..Publish::default() });
    publisher.publish(0, "a.b/c", "3");
    let expected = [
        "SUBACK 0x00 0x00".to_owned(),
        "SUBACK 0x00".to_owned(),
        format!("PUBLISH a 1{own} SubscriptionId=7 SubscriptionId=7"),
        "PUBLISH a 2 SubscriptionId=7 SubscriptionId=7".to_owned(),
        "PUBLISH a.b/c 3".to_owned(),
    ];
    assert_eq!(subscriber.heard(), expected);
    assert_eq!(old.heard(), ["SUBACK 0x00", "PUBLISH a 1", "PUBLISH a 2", "PUBLISH a.b/c 3"]);
}

/// [MQTT-3.3.2-5], [MQTT-3.3.2-6]
#[test]
fn a_message_says_how_long_it_lives_still_and_ends_in_time() {
    let scene = Scene::new();
    let (mut subscriber, _) = scene.stored("s", 100);
    subscriber.subscribe("#", QoS::AtLeastOnce);
    subscriber.disconnect(Reason::Success);
    let mut publisher = scene.v5("p");
    for (seconds, payload) in [(5, "short"), (60, "long")] {
        let mut block = PropertyBlock::default();
        block.number(PropertyId::MessageExpiry, seconds);
        publisher.publish_with(Publish {
            topic: "t",
            payload: payload.as_bytes(),
            properties: block.as_properties(),
            ..Publish::default()
        });
    }
    scene.test.setup.clock.advance(10_000);
    scene.test.housekeep();
    let (mut subscriber, was_there) = scene.stored("s", 100);
    assert!(was_there);
    assert_eq!(subscriber.heard(), ["PUBLISH t long MessageExpiry=50"]);
}

#[test]
fn a_topic_has_an_alias_where_the_client_takes_it() {
    let scene = Scene::new();
    let mut block = PropertyBlock::default();
    block.number(PropertyId::TopicAliasMaximum, 1).number(PropertyId::MaximumPacketSize, 40);
    let (mut subscriber, _) =
        scene.connect_with(&Connect { properties: block.as_properties(), ..guest(Version::V5, "s") });
    subscriber.subscribe("#", QoS::AtMostOnce);
    let mut publisher = scene.v3("p");
    // What is too large for the client does not count, nor does its topic get the alias.
    publisher.publish(0, "first", &"x".repeat(50));
    for topic in ["second", "second", "third", "abc"] {
        publisher.publish(0, topic, "1");
    }
    let expected =
        ["SUBACK 0x00", "PUBLISH second 1 TopicAlias=1", "PUBLISH  1 TopicAlias=1", "PUBLISH third 1", "PUBLISH abc 1"];
    assert_eq!(subscriber.heard(), expected);
}

#[test]
fn options_are_kept() {
    let scene = Scene::new();
    let (mut own, mut other) = (scene.v5("own"), scene.v5("other"));
    let options = Options { no_local: true, retain_as_published: true, ..Options::default() };
    own.subscribe_with(&[("t", options)], Properties::NONE);
    own.retain("t", "mine");
    other.retain("t", "yours");
    assert_eq!(own.heard(), ["SUBACK 0x00", "PUBLISH retain t yours"]);
    // A filter that is there gets the new options, and no message twice.
    let options = Options { qos: QoS::AtLeastOnce, retain_handling: RetainHandling::Never, ..Options::default() };
    own.subscribe_with(&[("t", options)], Properties::NONE);
    own.publish(4, "t", "mine");
    other.retain("t", "yours");
    assert_eq!(own.heard(), ["SUBACK 0x01", "PUBLISH 1 t mine", "PUBACK 4 success", "PUBLISH t yours"]);
    // With one binding.
    let queue = scene.queues();
    let bindings = scene.broker.bindings_to_queue("/", &queue[0]);
    assert_eq!(bindings.iter().filter(|binding| !binding.source.is_empty()).count(), 1, "{bindings:?}");
}

/// [MQTT-4.7.2-1]
#[test]
fn topics_of_the_server_match_no_wildcard_at_the_front() {
    let scene = Scene::new();
    let (mut all, mut some) = (scene.v3("all"), scene.v3("some"));
    all.subscribe("#", QoS::AtMostOnce);
    all.subscribe("+/b", QoS::AtMostOnce);
    some.subscribe("$own/#", QoS::AtMostOnce);
    all.publish(0, "$own/b", "1");
    assert_eq!(all.heard(), ["SUBACK 0x00", "SUBACK 0x00"]);
    assert_eq!(some.heard(), ["SUBACK 0x00", "PUBLISH $own/b 1"]);
}

#[test]
fn messages_of_other_protocols_come_as_topics() {
    let scene = Scene::new();
    let mut subscriber = scene.v5("s");
    subscriber.subscribe("a/+", QoS::AtLeastOnce);
    let mut client = scene.client();
    let session = client.open_session(1);
    for persistent in [true, false] {
        let publish = Published {
            exchange: "amq.topic",
            routing_key: "a.b",
            dialect: TextDialect::ID,
            properties: b"n=1\nx-reply-to-topic=c.d",
            persistent,
            priority: None,
            expiration: None,
            body: (&b"hi"[..]).into(),
            confirm: Confirm::None,
            unroutable: Unroutable::Drop,
            copies: false,
            instructed: false,
        };
        client.publish(session, publish).unwrap();
    }
    client.flush(Instant::now());
    let heard = subscriber.heard();
    assert_eq!(heard[0], "SUBACK 0x01");
    assert!(heard.iter().any(|line| line.starts_with("PUBLISH a/b hi ") && line.contains(" n:1")), "{heard:?}");
    assert!(heard.iter().all(|line| !line.starts_with("PUBLISH") || line.contains(" ResponseTopic=c/d")), "{heard:?}");
}

#[test]
fn a_large_message_comes_in_pieces_and_goes_out_whole() {
    let scene = Scene::new();
    let (mut publisher, mut subscriber) = (scene.v5("p"), scene.v3("s"));
    subscriber.subscribe("t", QoS::AtMostOnce);
    let payload = vec![b'x'; 300_000];
    let mut bytes = Vec::new();
    let publish =
        Publish { topic: "t", payload: &payload, qos: QoS::AtLeastOnce, id: PacketId::new(9), ..Publish::default() };
    crate::codec::encode(&crate::codec::Packet::Publish(publish), Version::V5, &mut bytes);
    for piece in bytes.chunks(10_000) {
        publisher.driver.say(piece);
        assert!(publisher.driver.input.is_empty() || publisher.driver.input.len() < 33_000);
        publisher.pass(Duration::from_millis(1));
    }
    assert_eq!(publisher.heard(), ["PUBACK 9 success"]);
    assert_eq!(subscriber.heard(), ["SUBACK 0x00", "PUBLISH t 300000 bytes"]);
}

#[test]
fn what_is_not_allowed_is_refused() {
    let scene = Scene::new();
    scene.test.user("weak", "^mqtt-.*", "^mqtt-.*", "^mqtt-.*");
    let connect = |version| Connect { user: Some("weak"), password: Some(b"weak"), ..guest(version, "w") };
    let (mut new, _) = scene.connect_with(&connect(Version::V5));
    new.subscribe("a", QoS::AtMostOnce);
    new.publish(3, "a", "1");
    let heard = new.heard();
    assert!(
        heard[0].starts_with("PUBACK 3 not authorized ReasonString=") || heard[0].starts_with("SUBACK 0x87"),
        "{heard:?}"
    );
    assert!(heard.iter().any(|line| line.starts_with("SUBACK 0x87 ReasonString=")), "{heard:?}");
    assert!(heard.iter().any(|line| line.starts_with("PUBACK 3 not authorized")), "{heard:?}");
    new.publish(0, "a", "1");
    assert_eq!(new.heard(), ["DISCONNECT not authorized"]);
    // No answer of the older version says so: the connection ends.
    let (mut old, _) = scene.connect_with(&connect(Version::V3_1_1));
    old.publish(3, "a", "1");
    assert_eq!((old.heard().len(), old.state()), (0, wire::ReadState::Closed));
}

/// A copy for a key in `CC` or `BCC` comes to those whose filters match that key alone, under its
/// topic, and once to those that match several.
#[test]
fn a_copy_comes_under_the_key_that_a_filter_matches() {
    let scene = Scene::new();
    let subscribers = [
        ("own/#", "PUBLISH own/1 x"),
        ("cc/#", "PUBLISH cc/1 x"),
        ("bcc/+", "PUBLISH bcc/2 x"),
        ("#", "PUBLISH own/1 x"),
        ("other/#", ""),
    ];
    for qos in [QoS::AtMostOnce, QoS::AtLeastOnce] {
        let mut clients = Vec::new();
        for (filter, _) in subscribers {
            let mut client = scene.v3(filter);
            client.subscribe(filter, qos);
            client.heard();
            clients.push(client);
        }
        let mut publisher = scene.client();
        let session = publisher.open_session(1);
        let publish = Published {
            exchange: "amq.topic",
            routing_key: "own.1",
            dialect: TextDialect::ID,
            properties: b"CC=cc.1,cc.2\nBCC=bcc.2\n",
            persistent: false,
            priority: None,
            expiration: None,
            body: b"x"[..].into(),
            confirm: Confirm::None,
            unroutable: Unroutable::Drop,
            copies: true,
            instructed: false,
        };
        publisher.publish(session, publish).unwrap();
        publisher.end_turn(scene.test.now());
        for (client, (filter, expected)) in clients.iter_mut().zip(subscribers) {
            assert_eq!(client.heard().concat(), expected, "{filter} of {qos:?}");
        }
    }
}
