//! The share of the broker's limits that one vhost and one user may use, and the part for
//! administrators.

use auth::{Tags, User};
use broker::{Counter, DeleteIf, ExchangeSpec, Limits, VhostLimits, VhostSpec};
use testkit::broker::{Setup, TestBroker};
use testkit::peer::Peer;

use crate::{binding, durable};

/// A broker with two vhosts, and users `alice`, `bob` and `boss`, an administrator.
fn shared(limits: Limits) -> TestBroker {
    let mut setup = Setup::memory();
    setup.settings.limits = limits;
    let broker = TestBroker::open(setup);
    broker.broker.put_vhost("v", &VhostSpec::default()).unwrap();
    for name in ["alice", "bob", "boss"] {
        broker.user(name, ".*", ".*", ".*");
        let change = |user: &mut User| {
            user.permissions.insert("v".into(), auth::Permission::full());
            user.tags = Tags::new((name == "boss").then_some("administrator"));
            Ok(())
        };
        broker.broker.change_user(name, change).unwrap();
    }
    broker
}

fn refusal(peer: Result<Peer, broker::Error>) -> Option<String> {
    peer.err().map(|error| error.text)
}

#[test]
fn one_user_leaves_connections_to_others() {
    let limits = Limits { connections: 8, reserved_connections: 2, vhost_share: 100, ..Limits::default() };
    let broker = shared(limits);
    let mut open: Vec<_> = (0..4).map(|_| Peer::attach(&broker, "alice").unwrap()).collect();
    let refused = "connection refused for user 'alice': it has its share of all connections (4); give it a limit of its own, or \
                   raise limits.user_share";
    assert_eq!(refusal(Peer::attach(&broker, "alice")).as_deref(), Some(refused));
    open.push(Peer::attach(&broker, "bob").unwrap());
    let more = |user: &mut User| {
        user.limits.connections = Some(5);
        Ok(())
    };
    broker.broker.change_user("alice", more).unwrap();
    open.push(Peer::attach(&broker, "alice").unwrap());
    let refused =
        "connection refused: the last 2 of 8 connections are kept for administrators (limits.reserved_connections)";
    assert_eq!(refusal(Peer::attach(&broker, "bob")).as_deref(), Some(refused));
    open.extend((0..2).map(|_| Peer::attach(&broker, "boss").unwrap()));
    let refused = "connection refused: node connection limit (8) is reached";
    assert_eq!(refusal(Peer::attach(&broker, "boss")).as_deref(), Some(refused));
    assert_eq!(broker.broker.overview().totals.churn.connections_refused.each_ref().map(Counter::get), [2, 0, 1]);
}

#[test]
fn a_user_beside_whom_there_are_only_administrators_has_all_connections() {
    let limits = Limits { connections: 8, reserved_connections: 2, vhost_share: 100, ..Limits::default() };
    let broker = shared(limits);
    let mut open: Vec<_> = (0..4).map(|_| Peer::attach(&broker, "alice").unwrap()).collect();
    assert!(refusal(Peer::attach(&broker, "alice")).unwrap().contains("it has its share of all connections (4)"));
    // A user without a connection needs its share, too; a deleted one needs none.
    broker.broker.delete_user("bob").unwrap();
    assert!(broker.broker.authority().remove("guest"), "the user of the test kit, which is not logged");
    open.extend((0..2).map(|_| Peer::attach(&broker, "alice").unwrap()));
    assert!(refusal(Peer::attach(&broker, "alice")).unwrap().contains("are kept for administrators"));
}

#[test]
fn one_vhost_leaves_connections_to_others_where_there_are_others() {
    let limits =
        Limits { connections: 8, reserved_connections: 0, vhost_share: 25, user_share: 100, ..Limits::default() };
    let broker = shared(limits);
    let mut open: Vec<_> = ["alice", "bob"].map(|user| Peer::attach(&broker, user).unwrap()).into();
    let refused = "access to vhost '/' refused for user 'alice': the vhost has its share of all connections (2); give it a limit \
                   of its own, or raise limits.vhost_share";
    assert_eq!(refusal(Peer::attach(&broker, "alice")).as_deref(), Some(refused));
    open.push(Peer::attach_to(&broker, "alice", "v").unwrap());
    open.push(Peer::attach(&broker, "boss").unwrap());
    broker.broker.limit_vhost("/", VhostLimits { connections: Some(4), queues: None }).unwrap();
    open.push(Peer::attach(&broker, "alice").unwrap());
    assert!(refusal(Peer::attach(&broker, "boss")).unwrap().ends_with("connection limit (4) is reached"));
    broker.broker.limit_vhost("/", VhostLimits::default()).unwrap();
    broker.broker.delete_vhost("v").unwrap();
    Peer::attach(&broker, "alice").unwrap();
}

#[test]
fn one_vhost_leaves_queues_exchanges_and_bindings_to_others() {
    let limits = Limits { queues: 8, exchanges: 8, bindings: 8, vhost_share: 25, ..Limits::default() };
    let broker = shared(limits);
    let mut here = Peer::attach(&broker, "alice").unwrap();
    let mut there = Peer::attach_to(&broker, "alice", "v").unwrap();
    let now = broker.now();
    let exchange = |name: &str| ExchangeSpec { name: name.into(), kind: "direct".into(), ..ExchangeSpec::default() };
    for peer in [&mut here, &mut there] {
        for name in ["1", "2"] {
            peer.client.declare_queue(&durable(name), now).unwrap();
            peer.client.declare_exchange(&exchange(name), now).unwrap();
            peer.client.bind(&binding("amq.direct", name, "1"), now).unwrap();
        }
    }
    let refused = |what: &str, of: &str| {
        format!(
            "cannot declare {what}: vhost '/' has its share of all {of} (2); delete some, or raise limits.vhost_share"
        )
    };
    let client = &mut here.client;
    assert_eq!(client.declare_queue(&durable("3"), now).unwrap_err().text, refused("queue '3'", "queues"));
    assert_eq!(client.declare_exchange(&exchange("3"), now).unwrap_err().text, refused("exchange '3'", "exchanges"));
    let third = binding("amq.direct", "3", "1");
    let refused = refused("binding from exchange 'amq.direct'", "bindings");
    assert_eq!(client.bind(&third, now).unwrap_err().text, refused);
    // An existing queue or binding does not count again.
    client.declare_queue(&durable("2"), now).unwrap();
    client.bind(&binding("amq.direct", "2", "1"), now).unwrap();
    client.unbind(&binding("amq.direct", "2", "1"), now).unwrap();
    client.bind(&third, now).unwrap();
    client.delete_queue("1", DeleteIf::ALWAYS, now).unwrap();
    client.bind(&binding("amq.direct", "4", "2"), now).unwrap();
    client.delete_exchange("1", DeleteIf::ALWAYS, now).unwrap();
    client.declare_exchange(&exchange("3"), now).unwrap();
    // A vhost's own limit counts, and a lone user has everything.
    broker.broker.limit_vhost("/", VhostLimits { queues: Some(3), connections: None }).unwrap();
    client.declare_queue(&durable("3"), now).unwrap();
    client.declare_queue(&durable("4"), now).unwrap();
    let text = client.declare_queue(&durable("5"), now).unwrap_err().text;
    assert_eq!(text, "cannot declare queue '5': queue limit in vhost '/' (3) is reached");
    broker.broker.delete_vhost("v").unwrap();
    for key in 5..9 {
        client.bind(&binding("amq.direct", &key.to_string(), "2"), now).unwrap();
    }
}
