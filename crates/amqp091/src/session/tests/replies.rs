//! Direct reply-to: replies that reach a channel without a queue.

use super::*;
use crate::codec::BasicProperties;
use crate::session::publish::REPLY_TO;

/// Starts the consumer `r` of replies on this channel.
fn wait_for_replies(peer: &mut Peer, channel: u16) {
    let consume = BasicConsume { queue: REPLY_TO, consumer_tag: "r", no_ack: true, ..Default::default() };
    peer.send(channel, consume);
    peer.expect(&[&format!("{channel} BasicConsumeOk {{ consumer_tag: \"r\" }}")]);
}

fn request(peer: &mut Peer, queue: &str) {
    let properties = BasicProperties { reply_to: Some(REPLY_TO.as_bytes()), app_id: Some(b"a"), ..Default::default() };
    let publish = BasicPublish { routing_key: queue, ..Default::default() };
    peer.publish(1, publish, &properties.to_bytes(), b"ping");
}

/// Takes the request from queue `q` and returns the address of its reply.
fn take_request(peer: &mut Peer) -> String {
    peer.send(1, BasicGet { queue: "q", no_ack: true, ..Default::default() });
    peer.wait_for(3);
    let lines = std::mem::take(&mut peer.lines);
    let (_, rest) = lines[1].split_once("amq.rabbitmq.reply-to.").expect("a rewritten reply-to");
    // Clients match the form: two parts, the second of them padded. The properties after it are
    // unchanged.
    let parts = rest.strip_suffix("==\\x01a").and_then(|rest| rest.split_once('.'));
    assert!(parts.is_some_and(|(one, other)| (one.len(), other.len()) == (22, 22)), "{rest}");
    format!("amq.rabbitmq.reply-to.{}", &rest[..22 + 1 + 24])
}

fn replied(channel: u16, tag: u64, address: &str) -> String {
    format!(
        "{channel} BasicDeliver {{ consumer_tag: \"r\", delivery_tag: {tag}, redelivered: false, exchange: \"\", \
         routing_key: \"{address}\" }}"
    )
}

/// A requester on channel 1 of its connection, and a replier with the request.
fn requested(server: &Server) -> (Peer, Peer, String) {
    let (mut requester, mut replier) = (server.channel(), server.channel());
    replier.declare(1, "q");
    wait_for_replies(&mut requester, 1);
    request(&mut requester, "q");
    let address = take_request(&mut replier);
    (requester, replier, address)
}

#[test]
fn replies_come_back_without_a_queue() {
    let server = server();
    let (mut requester, mut replier, address) = requested(&server);
    replier.send(1, ConfirmSelect { nowait: true });
    for tag in 1..=2 {
        let publish = BasicPublish { routing_key: &address, mandatory: true, ..Default::default() };
        replier.publish(1, publish, &[0x10, 0, 2], b"pong");
        replier.expect(&[&format!("1 BasicAck {{ delivery_tag: {tag}, multiple: false }}")]);
        requester.expect(&[&replied(1, tag, &address), "1 header \\x10\\x00\\x02", "1 body pong"]);
    }
    assert_eq!(server.test.broker.queues().len(), 1);
}

/// The methods that are sent; then code, text and method of the refusal.
type Refusal<'a> = (&'a [Method<'a>], u16, &'a str, (u16, u16));

#[test]
fn who_waits_for_replies_says_so_once_and_without_acknowledging() {
    let mut peer = server().channel();
    let consume = |no_ack, tag| BasicConsume { queue: REPLY_TO, consumer_tag: tag, no_ack, ..Default::default() };
    let refusals: [Refusal<'_>; 3] = [
        (&[consume(false, "r").into()], 406, "PRECONDITION_FAILED - reply consumer cannot acknowledge", (60, 20)),
        (
            &[consume(true, "r").into(), consume(true, "s").into()],
            406,
            "PRECONDITION_FAILED - reply consumer already set",
            (60, 20),
        ),
        (
            &[QueueDeclare { queue: "amq.rabbitmq.reply-to.nobody", ..Default::default() }.into()],
            404,
            "NOT_FOUND - no queue 'amq.rabbitmq.reply-to.nobody' in vhost '/'",
            (50, 10),
        ),
    ];
    for (methods, code, text, blamed) in refusals {
        for method in methods {
            peer.send(1, *method);
        }
        peer.wait_for(methods.len());
        assert_eq!(peer.lines.pop(), Some(channel_closed(1, code, text, blamed)));
        peer.lines.clear();
        peer.send(1, ChannelCloseOk {});
        peer.open(1);
    }
    // The request must come from the channel that consumes replies; another channel of the
    // connection is refused.
    peer.open(2);
    wait_for_replies(&mut peer, 2);
    request(&mut peer, "q");
    peer.expect(&[&channel_closed(1, 406, "PRECONDITION_FAILED - fast reply consumer does not exist", (60, 40))]);
}

#[test]
fn a_reply_address_can_be_looked_up_as_if_it_were_a_queue() {
    let server = server();
    let (mut requester, mut replier, address) = requested(&server);
    for (queue, passive) in [(REPLY_TO, true), (REPLY_TO, false), (&*address, true), (&*address, false)] {
        replier.send(1, QueueDeclare { queue, passive, ..Default::default() });
        replier.expect(&[&declared(1, queue, 0, 1)]);
    }
    requester.send(1, BasicCancel { consumer_tag: "r", nowait: false });
    requester.expect(&["1 BasicCancelOk { consumer_tag: \"r\" }"]);
    replier.send(1, QueueDeclare { queue: &address, passive: true, ..Default::default() });
    let text = format!("NOT_FOUND - no queue '{address}' in vhost '/'");
    replier.expect(&[&channel_closed(1, 404, &text, (50, 10))]);
    // The channel may consume replies again, at another address.
    wait_for_replies(&mut requester, 1);
}

/// Only clients that were given the address know it, and only its owner and users that may reply
/// are told that it exists. To all others it looks like a queue that does not exist.
#[test]
fn a_reply_address_shows_itself_to_its_owner_and_to_repliers_alone() {
    let server = server();
    let (mut requester, _replier, address) = requested(&server);
    requester.send(1, QueueDeclare { queue: &address, passive: true, ..Default::default() });
    requester.expect(&[&declared(1, &address, 0, 1)]);
    server.test.user("reader", ".*", "^$", ".*");
    for queue in [&*address, "amq.rabbitmq.reply-to.none"] {
        let mut reader = server.connect_as("reader", &capabilities());
        reader.open(1);
        reader.send(1, QueueDeclare { queue, passive: true, ..Default::default() });
        let text = format!("NOT_FOUND - no queue '{queue}' in vhost '/'");
        reader.expect(&[&channel_closed(1, 404, &text, (50, 10))]);
        let mut weak = server.connect_as("weak", &capabilities());
        weak.open(1);
        weak.send(1, QueueDeclare { queue, passive: true, ..Default::default() });
        weak.wait_for(1);
        assert!(weak.lines[0].contains("reply_code: 403"), "{:?}", weak.lines);
    }
}

#[test]
fn a_reply_to_nobody_is_unroutable() {
    let ends: [fn(&mut Peer); 3] = [
        |peer| peer.send(1, BasicCancel { consumer_tag: "r", nowait: true }),
        |peer| peer.send(1, ChannelClose::default()),
        |peer| peer.close(CloseReason::Gone),
    ];
    for end in ends {
        let (mut requester, mut replier, address) = requested(&server());
        end(&mut requester);
        requester.lines.clear();
        for mandatory in [false, true] {
            let publish = BasicPublish { routing_key: &address, mandatory, ..Default::default() };
            replier.publish(1, publish, &[0, 0], b"pong");
        }
        let returned = format!(
            "1 BasicReturn {{ reply_code: 312, reply_text: \"NO_ROUTE\", exchange: \"\", routing_key: \"{address}\" }}"
        );
        replier.expect(&[&returned, "1 header \\x00\\x00", "1 body pong"]);
        requester.expect(&[]);
    }
}

#[test]
fn a_reply_in_a_transaction_waits_for_its_commit() {
    let (mut requester, mut replier, address) = requested(&server());
    replier.send(1, TxSelect {});
    replier.expect(&["1 TxSelectOk"]);
    for (body, end, answer) in [
        ("never", Method::TxRollback(TxRollback {}), "1 TxRollbackOk"),
        ("pong", Method::TxCommit(TxCommit {}), "1 TxCommitOk"),
    ] {
        replier.put(1, &address, body);
        requester.expect(&[]);
        replier.send(1, end);
        replier.expect(&[answer]);
    }
    requester.expect(&[&replied(1, 1, &address), "1 header \\x00\\x00", "1 body pong"]);
}

#[test]
fn replies_that_nobody_reads_are_not_piled_up() {
    let (mut requester, mut replier, address) = requested(&server());
    let body = "x".repeat(1 << 20);
    let publish = BasicPublish { routing_key: &address, mandatory: true, ..Default::default() };
    // One mailbox takes 16 MiB, whether or not its connection reads.
    for _ in 0..17 {
        replier.publish(1, publish, &[0, 0], body.as_bytes());
    }
    replier.wait_for(2);
    let returned = std::mem::take(&mut replier.lines);
    assert_eq!(returned.iter().filter(|line| line.contains("BasicReturn")).count(), 1);
    requester.wait_for(16 * 2);
    assert_eq!(requester.lines.iter().filter(|line| line.contains("BasicDeliver")).count(), 16);
}
