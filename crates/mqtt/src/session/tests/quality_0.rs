//! Filters of quality 0, whose messages come through no queue.

use super::scene::Scene;
use crate::codec::{Options, PropertyBlock, PropertyId, QoS};

const NONE: [&str; 0] = [];

fn subscription_id(id: u32) -> PropertyBlock {
    let mut block = PropertyBlock::default();
    block.number(PropertyId::SubscriptionId, id);
    block
}

#[test]
fn what_filters_of_both_kinds_match_comes_once() {
    let scene = Scene::new();
    let mut client = scene.v5("c");
    for (filter, qos, id) in [("a/#", QoS::AtMostOnce, 1), ("+/b", QoS::AtMostOnce, 2), ("a/b", QoS::AtLeastOnce, 3)] {
        let block = subscription_id(id);
        client.subscribe_with(&[(filter, Options { qos, ..Options::default() })], block.as_properties());
        assert_eq!(client.heard().len(), 1);
    }
    let mut publisher = scene.v3("p");
    publisher.publish(1, "a/b", "1");
    publisher.run();
    let heard = client.heard();
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert!((1..=3).all(|id| heard[0].contains(&format!(" SubscriptionId={id}"))), "{heard:?}");
    client.unsubscribe("a/b");
    client.heard();
    publisher.publish(2, "a/b", "2");
    publisher.run();
    let heard = client.heard();
    assert!(heard.len() == 1 && heard[0].starts_with("PUBLISH a/b 2 "), "{heard:?}");
    client.unsubscribe("a/#");
    client.unsubscribe("+/b");
    client.heard();
    publisher.publish(3, "a/b", "3");
    assert_eq!(client.heard(), NONE);
}

#[test]
fn a_stored_session_keeps_filters_of_quality_0_and_not_their_messages() {
    let scene = Scene::new();
    let (mut client, _) = scene.stored("c", 600);
    client.subscribe("a/+", QoS::AtMostOnce);
    assert_eq!(client.heard(), ["SUBACK 0x00"]);
    client.drop_connection();
    let mut publisher = scene.v3("p");
    publisher.publish(1, "a/b", "away");
    publisher.run();
    let (mut client, was_there) = scene.stored("c", 600);
    assert!(was_there);
    publisher.publish(2, "a/b", "there");
    assert_eq!(client.heard(), ["PUBLISH a/b there"]);
    client.unsubscribe("a/+");
    assert_eq!(client.heard(), ["UNSUBACK 0x00"]);
    client.drop_connection();
    let (mut client, _) = scene.stored("c", 600);
    publisher.publish(3, "a/b", "gone");
    publisher.run();
    assert_eq!(client.heard(), NONE);
}
