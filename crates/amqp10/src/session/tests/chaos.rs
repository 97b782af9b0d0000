//! What a peer may do wrong, in any order: whatever comes, the answer is frames, the broker goes
//! on, and nothing is held for a peer that has gone.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use wire::CloseReason;

use super::scene::{Peer, Scene, disposed, from, text, to_peer, to_server};
use crate::client::in_transaction;
use crate::codec::frame::{FrameKind, encode_frame};
use crate::codec::performative::{
    Attach, Begin, Detach, Disposition, End, Flow, ReceiverSettleMode, SenderSettleMode, Transfer,
};
use crate::codec::state::{Modified, Rejected};
use crate::codec::terminus::{Coordinator, Declare, Discharge};
use crate::codec::{AttachTarget, Encode, Outcome, Section, Source, Symbol, Target};
use crate::delivery::encode_transfers;

/// How many conversations are tried.
const CONVERSATIONS: u32 = 96;

/// The handle of a link to the coordinator.
const COORDINATOR: u32 = 9;

/// A frame as numbers, so that it can be made smaller.
type Step = (u8, u16, u32, u32, u32, u8);

const ADDRESSES: [Option<&str>; 6] =
    [Some("q"), Some("p"), None, Some("/queues/none"), Some("/topic/a.b"), Some("/exchanges/amq.fanout")];

fn outcome(flags: u8) -> Outcome<'static> {
    match flags % 4 {
        0 => Outcome::Accepted,
        1 => Outcome::Released,
        2 => Outcome::Rejected(Rejected { error: None }),
        _ => Outcome::Modified(Modified {
            delivery_failed: flags & 4 != 0,
            undeliverable_here: flags & 8 != 0,
            message_annotations: None,
        }),
    }
}

/// The bytes of a step.
fn bytes_of((kind, channel, handle, a, b, flags): Step) -> Vec<u8> {
    let mut out = Vec::new();
    let is = |bit: u8| flags & bit != 0;
    let mut put = |performative: &dyn Encode| {
        let mut body = Vec::new();
        performative.encode(&mut body);
        encode_frame(&mut out, FrameKind::Amqp, channel, &Bytes(&body));
    };
    let address = ADDRESSES[a as usize % ADDRESSES.len()];
    let name = ["a", "b", "c", ""][b as usize % 4];
    let second = if is(16) { ReceiverSettleMode::Second } else { ReceiverSettleMode::First };
    match kind % 11 {
        0 => put(&Begin { incoming_window: a, next_outgoing_id: b, ..Begin::default() }),
        1 => put(&Attach {
            handle,
            rcv_settle_mode: second,
            target: is(1).then_some(AttachTarget::Target(Target { address, dynamic: is(2), ..Target::default() })),
            ..to_server(name)
        }),
        2 => put(&Attach {
            handle,
            rcv_settle_mode: second,
            snd_settle_mode: if is(8) { SenderSettleMode::Settled } else { SenderSettleMode::Mixed },
            source: Some(Source {
                dynamic: is(2),
                distribution_mode: is(4).then_some(Symbol("copy")),
                default_outcome: is(32).then(|| outcome(flags)),
                ..address.map_or(Source::default(), from)
            }),
            ..to_peer(name)
        }),
        3 | 4 => put(&Flow {
            incoming_window: a,
            next_incoming_id: is(4).then_some(b),
            handle: is(1).then_some(handle),
            delivery_count: Some(b),
            link_credit: Some(a % 50),
            drain: is(2),
            echo: is(8),
            ..Flow::default()
        }),
        5..=7 => {
            let first = Transfer {
                handle,
                delivery_id: is(1).then_some(a),
                delivery_tag: is(2).then_some(b"t"),
                settled: is(4).then_some(true),
                aborted: is(8) && is(16),
                ..Transfer::default()
            };
            let frame = if is(32) { 40 } else { 4096 };
            encode_transfers(first, channel, &text(&"m".repeat(b as usize % 90)), frame, &mut out);
        }
        8 => {
            let id = u64::from(1 + handle % 3).to_be_bytes();
            let plain = Disposition { settled: is(16), ..disposed(a, a.wrapping_add(b), outcome(flags)) };
            let state = if is(64) { Some(in_transaction(&id, outcome(flags))) } else { plain.state };
            put(&Disposition { state, ..plain });
        }
        9 => {
            let id = u64::from(1 + handle % 3).to_be_bytes();
            let discharge = Discharge { txn_id: &id, fail: is(1) };
            put_request(&if is(2) { value(&discharge) } else { value(&Declare::default()) }, &mut out);
        }
        _ if is(1) => put(&Detach { handle, closed: is(2), error: None }),
        _ if is(6) => put(&End::default()),
        _ => put(&Flow::default()),
    }
    out
}

fn value(request: &impl Encode) -> Vec<u8> {
    let mut message = Vec::new();
    Section::Value.encode(request, &mut message);
    message
}

/// A request to the coordinator, with an id that may be wrong.
fn put_request(message: &[u8], out: &mut Vec<u8>) {
    let first = Transfer { handle: COORDINATOR, delivery_id: None, delivery_tag: Some(b"t"), ..Transfer::default() };
    encode_transfers(first, 0, message, 4096, out);
}

/// What is encoded already.
struct Bytes<'a>(&'a [u8]);

impl Encode for Bytes<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0);
    }
}

fn converse(scene: &Scene, steps: &[Step], cut: usize) {
    let mut peer: Peer = scene.session();
    let target = Some(AttachTarget::Coordinator(Coordinator::default()));
    peer.attach(Attach { handle: COORDINATOR, target, ..to_server("coordinator") });
    let bytes: Vec<u8> = steps.iter().flat_map(|step| bytes_of(*step)).collect();
    for part in bytes.chunks(cut) {
        peer.raw(part);
        // Each frame can be read, or this panics.
        peer.heard();
    }
    let now = peer.driver.now;
    peer.driver.connection.close(CloseReason::Gone, now);
    drop(peer);
    assert_eq!(scene.test.broker.user_held_bytes("guest"), 0, "{steps:?}");
    let mut client = scene.client();
    for queue in ["q", "p"] {
        client.purge_queue(queue, now).ok();
    }
}

#[test]
fn whatever_a_peer_sends_the_broker_goes_on_and_keeps_nothing_of_it() {
    let step = (
        0u8..11,
        prop_oneof![9 => Just(0u16), 1 => 0u16..3],
        0u32..4,
        prop_oneof![8 => 0u32..12, 1 => Just(u32::MAX), 1 => any::<u32>()],
        prop_oneof![8 => 0u32..12, 1 => Just(u32::MAX), 1 => any::<u32>()],
        any::<u8>(),
    );
    let scene = Scene::new();
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let config = Config { cases: CONVERSATIONS, failure_persistence: None, ..Config::default() };
    let all = (prop::collection::vec(step, 1..60), 1usize..400);
    TestRunner::new_with_rng(config, rng)
        .run(&all, |(steps, cut)| {
            converse(&scene, &steps, cut);
            Ok(())
        })
        .unwrap();
}
