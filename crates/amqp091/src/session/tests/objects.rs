//! Declaring, binding, deleting; the shortcuts for the queue declared last; access.

use super::*;

#[test]
fn queues_are_declared_bound_purged_and_deleted() {
    let mut peer = server().channel();
    peer.send(1, QueueDeclare { queue: "q\r\n", durable: true, ..Default::default() });
    peer.expect(&[&declared(1, "q", 0, 0)]);
    peer.send(1, QueueBind { exchange: "amq.topic", routing_key: "a.*", ..Default::default() });
    peer.expect(&["1 QueueBindOk"]);
    peer.publish(1, BasicPublish { exchange: "amq.topic", routing_key: "a.b", ..Default::default() }, &[0, 0], b"x");
    // Without a queue and a key, the name of the queue is the key.
    peer.send(1, QueueBind { exchange: "amq.direct", ..Default::default() });
    peer.expect(&["1 QueueBindOk"]);
    peer.publish(1, BasicPublish { exchange: "amq.direct", routing_key: "q", ..Default::default() }, &[0, 0], b"y");
    peer.send(1, QueueDeclare { queue: "", passive: true, ..Default::default() });
    peer.expect(&[&declared(1, "q", 2, 0)]);
    peer.send(1, QueueUnbind { exchange: "amq.direct", ..Default::default() });
    peer.expect(&["1 QueueUnbindOk"]);
    peer.send(1, QueuePurge::default());
    peer.expect(&["1 QueuePurgeOk { message_count: 2 }"]);
    peer.put(1, "q", "z");
    peer.send(1, QueueDelete { queue: "q", ..Default::default() });
    peer.expect(&["1 QueueDeleteOk { message_count: 1 }"]);
    // A queue that does not exist can be deleted again.
    peer.send(1, QueueDelete { queue: "q", ..Default::default() });
    peer.expect(&["1 QueueDeleteOk { message_count: 0 }"]);
}

#[test]
fn a_queue_without_a_name_gets_one() {
    let mut peer = server().channel();
    peer.send(1, QueueDeclare { exclusive: true, ..Default::default() });
    peer.wait_for(1);
    let line = peer.lines.remove(0);
    assert!(line.starts_with("1 QueueDeclareOk { queue: \"amq.gen-"), "{line}");
    peer.send(1, BasicGet::default());
    peer.expect(&["1 BasicGetEmpty { cluster_id: \"\" }"]);
}

fn declare_with(peer: &mut Peer, queue: &str, arguments: &[(&str, Value)]) {
    let owned: Vec<_> = arguments.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let fields = encode_fields(&owned);
    let arguments = Table::new(&fields).expect("a valid table");
    peer.send(1, QueueDeclare { queue, durable: true, arguments, ..Default::default() });
}

#[test]
fn arguments_that_rabbitmq_ignores_are_taken_and_never_compared() {
    let (server, names) = (server(), ["x-ha-policy", "x-ha-policy-params", "x-cancel-on-ha-failover"]);
    let nodes = Value::Array(vec![Value::from("rabbit@one")]);
    let all = [(names[0], Value::from("nodes")), (names[1], nodes), (names[2], Value::Bool(true))];
    let mut peer = server.channel();
    for again in [&all[..], &all[..1], &[]] {
        declare_with(&mut peer, "q", again);
        peer.expect(&[&declared(1, "q", 0, 0)]);
    }
    let report = server.test.broker.queues().remove(0);
    assert_eq!(report.declared.idle_arguments, names);
    let kept = [0, 1, 2].map(|at| report.declared.arguments.0[at].0.clone());
    assert_eq!(kept, names);
    let fields = encode_fields(&[("x-ha-policy".to_owned(), Value::from("all"))]);
    let arguments = Table::new(&fields).expect("a valid table");
    peer.send(1, ExchangeDeclare { exchange: "e", kind: "direct", arguments, ..Default::default() });
    peer.expect(&["1 ExchangeDeclareOk"]);
}

#[test]
fn what_nobody_knows_is_refused_by_the_name_of_the_setting_that_takes_it() {
    let slip = [("x-mesage-ttl", Value::I32(5))];
    let mut peer = server().channel();
    declare_with(&mut peer, "q", &slip);
    let text = "PRECONDITION_FAILED - invalid arg 'x-mesage-ttl' for queue 'q' in vhost '/': unknown; arguments of the \
                application must not begin with x-, unless compat.unknown_arguments is accept";
    peer.expect(&[&channel_closed(1, 406, text, (50, 10))]);

    let mut setup = Setup::memory();
    setup.settings.unknown_arguments = broker::UnknownArguments::Accept;
    let server = server_with(Settings::default(), setup);
    let mut peer = server.channel();
    for again in [&slip[..], &[]] {
        declare_with(&mut peer, "q", again);
        peer.expect(&[&declared(1, "q", 0, 0)]);
    }
    assert_eq!(server.test.broker.queues().remove(0).declared.idle_arguments, ["x-mesage-ttl"]);
}

#[test]
fn only_a_type_that_is_asked_for_holds_to_its_arguments() {
    let mut peer = server().channel();
    let both = [("x-max-priority", Value::I32(5)), ("x-delivery-limit", Value::I32(3))];
    declare_with(&mut peer, "both", &both);
    peer.expect(&[&declared(1, "both", 0, 0)]);
    for (kind, argument) in [("classic", "x-delivery-limit"), ("quorum", "x-max-priority")] {
        let mut typed = vec![("x-queue-type", Value::from(kind))];
        typed.extend(both.clone());
        declare_with(&mut peer, kind, &typed);
        let text = format!(
            "PRECONDITION_FAILED - invalid arg '{argument}' for queue '{kind}' in vhost '/' of queue type \
             rabbit_{kind}_queue"
        );
        peer.expect(&[&channel_closed(1, 406, &text, (50, 10))]);
        peer.send(1, ChannelCloseOk {});
        peer.open(1);
    }
}

#[test]
fn exchanges_are_declared_bound_and_deleted() {
    let mut peer = server().channel();
    peer.declare(1, "q");
    for exchange in ["a", "b"] {
        peer.send(1, ExchangeDeclare { exchange, kind: "fanout", ..Default::default() });
        peer.expect(&["1 ExchangeDeclareOk"]);
    }
    peer.send(1, ExchangeDeclare { exchange: "a", passive: true, ..Default::default() });
    peer.expect(&["1 ExchangeDeclareOk"]);
    peer.send(1, ExchangeBind { source: "a", destination: "b", ..Default::default() });
    peer.expect(&["1 ExchangeBindOk"]);
    peer.send(1, QueueBind { queue: "q", exchange: "b", ..Default::default() });
    peer.expect(&["1 QueueBindOk"]);
    peer.publish(1, BasicPublish { exchange: "a", ..Default::default() }, &[0, 0], b"x");
    peer.send(1, QueueDeclare { queue: "q", passive: true, ..Default::default() });
    peer.expect(&[&declared(1, "q", 1, 0)]);
    peer.send(1, ExchangeUnbind { source: "a", destination: "b", ..Default::default() });
    peer.expect(&["1 ExchangeUnbindOk"]);
    peer.send(1, ExchangeDelete { exchange: "a", ..Default::default() });
    peer.expect(&["1 ExchangeDeleteOk"]);
}

#[test]
fn with_nowait_nothing_is_answered() {
    let mut peer = server().channel();
    peer.send(1, ExchangeDeclare { exchange: "e", kind: "direct", nowait: true, ..Default::default() });
    peer.send(1, QueueDeclare { queue: "q", nowait: true, ..Default::default() });
    peer.send(1, QueueBind { queue: "q", exchange: "e", nowait: true, ..Default::default() });
    peer.send(1, ExchangeBind { source: "e", destination: "amq.topic", nowait: true, ..Default::default() });
    peer.send(1, ExchangeUnbind { source: "e", destination: "amq.topic", nowait: true, ..Default::default() });
    peer.send(1, BasicConsume { queue: "q", consumer_tag: "c", nowait: true, ..Default::default() });
    peer.send(1, BasicCancel { consumer_tag: "c", nowait: true });
    peer.send(1, ConfirmSelect { nowait: true });
    peer.send(1, QueuePurge { queue: "q", nowait: true, ..Default::default() });
    peer.send(1, QueueDelete { queue: "q", nowait: true, ..Default::default() });
    peer.send(1, ExchangeDelete { exchange: "e", nowait: true, ..Default::default() });
    peer.send(1, AccessRequest::default());
    peer.expect(&["1 AccessRequestOk { ticket: 1 }"]);
}

/// Sends a method that is refused, with this code and text.
fn refused<'m>(peer: &mut Peer, method: impl Into<Method<'m>>, code: u16, text: &str) {
    let method = method.into();
    peer.send(1, method);
    peer.expect(&[&channel_closed(1, code, text, method.id())]);
    peer.send(1, ChannelCloseOk {});
    peer.open(1);
}

#[test]
fn what_cannot_be_is_refused_in_the_usual_words() {
    let server = server();
    let mut peer = server.channel();
    let declare = |queue| QueueDeclare { queue, ..Default::default() };
    refused(&mut peer, QueueBind::default(), 404, "NOT_FOUND - no previously declared queue");
    peer.declare(1, "q");
    refused(
        &mut peer,
        QueueBind { exchange: "", ..Default::default() },
        403,
        "ACCESS_REFUSED - operation not permitted on the default exchange",
    );
    refused(&mut peer, BasicGet::default(), 404, "NOT_FOUND - no previously declared queue");
    refused(
        &mut peer,
        QueueDeclare { passive: true, ..declare("none") },
        404,
        "NOT_FOUND - no queue 'none' in vhost '/'",
    );
    refused(
        &mut peer,
        QueueDeclare { durable: true, ..declare("q") },
        406,
        "PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'q' in vhost '/': received 'true' but current is \
         'false'",
    );
    refused(
        &mut peer,
        declare("amq.mine"),
        403,
        "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'",
    );
    refused(
        &mut peer,
        ExchangeDeclare { exchange: "x", kind: "odd", ..Default::default() },
        406,
        "PRECONDITION_FAILED - unknown exchange type 'odd'",
    );
    refused(
        &mut peer,
        ExchangeDeclare { exchange: "", passive: true, ..Default::default() },
        403,
        "ACCESS_REFUSED - operation not permitted on the default exchange",
    );
    refused(
        &mut peer,
        ExchangeDelete { exchange: "", ..Default::default() },
        403,
        "ACCESS_REFUSED - operation not permitted on the default exchange",
    );
    refused(
        &mut peer,
        QueueBind { queue: "q", exchange: "none", ..Default::default() },
        404,
        "NOT_FOUND - no exchange 'none' in vhost '/'",
    );
    refused(
        &mut peer,
        BasicConsume { queue: "none", ..Default::default() },
        404,
        "NOT_FOUND - no queue 'none' in vhost '/'",
    );
}

#[test]
fn exclusive_queues_are_locked_and_go_with_their_connection() {
    let server = server();
    let mut owner = server.channel();
    owner.send(1, QueueDeclare { queue: "mine", exclusive: true, ..Default::default() });
    owner.expect(&[&declared(1, "mine", 0, 0)]);
    let mut other = server.channel();
    let text = "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'mine' in vhost '/'. It could be \
                originally declared on another connection or the exclusive property value does not match that of the \
                original declaration.";
    refused(&mut other, QueueDeclare { queue: "mine", passive: true, ..Default::default() }, 405, text);
    refused(&mut other, QueueUnbind { queue: "mine", exchange: "amq.direct", ..Default::default() }, 405, text);
    owner.send(0, ConnectionClose::default());
    owner.expect(&["0 ConnectionCloseOk"]);
    assert!(owner.is_closed());
    let text = "NOT_FOUND - no queue 'mine' in vhost '/'";
    refused(&mut other, QueueDeclare { queue: "mine", passive: true, ..Default::default() }, 404, text);
}

#[test]
fn without_the_right_nothing_is_done() {
    let mut peer = server().connect_as("weak", &[]);
    peer.open(1);
    let declare = QueueDeclare { queue: "q", ..Default::default() };
    let text = "ACCESS_REFUSED - configure access to queue 'q' in vhost '/' refused for user 'weak'";
    refused(&mut peer, declare, 403, text);
    let consume = BasicConsume { queue: "q", ..Default::default() };
    let text = "ACCESS_REFUSED - read access to queue 'q' in vhost '/' refused for user 'weak'";
    refused(&mut peer, consume, 403, text);
    let text = "ACCESS_REFUSED - write access to exchange 'amq.topic' in vhost '/' refused for user 'weak'";
    peer.publish(1, BasicPublish { exchange: "amq.topic", ..Default::default() }, &[0, 0], b"x");
    peer.expect(&[&channel_closed(1, 403, text, (60, 40))]);
}
