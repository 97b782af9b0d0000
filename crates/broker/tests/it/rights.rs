//! Rights that are lost while they are in use: by consumers, bindings of exclusive queues,
//! connections, and attaching clients.

use auth::{Cost, PasswordHash, Permission, TopicPermission, User};
use broker::{
    Broker, Consume, ConsumerArguments, DirectSource, ExchangeSpec, QueueSpec, SessionId, Source, SubscriptionFilter,
    VhostSpec,
};
use testkit::broker::{Setup, TestBroker};
use testkit::peer::{Peer, Seen};

use crate::{binding, durable, message};

const CHEAP: Cost = Cost { memory_kib: 8, passes: 1, lanes: 1 };

/// A broker with a user `alice` who may do everything in `/`.
fn with_alice() -> TestBroker {
    let broker = TestBroker::open(Setup::memory());
    broker.user("alice", ".*", ".*", ".*");
    broker
}

fn permit(broker: &TestBroker, configure: &str, write: &str, read: &str) {
    permit_at(&broker.broker, configure, write, read);
}

fn permit_at(broker: &Broker, configure: &str, write: &str, read: &str) {
    let permission = Permission::new(configure, write, read).unwrap();
    let change = |user: &mut User| {
        user.permissions.insert("/".into(), permission);
        Ok(())
    };
    broker.change_user("alice", change).unwrap();
}

fn consume(peer: &mut Peer, broker: &TestBroker, queue: &str, tag: &str) {
    let consume = Consume { source: queue.into(), tag: tag.into(), no_ack: true, ..Consume::default() };
    peer.consume(broker, 0, consume);
}

fn put(broker: &TestBroker, peer: &mut Peer, exchange: &str, key: &str, body: &str) {
    let session = peer.session(1);
    peer.client.publish(session, message(exchange, key, body.as_bytes())).unwrap();
    peer.client.flush(broker.now());
}

fn bodies(seen: &[Seen]) -> Vec<String> {
    seen.iter().map(ToString::to_string).collect()
}

#[test]
fn a_consumer_ends_with_the_right_to_read_its_queue() {
    let broker = with_alice();
    let mut alice = Peer::attach(&broker, "alice").unwrap();
    let mut guest = Peer::attach(&broker, "guest").unwrap();
    for queue in ["mine", "ours", "views"] {
        guest.client.declare_queue(&durable(queue), broker.now()).unwrap();
        consume(&mut alice, &broker, queue, queue);
    }
    permit(&broker, ".*", ".*", "^(mine|ours)$");
    assert_eq!(alice.drain(&broker), [Seen::Cancelled(SessionId(1), "views".into())]);
    consume(&mut guest, &broker, "ours", "guest");
    permit(&broker, "", "", "^mine$");
    for (queue, body) in [("mine", "1"), ("ours", "2"), ("ours", "3"), ("views", "4")] {
        put(&broker, &mut guest, "", queue, body);
    }
    // Before it has read of it: rights do not depend on whether a peer reads.
    assert_eq!(bodies(&alice.drain(&broker)), ["mine:1=1", "cancelled ours"]);
    assert_eq!(bodies(&guest.drain(&broker)), ["guest:1=2", "guest:2=3"]);
    // A cancelled tag is free, and nothing else has changed.
    permit(&broker, "", "", ".*");
    consume(&mut alice, &broker, "views", "views");
    assert_eq!(bodies(&alice.drain(&broker)), ["views:2=4"]);
}

/// Neither a topic nor an exchange that it may not read any more.
#[test]
fn a_subscriber_without_a_queue_ends_with_the_right_to_what_it_asked_for() {
    let broker = with_alice();
    let mut alice = Peer::attach(&broker, "alice").unwrap();
    let mut guest = Peer::attach(&broker, "guest").unwrap();
    for exchange in ["amq.topic", "amq.fanout"] {
        let filter = SubscriptionFilter { exchange: exchange.into(), key: "#".into(), ..SubscriptionFilter::default() };
        let source = Source::Direct(DirectSource { filters: vec![filter], ..DirectSource::default() });
        let consume = Consume { source, tag: exchange.into(), no_ack: true, ..Consume::default() };
        peer_consumes(&mut alice, &broker, consume);
    }
    permit(&broker, ".*", ".*", "^amq.fanout$");
    for exchange in ["amq.topic", "amq.fanout"] {
        put(&broker, &mut guest, exchange, "k", exchange);
    }
    let mut seen = bodies(&alice.drain(&broker));
    seen.sort_unstable();
    assert_eq!(seen, ["amq.fanout:1=amq.fanout", "cancelled amq.topic"]);
}

fn peer_consumes(peer: &mut Peer, broker: &TestBroker, consume: Consume) {
    let session = peer.session(1);
    peer.client.consume(session, consume, broker.now()).unwrap();
}

/// The deliveries of such a consumer come back like those of any other.
#[test]
fn a_right_that_goes_while_a_consumer_comes_takes_no_messages_along() {
    let broker = with_alice();
    let mut guest = Peer::attach(&broker, "guest").unwrap();
    guest.client.declare_queue(&durable("q"), broker.now()).unwrap();
    for body in ["1", "2"] {
        put(&broker, &mut guest, "", "q", body);
    }
    for (no_ack, left) in [(false, vec!["c:1=1!", "c:2=2!"]), (true, vec![])] {
        permit(&broker, ".*", ".*", ".*");
        let mut alice = Peer::attach(&broker, "alice").unwrap();
        let session = alice.session(0);
        let consume = Consume { source: "q".into(), tag: "late".into(), no_ack, ..Consume::default() };
        let (other, now) = (broker.broker.clone(), broker.now());
        let taken = broker
            .overtaken_by(move || permit_at(&other, ".*", ".*", ""), || alice.client.consume(session, consume, now));
        assert_eq!(taken.map_err(|error| error.text), Ok("late".to_owned()));
        let first = if no_ack { ["late:1=1!", "late:2=2!"] } else { ["late:1=1", "late:2=2"] };
        assert_eq!(bodies(&alice.drain(&broker)), [&first[..], &["cancelled late"]].concat());
        alice.client.close(broker.now());
        let mut next = Peer::attach(&broker, "guest").unwrap();
        next.consume(&broker, 0, Consume { source: "q".into(), tag: "c".into(), ..Consume::default() });
        assert_eq!(bodies(&next.drain(&broker)), left);
        next.client.close(broker.now());
    }
}

#[test]
fn selectors_and_auto_delete_queues_know_it_too() {
    let broker = with_alice();
    let mut alice = Peer::attach(&broker, "alice").unwrap();
    let spec = QueueSpec { auto_delete: true, ..durable("q") };
    alice.client.declare_queue(&spec, broker.now()).unwrap();
    let arguments = Ok(ConsumerArguments { selector: "a = 1".into(), ..ConsumerArguments::default() });
    let chosen = Consume { source: "q".into(), tag: "chosen".into(), no_ack: true, arguments, ..Consume::default() };
    alice.consume(&broker, 0, chosen);
    consume(&mut alice, &broker, "q", "all");
    permit(&broker, ".*", ".*", "");
    let mut seen = bodies(&alice.drain(&broker));
    seen.sort();
    assert_eq!(seen, ["cancelled all", "cancelled chosen"]);
    assert!(broker.broker.queues().is_empty(), "it goes with its last consumer");
}

#[test]
fn a_connection_ends_with_the_last_right_in_its_vhost() {
    let broker = with_alice();
    broker.broker.put_vhost("v", &VhostSpec::default()).unwrap();
    let both = |user: &mut User| {
        user.permissions.insert("v".into(), Permission::full());
        Ok(())
    };
    broker.broker.change_user("alice", both).unwrap();
    let mut here = Peer::attach(&broker, "alice").unwrap();
    let mut there = Peer::attach_to(&broker, "alice", "v").unwrap();
    here.client.declare_queue(&durable("q"), broker.now()).unwrap();
    consume(&mut here, &broker, "q", "c");
    let leave = |user: &mut User| {
        user.permissions.remove("/");
        Ok(())
    };
    broker.broker.change_user("alice", leave).unwrap();
    let mut guest = Peer::attach(&broker, "guest").unwrap();
    put(&broker, &mut guest, "", "q", "late");
    assert_eq!(bodies(&here.drain(&broker)), ["kicked: user 'alice' has no access to vhost '/' any more"]);
    assert_eq!(there.drain(&broker), []);
    here.client.close(broker.now());
    consume(&mut guest, &broker, "q", "c");
    assert_eq!(bodies(&guest.drain(&broker)), ["c:1=late"]);
}

#[test]
fn a_connection_ends_with_the_password_that_it_has_shown() {
    let broker = with_alice();
    let mut before = Peer::attach(&broker, "alice").unwrap();
    let mut guest = Peer::attach(&broker, "guest").unwrap();
    let address = std::net::Ipv4Addr::LOCALHOST.into();
    let identity = broker.broker.authority().verify("alice", b"alice", address, broker.now()).unwrap();
    permit(&broker, ".*", ".*", ".*");
    assert_eq!(before.drain(&broker), [], "it is the same password");
    let other = |user: &mut User| {
        user.password = Some(PasswordHash::create(b"other", [3; 16], CHEAP).unwrap());
        Ok(())
    };
    broker.broker.change_user("alice", other).unwrap();
    assert_eq!(bodies(&before.drain(&broker)), ["kicked: the password of user 'alice' has changed"]);
    assert_eq!(guest.drain(&broker), []);
    // A user that had logged in and was not listed yet.
    let login = broker::Login {
        identity,
        vhost: "/".to_owned(),
        protocol: "test",
        peer: String::new(),
        name: None,
        properties: broker::Table::default(),
        terms: broker::Terms::default(),
    };
    let refused = broker.broker.attach(login, std::task::Waker::noop().clone()).err().unwrap();
    assert_eq!(refused.text, "the password of user 'alice' has changed");
    assert_eq!(broker.broker.clients().len(), 2);
}

/// A subscription to a topic is an exclusive queue with a binding, so it ends with the right to
/// bind.
#[test]
fn an_exclusive_queue_gets_nothing_by_what_its_owner_could_not_bind_any_more() {
    let broker = with_alice();
    let mut alice = Peer::attach(&broker, "alice").unwrap();
    let mut guest = Peer::attach(&broker, "guest").unwrap();
    for (queue, key, exclusive) in [("news", "news.*", true), ("pay", "pay.*", true), ("shared", "pay.*", false)] {
        let spec = QueueSpec { exclusive, durable: !exclusive, ..durable(queue) };
        alice.client.declare_queue(&spec, broker.now()).unwrap();
        alice.client.bind(&binding("amq.topic", key, queue), broker.now()).unwrap();
        consume(&mut alice, &broker, queue, queue);
    }
    let narrow = |user: &mut User| {
        let permission = TopicPermission::new("alice", "/", ".*", "^news").unwrap();
        user.topic_permissions.insert(("/".into(), "amq.topic".into()), permission);
        Ok(())
    };
    broker.broker.change_user("alice", narrow).unwrap();
    consume(&mut alice, &broker, "pay", "again");
    put(&broker, &mut guest, "amq.topic", "pay.1", "secret");
    put(&broker, &mut guest, "amq.topic", "news.1", "news");
    let seen = bodies(&alice.drain(&broker));
    assert_eq!(seen, ["shared:1=secret", "news:2=news", "cancelled pay"]);
    permit(&broker, ".*", ".*", "^(news|pay|shared)$");
    put(&broker, &mut guest, "amq.topic", "news.1", "more");
    assert_eq!(bodies(&alice.drain(&broker)), ["cancelled news"], "the exchange is not to be read either");
}

#[test]
fn an_exclusive_queue_loses_its_bindings_with_the_right_to_write_to_it() {
    let broker = with_alice();
    let mut alice = Peer::attach(&broker, "alice").unwrap();
    let mut guest = Peer::attach(&broker, "guest").unwrap();
    for queue in ["one", "two"] {
        let spec = QueueSpec { exclusive: true, durable: false, ..durable(queue) };
        alice.client.declare_queue(&spec, broker.now()).unwrap();
        alice.client.bind(&binding("amq.topic", "k", queue), broker.now()).unwrap();
        consume(&mut alice, &broker, queue, queue);
    }
    permit(&broker, ".*", "^two$", ".*");
    put(&broker, &mut guest, "amq.topic", "k", "m");
    assert_eq!(bodies(&alice.drain(&broker)), ["two:1=m", "cancelled one"]);
}

/// Each policy with its refusal: it must not do what its author could not do by declaring.
#[test]
fn a_policy_moves_no_messages_that_its_author_may_not_move() {
    let broker = with_alice();
    let mut guest = Peer::attach(&broker, "guest").unwrap();
    let letters = [("x-dead-letter-exchange", broker::Value::Text("theirs".into()))];
    for spec in [durable("low1"), durable("high"), crate::durable_with("low2", &letters)] {
        guest.client.declare_queue(&spec, broker.now()).unwrap();
    }
    for name in ["low", "theirs"] {
        let spec = ExchangeSpec { name: name.into(), kind: "fanout".into(), durable: true, ..ExchangeSpec::default() };
        guest.client.declare_exchange(&spec, broker.now()).unwrap();
    }
    permit(&broker, "^low", "^low", "^low");
    let address = std::net::Ipv4Addr::LOCALHOST.into();
    let alice = broker.broker.authority().verify("alice", b"alice", address, broker.now()).unwrap();
    let set = |author: &auth::Identity, pattern: &str, definition: &str| {
        let (pattern, definition) = (pattern.to_owned(), testkit::broker::table_of(definition));
        let spec = broker::PolicySpec { pattern, apply_to: broker::ApplyTo::All, priority: 0, definition };
        let set = broker.broker.set_policy("/", broker::PolicyKind::User, "p", spec, author);
        set.map(drop).map_err(|error| error.text)
    };
    let write =
        |name| Some(format!("policy 'p': write access to exchange '{name}' in vhost '/' refused for user 'alice'"));
    let read = |what| Some(format!("policy 'p': read access to {what} in vhost '/' refused for user 'alice'"));
    for (pattern, definition, refused) in [
        ("^low1", "dead-letter-exchange=low", None),
        ("^low1", "dead-letter-exchange=low dead-letter-routing-key=k", None),
        ("^low1", "dead-letter-exchange=theirs", write("theirs")),
        ("^low1", "dead-letter-exchange=", write("amq.default")),
        ("high|low1", "dead-letter-exchange=low", read("queue 'high'")),
        ("high", "dead-letter-routing-key=k", read("queue 'high'")),
        ("^low2", "dead-letter-routing-key=k", write("theirs")),
        ("^high|^low$", "message-ttl=1000", None),
        ("^none", "dead-letter-exchange=low", None),
        ("^low$", "alternate-exchange=low", None),
        ("^low$", "alternate-exchange=theirs", write("theirs")),
        ("^theirs", "alternate-exchange=low", read("exchange 'theirs'")),
    ] {
        assert_eq!(set(&alice, pattern, definition).err(), refused, "{pattern} {definition}");
        assert_eq!(set(&auth::Identity::operator("op"), pattern, definition), Ok(()));
    }
    let raise = |user: &mut User| {
        user.tags = auth::Tags::new(["administrator"]);
        Ok(())
    };
    broker.broker.change_user("alice", raise).unwrap();
    assert_eq!(set(&alice, "", "dead-letter-exchange=theirs"), Ok(()));
}

#[test]
fn a_vhost_that_is_not_there_looks_like_one_that_is_closed() {
    let broker = with_alice();
    broker.broker.put_vhost("closed", &VhostSpec::default()).unwrap();
    let refused = |vhost: &str| Peer::attach_to(&broker, "alice", vhost).err().unwrap().text;
    for vhost in ["closed", "absent"] {
        assert_eq!(refused(vhost), format!("access to vhost '{vhost}' refused for user 'alice'"));
    }
    // A user that sees all vhosts learns the reason.
    let raise = |user: &mut User| {
        user.tags = auth::Tags::new(["monitoring"]);
        Ok(())
    };
    broker.broker.change_user("alice", raise).unwrap();
    assert_eq!(refused("closed"), "access to vhost 'closed' refused for user 'alice'");
    assert_eq!(refused("absent"), "vhost absent not found");
}

#[test]
fn who_leaves_deliveries_unread_is_put_out_all_the_same() {
    let broker = with_alice();
    let mut alice = Peer::attach(&broker, "alice").unwrap();
    let mut guest = Peer::attach(&broker, "guest").unwrap();
    alice.client.declare_queue(&durable("q"), broker.now()).unwrap();
    consume(&mut alice, &broker, "q", "c");
    for body in ["1", "2", "3"] {
        put(&broker, &mut guest, "", "q", body);
    }
    let (mut seen, now) = (Vec::new(), broker.now());
    alice.client.drain(now, 1, &mut |event| seen.push(testkit::peer::seen_of(event)));
    assert_eq!(bodies(&seen), ["c:1=1"]);
    let other = |user: &mut User| {
        user.password = Some(PasswordHash::create(b"other", [3; 16], CHEAP).unwrap());
        Ok(())
    };
    broker.broker.change_user("alice", other).unwrap();
    alice.client.drain(now, 0, &mut |event| seen.push(testkit::peer::seen_of(event)));
    assert_eq!(bodies(&seen), ["c:1=1", "kicked: the password of user 'alice' has changed"]);
}
