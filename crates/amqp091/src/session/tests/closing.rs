//! How channels and connections end, in order and after errors.

use testkit::sim_disk::SimDisk;

use super::*;

#[test]
fn a_closed_channel_passes_over_everything_until_the_peer_agrees() {
    let mut peer = server().channel();
    peer.send(1, QueueDeclare { queue: "none", passive: true, ..Default::default() });
    peer.expect(&[&channel_closed(1, 404, "NOT_FOUND - no queue 'none' in vhost '/'", (50, 10))]);
    peer.declare_quietly();
    peer.put(1, "none", "x");
    peer.expect(&[]);
    // Both sides closed at the same time: each answers the other.
    peer.send(1, ChannelClose::default());
    peer.expect(&["1 ChannelCloseOk"]);
    peer.send(1, ChannelCloseOk {});
    peer.open(1);
    // An answer without a close does no harm.
    peer.send(7, ChannelCloseOk {});
    peer.send(1, AccessRequest::default());
    peer.expect(&["1 AccessRequestOk { ticket: 1 }"]);
}

impl Peer {
    fn declare_quietly(&mut self) {
        self.send(1, QueueDeclare { queue: "late", ..Default::default() });
    }
}

#[test]
fn a_closing_channel_gives_its_messages_back() {
    let server = server();
    let mut peer = server.channel();
    peer.declare(1, "q");
    peer.put(1, "q", "a");
    peer.send(1, BasicConsume { queue: "q", consumer_tag: "c", ..Default::default() });
    peer.wait_for(4);
    peer.lines.clear();
    peer.open(2);
    peer.send(1, ChannelClose::default());
    peer.expect(&["1 ChannelCloseOk"]);
    peer.send(2, QueueDeclare { queue: "q", passive: true, ..Default::default() });
    peer.expect(&[&declared(2, "q", 1, 0)]);
}

#[test]
fn a_failed_connection_waits_for_its_answer_but_not_for_ever() {
    let server = server();
    let text = "CHANNEL_ERROR - expected 'channel.open'";
    for crossing in [false, true] {
        let mut peer = server.channel();
        peer.send(9, BasicQos::default());
        peer.expect(&[&connection_closed(504, text, (60, 10))]);
        if crossing {
            peer.send(0, ConnectionClose::default());
            peer.expect(&["0 ConnectionCloseOk"]);
        }
        peer.advance(29);
        assert!(!peer.is_closed());
        peer.advance(1);
        assert!(peer.is_closed());
    }
}

#[test]
fn the_server_says_why_it_closes() {
    let server = server();
    let forced = "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'";
    for (reason, text) in [
        (CloseReason::Shutdown, forced),
        (CloseReason::Forced("maintenance".to_owned()), "CONNECTION_FORCED - maintenance"),
    ] {
        let mut peer = server.channel();
        peer.close(reason.clone());
        peer.close(reason);
        peer.expect(&[&connection_closed(320, text, (0, 0))]);
        peer.send(0, ConnectionCloseOk {});
        assert!(peer.is_closed());
    }
    // Before the connection is open, nothing is sent.
    let mut peer = server.socket();
    peer.close(CloseReason::Shutdown);
    assert!(peer.is_closed());
    let mut peer = server.channel();
    peer.close(CloseReason::Gone);
    peer.expect(&[]);
    assert!(peer.is_closed());
}

#[test]
fn an_operator_can_close_a_connection() {
    let server = server();
    let mut peer = server.channel();
    let clients = server.test.broker.clients();
    assert!(server.test.broker.kick(clients[0].number, "moving house"));
    peer.expect(&[&connection_closed(320, "CONNECTION_FORCED - moving house", (0, 0))]);
}

/// Unroutable messages are returned before their channel or connection ends, however soon that
/// follows, and even while an earlier confirm waits for its flush.
#[test]
fn what_reached_no_queue_comes_back_before_the_end() {
    let returned = [
        "1 BasicReturn { reply_code: 312, reply_text: \"NO_ROUTE\", exchange: \"\", routing_key: \"none\" }",
        "1 header \\x00\\x00",
        "1 body x",
    ];
    let not_found = channel_closed(1, 404, "NOT_FOUND - no queue 'none' in vhost '/'", (50, 10));
    let ends: [(u16, Method<'_>, &str); 3] = [
        (1, ChannelClose::default().into(), "1 ChannelCloseOk"),
        (1, QueueDeclare { queue: "none", passive: true, ..Default::default() }.into(), &not_found),
        (0, ConnectionClose::default().into(), "0 ConnectionCloseOk"),
    ];
    for (channel, end, last) in ends {
        for held_back in [false, true] {
            let server = server_with(Settings::default(), Setup::stepped(&SimDisk::new(0, 1 << 30), 64 << 20));
            let mut peer = server.channel();
            peer.send(1, QueueDeclare { queue: "q", durable: true, nowait: true, ..Default::default() });
            server.test.flush();
            peer.send(1, ConfirmSelect { nowait: true });
            let mut bytes = Vec::new();
            let mut publish = |publish: BasicPublish<'_>, properties: &[u8]| {
                Method::from(publish).encode(1, &mut bytes);
                frame::encode_header(&mut bytes, 1, 1, properties);
                frame::encode_body(&mut bytes, 1, 4096, b"x");
            };
            if held_back {
                publish(BasicPublish { routing_key: "q", ..Default::default() }, &[0x10, 0, 2]);
            }
            publish(BasicPublish { routing_key: "none", mandatory: true, ..Default::default() }, &[0, 0]);
            end.encode(channel, &mut bytes);
            peer.raw(&bytes);
            server.test.flush();
            peer.expect(&[returned[0], returned[1], returned[2], last]);
        }
    }
}

/// The log describes a connection that takes long, also while it ends.
#[test]
fn a_connection_tells_whose_it_is_and_what_it_is_at() {
    let server = server();
    assert_eq!(server.socket().doing(), ("", "", ""));
    let mut peer = server.channel();
    assert_eq!(peer.doing(), ("guest", "/", "channel.open"));
    peer.declare(1, "q");
    assert_eq!(peer.doing(), ("guest", "/", "queue.declare"));
    peer.put(1, "q", "whole");
    assert_eq!(peer.doing(), ("guest", "/", "basic.publish"));
    peer.raw(&[2, 0, 1]);
    assert_eq!(peer.doing(), ("guest", "/", "basic.publish"), "what has come in part is not looked at yet");
    peer.raw(&[0, 0, 0, 0, 0xce]);
    assert_eq!(peer.doing(), ("guest", "/", "content header"));
    peer.close(CloseReason::Gone);
    assert_eq!(peer.doing(), ("guest", "/", "content header"));
}
