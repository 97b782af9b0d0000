//! Changes by operators while the broker runs: their effect on open connections, and that they
//! outlive a crash.

use auth::{Cost, Identity, PasswordHash, Permission, TopicPermission, User, UserLimits};
use broker::{ErrorKind, Publish, QueueSpec, Switch, Table, Value, VhostLimits, VhostSpec};
use testkit::broker::{Setup, TestBroker};
use testkit::peer::{Peer, Seen};
use testkit::sim_disk::SimDisk;

use crate::{binding, durable, message};

const RING: u64 = 8 << 20;

fn open(disk: &SimDisk) -> TestBroker {
    TestBroker::open(Setup::stepped(disk, RING))
}

/// Lets `guest` do everything in `vhost`.
fn admit(broker: &TestBroker, vhost: &str) {
    let mut user = broker.broker.authority().user("guest").unwrap();
    user.permissions.insert(vhost.into(), Permission::full());
    broker.broker.authority().put(user).unwrap();
}

fn power_cut(disk: &SimDisk, broker: TestBroker) -> TestBroker {
    disk.power_cut();
    TestBroker::open(broker.abandon())
}

fn names(broker: &TestBroker) -> Vec<String> {
    broker.broker.vhosts().into_iter().map(|vhost| vhost.name).collect()
}

#[test]
fn vhosts_and_what_they_are_outlive_a_power_cut() {
    let disk = SimDisk::new(1, 64 << 20);
    let broker = open(&disk);
    let spec = VhostSpec {
        description: "for tests".to_owned(),
        tags: vec!["a".to_owned(), "b".to_owned()],
        default_queue_type: Some("quorum".to_owned()),
    };
    let limits = VhostLimits { connections: Some(7), queues: None };
    broker.broker.put_vhost("one", &VhostSpec::default()).unwrap();
    broker.broker.put_vhost("two", &VhostSpec::default()).unwrap();
    broker.broker.put_vhost("two", &spec).unwrap();
    broker.broker.limit_vhost("two", limits).unwrap();
    broker.broker.limit_vhost("one", limits).unwrap();
    broker.broker.limit_vhost("one", VhostLimits::default()).unwrap();
    broker.flush();
    broker.broker.put_vhost("three", &VhostSpec::default()).unwrap();
    let broker = power_cut(&disk, broker);
    assert_eq!(names(&broker), ["/", "one", "two"], "what was not flushed is not there");
    let two = broker.broker.vhosts().pop().unwrap();
    assert_eq!((two.spec, two.limits), (spec, limits));
    assert_eq!(broker.broker.vhosts()[1].limits, VhostLimits::default());
    // New numbers differ from those of existing vhosts.
    broker.broker.put_vhost("four", &VhostSpec::default()).unwrap();
    broker.flush();
    assert_eq!(names(&power_cut(&disk, broker)), ["/", "four", "one", "two"]);
}

#[test]
fn a_vhost_that_can_not_be_is_refused() {
    let broker = TestBroker::open(Setup::memory());
    let streams = VhostSpec { default_queue_type: Some("stream".to_owned()), ..VhostSpec::default() };
    for (name, spec) in [("", VhostSpec::default()), (&*"v".repeat(256), VhostSpec::default()), ("s", streams)] {
        let error = broker.broker.put_vhost(name, &spec).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Precondition, "{name}: {error}");
    }
    assert_eq!(broker.broker.delete_vhost("gone").unwrap_err().kind, ErrorKind::NotFound);
    assert_eq!(broker.broker.limit_vhost("gone", VhostLimits::default()).unwrap_err().kind, ErrorKind::NotFound);
    assert_eq!(names(&broker), ["/"]);
}

/// Whatever part of the deletion is on disk, all of the vhost is there or nothing. A new vhost of
/// its name starts empty.
#[test]
fn a_deleted_vhost_takes_everything_with_it() {
    let disk = SimDisk::new(1, 64 << 20);
    let broker = open(&disk);
    broker.broker.put_vhost("v", &VhostSpec::default()).unwrap();
    broker.broker.limit_vhost("v", VhostLimits { queues: Some(9), connections: None }).unwrap();
    broker.broker.add_user(User::new("alice", None)).unwrap();
    let grant = |user: &mut User| {
        user.permissions.insert("v".into(), Permission::full());
        Ok(())
    };
    broker.broker.change_user("alice", grant).unwrap();
    admit(&broker, "v");
    let mut peer = Peer::attach_to(&broker, "guest", "v").unwrap();
    let mut other = Peer::attach(&broker, "guest").unwrap();
    let (session, now) = (peer.session(1), broker.now());
    peer.client.declare_queue(&durable("q"), now).unwrap();
    peer.client.publish(session, message("", "q", b"1")).unwrap();
    peer.client.flush(now);
    broker.flush();
    let before = broker.broker.overview();
    broker.broker.delete_vhost("v").unwrap();
    assert_eq!(peer.drain(&broker), [Seen::Kicked("vhost 'v' is deleted".to_owned())]);
    assert_eq!(other.drain(&broker), []);
    let refused = peer.client.declare_queue(&durable("r"), now).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::AccessRefused, "its rights there are gone too");
    admit(&broker, "v");
    let refused = peer.client.declare_queue(&durable("r"), now).unwrap_err();
    assert_eq!(refused.text, "vhost 'v' is deleted");
    assert_eq!(Peer::attach_to(&broker, "guest", "v").err().unwrap().text, "vhost v not found");
    let after = broker.broker.overview();
    assert_eq!(
        (after.objects.queues, after.objects.exchanges),
        (before.objects.queues - 1, before.objects.exchanges - 5)
    );
    peer.client.close(now);
    broker.flush();
    let broker = power_cut(&disk, broker);
    assert_eq!(names(&broker), ["/"]);
    assert!(broker.broker.queues().is_empty());
    assert!(broker.broker.authority().user("alice").unwrap().permissions.is_empty());
    broker.broker.put_vhost("v", &VhostSpec::default()).unwrap();
    assert!(broker.broker.queues().is_empty());
    assert_eq!(broker.broker.vhosts()[1].limits, VhostLimits::default());
}

#[test]
fn an_operator_may_delete_the_last_vhost() {
    let disk = SimDisk::new(1, 64 << 20);
    let mut setup = Setup::stepped(&disk, RING);
    setup.default_user = Some(("first".to_owned(), "secret".to_owned()));
    let broker = TestBroker::open(setup);
    broker.broker.delete_vhost("/").unwrap();
    broker.flush();
    disk.power_cut();
    let mut setup = broker.abandon();
    setup.default_user = Some(("second".to_owned(), "secret".to_owned()));
    let broker = TestBroker::open(setup);
    assert!(names(&broker).is_empty());
    let users: Vec<_> = broker.broker.authority().users().into_iter().map(|user| user.name).collect();
    assert_eq!(users, ["first".into(), Box::from("guest")]);
}

#[test]
fn limits_of_a_vhost() {
    let broker = TestBroker::open(Setup::memory());
    let limits = VhostLimits { connections: Some(2), queues: Some(1) };
    broker.broker.limit_vhost("/", limits).unwrap();
    let mut peer = Peer::attach(&broker, "guest").unwrap();
    let other = Peer::attach(&broker, "guest").unwrap();
    let refused = Peer::attach(&broker, "guest").err().unwrap();
    assert_eq!(refused.text, "access to vhost '/' refused for user 'guest': connection limit (2) is reached");
    drop(other);
    Peer::attach(&broker, "guest").unwrap();
    let now = broker.now();
    peer.client.declare_queue(&durable("q"), now).unwrap();
    peer.client.declare_queue(&durable("q"), now).unwrap();
    let refused = peer.client.declare_queue(&durable("r"), now).unwrap_err();
    assert_eq!(refused.text, "cannot declare queue 'r': queue limit in vhost '/' (1) is reached");
    broker.broker.limit_vhost("/", VhostLimits::default()).unwrap();
    peer.client.declare_queue(&durable("r"), now).unwrap();
}

#[test]
fn queues_have_the_default_type_of_their_vhost_if_they_can() {
    let broker = TestBroker::open(Setup::memory());
    let quorum = VhostSpec { default_queue_type: Some("quorum".to_owned()), ..VhostSpec::default() };
    broker.broker.put_vhost("/", &quorum).unwrap();
    let mut peer = Peer::attach(&broker, "guest").unwrap();
    let now = broker.now();
    let classic = Table(vec![("x-queue-type".to_owned(), Value::Text("classic".to_owned()))]);
    for (spec, kind) in [
        (durable("plain"), "quorum"),
        (QueueSpec { name: "transient".to_owned(), ..QueueSpec::default() }, "classic"),
        (QueueSpec { exclusive: true, ..durable("exclusive") }, "classic"),
        (QueueSpec { auto_delete: true, ..durable("auto") }, "classic"),
        (QueueSpec { arguments: classic, ..durable("named") }, "classic"),
    ] {
        // Twice: the same declaration must match the queue.
        peer.client.declare_queue(&spec, now).unwrap();
        peer.client.declare_queue(&spec, now).unwrap();
        let report = broker.broker.queues().into_iter().find(|queue| queue.name == spec.name).unwrap();
        assert_eq!(report.declared.kind, kind, "{}", spec.name);
    }
}

/// RabbitMQ writes `classic` for every vhost without a chosen type.
#[test]
fn classic_as_default_type_is_no_choice_and_takes_no_argument_away() {
    let broker = TestBroker::open(Setup::memory());
    let mut peer = Peer::attach(&broker, "guest").unwrap();
    for kind in ["classic", "undefined", "quorum"] {
        let spec = VhostSpec { default_queue_type: Some(kind.to_owned()), ..VhostSpec::default() };
        broker.broker.put_vhost("/", &spec).unwrap();
        let arguments = Table(
            vec![("x-max-priority".to_owned(), 5i64), ("x-delivery-limit".to_owned(), 3)]
                .into_iter()
                .map(|(name, value)| (name, Value::I64(value)))
                .collect(),
        );
        let declared = peer.client.declare_queue(&QueueSpec { arguments, ..durable(kind) }, broker.now());
        let text = "invalid arg 'x-max-priority' for queue 'quorum' in vhost '/' of queue type rabbit_quorum_queue";
        assert_eq!(declared.err().map(|error| error.text).as_deref(), (kind == "quorum").then_some(text));
    }
}

#[test]
fn rights_change_under_open_connections_and_outlive_a_power_cut() {
    let disk = SimDisk::new(1, 64 << 20);
    let broker = open(&disk);
    let quick = Cost { memory_kib: 8, passes: 1, lanes: 1 };
    let mut alice = User::new("alice", Some(PasswordHash::create(b"alice", [1; 16], quick).unwrap()));
    alice.permissions.insert("/".into(), Permission::full());
    broker.broker.add_user(alice.clone()).unwrap();
    assert_eq!(broker.broker.add_user(alice.clone()).unwrap_err().text, "user 'alice' already exists");
    let mut peer = Peer::attach(&broker, "alice").unwrap();
    let (session, now) = (peer.session(1), broker.now());
    peer.client.declare_queue(&durable("q"), now).unwrap();
    peer.client.publish(session, message("", "q", b"1")).unwrap();
    let revoke = |user: &mut User| {
        user.permissions.insert("/".into(), Permission::new("", "", ".*").unwrap());
        Ok(())
    };
    broker.broker.change_user("alice", revoke).unwrap();
    // The client remembers this route.
    let refused = peer.client.publish(session, message("", "q", b"2")).unwrap_err();
    assert_eq!(refused.text, "write access to exchange 'amq.default' in vhost '/' refused for user 'alice'");
    broker.flush();
    let broker = power_cut(&disk, broker);
    let alice = broker.broker.authority().user("alice").unwrap();
    assert_eq!(alice.permissions["/"], Permission::new("", "", ".*").unwrap());
    let mut peer = Peer::attach(&broker, "alice").unwrap();
    let mut guest = Peer::attach(&broker, "guest").unwrap();
    broker.broker.delete_user("alice").unwrap();
    assert_eq!(peer.drain(&broker), [Seen::Kicked("user 'alice' is deleted".to_owned())]);
    assert_eq!(guest.drain(&broker), []);
    assert_eq!(peer.client.declare_queue(&durable("r"), now).unwrap_err().kind, ErrorKind::AccessRefused);
    assert_eq!(broker.broker.delete_user("alice").unwrap_err().kind, ErrorKind::NotFound);
    assert_eq!(broker.broker.change_user("alice", |_| Ok(())).unwrap_err().kind, ErrorKind::NotFound);
    peer.client.close(now);
    guest.client.close(now);
    broker.flush();
    assert_eq!(power_cut(&disk, broker).broker.authority().user("alice"), None);
}

#[test]
fn topic_permissions_bind_topic_exchanges_by_their_keys() {
    let broker = TestBroker::open(Setup::memory());
    broker.user("alice", ".*", ".*", ".*");
    let mut alice = broker.broker.authority().user("alice").unwrap();
    let permission = TopicPermission::new("alice", "/", "^{username}\\.", "^news\\.").unwrap();
    for exchange in ["amq.topic", "amq.direct"] {
        alice.topic_permissions.insert(("/".into(), exchange.into()), permission.clone());
    }
    broker.broker.authority().put(alice).unwrap();
    let mut peer = Peer::attach(&broker, "alice").unwrap();
    let (session, now) = (peer.session(1), broker.now());
    peer.client.declare_queue(&durable("q"), now).unwrap();
    for (exchange, key, allowed) in
        [("amq.topic", "alice.x", true), ("amq.topic", "bob.x", false), ("amq.direct", "bob.x", true), ("", "q", true)]
    {
        let outcome = peer.client.publish(session, message(exchange, key, b"1"));
        assert_eq!(outcome.is_ok(), allowed, "{exchange} {key}");
        if let Err(error) = outcome {
            assert_eq!(
                error.text,
                "write access to topic 'bob.x' in exchange 'amq.topic' in vhost '/' refused for user 'alice'"
            );
        }
    }
    let copied = Publish { properties: b"CC=alice.y,bob.y", copies: true, ..message("amq.topic", "alice.x", b"1") };
    let refused = peer.client.publish(session, copied).unwrap_err();
    assert!(refused.text.contains("topic 'bob.y'"), "{refused}");
    for (key, allowed) in [("news.#", true), ("#", false)] {
        assert_eq!(peer.client.bind(&binding("amq.topic", key, "q"), now).is_ok(), allowed, "{key}");
    }
}

#[test]
fn limits_of_a_user() {
    let broker = TestBroker::open(Setup::memory());
    let limit = |user: &mut User| {
        user.limits = UserLimits { connections: Some(2), sessions: Some(3) };
        Ok(())
    };
    broker.broker.change_user("guest", limit).unwrap();
    let mut peer = Peer::attach(&broker, "guest").unwrap();
    let mut other = Peer::attach(&broker, "guest").unwrap();
    let refused = Peer::attach(&broker, "guest").err().unwrap();
    assert_eq!(refused.text, "connection refused for user 'guest': user connection limit (2) is reached");
    broker.user("bob", "", "", "");
    assert_eq!(Peer::attach(&broker, "bob").unwrap().client.session_limit_reached(), None);
    peer.session(1);
    other.session(1);
    assert_eq!(peer.client.session_limit_reached(), None);
    other.session(2);
    assert_eq!(peer.client.session_limit_reached(), Some(3));
    drop(other);
    assert_eq!(peer.client.session_limit_reached(), None);
    // A client without sessions of its own, and the end of that.
    let mut lone = Peer::attach(&broker, "guest").unwrap();
    lone.client.open_lone_session();
    peer.session(2);
    assert_eq!(peer.client.session_limit_reached(), None);
    drop(lone);
    peer.session(3);
    assert_eq!(peer.client.session_limit_reached(), Some(3));
}

/// The log is recycled many times: definitions are restated at its head, and deleted ones are not.
#[test]
fn definitions_stay_when_the_log_is_recycled() {
    let disk = SimDisk::new(1, 64 << 20);
    let broker = TestBroker::open(Setup::stepped(&disk, 1 << 20));
    broker.broker.put_vhost("kept", &VhostSpec { description: "d".to_owned(), ..VhostSpec::default() }).unwrap();
    broker.broker.limit_vhost("kept", VhostLimits { connections: Some(3), queues: None }).unwrap();
    broker.broker.put_vhost("gone", &VhostSpec::default()).unwrap();
    broker.broker.add_user(User::new("kept", None)).unwrap();
    broker.broker.add_user(User::new("gone", None)).unwrap();
    broker.broker.delete_vhost("gone").unwrap();
    broker.broker.delete_user("gone").unwrap();
    let mut peer = Peer::attach(&broker, "guest").unwrap();
    let (session, now) = (peer.session(1), broker.now());
    peer.client.declare_queue(&durable("q"), now).unwrap();
    let body = vec![b'x'; 8000];
    for _ in 0..1000 {
        peer.client.publish(session, message("", "q", &body)).unwrap();
        peer.client.flush(now);
        broker.flush();
        assert!(broker.background(100));
        peer.client.purge_queue("q", now).unwrap();
    }
    peer.client.close(now);
    broker.flush();
    let broker = power_cut(&disk, broker);
    assert_eq!(names(&broker), ["/", "kept"]);
    let kept = broker.broker.vhosts().pop().unwrap();
    assert_eq!((kept.spec.description.as_str(), kept.limits.connections), ("d", Some(3)));
    assert!(broker.broker.authority().user("kept").is_some());
    assert!(broker.broker.authority().user("gone").is_none());
}

#[test]
fn alarms_by_hand_stop_publishers_until_they_are_cleared() {
    let broker = TestBroker::open(Setup::memory());
    let mut peer = Peer::attach(&broker, "guest").unwrap();
    let (session, now) = (peer.session(1), broker.now());
    peer.client.declare_queue(&durable("q"), now).unwrap();
    for resource in ["memory", "disk"] {
        broker.broker.force_alarm(resource, Switch::On).unwrap();
        peer.client.publish(session, message("", "q", b"1")).unwrap();
        peer.client.flush(now);
        assert_eq!(peer.drain(&broker), [Seen::Blocked(format!("low on {resource}"))]);
        assert_eq!(peer.client.flow(), broker::Flow::Pause);
        broker.broker.force_alarm(resource, Switch::Off).unwrap();
        broker.housekeep();
        assert_eq!(peer.drain(&broker), [Seen::Unblocked]);
        assert_eq!(peer.client.flow(), broker::Flow::Run);
    }
    // A client that consumes gets no headroom either: its publishes wait.
    let consume = broker::Consume { source: "q".into(), tag: "c".into(), ..broker::Consume::default() };
    peer.client.consume(session, consume, now).unwrap();
    assert_eq!(peer.drain(&broker).len(), 2);
    broker.broker.set_memory_limit(0);
    assert!(broker.broker.overview().alarms.memory);
    peer.client.publish(session, message("", "q", b"2")).unwrap();
    peer.client.flush(now);
    let delivered = |seen: &[Seen]| seen.iter().filter(|seen| matches!(seen, Seen::Delivery(_))).count();
    assert_eq!(delivered(&peer.drain(&broker)), 0);
    broker.broker.set_memory_limit(1 << 30);
    broker.housekeep();
    assert_eq!(delivered(&peer.drain(&broker)), 1);
    broker.broker.set_memory_limit(1 << 30);
    assert!(!broker.broker.overview().alarms.memory);
    assert_eq!(broker.broker.force_alarm("patience", Switch::On).unwrap_err().kind, ErrorKind::NotFound);
}

/// A request of management leaves no trace among the connections. It passes their limits and keeps
/// to their rights.
#[test]
fn a_request_of_management_is_no_connection() {
    let broker = TestBroker::open(Setup::memory());
    broker.broker.limit_vhost("/", VhostLimits { connections: Some(0), queues: None }).unwrap();
    broker.user("alice", "^a", "", "");
    let now = broker.now();
    let attach = |identity| broker.broker.attach_unlisted(identity, "/", "here", std::task::Waker::noop().clone());
    let alice = broker.broker.authority().verify("alice", b"alice", std::net::Ipv4Addr::LOCALHOST.into(), now).unwrap();
    let mut client = attach(alice).unwrap();
    client.declare_queue(&durable("a"), now).unwrap();
    assert_eq!(client.declare_queue(&durable("b"), now).unwrap_err().kind, ErrorKind::AccessRefused);
    drop(client);
    let mut client = attach(Identity::operator("operator")).unwrap();
    client.declare_queue(&durable("b"), now).unwrap();
    assert_eq!(broker.broker.clients().len(), 0);
    drop(client);
    let overview = broker.broker.overview();
    assert_eq!(
        (
            overview.objects.connections,
            overview.totals.churn.connections_opened.get(),
            overview.totals.churn.connections_closed.get()
        ),
        (0, 0, 0)
    );
    let exchanges = broker.broker.exchanges();
    assert_eq!((exchanges.len(), exchanges[0].name.as_str()), (6, ""));
    let bindings: Vec<_> = broker.broker.bindings().into_iter().map(|binding| binding.key).collect();
    assert_eq!(bindings, ["a", "b"]);
}

#[test]
fn a_role_is_held_against_open_connections_and_outlives_a_power_cut() {
    let disk = SimDisk::new(1, 64 << 20);
    let broker = open(&disk);
    let quick = Cost { memory_kib: 8, passes: 1, lanes: 1 };
    let mut role = User::new("readers", None);
    role.permissions.insert("/".into(), Permission::full());
    let mut alice = User::new("alice", Some(PasswordHash::create(b"alice", [1; 16], quick).unwrap()));
    alice.roles.insert("readers".into());
    broker.broker.add_user(role).unwrap();
    broker.broker.add_user(alice.clone()).unwrap();
    broker.flush();
    let broker = power_cut(&disk, broker);
    assert_eq!(broker.broker.authority().user("alice"), Some(alice.clone()));
    // All that alice may do she may by the role.
    let mut peer = Peer::attach(&broker, "alice").unwrap();
    let (session, now) = (peer.session(1), broker.now());
    peer.client.declare_queue(&durable("q"), now).unwrap();
    peer.client.publish(session, message("", "q", b"1")).unwrap();
    // The role may do less: what the client remembers counts no more.
    let narrow = |user: &mut User| {
        user.permissions.insert("/".into(), Permission::new("", "", ".*").unwrap());
        Ok(())
    };
    broker.broker.change_user("readers", narrow).unwrap();
    let refused = peer.client.publish(session, message("", "q", b"2")).unwrap_err();
    assert_eq!(refused.text, "write access to exchange 'amq.default' in vhost '/' refused for user 'alice'");
    // The role goes: its members lose it, for good, and their connections end.
    broker.broker.delete_user("readers").unwrap();
    assert_eq!(peer.drain(&broker), [Seen::Kicked("user 'alice' has no access to vhost '/' any more".to_owned())]);
    peer.client.close(now);
    broker.flush();
    let broker = power_cut(&disk, broker);
    let mut later = User::new("readers", None);
    later.permissions.insert("/".into(), Permission::full());
    broker.broker.add_user(later).unwrap();
    assert!(broker.broker.authority().user("alice").unwrap().roles.is_empty(), "a later user is no role of hers");
    assert!(!broker.broker.authority().may_enter("alice", "/"));
    // A role that is given and taken counts at once, too.
    let set = |roles: &'static [&'static str]| {
        broker.broker.change_user("alice", |user| {
            user.roles = roles.iter().map(|role| Box::from(*role)).collect();
            Ok(())
        })
    };
    set(&["readers"]).unwrap();
    let mut peer = Peer::attach(&broker, "alice").unwrap();
    set(&[]).unwrap();
    assert_eq!(peer.drain(&broker), [Seen::Kicked("user 'alice' has no access to vhost '/' any more".to_owned())]);
    peer.client.close(now);
    assert!(set(&["alice"]).unwrap_err().text.contains("a user is no role of itself"));
}
