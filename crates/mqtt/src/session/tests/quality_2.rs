//! The quality of service 2 (section 4.3.3 of MQTT 5), over losses of connections and power cuts.

use std::collections::BTreeSet;

use testkit::sim_disk::SimDisk;

use super::scene::{Peer, Scene, guest};
use crate::Settings;
use crate::codec::{Ack, Packet, PacketId, Publish, QoS, Reason, Version};

#[derive(PartialEq, Eq)]
enum Time {
    First,
    Again,
}

/// Publishes `payload`, for the first time or again.
fn publish(peer: &mut Peer, id: u16, payload: &str, time: Time) {
    let (qos, id, dup) = (QoS::ExactlyOnce, PacketId::new(id), time == Time::Again);
    peer.publish_with(Publish { dup, qos, id, topic: "t", payload: payload.as_bytes(), ..Publish::default() });
}

#[test]
fn a_message_goes_through_all_steps_once() {
    let scene = Scene::new();
    let (mut publisher, mut subscriber) = (scene.v5("p"), scene.v3("s"));
    subscriber.subscribe("t", QoS::ExactlyOnce);
    assert_eq!(subscriber.heard(), ["SUBACK 0x02"]);
    publish(&mut publisher, 5, "1", Time::First);
    publish(&mut publisher, 5, "1", Time::Again);
    assert_eq!(publisher.heard(), ["PUBREC 5 success", "PUBREC 5 success"]);
    publisher.answer(Packet::PubRel, 5, Reason::Success);
    publisher.answer(Packet::PubRel, 5, Reason::Success);
    assert_eq!(publisher.heard(), ["PUBCOMP 5 success", "PUBCOMP 5 packet identifier not found"]);
    assert_eq!(subscriber.heard(), ["PUBLISH 1 t 1"]);
    subscriber.answer(Packet::PubRec, 1, Reason::Success);
    assert_eq!(subscriber.heard(), ["PUBREL 1 success"]);
    subscriber.answer(Packet::PubComp, 1, Reason::Success);
    publish(&mut publisher, 5, "2", Time::First);
    assert_eq!(subscriber.heard(), ["PUBLISH 2 t 2"]);
}

/// What a connection gives back while it rests is nothing that later packets are about.
#[test]
fn a_message_goes_through_all_steps_over_rests() {
    let scene = Scene::new();
    let (mut publisher, mut subscriber) = (scene.v5("p"), scene.v5("s"));
    subscriber.subscribe("t/+", QoS::ExactlyOnce);
    subscriber.subscribe("t/0", QoS::AtMostOnce);
    assert_eq!(subscriber.heard(), ["SUBACK 0x02", "SUBACK 0x00"]);
    for number in [1, 2] {
        publisher.driver.rest();
        subscriber.driver.rest();
        let (qos, id, payload) = (QoS::ExactlyOnce, PacketId::new(5), &b"x"[..]);
        publisher.publish_with(Publish { qos, id, topic: "t/1", payload, ..Publish::default() });
        publisher.driver.rest();
        assert_eq!(publisher.heard(), ["PUBREC 5 success"]);
        publisher.driver.rest();
        publisher.answer(Packet::PubRel, 5, Reason::Success);
        assert_eq!(publisher.heard(), ["PUBCOMP 5 success"]);
        subscriber.driver.rest();
        assert_eq!(subscriber.heard(), [format!("PUBLISH {number} t/1 x")]);
        subscriber.driver.rest();
        subscriber.answer(Packet::PubRec, number, Reason::Success);
        subscriber.driver.rest();
        assert_eq!(subscriber.heard(), [format!("PUBREL {number} success")]);
        subscriber.driver.rest();
        subscriber.answer(Packet::PubComp, number, Reason::Success);
    }
}

/// [MQTT-4.4.0-1]
#[test]
fn a_session_goes_on_where_it_was_interrupted() {
    let scene = Scene::new();
    let (mut publisher, _) = scene.stored("p", 100);
    let (mut subscriber, _) = scene.stored("s", 100);
    subscriber.subscribe("t", QoS::ExactlyOnce);
    publish(&mut publisher, 5, "1", Time::First);
    publish(&mut publisher, 6, "2", Time::First);
    assert_eq!(publisher.heard().len(), 2);
    assert_eq!(subscriber.heard(), ["SUBACK 0x02", "PUBLISH 1 t 1", "PUBLISH 2 t 2"]);
    subscriber.answer(Packet::PubRec, 1, Reason::Success);
    assert_eq!(subscriber.heard(), ["PUBREL 1 success"]);
    publisher.drop_connection();
    subscriber.drop_connection();
    let (mut publisher, _) = scene.stored("p", 100);
    publish(&mut publisher, 5, "1", Time::Again);
    publisher.answer(Packet::PubRel, 6, Reason::Success);
    let mut heard = publisher.heard();
    heard.sort();
    assert_eq!(heard, ["PUBCOMP 6 success", "PUBREC 5 success"]);
    let (mut subscriber, _) = scene.stored("s", 100);
    assert_eq!(subscriber.heard(), ["PUBREL 1 success", "PUBLISH 2 dup t 2"]);
    subscriber.answer(Packet::PubComp, 1, Reason::Success);
    subscriber.answer(Packet::PubRec, 2, Reason::Success);
    subscriber.answer(Packet::PubComp, 2, Reason::Success);
    assert_eq!(subscriber.heard(), ["PUBREL 2 success"]);
    subscriber.drop_connection();
    assert_eq!(scene.stored("s", 100).0.heard(), [""; 0]);
}

/// [MQTT-4.3.3-4], [MQTT-4.4.0-2]
#[test]
fn a_refused_message_is_neither_released_nor_sent_again() {
    let scene = Scene::new();
    let (mut publisher, mut subscriber) = (scene.v5("p"), scene.v5("s"));
    subscriber.subscribe("t", QoS::ExactlyOnce);
    publish(&mut publisher, 5, "1", Time::First);
    assert_eq!(subscriber.heard(), ["SUBACK 0x02", "PUBLISH 1 t 1"]);
    subscriber.answer(Packet::PubRec, 1, Reason::QuotaExceeded);
    subscriber.answer(Packet::PubRec, 9, Reason::Success);
    assert_eq!(subscriber.heard(), ["PUBREL 9 packet identifier not found"]);
}

/// MQTT 5 §1.2: what is inconsistent with the state of the server is a protocol error. Nothing is
/// lost by it.
#[test]
fn an_answer_to_a_message_of_another_quality_ends_the_connection() {
    type Kind = fn(Ack<'static>) -> Packet<'static>;
    let (ack, received, complete): (Kind, Kind, Kind) = (Packet::PubAck, Packet::PubRec, Packet::PubComp);
    let cases: [(QoS, &[Kind]); 5] = [
        (QoS::AtLeastOnce, &[received]),
        (QoS::AtLeastOnce, &[complete]),
        (QoS::ExactlyOnce, &[ack]),
        (QoS::ExactlyOnce, &[complete]),
        (QoS::ExactlyOnce, &[received, ack]),
    ];
    for (at, (qos, answers)) in cases.into_iter().enumerate() {
        let scene = Scene::new();
        let (mut client, _) = scene.stored("c", 600);
        client.subscribe("t", qos);
        publish(&mut scene.v5("p"), 5, "1", Time::First);
        client.heard();
        answers.iter().for_each(|answer| client.answer(*answer, 1, Reason::Success));
        let heard = client.heard();
        assert_eq!(heard.last().map(String::as_str), Some("DISCONNECT protocol error"), "{at}: {heard:?}");
        client.drop_connection();
        let again = scene.stored("c", 600).0.heard();
        let expected = if answers.len() == 2 { "PUBREL 1 success" } else { "PUBLISH 1 dup t 1" };
        assert_eq!(again, [expected], "{at}");
    }
}

#[test]
fn shared_subscriptions_get_quality_1() {
    let scene = Scene::new();
    let mut client = scene.v5("c");
    client.subscribe("$share/g/t", QoS::ExactlyOnce);
    assert_eq!(client.heard(), ["SUBACK 0x01"]);
}

#[test]
fn it_is_refused_where_it_is_turned_off() {
    let scene = Scene::with(Settings { max_qos: QoS::AtLeastOnce, ..Settings::default() });
    let (mut client, heard) = scene.connect_with(&guest(Version::V5, "c"));
    assert!(heard.contains(" MaximumQoS=1 "), "{heard}");
    client.subscribe("t", QoS::ExactlyOnce);
    assert_eq!(client.heard(), ["SUBACK 0x01"]);
    publish(&mut client, 5, "1", Time::First);
    assert_eq!(client.heard(), ["DISCONNECT quality of service not supported"]);
}

/// The identifier of a message of quality 2 follows from its place, so it waits if that is in use.
#[test]
fn a_message_waits_for_its_identifier() {
    let scene = Scene::new();
    let (mut client, mut publisher) = (scene.v5("c"), scene.v5("p"));
    client.subscribe("$share/g/shared", QoS::AtLeastOnce);
    client.subscribe("t", QoS::ExactlyOnce);
    publisher.publish(1, "shared", "1");
    publish(&mut publisher, 2, "2", Time::First);
    publish(&mut publisher, 3, "3", Time::First);
    let heard = client.heard();
    assert_eq!(heard[2..], ["PUBLISH 1 shared 1", "PUBLISH 2 t 3"]);
    client.puback(1, Reason::Success);
    assert_eq!(client.heard(), ["PUBLISH 1 t 2"]);
}

/// How far the publisher knows a message to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Published,
    Released,
    Completed,
}

/// Two clients that do what the specification says, and keep what they must over each loss.
struct Pair {
    publisher: Peer,
    subscriber: Peer,
    sent: Vec<(u16, Known)>,
    /// Identifiers that the subscriber has taken and that were not released.
    taken: BTreeSet<u16>,
    got: Vec<String>,
    /// The subscriber has answered something since the publisher looked.
    is_busy: bool,
}

/// The identifier of a packet that is shown, and its payload.
fn parts(line: &str) -> (u16, String) {
    let mut words = line.split(' ');
    let id = words.nth(1).and_then(|word| word.parse().ok()).unwrap_or_default();
    (id, words.next_back().unwrap_or_default().to_owned())
}

impl Pair {
    fn new(scene: &Scene, messages: u16) -> Self {
        let ((publisher, _), (mut subscriber, _)) = (scene.resume("p"), scene.resume("s"));
        subscriber.subscribe("t", QoS::ExactlyOnce);
        scene.test.flush();
        assert_eq!(subscriber.heard(), ["SUBACK 0x02"]);
        let mut pair =
            Self { publisher, subscriber, sent: Vec::new(), taken: BTreeSet::new(), got: Vec::new(), is_busy: true };
        for id in 1..=messages {
            publish(&mut pair.publisher, id, &id.to_string(), Time::First);
            pair.sent.push((id, Known::Published));
        }
        pair
    }

    /// Both connect again, and say again what was not answered [MQTT-4.4.0-1].
    fn connect(&mut self, scene: &Scene) {
        // The old connections end first.
        (self.publisher, self.subscriber) = (scene.accept(), scene.accept());
        self.publisher = scene.resume("p").0;
        assert_eq!(self.publisher.heard(), [""; 0]);
        for (id, known) in &self.sent {
            match known {
                Known::Published => publish(&mut self.publisher, *id, &id.to_string(), Time::Again),
                Known::Released => self.publisher.answer(Packet::PubRel, *id, Reason::Success),
                Known::Completed => {}
            }
        }
        self.subscriber = scene.resume("s").0;
        self.subscriber_acts();
    }

    fn publisher_acts(&mut self) {
        for line in self.publisher.heard() {
            let (id, _) = parts(&line);
            let known = self.sent.iter_mut().find(|(other, _)| *other == id).map(|(_, known)| known);
            let Some(known) = known else { panic!("{line}") };
            match line.split(' ').next() {
                Some("PUBREC") => {
                    *known = Known::Released;
                    self.publisher.answer(Packet::PubRel, id, Reason::Success);
                }
                Some("PUBCOMP") => *known = Known::Completed,
                _ => panic!("{line}"),
            }
        }
    }

    fn subscriber_acts(&mut self) {
        let heard = self.subscriber.heard();
        self.take(heard);
    }

    fn take(&mut self, heard: Vec<String>) {
        self.is_busy = !heard.is_empty();
        for line in heard {
            let (id, payload) = parts(&line);
            match line.split(' ').next() {
                Some("PUBLISH") => {
                    if self.taken.insert(id) {
                        self.got.push(payload);
                    }
                    self.subscriber.answer(Packet::PubRec, id, Reason::Success);
                }
                Some("PUBREL") => {
                    self.taken.remove(&id);
                    self.subscriber.answer(Packet::PubComp, id, Reason::Success);
                }
                _ => panic!("{line}"),
            }
        }
    }

    fn is_done(&self) -> bool {
        self.sent.iter().all(|(_, known)| *known == Known::Completed) && self.taken.is_empty() && !self.is_busy
    }
}

/// Runs four messages through, with a loss after so many steps. Returns how many there were.
fn run_with_loss(seed: u64, after: usize, lose: fn(Scene, &SimDisk) -> Scene) -> usize {
    let disk = SimDisk::new(seed, 64 << 20);
    let mut scene = Scene::stepped_on(&disk);
    let mut pair = Pair::new(&scene, 4);
    for step in 0..200 {
        if step == after {
            scene = lose(scene, &disk);
            pair.connect(&scene);
        }
        match step % 5 {
            0 | 3 => pair.publisher_acts(),
            1 | 4 => pair.subscriber_acts(),
            _ => scene.test.flush(),
        }
        if step > after && pair.is_done() && step % 5 == 4 {
            let mut got = std::mem::take(&mut pair.got);
            got.sort();
            assert_eq!(got, ["1", "2", "3", "4"], "seed {seed}, loss after {after}");
            drop(pair);
            // Nothing of it is left, in memory or on the disk.
            assert_eq!(scene.resume("s").0.heard(), [""; 0], "seed {seed}, loss after {after}");
            return step;
        }
    }
    panic!("seed {seed}, loss after {after}: {:?} {:?}", pair.sent, pair.got);
}

/// [MQTT-4.3.3-1], [MQTT-4.3.3-12]: the sender stores a message, the receiver its identifier.
#[test]
fn messages_come_exactly_once_over_power_cuts() {
    for seed in 1..=3 {
        (0..25).for_each(|after| _ = run_with_loss(seed, after, Scene::after_cut));
    }
}

#[test]
fn messages_come_exactly_once_over_losses_of_connections() {
    (0..25).for_each(|after| _ = run_with_loss(1, after, |scene, _| scene));
}
