//! The ends of channels and connections, expected and not.

use super::*;

#[test]
fn a_closed_channel_passes_over_everything_until_the_peer_agrees() {
    let mut peer = server().channel();
    peer.send(1, QueueDeclare { queue: "none", passive: true, ..Default::default() });
    peer.expect(&[&channel_closed(1, 404, "NOT_FOUND - no queue 'none' in vhost '/'", (50, 10))]);
    peer.declare_quietly();
    peer.put(1, "none", "x");
    peer.expect(&[]);
    // Both closed at once: each answers the other.
    peer.send(1, ChannelClose::default());
    peer.expect(&["1 ChannelCloseOk"]);
    peer.send(1, ChannelCloseOk {});
    peer.open(1);
    // An answer too many does no harm.
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
    // Before it is open there is nothing to say.
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
