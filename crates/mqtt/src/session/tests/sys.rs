//! `$SYS`: who reads which figures, and when.

use std::collections::BTreeMap;
use std::task::Waker;
use std::time::Duration;

use testkit::broker::TextDialect;

use super::scene::{Peer, Scene, guest};
use crate::codec::{Connect, Options, PropertyBlock, PropertyId, QoS, RetainHandling, Version};
use crate::{Host, SysPublisher};

const NONE: [&str; 0] = [];

/// A scene with its publisher, which a test takes forward.
struct Figures {
    scene: Scene,
    publisher: SysPublisher,
    /// Bytes of sockets.
    moved: (u64, u64),
}

impl Figures {
    fn new() -> Self {
        let scene = Scene::new();
        let host = Host { product: "Hermod".into(), version: "0.1".into(), node: "hermod@host".into() };
        let (interval, now) = (Duration::from_secs(10), scene.test.now());
        let publisher = SysPublisher::new(scene.sys.clone(), host, interval, &scene.broker, (0, 0), now);
        Self { scene, publisher, moved: (0, 0) }
    }

    /// Time goes on, and the publisher does what is due.
    fn pass(&mut self, ms: u64) {
        self.scene.pass(ms);
        let now = self.scene.test.now();
        self.moved = (self.moved.0 + ms / 10, self.moved.1 + ms / 5);
        let next = self.publisher.step(&self.scene.broker, || self.moved, Waker::noop(), now);
        assert!(next > now && next <= now + Duration::from_secs(10), "it waits until something is due");
    }

    fn tag(&self, user: &str, tags: &[&str]) {
        let mut user = self.scene.broker.authority().user(user).unwrap();
        user.tags = auth::Tags::new(tags.iter().copied());
        self.scene.broker.put_user(user).unwrap();
    }

    fn plain(&self, user: &str) -> Peer {
        let connect = Connect { user: Some(user), password: Some(user.as_bytes()), ..guest(Version::V5, user) };
        let (peer, heard) = self.scene.connect_with(&connect);
        assert!(heard.starts_with("CONNACK success"), "{heard}");
        peer
    }
}

/// The values that have come, by topic, each with its flag.
fn values(client: &mut Peer) -> BTreeMap<String, String> {
    let heard = client.heard();
    let split = |line: &String| {
        let rest = line.strip_prefix("PUBLISH ")?;
        let (flag, rest) = rest.strip_prefix("retain ").map_or(("", rest), |rest| ("retain ", rest));
        let end = rest.find("retained messages/count").map_or(0, |at| at + "retained messages/count".len());
        let at = end + rest[end..].find(' ')?;
        Some((rest[..at].to_owned(), format!("{flag}{}", &rest[at + 1..])))
    };
    heard.iter().filter_map(split).collect()
}

#[test]
fn an_administrator_reads_the_figures_of_the_broker() {
    let mut figures = Figures::new();
    figures.tag("guest", &["administrator"]);
    let mut client = figures.scene.v5("monitor");
    client.subscribe("$SYS/#", QoS::ExactlyOnce);
    assert_eq!(client.heard(), ["SUBACK 0x00"], "quality 0 is what there is");
    let mut publisher = figures.scene.v3("p");
    publisher.retain("a/b", "1");
    publisher.heard();
    figures.scene.stored("away", 600).0.drop_connection();
    let mut reader = figures.scene.v3("r");
    reader.subscribe("a/#", QoS::AtMostOnce);
    assert_eq!(reader.heard().len(), 2);
    figures.pass(1);
    let first = values(&mut client);
    for (topic, value) in [
        ("$SYS/broker/version", "Hermod version 0.1"),
        ("$SYS/broker/uptime", "0 seconds"),
        ("$SYS/broker/clients/connected", "3"),
        ("$SYS/broker/clients/disconnected", "1"),
        ("$SYS/broker/clients/total", "4"),
        ("$SYS/broker/clients/maximum", "3"),
        ("$SYS/broker/messages/received", "1"),
        ("$SYS/broker/subscriptions/count", "1"),
        ("$SYS/broker/retained messages/count", "1"),
        ("$SYS/broker/messages/stored", "1"),
        ("$SYS/brokers", "hermod@host"),
        ("$SYS/brokers/hermod@host/stats/connections/count", "3"),
    ] {
        assert_eq!(first.get(topic), Some(&format!("retain {value}")), "{topic}: {first:?}");
    }
    // Then what has changed, as the interval says.
    figures.pass(5000);
    assert_eq!(client.heard(), NONE);
    publisher.publish(1, "a/b", "2");
    publisher.heard();
    assert_eq!(reader.heard().len(), 1);
    figures.pass(4999);
    let later = values(&mut client);
    for (topic, value) in [
        ("$SYS/broker/uptime", "10 seconds"),
        ("$SYS/broker/messages/received", "2"),
        ("$SYS/broker/publish/messages/received", "2"),
        ("$SYS/broker/messages/sent", "2"),
        ("$SYS/broker/bytes/sent", "1999"),
        ("$SYS/broker/load/bytes/received/1min", "920.19"),
        ("$SYS/brokers/hermod@host/metrics/messages/received", "2"),
    ] {
        assert_eq!(later.get(topic).map(String::as_str), Some(value), "{topic}: {later:?}");
    }
    assert!(!later.contains_key("$SYS/broker/version"), "it has not changed");
    client.unsubscribe("$SYS/#");
    client.heard();
    figures.pass(10_000);
    assert_eq!(client.heard(), NONE);
}

#[test]
fn others_read_the_figures_of_their_virtual_host_alone() {
    let mut figures = Figures::new();
    figures.scene.broker.put_vhost("other", &broker::VhostSpec::default()).unwrap();
    let mut user = figures.scene.broker.authority().user("guest").unwrap();
    user.permissions.insert("other".into(), auth::Permission::new(".*", ".*", ".*").unwrap());
    figures.scene.broker.put_user(user).unwrap();
    let other = figures.scene.test.attach_to("guest", "other", Waker::noop().clone()).unwrap();
    let mut client = figures.plain("reader");
    client.subscribe("$SYS/#", QoS::AtMostOnce);
    client.heard();
    figures.pass(1);
    let seen = values(&mut client);
    assert_eq!(seen["$SYS/broker/clients/connected"], "retain 1", "{}", other.vhost());
    for absent in ["messages/received", "bytes/sent", "load/connections/1min", "clients/maximum"] {
        assert!(!seen.contains_key(&format!("$SYS/broker/{absent}")), "{absent}");
    }
    assert!(!seen.keys().any(|topic| topic.starts_with("$SYS/brokers")), "{seen:?}");
    // A tag counts from the next publication on.
    figures.tag("reader", &["monitoring"]);
    figures.pass(10_000);
    client.heard();
    figures.pass(1000);
    let seen = values(&mut client);
    assert_eq!(seen["$SYS/broker/clients/connected"], "2");
    assert!(seen.contains_key("$SYS/broker/messages/received"));
    figures.tag("reader", &[]);
    figures.pass(10_000);
    client.heard();
    figures.pass(1000);
    assert!(!values(&mut client).contains_key("$SYS/broker/messages/received"));
}

#[test]
fn what_a_user_may_not_read_stays_away() {
    let mut figures = Figures::new();
    figures.scene.test.may_read_topics("reader", "^\\$SYS\\.broker\\.clients\\.");
    let mut client = figures.plain("reader");
    for (filter, answer) in [
        ("$SYS/broker/clients/+", "0x00"),
        ("$SYS/broker/uptime", "0x87"),
        ("$SYS/#", "0x87"),
        ("$share/g/$SYS/broker/clients/+", "0x8f"),
    ] {
        client.subscribe(filter, QoS::AtMostOnce);
        let heard = client.heard();
        assert!(heard[0].starts_with(&format!("SUBACK {answer}")), "{filter}: {heard:?}");
    }
    figures.pass(1);
    let seen = values(&mut client);
    assert_eq!(seen.len(), 5, "{seen:?}");
    assert!(seen.keys().all(|topic| topic.starts_with("$SYS/broker/clients/")), "{seen:?}");
    figures.scene.test.may_read_topics("reader", "^a");
    figures.pass(10_000);
    assert_eq!(client.heard(), ["DISCONNECT administrative action"]);
}

#[test]
fn wildcards_and_forgers_do_not_reach_the_topics() {
    let mut figures = Figures::new();
    let mut client = figures.scene.v5("c");
    for filter in ["#", "+/broker/uptime"] {
        client.subscribe(filter, QoS::AtLeastOnce);
    }
    let mut monitor = figures.scene.v5("m");
    monitor.subscribe("$SYS/broker/uptime", QoS::AtMostOnce);
    client.heard();
    monitor.heard();
    figures.pass(1);
    assert_eq!(monitor.heard(), ["PUBLISH retain $SYS/broker/uptime 0 seconds"]);
    // A publisher of another protocol may use the key. No subscriber of MQTT takes it for the
    // broker's word.
    let mut forger = figures.scene.client();
    let session = forger.open_session(1);
    let now = figures.scene.test.now();
    let publish = broker::Publish {
        exchange: "amq.topic",
        routing_key: "$SYS.broker.uptime",
        dialect: TextDialect::ID,
        properties: b"",
        persistent: false,
        priority: None,
        expiration: None,
        body: b"9 seconds"[..].into(),
        confirm: broker::Confirm::None,
        unroutable: broker::Unroutable::Drop,
        copies: false,
        instructed: false,
    };
    forger.publish(session, publish).unwrap();
    forger.end_turn(now);
    assert_eq!((client.heard(), monitor.heard()), (vec![], vec![]));
}

#[test]
fn a_stored_session_keeps_the_filters_and_their_options() {
    let mut figures = Figures::new();
    let (mut client, _) = figures.scene.stored("c", 600);
    let mut block = PropertyBlock::default();
    block.number(PropertyId::SubscriptionId, 7);
    let options = Options { retain_handling: RetainHandling::Never, retain_as_published: true, ..Options::default() };
    client.subscribe_with(&[("$SYS/broker/uptime", options)], block.as_properties());
    assert_eq!(client.heard(), ["SUBACK 0x00"]);
    figures.pass(1);
    assert_eq!(client.heard(), NONE, "it wants nothing that was there before");
    figures.pass(10_000);
    assert_eq!(client.heard(), ["PUBLISH retain $SYS/broker/uptime 10 seconds SubscriptionId=7"]);
    client.drop_connection();
    figures.pass(10_000);
    let (mut client, was_there) = figures.scene.stored("c", 600);
    figures.pass(1000);
    assert!(was_there);
    assert_eq!(client.heard(), ["PUBLISH retain $SYS/broker/uptime 21 seconds SubscriptionId=7"]);
}

#[test]
fn a_session_has_a_bounded_number_of_these_filters() {
    let figures = Figures::new();
    let mut client = figures.scene.v5("c");
    for number in 0..crate::limits::SYS_FILTERS {
        client.subscribe(&format!("$SYS/{number}"), QoS::AtMostOnce);
        assert_eq!(client.heard(), ["SUBACK 0x00"]);
    }
    client.subscribe("$SYS/more", QoS::AtMostOnce);
    assert!(client.heard()[0].starts_with("SUBACK 0x97"));
    client.unsubscribe("$SYS/0");
    client.subscribe("$SYS/more", QoS::AtMostOnce);
    assert_eq!(client.heard(), ["UNSUBACK 0x00", "SUBACK 0x00"]);
}
