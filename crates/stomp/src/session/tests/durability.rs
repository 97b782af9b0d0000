//! There is no receipt before the flush, and none while an alarm holds back a message.

use std::time::Duration;
use testkit::driver::Reading;

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
    scene.test.flush();
    answers(&mut peer, "1");

    // A queued message is delivered when its delivery mark is on disk.
    peer.say("SUBSCRIBE\nid:s\ndestination:/queue/a\nack:client\n\n\0");
    scene.test.flush();
    peer.run();
    assert_eq!(peer.heard().len(), 1);
    peer.say("ACK\nid:S-0-1\nreceipt:2\n\n\0");
    is_silent(&mut peer);
    scene.test.flush();
    answers(&mut peer, "2");

    peer.say("SUBSCRIBE\nid:t\ndestination:/queue/new\nreceipt:3\n\n\0");
    is_silent(&mut peer);
    scene.test.flush();
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
    scene.test.flush();
    peer.say("COMMIT\ntransaction:t\nreceipt:1\n\n\0SEND\ndestination:/queue/a\n\nlater\0");
    is_silent(&mut peer);
    is_silent(&mut other);
    assert_eq!(peer.state(), ReadState::Pause);
    scene.test.flush();
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
    scene.test.flush();
    peer.run();
    assert_eq!(peer.heard(), ["RECEIPT\nreceipt-id:1", "RECEIPT\nreceipt-id:2"]);
    assert_eq!(peer.state(), ReadState::Answered);
}

#[test]
fn receipts_that_nobody_reads_stop_the_reading() {
    let scene = Scene::new();
    let mut peer = scene.connect("1.2");
    peer.driver.reading = Reading::Nothing;
    let frame = format!("SEND\ndestination:/topic/a\nreceipt:{}\n\n\0", "r".repeat(1000));
    for _ in 0..2000 {
        peer.say(&frame);
    }
    assert_eq!(peer.state(), ReadState::Pause);
    assert!(peer.driver.connection.output().len() < 1_100_000);
    peer.driver.reading = Reading::Everything;
    peer.run();
    assert_eq!(peer.heard().len(), 2000);
}

/// Consumes queue `a` message by message until no more come, and runs `writer` in between. Returns
/// the number of messages.
fn consume_all(scene: &Scene, writer: &mut Peer) -> usize {
    let mut reader = scene.connect("1.2");
    reader.say("SUBSCRIBE\nid:s\ndestination:/queue/a\nack:client\nprefetch-count:10\n\n\0");
    let mut seen = 0;
    loop {
        let heard = reader.heard();
        let Some(last) = heard.last() else { return seen };
        seen += heard.len();
        let id = last.lines().find_map(|line| line.strip_prefix("ack:")).unwrap();
        reader.say(&format!("ACK\nid:{id}\n\n\0"));
        scene.test.housekeep();
        writer.run();
        reader.run();
    }
}

/// Sends 10 kB messages with receipts, at most 1000, while the connection is read. Returns the
/// number of messages.
fn send_until_paused(writer: &mut Peer) -> usize {
    let body = "x".repeat(10_000);
    let mut sent = 0;
    while writer.state() == ReadState::Read && sent < 1000 {
        sent += 1;
        writer.say(&format!("SEND\ndestination:/queue/a\nreceipt:{sent}\n\n{body}\0"));
    }
    sent
}

#[test]
fn an_alarm_stops_a_publisher_until_somebody_consumes() {
    let scene = Scene::with_memory(1 << 20);
    let mut writer = scene.connect("1.2");
    let sent = send_until_paused(&mut writer);
    assert!((50..1000).contains(&sent), "{sent} sent");
    let body = "x".repeat(10_000);
    writer.say(&format!(
        "SEND\ndestination:/queue/a\nreceipt:held\n\n{body}\0SUBSCRIBE\nid:s\ndestination:/queue/b\nreceipt:last\n\n\0"
    ));
    let mut answers = writer.heard();
    assert!(!answers.iter().any(|answer| answer.ends_with("held")));
    assert_eq!(consume_all(&scene, &mut writer), sent + 1);
    answers.extend(writer.heard());
    assert_eq!(answers.len(), sent + 2, "{answers:?}");
    assert_eq!(answers.last().map(String::as_str), Some("RECEIPT\nreceipt-id:last"));
}

#[test]
fn what_an_alarm_parks_holds_back_no_settlement() {
    let scene = Scene::with_memory(1 << 20);
    let mut writer = scene.connect("1.2");
    writer.say("SEND\ndestination:/queue/b\n\nx\0SUBSCRIBE\nid:s\ndestination:/queue/b\nack:client\n\n\0");
    assert_eq!(writer.heard().len(), 1);
    let body = "x".repeat(10_000);
    let mut sent = 0;
    loop {
        sent += 1;
        writer.say(&format!("SEND\ndestination:/queue/a\nreceipt:{sent}\n\n{body}\0"));
        if writer.heard().is_empty() {
            break;
        }
        assert!(sent < 1000, "nothing is parked");
    }
    writer.say("ACK\nid:S-0-1\nreceipt:ack\n\n\0");
    assert_eq!(writer.heard(), ["RECEIPT\nreceipt-id:ack"]);
    assert_eq!(writer.state(), ReadState::Read);
    writer.say("SUBSCRIBE\nid:t\ndestination:/queue/c\nreceipt:late\n\n\0");
    assert_eq!(writer.state(), ReadState::Pause);
    assert_eq!(consume_all(&scene, &mut writer), sent);
    assert_eq!(writer.heard(), [format!("RECEIPT\nreceipt-id:{sent}"), "RECEIPT\nreceipt-id:late".to_owned()]);
}

#[test]
fn what_an_alarm_refuses_ends_the_connection_with_a_receipt_and_without() {
    for (receipt, expected) in [("receipt:2\n", "Message refused\nreceipt-id:2\n"), ("", "precondition_failed\n")] {
        let scene = Scene::new();
        let mut peer = scene.connect("1.2");
        // An earlier receipt makes no difference to a SEND without one.
        peer.say("SUBSCRIBE\nid:s\ndestination:/queue/b\n\n\0SEND\ndestination:/queue/a\nreceipt:1\n\nx\0");
        answers(&mut peer, "1");
        scene.broker.force_alarm("disk", broker::Switch::On).unwrap();
        peer.say(&format!("SEND\ndestination:/queue/a\n{receipt}\ny\0"));
        peer.pass(Duration::from_secs(29));
        is_silent(&mut peer);
        peer.pass(Duration::from_secs(2));
        let heard = peer.heard();
        let error = format!("ERROR\nmessage:{expected}");
        assert!(heard.len() == 1 && heard[0].starts_with(&error), "{receipt:?}: {heard:?}");
        assert_eq!(peer.state(), ReadState::Answered);
    }
}

#[test]
fn a_large_body_is_read_when_it_has_its_turn() {
    // There is room for one body that is under way. Without a length it counts as one of the
    // largest size.
    for length in ["content-length:600000\n", ""] {
        let scene = Scene::stepped_with_memory(4_000_000);
        let (mut first, mut second) = (scene.connect("1.2"), scene.connect("1.2"));
        let (begin, rest) = ("x".repeat(200_000), "x".repeat(400_000));
        for peer in [&mut first, &mut second] {
            peer.say(&format!("SEND\ndestination:/queue/a\npersistent:true\nreceipt:1\n{length}\n{begin}"));
        }
        assert_eq!((first.state(), second.state()), (ReadState::Read, ReadState::Pause), "{length}");
        first.say(&format!("{rest}\0"));
        is_silent(&mut second);
        assert_eq!(second.state(), ReadState::Pause, "the first body is not on disk");
        scene.test.flush();
        answers(&mut first, "1");
        second.run();
        assert_eq!(second.state(), ReadState::Read, "{length}");
        second.say(&format!("{rest}\0"));
        scene.test.flush();
        answers(&mut second, "1");
    }
}
