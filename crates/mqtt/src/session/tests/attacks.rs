//! What a hostile client may try at the level of packets; `docs/attacks.md` lists it.

use wire::ReadState;

use super::scene::{Scene, guest};
use crate::codec::{
    Connect, Options, Packet, Properties, PropertyBlock, PropertyId, Publish, QoS, Reason, Version, encode,
};
use crate::limits;

#[test]
fn deep_filters_and_topics_are_bounded() {
    let scene = Scene::new();
    let mut client = scene.v5("c");
    let deep = "+/".repeat(limits::LEVELS);
    client.subscribe(&deep, QoS::AtMostOnce);
    let heard = client.heard();
    assert!(heard[0].starts_with("SUBACK 0x97 ReasonString="), "{heard:?}");
    client.subscribe(&deep[..2 * limits::LEVELS - 1], QoS::AtMostOnce);
    client.subscribe("#", QoS::AtMostOnce);
    assert_eq!(client.heard(), ["SUBACK 0x00", "SUBACK 0x00"]);
    // The longest topic that there is, and the one with the most levels.
    for topic in ["/".repeat(65_535), "x".repeat(65_535)] {
        client.publish(0, &topic, "1");
        assert_eq!(client.heard().len(), 1);
    }
    assert_eq!(client.state(), ReadState::Read);
}

#[test]
fn aliases_hold_so_many_bytes() {
    let scene = Scene::new();
    let mut client = scene.v5("c");
    let topic = "t".repeat(limits::ALIAS_BYTES / 2);
    for alias in 1..=2 {
        let mut block = PropertyBlock::default();
        block.number(PropertyId::TopicAlias, alias);
        client.publish_with(Publish { topic: &topic, properties: block.as_properties(), ..Publish::default() });
        assert_eq!(client.heard(), [""; 0]);
    }
    let mut block = PropertyBlock::default();
    block.number(PropertyId::TopicAlias, 3);
    client.publish_with(Publish { topic: "one more", properties: block.as_properties(), ..Publish::default() });
    assert_eq!(client.heard(), ["DISCONNECT quota exceeded"]);
}

#[test]
fn answers_to_nothing_do_nothing() {
    let scene = Scene::new();
    let mut client = scene.v5("c");
    client.subscribe("t", QoS::AtLeastOnce);
    client.publish(9, "t", "1");
    assert_eq!(client.heard().len(), 3);
    for id in [2, 65_535, 1, 1, 1] {
        client.puback(id, Reason::Success);
    }
    // The identifier may be used again at once.
    client.publish(9, "t", "2");
    assert_eq!(client.heard(), ["PUBLISH 2 t 2", "PUBACK 9 success"]);
}

#[test]
fn a_client_that_reads_no_answers_is_not_read() {
    let scene = Scene::new();
    let mut client = scene.v5("c");
    client.driver.reading = testkit::driver::Reading::Nothing;
    let mut pings = Vec::new();
    (0..1_000_000).for_each(|_| encode(&Packet::PingReq, Version::V5, &mut pings));
    client.driver.say(&pings);
    assert_eq!(client.state(), ReadState::Pause);
    assert!(client.driver.connection.output().len() < 2 << 20);
}

#[test]
fn before_the_log_in_little_is_kept() {
    let scene = Scene::new();
    let mut peer = scene.accept();
    let long = "x".repeat(17_000);
    let connect = Connect { client_id: &long, ..guest(Version::V3_1_1, "") };
    let mut bytes = Vec::new();
    encode(&Packet::Connect(connect), Version::V3_1_1, &mut bytes);
    // The length alone is enough.
    peer.driver.say(&bytes[..4]);
    assert_eq!((peer.driver.output.len(), peer.state()), (0, ReadState::Closed));
}

#[test]
fn a_long_identifier_is_refused_only_where_it_must_be_kept() {
    let scene = Scene::new();
    let long = "x".repeat(10_000);
    assert!(scene.connect_with(&guest(Version::V5, &long)).1.starts_with("CONNACK success"));
    let (_, heard) = scene.connect_with(&Connect { clean_start: false, ..guest(Version::V3_1_1, &long) });
    assert_eq!(heard, "CONNACK client identifier not valid");
}

#[test]
fn clients_that_fight_over_an_identifier_leave_nothing() {
    let scene = Scene::new();
    let mut peers: Vec<_> = (0..20).map(|_| scene.accept()).collect();
    peers.iter_mut().for_each(|peer| peer.connect(&guest(Version::V5, "c")));
    let mut open = 0;
    for _ in 0..200 {
        peers.iter_mut().for_each(|peer| peer.run());
        open = peers.iter().filter(|peer| peer.state() == ReadState::Read).count();
        let pending = peers.iter().filter(|peer| peer.state() == ReadState::Pause).count();
        if pending == 0 {
            break;
        }
        std::thread::yield_now();
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(open, 1);
    peers.iter_mut().for_each(|peer| _ = peer.heard());
    peers.into_iter().for_each(super::scene::Peer::drop_connection);
    let (mut last, heard) = scene.connect_with(&guest(Version::V5, "c"));
    assert!(heard.starts_with("CONNACK success"), "{heard}");
    last.subscribe_with(&[("a", Options::default())], Properties::NONE);
    assert_eq!(last.heard(), ["SUBACK 0x00"]);
}
