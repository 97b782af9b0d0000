//! Retained messages: set, removed, and given to those that subscribe.

use super::scene::Scene;
use crate::codec::{Options, Properties, QoS, RetainHandling};

#[test]
fn the_last_value_of_each_topic_comes_first() {
    let scene = Scene::new();
    let mut publisher = scene.v3("p");
    publisher.retain("a/b", "old");
    publisher.retain("a/b", "new");
    publisher.retain("a/c.d", "dots");
    publisher.retain("x", "removed");
    publisher.retain("x", "");
    let mut subscriber = scene.v5("s");
    subscriber.subscribe("#", QoS::AtLeastOnce);
    let mut heard = subscriber.heard();
    heard.sort();
    assert_eq!(heard, ["PUBLISH retain a/b new", "PUBLISH retain a/c.d dots", "SUBACK 0x01"]);
    // [MQTT-3.3.1-12]
    publisher.retain("a/b", "live");
    assert_eq!(subscriber.heard(), ["PUBLISH a/b live"]);
}

/// [MQTT-3.3.1-9], [MQTT-3.3.1-10], [MQTT-3.3.1-11]
#[test]
fn the_handling_says_when_they_come() {
    let scene = Scene::new();
    let mut client = scene.v5("c");
    client.retain("t", "1");
    let mut subscribe = |retain_handling| {
        client.subscribe_with(&[("t", Options { retain_handling, ..Options::default() })], Properties::NONE);
        client.heard().len() - 1
    };
    assert_eq!(subscribe(RetainHandling::Never), 0);
    assert_eq!(subscribe(RetainHandling::SendIfNew), 0);
    assert_eq!(subscribe(RetainHandling::Send), 1);
    client.unsubscribe("t");
    client.heard();
    let options = Options { retain_handling: RetainHandling::SendIfNew, ..Options::default() };
    client.subscribe_with(&[("t", options)], Properties::NONE);
    assert_eq!(client.heard(), ["SUBACK 0x00", "PUBLISH retain t 1"]);
}
