//! Shared subscriptions (section 4.8.2 of MQTT 5), which MQTT 3 may have, too.

use super::scene::Scene;
use crate::codec::{QoS, Reason};

#[test]
fn each_message_goes_to_one_member() {
    let scene = Scene::new();
    let (mut one, mut two, mut own) = (scene.v5("1"), scene.v3("2"), scene.v5("3"));
    one.subscribe("$share/g/a/#", QoS::AtLeastOnce);
    two.subscribe("$share/g/a/#", QoS::AtMostOnce);
    own.subscribe("a/b", QoS::AtMostOnce);
    let mut publisher = scene.v3("p");
    (1..=4).for_each(|number| publisher.publish(number, "a/b", &number.to_string()));
    let (one, two) = (one.heard(), two.heard());
    assert_eq!((one[0].as_str(), two[0].as_str()), ("SUBACK 0x01", "SUBACK 0x00"));
    assert_eq!((one.len(), two.len()), (3, 3), "{one:?} {two:?}");
    assert_eq!(own.heard().len(), 5);
}

/// What a member did not answer goes to another one when its session ends [MQTT-4.8.2-4]; what it
/// refused does not [MQTT-4.8.2-6].
#[test]
fn what_a_member_leaves_goes_to_another_one() {
    let scene = Scene::new();
    let (mut one, mut two) = (scene.v5("1"), scene.v5("2"));
    one.subscribe("$share/g/a", QoS::AtLeastOnce);
    let mut publisher = scene.v3("p");
    publisher.publish(1, "a", "1");
    publisher.publish(2, "a", "2");
    assert_eq!(one.heard(), ["SUBACK 0x01", "PUBLISH 1 a 1", "PUBLISH 2 a 2"]);
    two.subscribe("$share/g/a", QoS::AtLeastOnce);
    one.puback(1, Reason::Unspecified);
    one.drop_connection();
    assert_eq!(two.heard(), ["SUBACK 0x01", "PUBLISH 1 dup a 2"]);
    two.unsubscribe("$share/g/a");
    two.unsubscribe("$share/g/a");
    publisher.publish(3, "a", "3");
    assert_eq!(two.heard(), ["UNSUBACK 0x00", "UNSUBACK 0x11"]);
}

#[test]
fn a_stored_session_stays_a_member() {
    let scene = Scene::new();
    let (mut client, _) = scene.stored("c", 1000);
    client.subscribe("$share/g/a/+", QoS::AtLeastOnce);
    assert_eq!(client.heard(), ["SUBACK 0x01"]);
    client.drop_connection();
    let mut publisher = scene.v3("p");
    publisher.publish(1, "a/b", "1");
    let (mut client, was_there) = scene.stored("c", 1000);
    assert!(was_there);
    assert_eq!(client.heard(), ["PUBLISH 1 a/b 1"]);
    client.unsubscribe("$share/g/a/+");
    client.drop_connection();
    publisher.publish(2, "a/b", "2");
    let (mut client, _) = scene.stored("c", 1000);
    assert_eq!(client.heard(), [""; 0]);
}

#[test]
fn a_group_without_members_ends_in_time() {
    let scene = Scene::new();
    let mut client = scene.v5("c");
    client.subscribe("$queue/a", QoS::AtLeastOnce);
    assert_eq!(client.heard(), ["SUBACK 0x01"]);
    client.drop_connection();
    assert_eq!(scene.queues(), ["mqtt-share..a"]);
    scene.test.setup.clock.advance(61_000);
    scene.test.housekeep();
    assert!(scene.queues().is_empty());
}
