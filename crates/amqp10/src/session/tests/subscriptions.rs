//! Subscriptions to topics: durable ones, shared ones, their end, and temporary topics.

use broker::Rest;

use super::scene::{ACCEPTED, Peer, Scene, capabilities, detach, from, to_peer, to_server};
use crate::codec::performative::{Attach, Detach};
use crate::codec::state::Modified;
use crate::codec::terminus::{Durability, ExpiryPolicy};
use crate::codec::value::Budget;
use crate::codec::{AttachTarget, Map, Outcome, Source, Symbol, Symbols, Target, Value, ValueRef, read_value};

const TOPIC: &[&str] = &["topic"];
const SHARED: &[&str] = &["topic", "shared"];
const GLOBAL: &[&str] = &["topic", "shared", "global"];

/// A durable subscription to a topic, as Qpid JMS writes it.
fn durable(topic: &str) -> Source<'_> {
    Source {
        durable: Durability::UnsettledState,
        expiry_policy: ExpiryPolicy::Never,
        distribution_mode: Some(Symbol("copy")),
        capabilities: capabilities(TOPIC),
        ..from(topic)
    }
}

fn filters(selector: &str) -> Map<'static> {
    let descriptor = Value::Symbol("apache.org:selector-filter:string".to_owned());
    let filter = Value::Described(Box::new((descriptor, Value::Str(selector.to_owned()))));
    let bytes = Value::Map(vec![(Value::Symbol("jms-selector".to_owned()), filter)]).to_bytes().leak();
    match read_value(&mut wire::Reader::new(bytes), &mut Budget::default()) {
        Ok(ValueRef::Map(map)) => map,
        other => panic!("{other:?}"),
    }
}

/// A link of this name and source, and what is heard.
fn subscribe(peer: &mut Peer, handle: u32, name: &str, source: Source<'_>) -> Vec<String> {
    peer.attach(Attach { handle, source: Some(source), ..to_peer(name) });
    peer.heard()
}

/// A link without a source, as `unsubscribe` of Qpid JMS begins.
fn seek(peer: &mut Peer, name: &str, desired: &'static [&'static str]) -> Vec<String> {
    peer.attach(Attach { source: None, desired_capabilities: Symbols::of(desired), ..to_peer(name) });
    peer.heard()
}

/// Suspends a link.
fn suspend(peer: &mut Peer, handle: u32) -> Vec<String> {
    peer.send(0, &Detach { handle, closed: false, error: None });
    peer.heard()
}

/// Closes a link.
fn close(peer: &mut Peer, handle: u32) -> Vec<String> {
    peer.send(0, &detach(handle));
    peer.heard()
}

/// Publishes to a topic on a connection of its own.
fn publish(scene: &Scene, topic: &'static str, body: &str) {
    let mut peer = scene.session();
    let target = Target { address: Some(topic), capabilities: capabilities(TOPIC), ..Target::default() };
    peer.attach(Attach { target: Some(AttachTarget::Target(target)), ..to_server("out") });
    peer.heard();
    peer.message(0, 0, body);
    peer.expect(&["disposition Receiver 0..0 settled accepted"]);
}

fn queues(scene: &Scene) -> u64 {
    scene.test.broker.overview().objects.queues
}

#[test]
fn a_durable_subscription_outlives_links_and_connections_until_it_is_closed() {
    let scene = Scene::new();
    for end in ["detach", "end", "connection"] {
        let mut peer = scene.session();
        assert_eq!(subscribe(&mut peer, 0, "sub", durable("news")), ["attach 0 Sender news > -"]);
        match end {
            "detach" => assert_eq!(suspend(&mut peer, 0), ["detach 0"]),
            "end" => {
                peer.send(0, &super::scene::end());
                peer.expect(&["end 0"]);
            }
            _ => {}
        }
        drop(peer);
        assert_eq!(queues(&scene), 1, "{end}");
        publish(&scene, "news", end);
        let mut peer = scene.session();
        subscribe(&mut peer, 0, "sub", durable("news"));
        peer.credit(0, 0, 10, Rest::Kept);
        peer.expect(&[&format!("transfer 0 id=0 {end}")]);
        peer.settle(0, 0, ACCEPTED);
    }
    let mut peer = scene.session();
    subscribe(&mut peer, 0, "sub", durable("news"));
    assert_eq!(close(&mut peer, 0), ["detach 0 closed"]);
    assert_eq!(queues(&scene), 0);
}

#[test]
fn what_comes_of_subscriptions_and_dynamic_nodes_counts_its_failures() {
    let failed =
        Outcome::Modified(Modified { delivery_failed: true, undeliverable_here: false, message_annotations: None });
    let volatile = Source { capabilities: capabilities(TOPIC), ..from("news") };
    let shared = Source { capabilities: capabilities(GLOBAL), ..durable("news") };
    for (name, source) in [("own", durable("news")), ("shared", shared), ("volatile", volatile)] {
        let scene = Scene::new();
        let mut peer = scene.session();
        subscribe(&mut peer, 0, name, source);
        publish(&scene, "news", "m");
        peer.credit(0, 0, 10, Rest::Kept);
        peer.expect(&["transfer 0 id=0 m"]);
        for (id, expected) in [(0, "transfer 0 id=1 m failed=1"), (1, "transfer 0 id=2 m failed=2")] {
            peer.settle(id, id, failed);
            peer.expect(&[expected]);
        }
    }
    let scene = Scene::new();
    let mut peer = scene.session();
    peer.attach(Attach { source: Some(Source { dynamic: true, ..Source::default() }), ..to_peer("node") });
    let node = peer.heard()[0].split(' ').nth(3).unwrap().to_owned();
    peer.attach_to(9, Some(&node));
    peer.message(9, 0, "m");
    peer.heard();
    peer.credit(0, 0, 10, Rest::Kept);
    peer.settle(0, 0, failed);
    peer.settle(1, 1, failed);
    let heard = peer.heard();
    assert_eq!(heard.last().map(String::as_str), Some("transfer 0 id=2 m failed=2"), "{heard:?}");
}

#[test]
fn it_belongs_to_its_container_and_has_one_link_at_a_time() {
    let scene = Scene::new();
    let mut peer = scene.session();
    subscribe(&mut peer, 0, "sub", durable("news"));
    assert_eq!(subscribe(&mut peer, 1, "sub|2", durable("news")), ["attach 1 Sender news > -"]);
    assert_eq!(queues(&scene), 2, "an unshared one has the whole name of its link");
    let mut same = scene.session();
    let refused = ["attach 0 Sender null > -", "detach 0 closed amqp:resource-locked"];
    assert_eq!(subscribe(&mut same, 0, "sub", durable("news")), refused);
    let refused = ["attach 1 Sender null > -", "detach 1 closed amqp:illegal-state"];
    let shared = Source { capabilities: capabilities(SHARED), ..durable("news") };
    assert_eq!(subscribe(&mut same, 1, "sub", shared), refused);
}

#[test]
fn another_topic_or_selector_begins_it_anew_unless_it_is_in_use() {
    let scene = Scene::new();
    let mut peer = scene.session();
    subscribe(&mut peer, 0, "sub", durable("old"));
    let mut other = scene.session();
    let refused = ["attach 0 Sender null > -", "detach 0 closed amqp:illegal-state"];
    assert_eq!(subscribe(&mut other, 0, "sub", durable("new")), refused);
    suspend(&mut peer, 0);
    publish(&scene, "old", "for the old one");
    subscribe(&mut peer, 0, "sub", durable("new"));
    publish(&scene, "old", "of no interest");
    publish(&scene, "new", "news");
    peer.credit(0, 0, 10, Rest::Kept);
    peer.expect(&["transfer 0 id=0 news"]);
    peer.settle(0, 0, ACCEPTED);
    suspend(&mut peer, 0);
    publish(&scene, "new", "without a number");
    let selecting = Source { filter: Some(filters("n = 1")), ..durable("new") };
    assert_eq!(subscribe(&mut peer, 0, "sub", selecting), ["attach 0 Sender new > - filters=1"]);
    peer.credit(0, 0, 10, Rest::Kept);
    peer.expect(&[]);
    assert_eq!(queues(&scene), 1);
    let bad = Source { filter: Some(filters("n = = 1")), ..durable("new") };
    let refused = ["attach 1 Sender null > -", "detach 1 closed amqp:invalid-field"];
    assert_eq!(subscribe(&mut peer, 1, "other", bad), refused);
}

#[test]
fn the_links_of_a_shared_subscription_share_its_messages() {
    let scene = Scene::new();
    for (names, capabilities, durability) in [
        (["s", "s|2"], SHARED, Durability::UnsettledState),
        (["s|global", "s|global2"], GLOBAL, Durability::UnsettledState),
        (["s|volatile1", "s|volatile2"], SHARED, Durability::None),
        (["s|global-volatile1", "s|global-volatile2"], GLOBAL, Durability::None),
    ] {
        let expiry_policy = if durability == Durability::None { ExpiryPolicy::LinkDetach } else { ExpiryPolicy::Never };
        let source =
            Source { durable: durability, expiry_policy, capabilities: Symbols::of(capabilities), ..from("news") };
        let mut peers = [scene.session(), scene.session()];
        for (peer, name) in peers.iter_mut().zip(names) {
            assert_eq!(subscribe(peer, 0, name, source), ["attach 0 Sender news > -"], "{name}");
            peer.credit(0, 0, 1, Rest::Kept);
        }
        publish(&scene, "news", "one");
        publish(&scene, "news", "two");
        let mut heard: Vec<String> = peers.iter_mut().flat_map(Peer::heard).collect();
        heard.sort();
        assert_eq!(heard, ["transfer 0 id=0 one", "transfer 0 id=0 two"], "{names:?}");
        for peer in &mut peers {
            peer.settle(0, 0, ACCEPTED);
            suspend(peer, 0);
        }
        let lasts = u64::from(durability != Durability::None);
        assert_eq!(queues(&scene), lasts, "{names:?}");
        if lasts == 1 {
            subscribe(&mut peers[0], 0, names[0], source);
            close(&mut peers[0], 0);
        }
        assert_eq!(queues(&scene), 0, "{names:?}");
    }
}

#[test]
fn a_link_without_a_source_finds_a_subscription_and_ends_it_when_it_is_closed() {
    let scene = Scene::new();
    let mut peer = scene.session();
    let refused = ["attach 0 Sender null > -", "detach 0 closed amqp:not-found"];
    for (link, capabilities, sought, desired) in [
        ("sub", TOPIC, "sub", &[][..]),
        ("s|2", SHARED, "s", &[]),
        ("s|global2", GLOBAL, "s|global", &["shared", "global"]),
    ] {
        assert_eq!(seek(&mut peer, sought, desired), refused, "{link}");
        peer.send(0, &detach(0));
        let source = Source { capabilities: Symbols::of(capabilities), ..durable("a.b") };
        let source = Source { filter: Some(filters("n = 1")), ..source };
        let mut subscriber = scene.session();
        subscribe(&mut subscriber, 0, link, source);
        assert_eq!(seek(&mut peer, sought, desired), ["attach 0 Sender /topic/a.b > - filters=1"], "{link}");
        peer.credit(0, 0, 1, Rest::Drained);
        assert_eq!(close(&mut peer, 0), ["detach 0 closed amqp:illegal-state"], "{link} is in use");
        suspend(&mut subscriber, 0);
        seek(&mut peer, sought, desired);
        assert_eq!((suspend(&mut peer, 0), queues(&scene)), (vec!["detach 0".to_owned()], 1), "{link}");
        seek(&mut peer, sought, desired);
        assert_eq!((close(&mut peer, 0), queues(&scene)), (vec!["detach 0 closed".to_owned()], 0), "{link}");
    }
    assert_eq!(seek(&mut peer, "sub", &[]), refused);
}

#[test]
fn a_durable_subscription_survives_a_restart_and_a_volatile_one_does_not() {
    let scene = Scene::stepped();
    let mut peer = scene.session();
    let shared = Source { capabilities: capabilities(SHARED), ..from("news") };
    for (handle, name, source) in [(0, "sub", durable("news")), (1, "s|volatile1", shared)] {
        peer.attach(Attach { handle, source: Some(source), ..to_peer(name) });
    }
    scene.test.flush();
    assert_eq!(peer.heard(), ["attach 0 Sender news > -", "attach 1 Sender news > -"]);
    drop(peer);
    let scene = scene.restarted();
    assert_eq!(queues(&scene), 1);
    let mut peer = scene.session();
    subscribe(&mut peer, 0, "sub", durable("news"));
    assert_eq!(queues(&scene), 1, "it is the same one");
}

#[test]
fn a_temporary_topic_is_a_dynamic_node_of_a_source_or_a_target() {
    let scene = Scene::new();
    let mut peer = scene.session();
    let temporary = capabilities(&["temporary-topic"]);
    let node = Target { dynamic: true, capabilities: temporary, ..Target::default() };
    peer.attach(Attach { target: Some(AttachTarget::Target(node)), ..to_server("creator") });
    let heard = peer.heard();
    let address = heard[0].strip_prefix("attach 0 Receiver - > ").unwrap();
    assert!(address.starts_with("/topic/temporary-topic."), "{address}");
    assert_eq!(queues(&scene), 0);
    let source = Source { capabilities: temporary, ..from(address) };
    for handle in [1, 2] {
        peer.attach(Attach { handle, source: Some(source), ..to_peer(&format!("in {handle}")) });
        peer.credit(handle, 0, 10, Rest::Kept);
    }
    peer.heard();
    let mut other = scene.session();
    other.attach_to(0, Some(address));
    other.message(0, 0, "reply");
    assert_eq!(other.heard().last().unwrap(), "disposition Receiver 0..0 settled accepted");
    let mut heard = peer.heard();
    heard.sort();
    assert_eq!(heard.len(), 2);
    assert!(heard[0].starts_with("transfer 1 id=") && heard[1].starts_with("transfer 2 id="), "{heard:?}");
    // A receiver may make one, too.
    let node = Source { dynamic: true, capabilities: temporary, ..Source::default() };
    let heard = subscribe(&mut other, 1, "dynamic", node);
    assert!(heard[0].starts_with("attach 1 Sender /topic/temporary-topic."), "{heard:?}");
    assert_eq!(queues(&scene), 3);
    close(&mut other, 1);
    assert_eq!(queues(&scene), 2);
}

/// What it has already stays.
#[test]
fn a_durable_subscription_gets_nothing_that_its_user_may_not_read_any_more() {
    let scene = Scene::new();
    let mut peer = scene.session();
    for (handle, topic) in [(0, "one"), (1, "two")] {
        subscribe(&mut peer, handle, topic, durable(topic));
        suspend(&mut peer, handle);
    }
    let ready = || {
        let queues = scene.test.broker.queues();
        let mut ready: Vec<_> = queues.iter().map(|queue| (queue.name.to_string(), queue.ready)).collect();
        ready.sort_unstable();
        ready.into_iter().map(|(_, ready)| ready).collect::<Vec<_>>()
    };
    ["one", "two"].into_iter().for_each(|topic| publish(&scene, topic, "1"));
    assert_eq!(ready(), [1, 1]);
    scene.test.may_read_topics("guest", "^two$");
    ["one", "two"].into_iter().for_each(|topic| publish(&scene, topic, "2"));
    assert_eq!(ready(), [1, 2]);
}
