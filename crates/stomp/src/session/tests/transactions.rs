//! BEGIN, COMMIT and ABORT.

use super::{Scene, check, talk};
use crate::limits;

fn ready(scene: &Scene, name: &str) -> (u64, u64) {
    let queues = scene.broker.queues();
    queues.iter().find(|queue| queue.name == name).map_or((0, 0), |queue| (queue.ready, queue.unacked))
}

#[test]
fn a_commit_happens_as_a_whole() {
    let scene = Scene::new();
    let mut peer = scene.connect("1.2");
    talk(
        &mut peer,
        &[
            ("SEND\ndestination:/queue/a\n\n1\0", &[]),
            (
                "SUBSCRIBE\nid:s\ndestination:/queue/a\nack:client-individual\n\n\0",
                &["MESSAGE\nsubscription:s\nmessage-id:S-0-1\nack:S-0-1\ndestination:/queue/a\nredelivered:false\n\n1"],
            ),
            ("BEGIN\ntransaction:t\nreceipt:1\n\n\0", &["RECEIPT\nreceipt-id:1"]),
            ("ACK\nid:S-0-1\ntransaction:t\n\n\0", &[]),
            ("SEND\ndestination:/queue/b\ntransaction:t\nreceipt:2\n\n2\0", &["RECEIPT\nreceipt-id:2"]),
            ("SEND\ndestination:/queue/c\ntransaction:t\n\n3\0", &[]),
        ],
    );
    assert_eq!((ready(&scene, "a"), ready(&scene, "b"), ready(&scene, "c")), ((0, 1), (0, 0), (0, 0)));
    talk(&mut peer, &[("COMMIT\ntransaction:t\nreceipt:3\n\n\0", &["RECEIPT\nreceipt-id:3"])]);
    assert_eq!((ready(&scene, "a"), ready(&scene, "b"), ready(&scene, "c")), ((0, 0), (1, 0), (1, 0)));
}

#[test]
fn an_abort_returns_what_it_had_taken() {
    let scene = Scene::new();
    let mut peer = scene.connect("1.2");
    peer.say("SEND\ndestination:/queue/a\n\n1\0SUBSCRIBE\nid:s\ndestination:/queue/a\nack:client\n\n\0");
    peer.heard();
    talk(
        &mut peer,
        &[
            (
                "BEGIN\ntransaction:t\n\n\0ACK\nid:S-0-1\ntransaction:t\n\n\0SEND\ndestination:/queue/b\ntransaction:t\n\n2\0",
                &[],
            ),
            (
                "ABORT\ntransaction:t\nreceipt:1\n\n\0",
                &[
                    "MESSAGE\nsubscription:s\nmessage-id:S-0-2\nack:S-0-2\ndestination:/queue/a\nredelivered:true\n\n1",
                    "RECEIPT\nreceipt-id:1",
                ],
            ),
            ("BEGIN\ntransaction:t\n\n\0COMMIT\ntransaction:t\nreceipt:2\n\n\0", &["RECEIPT\nreceipt-id:2"]),
        ],
    );
    assert_eq!(ready(&scene, "b"), (0, 0));
}

#[test]
fn receipts_of_a_transaction_leave_in_the_order_in_which_they_were_asked_for() {
    check(&[(
        "BEGIN\ntransaction:t\nreceipt:1\n\n\0SEND\ndestination:/queue/a\ntransaction:t\nreceipt:2\n\nx\0\
         COMMIT\ntransaction:t\nreceipt:3\n\n\0",
        &["RECEIPT\nreceipt-id:1", "RECEIPT\nreceipt-id:2", "RECEIPT\nreceipt-id:3"],
    )]);
}

#[test]
fn transactions_stand_beside_each_other() {
    let scene = Scene::new();
    let mut peer = scene.connect("1.2");
    peer.say("BEGIN\ntransaction:1\n\n\0BEGIN\ntransaction:2\n\n\0");
    peer.say("SEND\ndestination:/queue/a\ntransaction:1\n\nx\0SEND\ndestination:/queue/b\ntransaction:2\n\nx\0");
    talk(
        &mut peer,
        &[("ABORT\ntransaction:1\n\n\0COMMIT\ntransaction:2\nreceipt:1\n\n\0", &["RECEIPT\nreceipt-id:1"])],
    );
    assert_eq!((ready(&scene, "a"), ready(&scene, "b")), ((0, 0), (1, 0)));
    peer.say("BEGIN\ntransaction:3\n\n\0SEND\ndestination:/queue/a\ntransaction:3\n\nx\0");
    drop(peer);
    assert_eq!(ready(&scene, "a"), (0, 0));
}

#[test]
fn transactions_are_bounded_in_number_and_size() {
    let mut peer = Scene::new().connect("1.2");
    for number in 0..limits::TRANSACTIONS {
        peer.say(&format!("BEGIN\ntransaction:{number}\nreceipt:r\n\n\0"));
        assert_eq!(peer.heard(), ["RECEIPT\nreceipt-id:r"]);
    }
    peer.say("BEGIN\ntransaction:more\nreceipt:r\n\n\0");
    assert!(peer.heard()[0].starts_with("ERROR\nmessage:Transaction limit exceeded\n"));
    let mut peer = Scene::new().connect("1.2");
    talk(&mut peer, &[("BEGIN\ntransaction:t\n\n\0", &[])]);
    let body = "x".repeat(15 << 20);
    for _ in 0..4 {
        peer.say(&format!("SEND\ndestination:/queue/a\ntransaction:t\n\n{body}\0"));
        assert!(peer.heard().is_empty());
    }
    peer.say(&format!("SEND\ndestination:/queue/a\ntransaction:t\n\n{body}\0"));
    assert!(peer.heard()[0].contains("precondition_failed"));
}
