//! Conversations with a broker in memory, frame by frame, as tables of the frames that are sent and
//! received.

mod acks;
mod connecting;
mod durability;
mod fences;
mod refusals;
mod rights;
mod routing;
mod scene;
mod selecting;
mod subscribing;
mod transactions;

use scene::{Peer, Scene};

/// Opens one connection, sends each first part, and expects exactly the frames of the second, in
/// order.
fn check(steps: &[(&str, &[&str])]) {
    let scene = Scene::new();
    let mut peer = scene.connect("1.2");
    talk(&mut peer, steps);
}

fn talk(peer: &mut Peer, steps: &[(&str, &[&str])]) {
    for (say, expected) in steps {
        peer.say(say);
        assert_eq!(peer.heard(), *expected, "after {say:?}");
    }
}
