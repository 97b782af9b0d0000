//! Consumers, prefetch, acknowledgements, requeueing, transactions.

use super::*;

/// A channel whose consumer `c` of queue `q` holds messages 1 to `count`.
fn consuming(server: &Server, count: u64) -> Peer {
    let mut peer = server.channel();
    peer.declare(1, "q");
    peer.send(1, BasicConsume { queue: "q", consumer_tag: "c", ..Default::default() });
    peer.expect(&["1 BasicConsumeOk { consumer_tag: \"c\" }"]);
    for tag in 1..=count {
        peer.put(1, "q", &format!("m{tag}"));
    }
    peer.wait_for(3 * count as usize);
    assert_eq!(peer.lines.len(), 3 * count as usize);
    peer.lines.clear();
    peer
}

fn ready(peer: &mut Peer, messages: u32, consumers: u32) {
    peer.send(1, QueueDeclare { queue: "q", passive: true, ..Default::default() });
    peer.expect(&[&declared(1, "q", messages, consumers)]);
}

#[test]
fn acknowledged_messages_are_gone_and_the_others_return_in_place() {
    let mut peer = consuming(&server(), 4);
    peer.send(1, BasicAck { delivery_tag: 2, multiple: false });
    peer.send(1, BasicNack { delivery_tag: 3, multiple: false, requeue: false });
    peer.send(1, BasicCancel { consumer_tag: "c", nowait: false });
    peer.expect(&["1 BasicCancelOk { consumer_tag: \"c\" }"]);
    peer.send(1, BasicReject { delivery_tag: 4, requeue: true });
    peer.send(1, BasicRecover { requeue: true });
    peer.expect(&["1 BasicRecoverOk"]);
    ready(&mut peer, 2, 0);
    for (tag, left, body) in [(5, 1, "m1"), (6, 0, "m4")] {
        peer.send(1, BasicGet { queue: "q", ..Default::default() });
        let got = format!(
            "1 BasicGetOk {{ delivery_tag: {tag}, redelivered: true, exchange: \"\", routing_key: \"q\", \
             message_count: {left} }}"
        );
        peer.expect(&[&got, "1 header \\x00\\x00", &format!("1 body {body}")]);
    }
    peer.send(1, BasicAck { delivery_tag: 0, multiple: true });
    peer.send(1, ChannelClose::default());
    peer.expect(&["1 ChannelCloseOk"]);
    peer.open(1);
    ready(&mut peer, 0, 0);
}

#[test]
fn unknown_tags_close_the_channel() {
    let text = |tag: u64| format!("PRECONDITION_FAILED - unknown delivery tag {tag}");
    let table: [(&[Method<'_>], u64, (u16, u16)); 4] = [
        (&[Method::BasicAck(BasicAck { delivery_tag: 9, multiple: false })], 9, (60, 80)),
        (&[Method::BasicAck(BasicAck { delivery_tag: 0, multiple: false })], 0, (60, 80)),
        (
            &[
                Method::BasicAck(BasicAck { delivery_tag: 1, multiple: false }),
                Method::BasicAck(BasicAck { delivery_tag: 1, multiple: true }),
            ],
            1,
            (60, 80),
        ),
        (&[Method::BasicReject(BasicReject { delivery_tag: 7, requeue: true })], 7, (60, 90)),
    ];
    for (methods, tag, blamed) in table {
        let mut peer = consuming(&server(), 2);
        for method in methods {
            peer.send(1, *method);
        }
        peer.expect(&[&channel_closed(1, 406, &text(tag), blamed)]);
    }
}

#[test]
fn prefetch_bounds_what_a_consumer_holds() {
    let mut peer = server().channel();
    peer.declare(1, "q");
    peer.send(1, BasicQos { prefetch_size: 0, prefetch_count: 1, global: false });
    peer.expect(&["1 BasicQosOk"]);
    peer.send(1, BasicConsume { queue: "q", consumer_tag: "c", ..Default::default() });
    peer.expect(&["1 BasicConsumeOk { consumer_tag: \"c\" }"]);
    peer.put(1, "q", "a");
    peer.put(1, "q", "b");
    peer.expect(&[&delivered(1, "c", 1, "q"), "1 header \\x00\\x00", "1 body a"]);
    // For RabbitMQ's clients this applies to later consumers only.
    peer.send(1, BasicQos { prefetch_size: 0, prefetch_count: 2, global: false });
    peer.expect(&["1 BasicQosOk"]);
    peer.send(1, BasicAck { delivery_tag: 1, multiple: false });
    peer.expect(&[&delivered(1, "c", 2, "q"), "1 header \\x00\\x00", "1 body b"]);
}

#[test]
fn py_amqp_changes_the_prefetch_of_present_consumers() {
    let product = ("product".to_owned(), Value::from("py-amqp"));
    let mut peer = server().connect_as("guest", &[product]);
    peer.open(1);
    peer.declare(1, "q");
    peer.send(1, BasicQos { prefetch_size: 0, prefetch_count: 1, global: false });
    peer.expect(&["1 BasicQosOk"]);
    peer.send(1, BasicConsume { queue: "q", consumer_tag: "c", ..Default::default() });
    peer.expect(&["1 BasicConsumeOk { consumer_tag: \"c\" }"]);
    peer.put(1, "q", "a");
    peer.put(1, "q", "b");
    peer.expect(&[&delivered(1, "c", 1, "q"), "1 header \\x00\\x00", "1 body a"]);
    peer.send(1, BasicQos { prefetch_size: 0, prefetch_count: 2, global: false });
    peer.expect(&["1 BasicQosOk", &delivered(1, "c", 2, "q"), "1 header \\x00\\x00", "1 body b"]);
}

#[test]
fn a_consumer_hears_that_its_queue_is_gone_if_it_can() {
    let server = server();
    for (fields, told) in [(capabilities(), true), (vec![], false)] {
        let mut peer = server.connect_as("guest", &fields);
        peer.open(1);
        peer.declare(1, "q");
        peer.send(1, BasicConsume { queue: "q", consumer_tag: "c", ..Default::default() });
        peer.expect(&["1 BasicConsumeOk { consumer_tag: \"c\" }"]);
        let mut other = server.channel();
        other.send(1, QueueDelete { queue: "q", ..Default::default() });
        other.expect(&["1 QueueDeleteOk { message_count: 0 }"]);
        if told {
            peer.expect(&["1 BasicCancel { consumer_tag: \"c\", nowait: true }"]);
            peer.send(1, BasicCancelOk { consumer_tag: "c" });
        }
        peer.send(1, BasicCancel { consumer_tag: "c", nowait: false });
        peer.expect(&["1 BasicCancelOk { consumer_tag: \"c\" }"]);
    }
}

#[test]
fn transactions_happen_at_their_commit_or_not_at_all() {
    let mut peer = server().channel();
    peer.declare(1, "q");
    peer.send(1, TxSelect {});
    peer.expect(&["1 TxSelectOk"]);
    peer.put(1, "q", "a");
    ready(&mut peer, 0, 0);
    peer.send(1, TxCommit {});
    peer.expect(&["1 TxCommitOk"]);
    ready(&mut peer, 1, 0);
    peer.put(1, "q", "b");
    peer.send(1, TxRollback {});
    peer.expect(&["1 TxRollbackOk"]);
    ready(&mut peer, 1, 0);
    peer.send(1, BasicGet { queue: "q", ..Default::default() });
    peer.wait_for(3);
    peer.lines.clear();
    peer.send(1, BasicAck { delivery_tag: 1, multiple: false });
    peer.send(1, TxRollback {});
    peer.expect(&["1 TxRollbackOk"]);
    peer.send(1, BasicAck { delivery_tag: 1, multiple: false });
    peer.send(1, TxCommit {});
    peer.expect(&["1 TxCommitOk"]);
    peer.send(1, ChannelClose::default());
    peer.expect(&["1 ChannelCloseOk"]);
    peer.open(1);
    ready(&mut peer, 0, 0);
}

#[test]
fn in_a_transaction_all_means_all_as_of_then() {
    let mut peer = consuming(&server(), 2);
    peer.send(1, TxSelect {});
    peer.expect(&["1 TxSelectOk"]);
    peer.send(1, BasicAck { delivery_tag: 0, multiple: true });
    peer.open(2);
    peer.put(2, "q", "m3");
    peer.expect(&[&delivered(1, "c", 3, "q"), "1 header \\x00\\x00", "1 body m3"]);
    peer.send(1, TxCommit {});
    peer.expect(&["1 TxCommitOk"]);
    peer.send(1, ChannelClose::default());
    peer.expect(&["1 ChannelCloseOk"]);
    peer.send(2, QueueDeclare { queue: "q", passive: true, ..Default::default() });
    peer.expect(&[&declared(2, "q", 1, 0)]);
}

#[test]
fn in_a_transaction_a_wrong_tag_is_refused_at_once() {
    let ack = |delivery_tag, multiple| Method::BasicAck(BasicAck { delivery_tag, multiple });
    let table: [(&[Method<'_>], u64, (u16, u16)); 4] = [
        (&[ack(3, false)], 3, (60, 80)),
        (&[ack(1, false), ack(1, false)], 1, (60, 80)),
        (&[ack(2, true), ack(0, true), ack(2, true)], 2, (60, 80)),
        (&[ack(1, false), Method::BasicReject(BasicReject { delivery_tag: 1, requeue: true })], 1, (60, 90)),
    ];
    for (methods, tag, blamed) in table {
        let mut peer = consuming(&server(), 2);
        peer.send(1, TxSelect {});
        peer.expect(&["1 TxSelectOk"]);
        for method in methods {
            peer.send(1, *method);
        }
        let text = format!("PRECONDITION_FAILED - unknown delivery tag {tag}");
        peer.expect(&[&channel_closed(1, 406, &text, blamed)]);
        // The transaction ends with the channel, so nothing is settled.
        peer.send(1, ChannelCloseOk {});
        peer.open(1);
        ready(&mut peer, 2, 0);
    }
}

#[test]
fn recovery_leaves_alone_what_the_open_transaction_settles() {
    let mut peer = server().channel();
    peer.declare(1, "q");
    for body in ["a", "b"] {
        peer.put(1, "q", body);
    }
    peer.send(1, TxSelect {});
    peer.expect(&["1 TxSelectOk"]);
    for _ in 0..2 {
        peer.send(1, BasicGet { queue: "q", ..Default::default() });
    }
    peer.wait_for(6);
    peer.lines.clear();
    peer.send(1, BasicAck { delivery_tag: 1, multiple: false });
    peer.send(1, BasicRecover { requeue: true });
    peer.expect(&["1 BasicRecoverOk"]);
    ready(&mut peer, 1, 0);
    peer.send(1, TxRollback {});
    peer.expect(&["1 TxRollbackOk"]);
    peer.send(1, BasicRecover { requeue: true });
    peer.expect(&["1 BasicRecoverOk"]);
    ready(&mut peer, 2, 0);
}

#[test]
fn who_deletes_the_queue_of_its_consumer_is_answered_before_it_is_told() {
    let server =
        server_with(Settings::default(), Setup::stepped(&testkit::sim_disk::SimDisk::new(0, 1 << 30), 64 << 20));
    let mut peer = server.channel();
    for durable in [false, true] {
        peer.send(1, QueueDeclare { queue: "q", durable, ..Default::default() });
        server.test.flush();
        peer.expect(&[&declared(1, "q", 0, 0)]);
        peer.send(1, BasicConsume { queue: "q", consumer_tag: "c", ..Default::default() });
        peer.expect(&["1 BasicConsumeOk { consumer_tag: \"c\" }"]);
        peer.send(1, QueueDelete { queue: "q", ..Default::default() });
        peer.pump();
        server.test.flush();
        peer.expect(&["1 QueueDeleteOk { message_count: 0 }", "1 BasicCancel { consumer_tag: \"c\", nowait: true }"]);
    }
}

#[test]
fn confirms_and_transactions_exclude_each_other() {
    let refusals: [(&[Method<'_>], &str); 3] = [
        (
            &[Method::TxSelect(TxSelect {}), Method::ConfirmSelect(ConfirmSelect { nowait: false })],
            "PRECONDITION_FAILED - cannot switch from tx to confirm mode",
        ),
        (
            &[Method::ConfirmSelect(ConfirmSelect { nowait: false }), Method::TxSelect(TxSelect {})],
            "PRECONDITION_FAILED - cannot switch from confirm to tx mode",
        ),
        (&[Method::TxCommit(TxCommit {})], "PRECONDITION_FAILED - channel is not transactional"),
    ];
    for (methods, text) in refusals {
        let mut peer = server().channel();
        for method in methods {
            peer.send(1, *method);
        }
        peer.wait_for(methods.len());
        let blamed = methods[methods.len() - 1].id();
        assert_eq!(peer.lines.last(), Some(&channel_closed(1, 406, text, blamed)));
    }
}

/// Whether a message that `basic.get` fetched is redelivered, and which count headers it has.
fn fetch(peer: &mut Peer, queue: &str) -> (bool, Vec<(&'static str, i64)>) {
    peer.send(1, BasicGet { queue, ..Default::default() });
    peer.wait_for(3);
    let lines = std::mem::take(&mut peer.lines);
    assert!(lines[0].contains("BasicGetOk"), "{lines:?}");
    let count = |name: &'static str| {
        let (_, value) = lines[1].split_once(&format!("{name}l"))?;
        let last = value.strip_prefix("\\x00".repeat(7).as_str())?;
        let byte = last.strip_prefix("\\x").and_then(|digits| i64::from_str_radix(&digits[..2], 16).ok());
        Some((name, byte.unwrap_or(-1)))
    };
    let counts = ["x-delivery-count", "x-acquired-count"].into_iter().filter_map(count).collect();
    (lines[0].contains("redelivered: true"), counts)
}

#[test]
fn what_is_rejected_counts_and_what_is_nacked_does_not() {
    let mut peer = server().channel();
    let arguments = encode_fields(&[
        ("x-queue-type".to_owned(), Value::from("quorum")),
        ("x-dead-letter-exchange".to_owned(), Value::from("")),
        ("x-dead-letter-routing-key".to_owned(), Value::from("dead")),
    ]);
    let arguments = Table::new(&arguments).expect("a valid table");
    peer.declare(1, "dead");
    peer.send(1, QueueDeclare { queue: "q", durable: true, arguments, ..Default::default() });
    peer.expect(&[&declared(1, "q", 0, 0)]);
    peer.put(1, "q", "m");
    assert_eq!(fetch(&mut peer, "q"), (false, vec![]));
    for tag in 1..=30 {
        peer.send(1, BasicNack { delivery_tag: tag, multiple: false, requeue: true });
        let (redelivered, counts) = fetch(&mut peer, "q");
        assert!(redelivered && counts.len() == 1 && counts[0].0 == "x-acquired-count", "{tag}: {counts:?}");
    }
    peer.send(1, BasicReject { delivery_tag: 31, requeue: true });
    assert_eq!(fetch(&mut peer, "q"), (true, vec![("x-delivery-count", 1), ("x-acquired-count", 31)]));
    for tag in 32..=50 {
        peer.send(1, BasicReject { delivery_tag: tag, requeue: true });
        assert!(fetch(&mut peer, "q").0);
    }
    peer.send(1, BasicReject { delivery_tag: 51, requeue: true });
    peer.send(1, BasicGet { queue: "q", ..Default::default() });
    peer.expect(&["1 BasicGetEmpty { cluster_id: \"\" }"]);
    assert!(!fetch(&mut peer, "dead").0);
}
