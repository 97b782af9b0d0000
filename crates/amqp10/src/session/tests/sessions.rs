//! Sessions: their windows, their end, and what alarms do to them.

use super::scene::{Scene, close, end};
use crate::codec::DeliveryState;
use crate::codec::performative::{Disposition, Role};
use crate::codec::state::TransactionalState;
use crate::session::window::WINDOW;

#[test]
fn a_channel_has_one_session_at_a_time_and_can_be_used_again() {
    let mut peer = Scene::new().session();
    peer.begin(7, 10);
    peer.expect(&["begin 7 remote=7 window=16384"]);
    peer.send(7, &end());
    peer.expect(&["end 7"]);
    peer.begin(7, 10);
    peer.expect(&["begin 7 remote=7 window=16384"]);
    peer.begin(7, 10);
    peer.expect(&["close amqp:illegal-state"]);
    peer.send(0, &close());
    let mut peer = Scene::new().session();
    peer.send(3, &end());
    peer.expect(&["close amqp:not-allowed"]);
}

#[test]
fn the_window_is_opened_again_at_half_and_more_than_it_ends_the_session() {
    let mut peer = Scene::new().session();
    peer.attach_to(0, Some("q"));
    peer.heard();
    let mut opened = 0;
    for id in 0..2 * WINDOW {
        peer.message(0, id, "m");
        opened += peer.heard().iter().filter(|line| line.contains("window=16384")).count();
    }
    // A link's flow opens it, too, so that little is left to do.
    assert!(opened <= 4, "{opened}");
}

#[test]
fn a_disposition_in_an_unknown_transaction_ends_the_session() {
    let mut peer = Scene::new().session();
    let state = DeliveryState::Transactional(TransactionalState { txn_id: b"1", outcome: None });
    peer.send(0, &Disposition { role: Role::Receiver, settled: true, state: Some(state), ..Disposition::default() });
    peer.expect(&["end 0 amqp:transaction:unknown-id"]);
}

#[test]
fn the_end_of_a_session_waits_for_its_settlements() {
    let scene = Scene::stepped();
    let mut peer = scene.session();
    peer.attach_to(0, Some("q"));
    scene.test.flush();
    peer.heard();
    peer.send(0, &end());
    scene.test.flush();
    peer.expect(&["end 0"]);
    peer.send(0, &close());
    scene.test.flush();
    peer.expect(&["close"]);
}
