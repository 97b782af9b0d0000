//! Every operation with every combination of permissions on its objects, compared with a table of
//! the permissions that RabbitMQ documents
//! (<https://www.rabbitmq.com/docs/access-control#authorisation>). The table was written from there
//! and not from the code. A test checks that a wrong line would be found.

use auth::TopicPermission;
use testkit::rights::{cases, name, wrong};

use super::*;
use crate::codec::BasicProperties;

/// An operation: the permissions that it needs, and how the case of a number runs it. The queue `q`
/// and the exchanges `e`, `d` and `a` exist; the queue `n` and the exchange `x` do not. A passive
/// declaration needs any one permission on the object.
struct Row {
    operation: &'static str,
    needs: &'static [&'static str],
    run: fn(&mut Peer, usize),
}

const ANY_ON_Q: &str = "read queue q|write queue q|configure queue q";
const ANY_ON_E: &str = "read exchange e|write exchange e|configure exchange e";

const TABLE: [Row; 23] = [
    Row {
        operation: "exchange.declare",
        needs: &["configure exchange x"],
        run: |p, n| declare_exchange(p, n, "x", None),
    },
    Row {
        operation: "exchange.declare of one that is there",
        needs: &["configure exchange e"],
        run: |p, n| declare_exchange(p, n, "e", None),
    },
    Row {
        operation: "exchange.declare with an alternate exchange",
        needs: &["configure exchange x", "read exchange x", "write exchange a"],
        run: |p, n| declare_exchange(p, n, "x", Some("a")),
    },
    Row {
        operation: "exchange.declare, passive",
        needs: &[ANY_ON_E],
        run: |p, n| p.send(1, ExchangeDeclare { exchange: &name("e", n), passive: true, ..Default::default() }),
    },
    Row {
        operation: "exchange.delete",
        needs: &["configure exchange e"],
        run: |p, n| p.send(1, ExchangeDelete { exchange: &name("e", n), ..Default::default() }),
    },
    Row {
        operation: "exchange.delete of one that is not there",
        needs: &["configure exchange x"],
        run: |p, n| p.send(1, ExchangeDelete { exchange: &name("x", n), ..Default::default() }),
    },
    Row {
        operation: "exchange.bind",
        needs: &["write exchange d", "read exchange e"],
        run: |p, n| {
            let (destination, source) = (&*name("d", n), &*name("e", n));
            p.send(1, ExchangeBind { destination, source, routing_key: "k", ..Default::default() });
        },
    },
    Row {
        operation: "exchange.unbind",
        needs: &["write exchange d", "read exchange e"],
        run: |p, n| {
            let (destination, source) = (&*name("d", n), &*name("e", n));
            p.send(1, ExchangeUnbind { destination, source, routing_key: "bound", ..Default::default() });
        },
    },
    Row { operation: "queue.declare", needs: &["configure queue n"], run: |p, n| declare_queue(p, n, "n", None) },
    Row {
        operation: "queue.declare of one that is there",
        needs: &["configure queue q"],
        run: |p, n| declare_queue(p, n, "q", None),
    },
    Row {
        operation: "queue.declare with a dead-letter exchange",
        needs: &["configure queue n", "read queue n", "write exchange a"],
        run: |p, n| declare_queue(p, n, "n", Some("a")),
    },
    Row {
        operation: "queue.declare that dead-letters by the default exchange",
        needs: &["configure queue n", "read queue n", "write exchange amq.default"],
        run: |p, n| declare_queue(p, n, "n", Some("amq.default")),
    },
    Row {
        operation: "queue.declare, passive",
        needs: &[ANY_ON_Q],
        run: |p, n| p.send(1, QueueDeclare { queue: &name("q", n), passive: true, ..Default::default() }),
    },
    Row {
        operation: "queue.bind",
        needs: &["write queue q", "read exchange e"],
        run: |p, n| {
            let (queue, exchange) = (&*name("q", n), &*name("e", n));
            p.send(1, QueueBind { queue, exchange, routing_key: "k", ..Default::default() });
        },
    },
    Row {
        operation: "queue.unbind",
        needs: &["write queue q", "read exchange e"],
        run: |p, n| {
            let (queue, exchange) = (&*name("q", n), &*name("e", n));
            p.send(1, QueueUnbind { queue, exchange, routing_key: "bound", ..Default::default() });
        },
    },
    Row {
        operation: "queue.purge",
        needs: &["read queue q"],
        run: |p, n| p.send(1, QueuePurge { queue: &name("q", n), ..Default::default() }),
    },
    Row {
        operation: "queue.delete",
        needs: &["configure queue q"],
        run: |p, n| p.send(1, QueueDelete { queue: &name("q", n), ..Default::default() }),
    },
    Row {
        operation: "basic.get",
        needs: &["read queue q"],
        run: |p, n| p.send(1, BasicGet { queue: &name("q", n), ..Default::default() }),
    },
    Row {
        operation: "basic.consume",
        needs: &["read queue q"],
        run: |p, n| p.send(1, BasicConsume { queue: &name("q", n), ..Default::default() }),
    },
    Row { operation: "basic.publish", needs: &["write exchange e"], run: |p, n| publish(p, &name("e", n), "k") },
    Row {
        operation: "basic.publish to the default exchange",
        needs: &["write exchange amq.default"],
        run: |p, n| publish(p, "", &name("q", n)),
    },
    Row {
        operation: "basic.publish, mandatory, where nothing is bound",
        needs: &["write exchange d"],
        run: |p, n| {
            let exchange = &*name("d", n);
            p.publish(1, BasicPublish { exchange, mandatory: true, ..Default::default() }, &[0, 0], b"m");
        },
    },
    Row {
        operation: "basic.publish in a transaction",
        needs: &["write exchange e"],
        run: |p, n| {
            p.send(2, ChannelOpen::default());
            p.send(2, TxSelect {});
            p.wait_for(2);
            p.lines.clear();
            p.publish(2, BasicPublish { exchange: &name("e", n), ..Default::default() }, &[0, 0], b"m");
            p.send(2, TxCommit {});
        },
    },
];

fn declare_exchange(peer: &mut Peer, number: usize, exchange: &str, alternate: Option<&str>) {
    let arguments = argument("alternate-exchange", alternate.map(|thing| name(thing, number)));
    let arguments = Table::new(&arguments).expect("a valid table");
    peer.send(1, ExchangeDeclare { exchange: &name(exchange, number), kind: "topic", arguments, ..Default::default() });
}

fn declare_queue(peer: &mut Peer, number: usize, queue: &str, dead_letters: Option<&str>) {
    let arguments = argument("x-dead-letter-exchange", dead_letters.map(|thing| name(thing, number)));
    let arguments = Table::new(&arguments).expect("a valid table");
    peer.send(1, QueueDeclare { queue: &name(queue, number), arguments, ..Default::default() });
}

fn argument(key: &str, value: Option<String>) -> Vec<u8> {
    let fields: Vec<_> = value.map(|value| (key.to_owned(), Value::from(value.as_str()))).into_iter().collect();
    encode_fields(&fields)
}

/// A publish has no answer, so it is followed by a method that has one.
fn publish(peer: &mut Peer, exchange: &str, routing_key: &str) {
    peer.publish(1, BasicPublish { exchange, routing_key, ..Default::default() }, &[0, 0], b"m");
    peer.send(1, BasicQos::default());
}

/// Runs every combination of permissions for one operation. Returns where the broker and `needs`
/// disagree.
fn disagreements(server: &Server, next: &mut usize, row: &Row, needs: &[&str]) -> Vec<String> {
    let mut admin = server.channel();
    let mut found = Vec::new();
    for case in cases(needs, next) {
        prepare(&mut admin, case.number());
        add_user(&server.test.broker, "someone", &[], case.permission());
        let mut peer = server.connect_as("someone", &capabilities());
        peer.open(1);
        (row.run)(&mut peer, case.number());
        peer.wait_for(1);
        let said = peer.lines.first().cloned().unwrap_or_default();
        let refused = said.contains("ChannelClose { reply_code: 403, reply_text: \"ACCESS_REFUSED - ");
        let disagreement = case.disagrees("someone", if refused { Err(&said) } else { Ok(&said) });
        found.extend(disagreement.map(|text| format!("{}: {text}", row.operation)));
    }
    found
}

/// Declares the objects of a case.
fn prepare(admin: &mut Peer, number: usize) {
    for exchange in ["e", "d", "a"] {
        admin.send(1, ExchangeDeclare { exchange: &name(exchange, number), kind: "topic", ..Default::default() });
    }
    let (queue, exchange, destination) = (&*name("q", number), &*name("e", number), &*name("d", number));
    admin.send(1, QueueDeclare { queue, ..Default::default() });
    admin.send(1, QueueBind { queue, exchange, routing_key: "bound", ..Default::default() });
    admin.send(1, ExchangeBind { destination, source: exchange, routing_key: "bound", ..Default::default() });
    admin.wait_for(6);
    assert!(admin.lines.len() == 6 && admin.lines.iter().all(|line| line.contains("Ok")), "{:?}", admin.lines);
    admin.lines.clear();
}

#[test]
fn each_operation_needs_the_rights_that_are_documented_and_no_others() {
    let server = server();
    let mut cases = 0;
    for row in &TABLE {
        assert_eq!(disagreements(&server, &mut cases, row, row.needs), Vec::<String>::new());
    }
    assert!(cases > 500, "{cases} cases");
}

/// Without this the test above could pass whatever the broker does.
#[test]
fn a_wrong_line_of_the_table_is_found() {
    let mut cases = 0;
    for row in &TABLE {
        let server = server();
        for place in 0..row.needs.len() {
            let needs = wrong(row.needs, place);
            let needs: Vec<_> = needs.iter().map(String::as_str).collect();
            assert_ne!(disagreements(&server, &mut cases, row, &needs), Vec::<String>::new(), "{}", row.operation);
        }
    }
}

/// A user that may not see an object does not learn whether it exists.
#[test]
fn what_is_forbidden_looks_the_same_whether_it_is_there_or_not() {
    let server = server();
    let mut admin = server.channel();
    prepare(&mut admin, 0);
    type Operation = fn(&mut Peer, &str);
    let operations: [(&str, Operation); 9] = [
        ("q", |p, queue| p.send(1, QueueDeclare { queue, passive: true, ..Default::default() })),
        ("q", |p, queue| p.send(1, QueueBind { queue, exchange: "amq.topic", ..Default::default() })),
        ("q", |p, queue| p.send(1, QueuePurge { queue, ..Default::default() })),
        ("q", |p, queue| p.send(1, QueueDelete { queue, ..Default::default() })),
        ("q", |p, queue| p.send(1, BasicGet { queue, ..Default::default() })),
        ("q", |p, queue| p.send(1, BasicConsume { queue, ..Default::default() })),
        ("e", |p, exchange| p.send(1, ExchangeDeclare { exchange, passive: true, ..Default::default() })),
        ("e", |p, exchange| p.send(1, ExchangeDelete { exchange, ..Default::default() })),
        ("e", |p, exchange| publish(p, exchange, "k")),
    ];
    for (thing, operation) in operations {
        let answers = [format!("{thing}0"), format!("{thing}1")].map(|name| {
            let mut peer = server.connect_as("weak", &capabilities());
            peer.open(1);
            operation(&mut peer, &name);
            peer.wait_for(1);
            assert!(peer.lines[0].contains("reply_code: 403"), "{:?}", peer.lines);
            peer.lines[0].replace(&name, "thing")
        });
        assert_eq!(answers[0], answers[1]);
    }
}

/// An operation with a routing key at a topic exchange, the topic permission that it needs, and how
/// to run it.
type TopicRow = (&'static str, &'static str, fn(&mut Peer, &str));

const TOPICS: [TopicRow; 6] = [
    ("publish", "write", |p, key| publish(p, "e0", key)),
    ("publish with CC", "write", |p, key| {
        let headers = encode_fields(&[("CC".to_owned(), Value::Array(vec![Value::from(key)]))]);
        let properties = BasicProperties { headers: Table::new(&headers).ok(), ..Default::default() }.to_bytes();
        p.publish(
            1,
            BasicPublish { exchange: "e0", routing_key: "someone.mine", ..Default::default() },
            &properties,
            b"m",
        );
        p.send(1, BasicQos::default());
    }),
    ("queue.bind", "read", |p, routing_key| {
        p.send(1, QueueBind { queue: "q0", exchange: "e0", routing_key, ..Default::default() });
    }),
    ("queue.unbind", "read", |p, routing_key| {
        p.send(1, QueueUnbind { queue: "q0", exchange: "e0", routing_key, ..Default::default() });
    }),
    ("exchange.bind", "read", |p, routing_key| {
        p.send(1, ExchangeBind { destination: "d0", source: "e0", routing_key, ..Default::default() });
    }),
    ("publish elsewhere", "nothing", |p, key| publish(p, "d0", key)),
];

/// A user with all permissions on the objects and different topic permissions. The keys are the
/// user's own, another user's, and ones that look like a pattern.
#[test]
fn topic_permissions_narrow_publishing_and_binding_by_key() {
    let server = server();
    let mut admin = server.channel();
    prepare(&mut admin, 0);
    let own = "^{username}[.]";
    let permissions = [None, Some(("", "")), Some((own, "")), Some(("", own)), Some((own, own)), Some((".*", ".*"))];
    for (operation, right, run) in TOPICS {
        for permission in permissions {
            for key in ["someone.mine", "other.theirs", "{username}.x", "#"] {
                add_user(&server.test.broker, "someone", &[], Permission::full());
                let mut user = server.test.broker.authority().user("someone").expect("it was added");
                if let Some((write, read)) = permission {
                    let permission = TopicPermission::new("someone", "/", write, read).expect("valid patterns");
                    user.topic_permissions.insert(("/".into(), "e0".into()), permission);
                }
                server.test.broker.authority().put(user).expect("a valid user");
                let mut peer = server.connect_as("someone", &capabilities());
                peer.open(1);
                run(&mut peer, key);
                peer.wait_for(1);
                let may = |pattern: &str| match pattern {
                    "" => false,
                    ".*" => true,
                    _ => key.starts_with("someone."),
                };
                // The routing key beside CC is the user's own, and must be allowed too.
                let beside = |write: &str| operation != "publish with CC" || !write.is_empty();
                let allowed = match (permission, right) {
                    (Some((write, _)), "write") => may(write) && beside(write),
                    (Some((_, read)), "read") => may(read),
                    _ => true,
                };
                let said = peer.lines.first().cloned().unwrap_or_default();
                let refused = said.contains("ChannelClose { reply_code: 403, reply_text: \"ACCESS_REFUSED - ");
                assert_eq!(!refused, allowed, "{operation} with {permission:?} and {key}: {said}");
                if refused {
                    let text = format!("{right} access to topic '");
                    assert!(said.contains(&text) && said.contains("' in exchange 'e0' in vhost '/' refused"), "{said}");
                }
            }
        }
    }
}

/// Changes the user `boss` as an operator does.
fn change_boss(server: &Server, change: impl FnOnce(&mut User)) {
    let change = |user: &mut User| {
        change(user);
        Ok(())
    };
    server.test.broker.change_user("boss", change).expect("there is such a user");
}

#[test]
fn who_loses_the_right_to_read_is_told_that_its_consumer_is_cancelled() {
    let server = server();
    let mut peer = server.connect_as("boss", &capabilities());
    peer.open(1);
    peer.declare(1, "q");
    peer.send(1, BasicConsume { queue: "q", consumer_tag: "c", ..Default::default() });
    peer.expect(&["1 BasicConsumeOk { consumer_tag: \"c\" }"]);
    let unable = Permission::new(".*", ".*", "").expect("valid patterns");
    change_boss(&server, |user| drop(user.permissions.insert("/".into(), unable)));
    peer.put(1, "q", "m");
    peer.expect(&["1 BasicCancel { consumer_tag: \"c\", nowait: true }"]);
    change_boss(&server, |user| drop(user.permissions.remove("/")));
    let text = "CONNECTION_FORCED - user 'boss' has no access to vhost '/' any more";
    peer.expect(&[&connection_closed(320, text, (0, 0))]);
}

#[test]
fn who_has_shown_a_password_that_was_changed_since_is_closed() {
    let server = server();
    let mut peer = server.connect_as("boss", &capabilities());
    let hash =
        PasswordHash::create(b"new", [8; 16], Cost { memory_kib: 8, passes: 1, lanes: 1 }).expect("a valid cost");
    change_boss(&server, |user| user.password = Some(hash));
    let text = "CONNECTION_FORCED - the password of user 'boss' has changed";
    peer.expect(&[&connection_closed(320, text, (0, 0))]);
}
