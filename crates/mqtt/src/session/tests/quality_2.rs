//! The quality of service 2, where it is turned on (section 4.3.3 of MQTT 5).

use super::scene::{Peer, Scene};
use crate::Settings;
use crate::codec::{Packet, PacketId, Publish, QoS, Reason};

#[derive(PartialEq, Eq)]
enum Time {
    First,
    Again,
}

fn scene() -> Scene {
    Scene::with(Settings { max_qos: QoS::ExactlyOnce, ..Settings::default() })
}

/// Publishes `payload`, for the first time or again.
fn publish(peer: &mut Peer, id: u16, payload: &str, time: Time) {
    let (qos, id, dup) = (QoS::ExactlyOnce, PacketId::new(id), time == Time::Again);
    peer.publish_with(Publish { dup, qos, id, topic: "t", payload: payload.as_bytes(), ..Publish::default() });
}

#[test]
fn a_message_goes_through_all_steps_once() {
    let scene = scene();
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

/// [MQTT-4.4.0-1]
#[test]
fn a_session_goes_on_where_it_was_interrupted() {
    let scene = scene();
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
    let scene = scene();
    let (mut publisher, mut subscriber) = (scene.v5("p"), scene.v5("s"));
    subscriber.subscribe("t", QoS::ExactlyOnce);
    publish(&mut publisher, 5, "1", Time::First);
    assert_eq!(subscriber.heard(), ["SUBACK 0x02", "PUBLISH 1 t 1"]);
    subscriber.answer(Packet::PubRec, 1, Reason::QuotaExceeded);
    subscriber.answer(Packet::PubRec, 9, Reason::Success);
    assert_eq!(subscriber.heard(), ["PUBREL 9 packet identifier not found"]);
}

#[test]
fn shared_subscriptions_get_quality_1() {
    let scene = scene();
    let mut client = scene.v5("c");
    client.subscribe("$share/g/t", QoS::ExactlyOnce);
    assert_eq!(client.heard(), ["SUBACK 0x01"]);
}
