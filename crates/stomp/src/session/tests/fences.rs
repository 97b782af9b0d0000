//! Every receipt is a fence. It comes when everything that the connection settled before is
//! durable, so that no later crash can undo it. One table has every frame that can ask for a
//! receipt. Each is tried with a slow disk and with a kill.

use testkit::sim_disk::SimDisk;

use super::{Peer, Scene};

/// The frames, each with a receipt `r`. Before, subscription `s` settled the message of queue `a`,
/// and subscription `v` holds `S-1-2` of queue `b`. The transactions `t` and `u` are open.
const FRAMES: [&str; 17] = [
    "SEND\ndestination:/queue/b\npersistent:true\nreceipt:r\n\nz\0",
    "SEND\ndestination:/queue/b\nreceipt:r\n\nz\0",
    "SEND\ndestination:/topic/none\nreceipt:r\n\nz\0",
    "SEND\ndestination:/queue/b\nreceipt:r\n\nz\0UNSUBSCRIBE\nid:v\n\n\0",
    "SEND\ndestination:/queue/b\ntransaction:t\nreceipt:r\n\nz\0",
    "SUBSCRIBE\nid:w\ndestination:/queue/b\nreceipt:r\n\n\0",
    "SUBSCRIBE\nid:w\ndestination:/queue/new\nreceipt:r\n\n\0",
    "SUBSCRIBE\nid:w\ndestination:/topic/k\nreceipt:r\n\n\0",
    "UNSUBSCRIBE\nid:s\nreceipt:r\n\n\0",
    "UNSUBSCRIBE\nid:v\nreceipt:r\n\n\0",
    "ACK\nid:S-1-2\nreceipt:r\n\n\0",
    "NACK\nid:S-1-2\nrequeue:false\nreceipt:r\n\n\0",
    "ACK\nid:S-1-2\ntransaction:t\nreceipt:r\n\n\0",
    "BEGIN\ntransaction:new\nreceipt:r\n\n\0",
    "COMMIT\ntransaction:t\nreceipt:r\n\n\0",
    "ABORT\ntransaction:u\nreceipt:r\n\n\0",
    "DISCONNECT\nreceipt:r\n\n\0",
];

fn settled(scene: &Scene) -> Peer {
    let mut peer = scene.connect("1.2");
    for (at, queue) in ["a", "b"].into_iter().enumerate() {
        peer.say(&format!("SEND\ndestination:/queue/{queue}\npersistent:true\n\nx\0"));
        scene.test.flush();
        let id = ["s", "v"][at];
        peer.say(&format!("SUBSCRIBE\nid:{id}\ndestination:/queue/{queue}\nack:client-individual\n\n\0"));
        scene.test.flush();
        peer.run();
        assert_eq!(peer.heard().len(), 1, "{queue}");
    }
    peer.say("BEGIN\ntransaction:t\n\n\0BEGIN\ntransaction:u\n\n\0");
    peer.say("ACK\nid:S-0-1\n\n\0");
    peer
}

/// The messages in queue `a` after a kill and a new start.
fn left_after_kill(scene: Scene, peer: Peer, disk: &SimDisk) -> u64 {
    let scene = scene.after_cut(disk);
    drop(peer);
    scene.broker.queues().iter().find(|queue| queue.name == "a").map_or(0, |queue| queue.ready)
}

#[test]
fn each_receipt_is_a_fence() {
    for frame in FRAMES {
        let disk = SimDisk::new(1, 64 << 20);
        let scene = Scene::stepped_on(&disk);
        let mut peer = settled(&scene);
        peer.say(frame);
        let receipts = |peer: &mut Peer| {
            peer.run();
            peer.heard().into_iter().filter(|heard| heard.starts_with("RECEIPT")).collect::<Vec<_>>()
        };
        assert_eq!(receipts(&mut peer), [""; 0], "{frame:?}");
        scene.test.flush();
        assert_eq!(receipts(&mut peer), ["RECEIPT\nreceipt-id:r"], "{frame:?}");
        assert_eq!(left_after_kill(scene, peer, &disk), 0, "{frame:?}");
    }
}

#[test]
fn what_is_settled_may_come_back_as_long_as_there_is_no_receipt() {
    for frame in FRAMES {
        let disk = SimDisk::new(1, 64 << 20);
        let scene = Scene::stepped_on(&disk);
        let mut peer = settled(&scene);
        peer.say(frame);
        assert_eq!(left_after_kill(scene, peer, &disk), 1, "{frame:?}");
    }
}
