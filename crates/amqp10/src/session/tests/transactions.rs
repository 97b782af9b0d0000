//! Local transactions: declare, what is done within one, and how it ends.

use broker::Rest;

use super::scene::{ACCEPTED, Peer, Scene, detach, text, to_server, transfer};
use crate::client::in_transaction;
use crate::codec::performative::{Attach, Disposition, Role, Transfer};
use crate::codec::terminus::{Coordinator, Declare, Discharge};
use crate::codec::{AttachTarget, DeliveryState, Encode, Section};

/// The ids of the first two transactions of a connection.
const FIRST: [u8; 8] = 1_u64.to_be_bytes();
const ABSENT: [u8; 8] = 9_u64.to_be_bytes();

/// The peer has a coordinator at handle 9, sends to `q` at 0 and receives from it at 1.
fn begun(scene: &Scene) -> Peer {
    let mut peer = scene.session();
    let target = Some(AttachTarget::Coordinator(Coordinator::default()));
    peer.attach(Attach { handle: 9, target, ..to_server("transactions") });
    peer.expect(&["attach 9 Receiver - > coordinator", "flow 9 count=0 credit=1000"]);
    peer.attach_to(0, Some("q"));
    peer.attach_from(1, "q");
    peer.heard();
    peer
}

fn ask(peer: &mut Peer, id: u32, request: &impl Encode) {
    let mut message = Vec::new();
    Section::Value.encode(request, &mut message);
    peer.transfer(Transfer { handle: 9, ..transfer(id) }, &message);
}

fn declare(peer: &mut Peer, id: u32) {
    ask(peer, id, &Declare::default());
    let heard = peer.heard();
    assert!(heard[0].starts_with(&format!("disposition Receiver {id}..{id} settled declared")), "{heard:?}");
}

fn publish(peer: &mut Peer, id: u32, transaction: &[u8]) -> Vec<String> {
    let state: DeliveryState<'_> = in_transaction(transaction, ACCEPTED);
    peer.transfer(Transfer { state: Some(state), ..transfer(id) }, &text("m"));
    peer.heard()
}

#[test]
fn a_commit_shows_what_was_published_and_a_rollback_drops_it() {
    for (fail, shown) in [(false, 1), (true, 0)] {
        let mut peer = begun(&Scene::new());
        declare(&mut peer, 0);
        peer.credit(1, 0, 10, Rest::Kept);
        let heard = publish(&mut peer, 1, &FIRST);
        assert_eq!(heard.len(), 1, "{heard:?}");
        assert!(heard[0].contains("Transactional"), "{heard:?}");
        ask(&mut peer, 2, &Discharge { txn_id: &FIRST, fail });
        let heard = peer.heard();
        assert!(heard.contains(&"disposition Receiver 2..2 settled accepted".to_owned()), "{heard:?}");
        assert_eq!(heard.iter().filter(|line| line.starts_with("transfer 1")).count(), shown, "{heard:?}");
    }
}

#[test]
fn what_was_settled_in_a_transaction_comes_back_as_tried() {
    // The end of the coordinator's link rolls back as a discharge does.
    for by_link in [false, true] {
        let mut peer = begun(&Scene::new());
        peer.message(0, 0, "m");
        peer.credit(1, 0, 10, Rest::Kept);
        peer.heard();
        declare(&mut peer, 1);
        let state = Some(in_transaction(&FIRST, ACCEPTED));
        peer.send(0, &Disposition { role: Role::Receiver, settled: true, state, ..Disposition::default() });
        peer.expect(&[]);
        if by_link {
            peer.send(0, &detach(9));
        } else {
            ask(&mut peer, 2, &Discharge { txn_id: &FIRST, fail: true });
        }
        let heard = peer.heard();
        assert!(heard.iter().any(|line| line.ends_with("m failed=1")), "{heard:?}");
    }
}

#[test]
fn an_unknown_id_is_refused() {
    let mut peer = begun(&Scene::new());
    let refused = |id| vec![format!("disposition Receiver {id}..{id} settled rejected amqp:transaction:unknown-id")];
    assert_eq!(publish(&mut peer, 0, &ABSENT), refused(0));
    ask(&mut peer, 1, &Discharge { txn_id: &ABSENT, fail: false });
    assert_eq!(peer.heard(), refused(1));
}
