//! ACK, NACK, prefetch and UNSUBSCRIBE in every version and mode.

use super::{Scene, check, talk};

/// A MESSAGE from queue `a` to subscription `s` of a connection that speaks 1.2.
fn message(tag: u64, body: &str) -> String {
    redelivered(tag, body).replace("redelivered:true", "redelivered:false")
}

/// The same, redelivered.
fn redelivered(tag: u64, body: &str) -> String {
    format!(
        "MESSAGE\nsubscription:s\nmessage-id:S-0-{tag}\nack:S-0-{tag}\ndestination:/queue/a\nredelivered:true\n\n{body}"
    )
}

fn fill(scene: &Scene, bodies: &[&str]) {
    let mut peer = scene.connect("1.2");
    for body in bodies {
        peer.say(&format!("SEND\ndestination:/queue/a\n\n{body}\0"));
    }
}

fn left(scene: &Scene) -> (u64, u64) {
    let queues = scene.broker.queues();
    let queue = queues.iter().find(|queue| queue.name == "a").unwrap();
    (queue.ready, queue.unacked)
}

#[test]
fn an_individual_ack_settles_one() {
    let scene = Scene::new();
    fill(&scene, &["1", "2", "3"]);
    let mut peer = scene.connect("1.2");
    talk(
        &mut peer,
        &[
            (
                "SUBSCRIBE\nid:s\ndestination:/queue/a\nack:client-individual\n\n\0",
                &[&*message(1, "1"), &message(2, "2"), &message(3, "3")],
            ),
            ("ACK\nid:S-0-2\nreceipt:r\n\n\0", &["RECEIPT\nreceipt-id:r"]),
        ],
    );
    assert_eq!(left(&scene), (0, 2));
    talk(&mut peer, &[("NACK\nid:S-0-1\n\n\0", &[&*redelivered(4, "1")])]);
    drop(peer);
    assert_eq!(left(&scene), (2, 0));
}

#[test]
fn a_cumulative_ack_settles_its_subscription_and_no_other() {
    let scene = Scene::new();
    fill(&scene, &["1", "2", "3"]);
    let mut peer = scene.connect("1.2");
    peer.say("SUBSCRIBE\nid:s\ndestination:/queue/a\nack:client\n\n\0");
    peer.say("SUBSCRIBE\nid:t\ndestination:/queue/b\nack:client\n\n\0SEND\ndestination:/queue/b\n\nx\0");
    peer.say("SEND\ndestination:/queue/a\n\n4\0");
    assert_eq!(peer.heard().len(), 5);
    talk(&mut peer, &[("ACK\nid:S-0-5\nreceipt:r\n\n\0", &["RECEIPT\nreceipt-id:r"])]);
    assert_eq!(left(&scene), (0, 0));
    let other = scene.broker.queues().into_iter().find(|queue| queue.name == "b").unwrap();
    assert_eq!(other.unacked, 1);
    talk(&mut peer, &[("ACK\nid:S-1-4\nreceipt:q\n\n\0", &["RECEIPT\nreceipt-id:q"])]);
}

#[test]
fn older_versions_name_the_message() {
    for version in ["1.0", "1.1"] {
        let scene = Scene::new();
        fill(&scene, &["1"]);
        let mut peer = scene.connect(version);
        peer.say("SUBSCRIBE\nid:s\ndestination:/queue/a\nack:client\n\n\0");
        assert!(!peer.heard()[0].contains("\nack:"));
        talk(&mut peer, &[("ACK\nmessage-id:S-0-1\nsubscription:s\nreceipt:r\n\n\0", &["RECEIPT\nreceipt-id:r"])]);
        assert_eq!(left(&scene), (0, 0));
    }
}

#[test]
fn prefetch_bounds_what_is_unsettled() {
    let scene = Scene::new();
    fill(&scene, &["1", "2", "3"]);
    for header in ["prefetch-count", "activemq.prefetchSize"] {
        let mut peer = scene.connect("1.2");
        peer.say(&format!("SUBSCRIBE\nid:s\ndestination:/queue/a\nack:client-individual\n{header}:2\n\n\0"));
        assert_eq!(peer.heard().len(), 2);
        peer.say("NACK\nid:S-0-1\n\n\0");
        assert_eq!(peer.heard().len(), 1);
        assert_eq!(left(&scene), (1, 2));
    }
}

#[test]
fn what_was_delivered_can_be_settled_after_the_subscription() {
    let scene = Scene::new();
    fill(&scene, &["1", "2"]);
    let mut peer = scene.connect("1.2");
    peer.say("SUBSCRIBE\nid:s\ndestination:/queue/a\nack:client\n\n\0");
    assert_eq!(peer.heard().len(), 2);
    talk(
        &mut peer,
        &[
            ("UNSUBSCRIBE\nid:s\nreceipt:1\n\n\0SEND\ndestination:/queue/a\n\n3\0", &["RECEIPT\nreceipt-id:1"]),
            ("ACK\nid:S-0-2\nreceipt:2\n\n\0", &["RECEIPT\nreceipt-id:2"]),
        ],
    );
    assert_eq!(left(&scene), (1, 0));
    peer.say("SUBSCRIBE\nid:s\ndestination:/queue/a\nack:client\n\n\0");
    assert!(peer.heard()[0].contains("message-id:S-1-3"));
}

#[test]
fn a_deleted_queue_ends_its_subscribers() {
    let scene = Scene::new();
    let mut reader = scene.connect("1.2");
    reader.say("SUBSCRIBE\nid:s\ndestination:/queue/a\n\n\0");
    scene.client().delete_queue("a", broker::DeleteIf::ALWAYS, scene.test.now()).unwrap();
    reader.run();
    let heard = reader.heard();
    assert!(heard[0].starts_with("ERROR\nmessage:Server cancelled subscription\nsubscription:s\n"), "{heard:?}");
    assert_eq!(reader.state(), wire::ReadState::Answered);
}

#[test]
fn acks_that_make_no_sense_are_errors() {
    for (frame, message) in [
        ("ACK\n\n\0", "Missing header"),
        ("ACK\nid:x\n\n\0", "Invalid header"),
        ("ACK\nid:S-0-2\n\n\0", "Message not found"),
        ("ACK\nid:S-7-1\n\n\0ACK\nid:S-7-1\n\n\0", "precondition_failed"),
        ("NACK\nid:S-0-1\nrequeue:maybe\n\n\0", "Invalid header"),
        ("ACK\nid:S-0-1\n\n\0ACK\nid:S-0-1\n\n\0", "Message not found"),
    ] {
        let scene = Scene::new();
        fill(&scene, &["1"]);
        let mut peer = scene.connect("1.2");
        peer.say("SUBSCRIBE\nid:s\ndestination:/queue/a\nack:client\n\n\0");
        peer.heard();
        peer.say(frame);
        let heard = peer.heard();
        assert!(heard[0].starts_with(&format!("ERROR\nmessage:{message}\n")), "{frame:?}: {heard:?}");
    }
    check(&[(
        "UNSUBSCRIBE\nid:s\nreceipt:1\n\n\0",
        &["ERROR\nmessage:No subscription found\nreceipt-id:1\n\
        content-type:text/plain\nversion:1.0,1.1,1.2\n\n\
        UNSUBSCRIBE must refer to an existing subscription. Subscription to 's' not found."],
    )]);
}
