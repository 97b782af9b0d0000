//! The messages of nodes, byte by byte; and what each side refuses of the other.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic here is a failed test")]

mod codec;
mod copying;
mod credit;
mod linking;

use journal::{Entry, Fed};
use nodes::{FORMAT, Hello, NodeId};
use testkit::script::Script;
use testkit::sim_disk::SimDisk;

/// A greeting.
fn hello() -> Hello {
    Hello {
        format: FORMAT,
        cluster: NodeId([1; 16]),
        node: NodeId([2; 16]),
        term: 3,
        name: "nöde".to_owned(),
        address: "[::1]:5679".to_owned(),
    }
}

/// A broker with some entries.
fn leader(disk: &SimDisk) -> Script {
    let mut script = Script::stepped(disk, 1 << 20);
    for queue in 0..20 {
        script.check(&[(&format!("p queue q{queue} durable"), "0 0")]);
        script.broker().flush();
    }
    script
}

/// The first of its entries.
fn first_entry(leader: &Script) -> Entry {
    let mut feed = leader.broker().broker.feed([]);
    loop {
        match feed.pull().unwrap() {
            Fed::Entry(entry) => return entry,
            Fed::Horizon(_) => {}
            Fed::Nothing => panic!("a new broker has entries"),
        }
    }
}
