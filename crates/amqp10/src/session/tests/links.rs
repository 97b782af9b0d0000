//! Links: what is attached, what is refused and how, and what goes with them.

use broker::Rest;

use super::scene::{Scene, capabilities, detach, from, to_peer, to_server};
use crate::codec::performative::{Attach, Detach, Flow, ReceiverSettleMode, SenderSettleMode};
use crate::codec::terminus::{Coordinator, Durability};
use crate::codec::value::Budget;
use crate::codec::{AttachTarget, Source, Symbol, Target, Value, ValueRef, read_value};

#[test]
fn a_plain_name_is_a_queue_that_is_made_and_addresses_are_echoed() {
    let scene = Scene::new();
    let mut peer = scene.session();
    for (handle, address) in [(0, "a queue"), (1, "/queue/b"), (2, "/queues/a%20queue"), (3, "/exchanges/amq.direct/k")]
    {
        peer.attach_to(handle, Some(address));
        let expected =
            [format!("attach {handle} Receiver - > {address}"), format!("flow {handle} count=0 credit=8000")];
        assert_eq!(peer.heard(), expected);
    }
    let mut client = scene.client();
    for queue in ["a queue", "b"] {
        assert!(client.check_queue(queue, scene.test.now()).is_ok(), "{queue}");
    }
}

#[test]
fn a_refused_link_is_attached_without_a_terminus_and_detached() {
    let scene = Scene::new();
    for (address, condition) in [
        ("/queues/none", "amqp:not-found"),
        ("/exchanges/none/k", "amqp:not-found"),
        ("/exchanges/amq.default/k", "amqp:not-allowed"),
        ("/nonsense", "amqp:invalid-field"),
    ] {
        let mut peer = scene.session();
        peer.attach_to(0, Some(address));
        peer.expect(&["attach 0 Receiver - > null", &format!("detach 0 closed {condition}")]);
        // What crosses the refusal is ignored up to the peer's own detach.
        peer.message(0, 0, "lost");
        peer.send(0, &detach(0));
        peer.expect(&[]);
        peer.attach_to(0, Some("q"));
        assert_eq!(peer.heard().len(), 2);
    }
    for (address, condition) in [("/queues/none", "amqp:not-found"), ("/nonsense", "amqp:invalid-field")] {
        let mut peer = scene.session();
        peer.attach_from(0, address);
        peer.credit(0, 0, 10, Rest::Kept);
        peer.expect(&["attach 0 Sender null > -", &format!("detach 0 closed {condition}")]);
    }
}

#[test]
fn what_is_not_built_is_refused_by_name() {
    let scene = Scene::new();
    let coordinator =
        AttachTarget::Coordinator(Coordinator { capabilities: capabilities(&["amqp:distributed-transactions"]) });
    let durable = Source { durable: Durability::UnsettledState, ..from("q") };
    let dynamic = Source { dynamic: true, address: None, ..durable };
    for attach in [
        Attach { target: Some(coordinator), ..to_server("txn") },
        Attach { source: Some(durable), ..to_peer("sub") },
        Attach { source: Some(dynamic), ..to_peer("dynamic") },
    ] {
        let mut peer = scene.session();
        peer.attach(attach);
        assert_eq!(peer.heard()[1], "detach 0 closed amqp:not-implemented", "{attach:?}");
    }
}

#[test]
fn settle_modes_are_echoed_and_only_known_filters_are() {
    let scene = Scene::new();
    let mut peer = scene.session();
    let selector = |text: &str| {
        let descriptor = Value::Symbol("apache.org:selector-filter:string".to_owned());
        Value::Described(Box::new((descriptor, Value::Str(text.to_owned()))))
    };
    let filters = |text: &str| {
        Value::Map(vec![
            (Value::Symbol("jms-selector".to_owned()), selector(text)),
            (Value::Symbol("other".to_owned()), Value::Described(Box::new((Value::U64(1), Value::Null)))),
        ])
        .to_bytes()
    };
    let map = |bytes: &'static [u8]| match read_value(&mut wire::Reader::new(bytes), &mut Budget::default()) {
        Ok(ValueRef::Map(map)) => map,
        other => panic!("{other:?}"),
    };
    let (good, bad) = (filters("a = 1").leak(), filters("a = = 1").leak());
    peer.attach(Attach { handle: 0, source: Some(Source { filter: Some(map(good)), ..from("q") }), ..to_peer("one") });
    peer.expect(&["attach 0 Sender q > - filters=1"]);
    peer.attach(Attach { handle: 1, source: Some(Source { filter: Some(map(bad)), ..from("q") }), ..to_peer("two") });
    peer.expect(&["attach 1 Sender null > -", "detach 1 closed amqp:invalid-field"]);
    for (handle, snd, rcv, shown) in [
        (2, SenderSettleMode::Settled, ReceiverSettleMode::First, " settled"),
        (3, SenderSettleMode::Unsettled, ReceiverSettleMode::Second, " unsettled"),
    ] {
        let name = format!("mode {handle}");
        peer.attach(Attach {
            handle,
            snd_settle_mode: snd,
            rcv_settle_mode: rcv,
            source: Some(from("q")),
            ..to_peer(&name)
        });
        assert_eq!(peer.heard(), [format!("attach {handle} Sender q > -{shown}")]);
    }
    let other = Source { distribution_mode: Some(Symbol("other")), ..from("q") };
    peer.attach(Attach { handle: 4, source: Some(other), ..to_peer("mode") });
    assert_eq!(peer.heard()[1], "detach 4 closed amqp:invalid-field");
}

#[test]
fn a_dynamic_node_goes_with_its_link() {
    let scene = Scene::new();
    let mut peer = scene.session();
    peer.attach(Attach { source: Some(Source { dynamic: true, ..Source::default() }), ..to_peer("dyn") });
    let heard = peer.heard();
    let address = heard[0].strip_prefix("attach 0 Sender ").and_then(|rest| rest.strip_suffix(" > -")).unwrap();
    assert!(address.starts_with("/queues/amq.gen-"), "{address}");
    let mut other = scene.session();
    other.attach_to(0, Some(address));
    assert_eq!(other.heard().len(), 2);
    peer.send(0, &detach(0));
    peer.expect(&["detach 0 closed"]);
    other.attach_to(1, Some(address));
    assert_eq!(other.heard()[1], "detach 1 closed amqp:not-found");
    // Of a target, too, and with the session.
    peer.attach(Attach {
        target: Some(AttachTarget::Target(Target { dynamic: true, ..Target::default() })),
        ..to_server("creator")
    });
    assert!(peer.heard()[0].starts_with("attach 0 Receiver - > /queues/amq.gen-"));
    let queues = || scene.test.broker.overview().objects.queues;
    let before = queues();
    peer.send(0, &super::scene::end());
    peer.expect(&["end 0"]);
    assert_eq!(queues(), before - 1);
}

#[test]
fn rights_are_asked_for() {
    let scene = Scene::new();
    let mut client = scene.client();
    let spec = broker::QueueSpec { name: "q".into(), durable: true, ..broker::QueueSpec::default() };
    client.declare_queue(&spec, scene.test.now()).unwrap();
    let mut peer = scene.connect_as("reader");
    peer.begin(0, 10);
    peer.heard();
    peer.attach_to(0, Some("new"));
    assert_eq!(peer.heard()[1], "detach 0 closed amqp:unauthorized-access");
    peer.attach_to(1, Some("/exchanges/amq.topic/k"));
    assert_eq!(peer.heard()[1], "detach 1 closed amqp:unauthorized-access");
    peer.attach_from(2, "q");
    assert_eq!(peer.heard(), ["attach 2 Sender q > -"]);
    // A message to a queue that is there is refused by itself.
    peer.attach_to(3, Some("/queues/q"));
    assert_eq!(peer.heard().len(), 2);
    peer.message(3, 0, "no");
    peer.expect(&["disposition Receiver 0..0 settled rejected amqp:unauthorized-access"]);
}

#[test]
fn a_queue_that_is_deleted_detaches_its_consumers() {
    let scene = Scene::new();
    let mut peer = scene.session();
    peer.attach_from(0, "q");
    peer.expect(&["attach 0 Sender q > -"]);
    scene.client().delete_queue("q", broker::DeleteIf::ALWAYS, scene.test.now()).unwrap();
    peer.expect(&["detach 0 closed amqp:resource-deleted"]);
    peer.send(0, &Detach { handle: 0, closed: true, error: None });
    peer.expect(&[]);
}

#[test]
fn handles_are_those_of_the_session() {
    let scene = Scene::new();
    for (act, expected) in [
        (&|peer: &mut super::scene::Peer| peer.message(5, 0, "x") as (), "end 0 amqp:session:unattached-handle"),
        (&|peer: &mut super::scene::Peer| peer.credit(5, 0, 1, Rest::Kept), "end 0 amqp:session:unattached-handle"),
        (&|peer: &mut super::scene::Peer| peer.send(0, &detach(5)), "end 0 amqp:session:unattached-handle"),
        (&|peer: &mut super::scene::Peer| peer.attach_from(0, "q"), "end 0 amqp:session:handle-in-use"),
        (&|peer: &mut super::scene::Peer| peer.message(0, 0, "x"), "end 0 amqp:not-allowed"),
    ] as [(&dyn Fn(&mut super::scene::Peer), &str); 5]
    {
        let mut peer = scene.session();
        peer.attach_from(0, "q");
        peer.heard();
        act(&mut peer);
        peer.expect(&[expected]);
        // The connection goes on.
        peer.flow(Flow::default());
        peer.send(0, &super::scene::end());
        peer.begin(0, 10);
        peer.expect(&["begin 0 remote=0 window=16384"]);
    }
}

#[test]
fn a_link_that_publishes_is_charged_to_its_connection_until_it_ends() {
    let scene = Scene::new();
    let mut peer = scene.session();
    let kept = || scene.test.broker.overview().memory.clients;
    let before = kept();
    peer.attach_to(0, Some("q"));
    peer.heard();
    assert!(kept() > before);
    peer.send(0, &detach(0));
    peer.heard();
    assert_eq!(kept(), before);
    for handle in [1, 2] {
        peer.attach_to(handle, None);
    }
    peer.heard();
    peer.send(0, &super::scene::end());
    peer.heard();
    assert!(kept() < before, "the session has gone, too");
}
