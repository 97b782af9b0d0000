//! Sessions that outlive their connection.

use testkit::sim_disk::SimDisk;
use wire::ReadState;

use super::scene::{Scene, guest};
use crate::codec::{Connect, Notice, Options, Packet, PropertyBlock, PropertyId, QoS, Reason, Version};

#[test]
fn a_session_keeps_what_comes_while_its_client_is_away() {
    let scene = Scene::new();
    let (mut client, was_there) = scene.stored("c", 100);
    assert!(!was_there);
    let options = Options { qos: QoS::AtLeastOnce, no_local: true, ..Options::default() };
    let mut block = PropertyBlock::default();
    block.number(PropertyId::SubscriptionId, 9);
    client.subscribe_with(&[("a/+", options)], block.as_properties());
    client.drop_connection();
    let mut publisher = scene.v3("p");
    publisher.publish(1, "a/b", "1");
    publisher.publish(2, "a/c", "2");
    assert_eq!(publisher.heard().len(), 2);
    let (mut client, was_there) = scene.stored("c", 100);
    assert!(was_there);
    assert_eq!(client.heard(), ["PUBLISH 1 a/b 1 SubscriptionId=9", "PUBLISH 2 a/c 2 SubscriptionId=9"]);
    // The options are there, too.
    client.publish(1, "a/b", "own");
    assert_eq!(client.heard(), ["PUBACK 1 success"]);
}

/// [MQTT-3.2.2-3]
#[test]
fn a_session_is_there_without_subscriptions_too() {
    let scene = Scene::new();
    let old = Connect { clean_start: false, ..guest(Version::V3_1_1, "c") };
    for expected in ["CONNACK success", "CONNACK present success"] {
        let (mut peer, heard) = scene.connect_with(&old);
        assert_eq!(heard, expected);
        peer.disconnect(Reason::Success);
    }
    let (mut peer, heard) = scene.connect_with(&guest(Version::V3_1_1, "c"));
    assert_eq!(heard, "CONNACK success");
    peer.disconnect(Reason::Success);
    assert_eq!(scene.queues(), [""; 0]);
}

/// [MQTT-4.4.0-1]
#[test]
fn what_was_not_answered_comes_first_with_its_identifier() {
    let scene = Scene::new();
    let (mut client, _) = scene.stored("c", 100);
    client.subscribe("#", QoS::AtLeastOnce);
    let mut publisher = scene.v3("p");
    (1..=3).for_each(|number| publisher.publish(number, "t", &number.to_string()));
    assert_eq!(client.heard(), ["SUBACK 0x01", "PUBLISH 1 t 1", "PUBLISH 2 t 2", "PUBLISH 3 t 3"]);
    client.puback(1, Reason::Success);
    client.drop_connection();
    publisher.publish(4, "t", "4");
    let (mut client, _) = scene.stored("c", 100);
    assert_eq!(client.heard(), ["PUBLISH 2 dup t 2", "PUBLISH 3 dup t 3", "PUBLISH 4 t 4"]);
    client.puback(4, Reason::Success);
    client.drop_connection();
    let (mut client, _) = scene.stored("c", 100);
    assert_eq!(client.heard(), ["PUBLISH 2 dup t 2", "PUBLISH 3 dup t 3"]);
}

#[test]
fn a_session_ends_when_its_time_is_over() {
    let scene = Scene::new();
    let (mut client, _) = scene.stored("c", 10);
    client.disconnect(Reason::Success);
    scene.test.setup.clock.advance(9_000);
    scene.test.housekeep();
    // Each connection says it again.
    let (mut client, was_there) = scene.stored("c", 100);
    assert!(was_there);
    client.disconnect(Reason::Success);
    scene.test.setup.clock.advance(50_000);
    scene.test.housekeep();
    let (mut client, was_there) = scene.stored("c", 10);
    assert!(was_there);
    client.disconnect(Reason::Success);
    scene.test.setup.clock.advance(11_000);
    scene.test.housekeep();
    assert!(!scene.stored("c", 10).1);
}

/// Section 3.14.2.2.2 of MQTT 5
#[test]
fn disconnect_can_change_the_expiry() {
    let scene = Scene::new();
    let leave = |expiry, first| {
        let (mut client, _) = scene.stored("c", first);
        let mut block = PropertyBlock::default();
        block.number(PropertyId::SessionExpiry, expiry);
        client.say(&Packet::Disconnect(Notice { reason: Reason::Success, properties: block.as_properties() }));
        (client.heard(), client.state())
    };
    assert_eq!(leave(0, 100), (vec![], ReadState::Answered));
    assert!(scene.queues().is_empty());
    assert_eq!(leave(5, 0), (vec!["DISCONNECT protocol error".to_owned()], ReadState::Closed));
    assert_eq!(leave(50, 10), (vec![], ReadState::Answered));
    scene.test.setup.clock.advance(40_000);
    scene.test.housekeep();
    let (client, was_there) = scene.stored("c", 0);
    assert!(was_there);
    client.drop_connection();
    // That was its last connection.
    assert!(scene.queues().is_empty());
}

#[test]
fn sessions_and_what_they_hold_survive_a_power_cut() {
    let disk = SimDisk::new(1, 64 << 20);
    let scene = Scene::stepped_on(&disk);
    let (mut client, _) = scene.stored_flushed("c", 100);
    client.subscribe("a/#", QoS::AtLeastOnce);
    scene.test.flush();
    let mut publisher = scene.v3("p");
    publisher.publish(1, "a/b", "confirmed");
    scene.test.flush();
    assert_eq!(publisher.heard(), ["PUBACK 1 success"]);
    drop((client, publisher));
    let scene = scene.after_cut(&disk);
    let (mut client, heard) = scene.stored_flushed("c", 100);
    assert!(heard.starts_with("CONNACK present success"), "{heard}");
    assert_eq!(client.heard(), ["PUBLISH 1 dup a/b confirmed"]);
    // Its expiry is in the log, too.
    client.drop_connection();
    scene.test.setup.clock.advance(101_000);
    scene.test.housekeep();
    assert!(scene.queues().is_empty());
}

#[test]
fn a_clean_session_leaves_nothing() {
    let scene = Scene::new();
    let mut client = scene.v5("c");
    assert!(scene.queues().is_empty());
    client.subscribe("a", QoS::AtMostOnce);
    assert!(scene.queues().is_empty());
    client.subscribe("a", QoS::AtLeastOnce);
    assert_eq!(scene.queues().len(), 1);
    client.drop_connection();
    assert!(scene.queues().is_empty());
}
