//! What a connection waits for: the flush before a reply, and the peer before more deliveries.

use testkit::sim_disk::SimDisk;

use super::*;

/// A server whose journal is flushed only when the test does it.
fn unflushed() -> Server {
    server_with(Settings::default(), Setup::stepped(&SimDisk::new(0, 1 << 30), 64 << 20))
}

#[test]
fn replies_wait_for_their_flush_and_hold_back_what_comes_after() {
    let server = unflushed();
    let mut peer = server.channel();
    let durable = QueueDeclare { queue: "q", durable: true, ..Default::default() };
    let bind = QueueBind { queue: "q", exchange: "amq.topic", ..Default::default() };
    let delete = QueueDelete { queue: "q", ..Default::default() };
    let steps: [(Method<'_>, String); 4] = [
        (durable.into(), declared(1, "q", 0, 0)),
        (bind.into(), "1 QueueBindOk".to_owned()),
        (delete.into(), "1 QueueDeleteOk { message_count: 0 }".to_owned()),
        (ChannelClose::default().into(), "1 ChannelCloseOk".to_owned()),
    ];
    for (method, reply) in steps {
        let flushed = matches!(method, Method::ChannelClose(_));
        peer.send(1, method);
        peer.send(2, ChannelOpen::default());
        peer.send(2, ChannelClose::default());
        let after = ["2 ChannelOpenOk { channel_id: [] }", "2 ChannelCloseOk"];
        if !flushed {
            peer.pump();
            assert_eq!(peer.lines, [""; 0], "{reply}");
            assert!(!peer.reads());
            server.test.flush();
        }
        peer.expect(&[&reply, after[0], after[1]]);
        assert!(peer.reads());
    }
}

#[test]
fn the_end_of_its_last_consumer_is_answered_when_an_auto_delete_queue_is_gone_for_good() {
    let ends: [(u16, Method<'_>, &str); 3] = [
        (1, BasicCancel { consumer_tag: "c", nowait: false }.into(), "1 BasicCancelOk { consumer_tag: \"c\" }"),
        (1, ChannelClose::default().into(), "1 ChannelCloseOk"),
        (0, ConnectionClose::default().into(), "0 ConnectionCloseOk"),
    ];
    for (channel, end, answer) in ends {
        let server = unflushed();
        let mut peer = server.channel();
        let queue = QueueDeclare { queue: "q", durable: true, auto_delete: true, nowait: true, ..Default::default() };
        peer.send(1, queue);
        peer.send(1, BasicConsume { queue: "q", consumer_tag: "c", nowait: true, ..Default::default() });
        server.test.flush();
        peer.send(channel, end);
        peer.expect(&[]);
        server.test.flush();
        peer.expect(&[answer]);
        assert!(server.test.broker.queues().is_empty());
    }
}

#[test]
fn confirms_wait_for_the_flush_and_come_together() {
    let server = unflushed();
    let mut peer = server.channel();
    peer.send(1, QueueDeclare { queue: "q", durable: true, nowait: true, ..Default::default() });
    server.test.flush();
    peer.send(1, ConfirmSelect { nowait: true });
    for _ in 0..3 {
        let publish = BasicPublish { routing_key: "q", ..Default::default() };
        peer.publish(1, publish, &[0x10, 0, 2], b"persistent");
    }
    peer.expect(&[]);
    server.test.flush();
    peer.wait_for(1);
    assert_eq!(peer.lines.last().map(String::as_str), Some("1 BasicAck { delivery_tag: 3, multiple: true }"));
}

#[test]
fn the_last_reply_of_a_connection_waits_too() {
    let server = unflushed();
    let mut peer = server.channel();
    peer.send(1, QueueDeclare { queue: "q", durable: true, nowait: true, ..Default::default() });
    let publish = BasicPublish { routing_key: "q", ..Default::default() };
    peer.publish(1, publish, &[0x10, 0, 2], b"x");
    server.test.flush();
    peer.send(1, BasicGet { queue: "q", ..Default::default() });
    server.test.flush();
    peer.wait_for(3);
    peer.lines.clear();
    peer.send(1, BasicAck { delivery_tag: 1, multiple: false });
    peer.send(0, ConnectionClose::default());
    peer.pump();
    assert_eq!(peer.lines, [""; 0]);
    assert!(!peer.is_closed());
    peer.close(CloseReason::Shutdown);
    server.test.flush();
    peer.expect(&["0 ConnectionCloseOk"]);
    assert!(peer.is_closed());
}

#[test]
fn deliveries_stay_in_the_queue_while_the_peer_does_not_read() {
    let server = server();
    let mut publisher = server.channel();
    publisher.declare(1, "q");
    let mut consumer = server.channel();
    consumer.send(1, BasicConsume { queue: "q", no_ack: true, consumer_tag: "c", ..Default::default() });
    consumer.expect(&["1 BasicConsumeOk { consumer_tag: \"c\" }"]);
    let body = "x".repeat(100_000);
    for _ in 0..100 {
        publisher.put(1, "q", &body);
    }
    for _ in 0..10 {
        consumer.driver.connection.wake(consumer.driver.now);
    }
    let waiting = consumer.driver.connection.output().len();
    assert!((200_000..1_000_000).contains(&waiting), "{waiting} bytes wait");
    // Work that is due meanwhile is done, so that the driver need not call again at once.
    let later = consumer.deadline().expect("deliveries are watched");
    consumer.driver.connection.tick(later);
    assert!(consumer.deadline().is_some_and(|next| next > later));
    assert!(consumer.driver.connection.output().len() < 1_000_000);
    // The peer reads again: all messages come, in order, and the connection has gone on taking
    // input meanwhile.
    assert!(consumer.reads());
    consumer.wait_for(300);
    assert_eq!(consumer.lines.len(), 300);
    assert_eq!(consumer.lines[297], delivered(1, "c", 100, "q"));
}

#[test]
fn a_peer_that_does_not_read_its_replies_is_not_listened_to() {
    let server = server();
    let mut peer = server.channel();
    let mut bytes = Vec::new();
    for _ in 0..10_000 {
        Method::from(AccessRequest::default()).encode(1, &mut bytes);
    }
    let mut rounds = 0;
    while peer.reads() {
        peer.driver.connection.receive(&bytes, peer.driver.now);
        rounds += 1;
        assert!(rounds < 100, "it listens for ever");
    }
    assert!(peer.driver.connection.output().len() < 2 << 20);
    peer.driver.connection.output().take();
    peer.driver.connection.wake(peer.driver.now);
    assert!(peer.reads());
}

#[test]
fn a_large_body_is_read_when_it_has_its_turn() {
    let mut setup = Setup::stepped(&SimDisk::new(0, 1 << 30), 64 << 20);
    // Room for one body that is under way.
    setup.settings.memory_limit = 4_000_000;
    let server = server_with(Settings::default(), setup);
    let (mut first, mut second) = (server.channel(), server.channel());
    first.send(1, QueueDeclare { queue: "q", durable: true, nowait: true, ..Default::default() });
    server.test.flush();
    let body = vec![7; 600_000];
    let mut bytes = Vec::new();
    Method::from(BasicPublish { routing_key: "q", ..Default::default() }).encode(1, &mut bytes);
    frame::encode_header(&mut bytes, 1, body.len() as u64, &[0x10, 0, 2]);
    frame::encode_body(&mut bytes, 1, 131_072, &body);
    let confirmed = "1 BasicAck { delivery_tag: 1, multiple: false }";
    for peer in [&mut first, &mut second] {
        peer.send(1, ConfirmSelect { nowait: true });
    }
    first.raw(&bytes[..200_000]);
    second.raw(&bytes);
    assert!(first.reads() && !second.reads());
    first.raw(&bytes[200_000..]);
    second.expect(&[]);
    assert!(!second.reads(), "the first body is not on disk");
    server.test.flush();
    first.expect(&[confirmed]);
    second.expect(&[]);
    assert!(second.reads());
    server.test.flush();
    second.expect(&[confirmed]);
    assert_eq!(server.test.broker.queues()[0].ready, 2);
}

#[test]
fn who_holds_a_message_too_long_loses_the_channel() {
    let server = server();
    let mut peer = server.channel();
    peer.send(1, QueueDeclare { queue: "q", nowait: true, ..Default::default() });
    peer.publish(1, BasicPublish { routing_key: "q", ..Default::default() }, &[0, 0], b"x");
    let fields = encode_fields(&[("x-consumer-timeout".to_owned(), Value::I32(60_000))]);
    let arguments = Table::new(&fields).expect("a valid table");
    peer.send(1, BasicConsume { queue: "q", consumer_tag: "c", nowait: true, arguments, ..Default::default() });
    peer.wait_for(1);
    peer.lines.clear();
    assert_eq!(peer.deadline(), Some(peer.driver.now + Duration::from_secs(15)));
    peer.advance(15);
    peer.advance(45);
    peer.expect(&[]);
    peer.advance(15);
    let text = "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: 60000 ms. This \
                timeout value can be configured, see consumers doc guide to learn more";
    peer.expect(&[&channel_closed(1, 406, text, (0, 0))]);
}

/// A connection whose channel 2 is transactional and holds a message with a short time limit;
/// channel 3 is open.
fn overdue(server: &Server) -> Peer {
    let mut peer = server.channel();
    peer.open(2);
    peer.open(3);
    peer.send(1, QueueDeclare { queue: "q", durable: true, nowait: true, ..Default::default() });
    peer.send(1, QueueDeclare { queue: "r", nowait: true, ..Default::default() });
    server.test.flush();
    peer.put(1, "r", "held");
    peer.send(2, TxSelect {});
    let fields = encode_fields(&[("x-consumer-timeout".to_owned(), Value::I32(4_000))]);
    let arguments = Table::new(&fields).expect("a valid table");
    peer.send(2, BasicConsume { queue: "r", consumer_tag: "c", nowait: true, arguments, ..Default::default() });
    peer.wait_for(4);
    peer
}

#[test]
fn a_channel_that_closes_during_its_commit_holds_nothing_up_and_is_told_nothing_more() {
    let mut setup = Setup::memory();
    // Room for ten messages of 1000 bytes, and for one more beyond the limit.
    setup.settings.memory_limit = 11_300;
    for (server, waits_for_alarm) in [(server_with(Settings::default(), setup), true), (unflushed(), false)] {
        let mut peer = overdue(&server);
        for _ in 0..12 * usize::from(waits_for_alarm) {
            peer.put(1, "q", &"x".repeat(1000));
        }
        peer.publish(2, BasicPublish { routing_key: "q", ..Default::default() }, &[0x10, 0, 2], b"x");
        peer.send(2, TxCommit {});
        peer.send(3, AccessRequest::default());
        assert!(!peer.reads());
        peer.lines.clear();
        // Long before the commit times out.
        for _ in 0..6 {
            peer.advance(1);
        }
        let text = "PRECONDITION_FAILED - delivery acknowledgement on channel 2 timed out. Timeout value used: 4000 ms. \
                    This timeout value can be configured, see consumers doc guide to learn more";
        let (closed, answer) = (channel_closed(2, 406, text, (0, 0)), "3 AccessRequestOk { ticket: 1 }");
        if waits_for_alarm {
            peer.expect(&[&closed, answer]);
        } else {
            peer.expect(&[&closed]);
            server.test.flush();
            peer.expect(&[answer]);
            assert_eq!(server.test.broker.queues()[0].ready, 1, "what was sealed stands");
        }
    }
}

#[test]
fn a_channel_that_ends_while_its_reply_is_held_back_ends_behind_it() {
    let server = unflushed();
    let mut peer = overdue(&server);
    peer.lines.clear();
    peer.send(2, QueueDeclare { queue: "s", durable: true, ..Default::default() });
    for _ in 0..6 {
        peer.advance(1);
    }
    peer.expect(&[]);
    server.test.flush();
    let text = "PRECONDITION_FAILED - delivery acknowledgement on channel 2 timed out. Timeout value used: 4000 ms. \
                This timeout value can be configured, see consumers doc guide to learn more";
    peer.expect(&[&declared(2, "s", 0, 0), &channel_closed(2, 406, text, (0, 0))]);
}

#[test]
fn what_waited_for_parked_publishes_goes_on_as_soon_as_they_are_taken() {
    let mut setup = Setup::memory();
    setup.settings.memory_limit = 11_300;
    let server = server_with(Settings::default(), setup);
    // This client is not told of the alarm, so only the end of the alarm wakes its connection.
    let (mut peer, mut other) = (server.connect_as("guest", &[]), server.channel());
    peer.open(1);
    peer.declare(1, "q");
    peer.declare(1, "r");
    // A connection that consumes is still read during the alarm.
    peer.send(1, BasicConsume { queue: "r", nowait: true, ..Default::default() });
    for _ in 0..14 {
        peer.put(1, "q", &"x".repeat(1000));
    }
    peer.send(1, AccessRequest::default());
    assert!(!peer.reads());
    peer.lines.clear();
    other.send(1, QueuePurge { queue: "q", nowait: true, ..Default::default() });
    server.test.setup.clock.advance(50);
    server.test.flush();
    peer.expect(&["1 AccessRequestOk { ticket: 1 }"]);
}

/// What a client asks for behind a long purge waits for the end of it, and a client beside it does
/// not wait for its turns.
#[test]
fn a_long_purge_is_answered_in_order_and_holds_up_nobody() {
    let server = server();
    let (mut peer, mut other) = (server.channel(), server.channel());
    peer.declare(1, "q");
    for _ in 0..300 {
        (0..100).for_each(|_| peer.put(1, "q", "x"));
        peer.pump();
    }
    let behind = QueueDeclare { queue: "q", passive: true, ..Default::default() };
    for method in [Method::from(QueuePurge { queue: "q", ..Default::default() }), behind.into()] {
        method.encode(1, &mut peer.driver.input);
    }
    let mut turns = 0;
    while !peer.driver.input.is_empty() {
        turns += 1;
        assert!(turns < 100, "the purge does not end");
        let driver = &mut peer.driver;
        let taken = driver.connection.receive(&driver.input, driver.now);
        driver.input.drain(..taken);
        driver.output.extend(driver.connection.output().take());
        other.send(1, AccessRequest::default());
        other.expect(&["1 AccessRequestOk { ticket: 1 }"]);
    }
    assert!(turns >= 3, "{turns} turns for 30 000 messages");
    peer.expect(&["1 QueuePurgeOk { message_count: 30000 }", &declared(1, "q", 0, 0)]);
}
