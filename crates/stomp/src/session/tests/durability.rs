//! No receipt before the flush: the journal writes only when the test tells it to.

use wire::ReadState;

use super::{Peer, Scene};

fn is_silent(peer: &mut Peer) {
    peer.run();
    assert_eq!(peer.heard(), [""; 0]);
}

fn answers(peer: &mut Peer, receipt: &str) {
    peer.run();
    assert_eq!(peer.heard(), [format!("RECEIPT\nreceipt-id:{receipt}")]);
}

#[test]
fn receipts_wait_for_the_disk() {
    let scene = Scene::stepped();
    let mut peer = scene.connect("1.2");
    peer.say("SEND\ndestination:/queue/a\npersistent:true\nreceipt:1\n\nx\0");
    is_silent(&mut peer);
    scene.flush();
    answers(&mut peer, "1");

    peer.say("SUBSCRIBE\nid:s\ndestination:/queue/a\nack:client\n\n\0");
    assert_eq!(peer.heard().len(), 1);
    peer.say("ACK\nid:S-0-1\nreceipt:2\n\n\0");
    is_silent(&mut peer);
    scene.flush();
    answers(&mut peer, "2");

    peer.say("SUBSCRIBE\nid:t\ndestination:/queue/new\nreceipt:3\n\n\0");
    is_silent(&mut peer);
    scene.flush();
    answers(&mut peer, "3");
}

#[test]
fn a_transient_message_does_not_wait() {
    let scene = Scene::stepped();
    let mut peer = scene.connect("1.2");
    peer.say("SUBSCRIBE\nid:s\ndestination:/topic/a\n\n\0SEND\ndestination:/topic/a\nreceipt:1\n\nx\0");
    let heard = peer.heard();
    assert!(heard.iter().any(|frame| frame == "RECEIPT\nreceipt-id:1"), "{heard:?}");
}

#[test]
fn a_commit_is_visible_and_answered_when_it_is_durable() {
    let scene = Scene::stepped();
    let (mut peer, mut other) = (scene.connect("1.2"), scene.connect("1.2"));
    other.say("SUBSCRIBE\nid:s\ndestination:/queue/a\n\n\0");
    peer.say("BEGIN\ntransaction:t\n\n\0SEND\ndestination:/queue/a\npersistent:true\ntransaction:t\n\nx\0");
    scene.flush();
    peer.say("COMMIT\ntransaction:t\nreceipt:1\n\n\0SEND\ndestination:/queue/a\n\nlater\0");
    is_silent(&mut peer);
    is_silent(&mut other);
    assert_eq!(peer.state(), ReadState::Pause);
    scene.flush();
    scene.broker.housekeep(scene.start, std::task::Waker::noop());
    answers(&mut peer, "1");
    other.run();
    let bodies: Vec<_> = other.heard().iter().map(|frame| frame.lines().last().unwrap().to_owned()).collect();
    assert_eq!(bodies, ["x", "later"]);
}

#[test]
fn disconnect_is_answered_after_everything_before_it() {
    let scene = Scene::stepped();
    let mut peer = scene.connect("1.2");
    peer.say("SEND\ndestination:/queue/a\npersistent:true\nreceipt:1\n\nx\0");
    peer.say("SEND\ndestination:/queue/a\npersistent:true\n\ny\0DISCONNECT\nreceipt:2\n\n\0");
    is_silent(&mut peer);
    assert_eq!(peer.state(), ReadState::Pause);
    scene.flush();
    peer.run();
    assert_eq!(peer.heard(), ["RECEIPT\nreceipt-id:1", "RECEIPT\nreceipt-id:2"]);
    assert_eq!(peer.state(), ReadState::Closed);
}

#[test]
fn receipts_that_nobody_reads_stop_the_reading() {
    let scene = Scene::new();
    let mut peer = scene.connect("1.2");
    peer.reads_output = false;
    let frame = format!("SEND\ndestination:/topic/a\nreceipt:{}\n\n\0", "r".repeat(1000));
    for _ in 0..1000 {
        peer.say(&frame);
    }
    assert_eq!(peer.state(), ReadState::Pause);
    assert!(peer.connection.output().len() < 600_000);
    peer.reads_output = true;
    peer.run();
    assert_eq!(peer.heard().len(), 1000);
}
