//! Declarations that come together: all of them or none, for everybody who looks and after a cut.

use std::collections::BTreeSet;
use std::task::Waker;

use auth::Identity;
use broker::{
    ApplyTo, BindingSpec, Client, Declaration, DestinationName, Error, ErrorKind, ExchangeSpec, Limits, PolicyKind,
    PolicySpec, QueueSpec, Sharing, SubscriptionName, SubscriptionSpec,
};
use testkit::broker::{Setup, TestBroker, table_of};
use testkit::script::Script;
use testkit::sim_disk::{Fault, SimDisk};

fn operator(broker: &TestBroker) -> Client {
    broker.broker.attach_unlisted(Identity::operator("operator"), "/", "a test", Waker::noop().clone()).unwrap()
}

fn declare(broker: &TestBroker, declarations: &[Declaration]) -> Result<(), Error> {
    operator(broker).declare_all(declarations, broker.now()).map(drop)
}

fn queue(name: &str) -> Declaration {
    Declaration::Queue(QueueSpec { name: name.to_owned(), durable: true, ..QueueSpec::default() })
}

fn exchange(name: &str, kind: &str) -> Declaration {
    let (name, kind) = (name.to_owned(), kind.to_owned());
    Declaration::Exchange(ExchangeSpec { name, kind, durable: true, ..ExchangeSpec::default() })
}

fn binding(source: &str, key: &str, destination: DestinationName) -> Declaration {
    let (source, key) = (source.to_owned(), key.to_owned());
    Declaration::Binding(BindingSpec { source, destination, key, arguments: table_of("") })
}

fn to_queue(name: &str) -> DestinationName {
    DestinationName::Queue(name.to_owned())
}

fn policy(name: &str, ttl: i64) -> Declaration {
    let definition = table_of(&format!("message-ttl={ttl}"));
    let spec = PolicySpec { pattern: "^e".to_owned(), apply_to: ApplyTo::Queues, priority: 1, definition };
    Declaration::Policy { kind: PolicyKind::User, name: name.to_owned(), spec }
}

/// Everything of an import, each thing once or twice.
fn all() -> Vec<Declaration> {
    let subscription = SubscriptionSpec {
        name: SubscriptionName { client: Some("me".to_owned()), name: "news".to_owned() },
        sharing: Sharing::Exclusive,
        queue: QueueSpec { name: "s".to_owned(), durable: true, ..QueueSpec::default() },
        ..SubscriptionSpec::default()
    };
    vec![
        policy("p", 5),
        policy("p", 1000),
        exchange("x", "topic"),
        exchange("y", "direct"),
        queue("q"),
        queue("e"),
        Declaration::Subscription(subscription),
        binding("x", "a.*", to_queue("q")),
        binding("x", "a.*", to_queue("q")),
        binding("y", "k", DestinationName::Exchange("x".to_owned())),
        binding("amq.topic", "#", to_queue("s")),
        binding("x", "#", to_queue("e")),
    ]
}

const FOUND: &[(&str, &str)] = &[
    ("p confirm; publish x a.b 1 confirm=1; publish y k 2 confirm=2 mandatory; publish amq.topic t 3 confirm=3", "+3"),
    ("* counts q", "1 0"),
    ("* counts e", "2 0"),
    ("* counts s", "1 0"),
    ("* subscriptions", "s: 'news' of client 'me' Exclusive"),
    ("* tick 1500", ""),
    ("* counts e", "0 0"),
    ("* counts q", "1 0"),
];

#[test]
fn all_kinds_come_at_once_and_lead_to_each_other() {
    let mut script = Script::memory();
    declare(script.broker(), &all()).unwrap();
    assert_eq!(script.broker().broker.overview().objects.bindings, 4);
    script.check(FOUND);
    // The same is there already.
    declare(script.broker(), &all()).unwrap();
    assert_eq!(script.broker().broker.overview().objects.bindings, 4);
}

#[test]
fn a_restart_finds_all_of_it() {
    let disk = SimDisk::new(3, 64 << 20);
    let mut script = Script::stepped(&disk, 4 << 20);
    declare(script.broker(), &all()).unwrap();
    script.say("* flush");
    script.say("* cut");
    script.check(FOUND);
}

/// Each of these comes behind things that could be made, and that are not there then: neither in
/// tables nor in counts nor in the log.
#[test]
fn a_refusal_leaves_nothing() {
    let disk = SimDisk::new(5, 64 << 20);
    let mut setup = Setup::stepped(&disk, 4 << 20);
    setup.settings.limits = Limits { queues: 6, exchanges: 3, bindings: 5, ..setup.settings.limits };
    let mut script = Script::open(setup, Some(disk.clone()));
    script.say("a queue there durable");
    let typed = Declaration::Queue(QueueSpec { name: "there".to_owned(), ..QueueSpec::default() });
    let cases = [
        (vec![binding("x", "k", to_queue("none"))], "no queue 'none' in vhost '/'"),
        (vec![binding("none", "k", to_queue("q"))], "no exchange 'none' in vhost '/'"),
        (vec![typed], "inequivalent arg 'durable' for queue 'there' in vhost '/'"),
        (vec![queue("q")], "queue 'q' in vhost '/' is declared twice"),
        (vec![exchange("y", "direct")], "exchange 'y' in vhost '/' is declared twice"),
        (vec![exchange("z", "odd")], "unknown exchange type 'odd'"),
        (["1", "2", "3"].map(queue).into(), "limit of 6 queues is reached"),
        (["1", "2", "3"].map(|name| exchange(name, "fanout")).into(), "limit of 3 exchanges is reached"),
        (["1", "2", "3"].map(|key| binding("x", key, to_queue("q"))).into(), "limit of 5 bindings is reached"),
    ];
    let state = |script: &Script| {
        let overview = script.broker().broker.overview();
        let objects = [overview.objects.queues, overview.objects.exchanges, overview.objects.bindings];
        (objects, overview.memory.declared, overview.memory.logged, overview.journal.written_bytes)
    };
    script.say("* flush");
    let before = state(&script);
    for (more, expected) in cases {
        let error = declare(script.broker(), &[all(), more].concat()).unwrap_err();
        assert!(error.text.contains(expected), "{expected}: {error:?}");
        script.say("* flush");
        assert_eq!(state(&script), before, "{expected}");
    }
    declare(script.broker(), &all()).unwrap();
    assert_eq!(state(&script).0, [4, before.0[1] + 2, 4]);
    let peer = &mut testkit::peer::Peer::attach(script.broker(), "guest").unwrap();
    let refused = peer.client.declare_all(&all(), script.broker().now()).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::AccessRefused);
}

/// Cuts the power at each operation of the disk while a group of several batches is written.
#[test]
fn a_cut_leaves_all_of_it_or_nothing() {
    let mut many = vec![exchange("x", "topic")];
    for number in 0..300 {
        let name = format!("q{number}");
        many.push(queue(&name));
        many.push(binding("x", &"w.".repeat(number), to_queue(&name)));
    }
    let mut left = BTreeSet::new();
    for seed in 0..60 {
        let disk = SimDisk::new(seed, 64 << 20);
        let mut script = Script::open(Setup::stepped(&disk, 4 << 20), Some(disk.clone()));
        script.say("* hold");
        declare(script.broker(), &many).unwrap();
        disk.fault(seed % 6, Fault::Crash);
        script.broker().try_flush();
        script.say("* cut");
        let objects = script.broker().broker.overview().objects;
        left.insert((objects.queues, objects.bindings));
        script.check(&[("a exchange x topic durable; queue q0 durable; bind x k q0", "0 0")]);
    }
    assert_eq!(left, BTreeSet::from([(0, 0), (300, 300)]));
}
