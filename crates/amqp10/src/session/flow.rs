//! Flows of the peer: the session's window, and the credit of links (part 2, §2.5.6 and §2.6.7).

use std::time::Instant;

use broker::{Client, Credit, Rest};
use wire::Output;

use crate::codec::error::condition;
use crate::codec::performative::Flow;
use crate::session::begun::Begun;
use crate::session::deliver::Drained;
use crate::session::error::{Failure, Fault};
use crate::session::link::Link;

impl Begun {
    pub(super) fn take_flow(
        &mut self,
        flow: &Flow<'_>,
        client: &mut Client,
        output: &mut Output,
        now: Instant,
    ) -> Result<(), Fault> {
        self.deliveries.outgoing.update(flow);
        self.flush_held(output);
        self.regulate(client, now);
        let Some(handle) = flow.handle else {
            if flow.echo {
                self.put_flow(output);
            }
            return Ok(());
        };
        match self.links.get(handle) {
            None => return Err(unattached(handle)),
            Some(Link::Detached | Link::Found(_)) => return Ok(()),
            Some(Link::Sender(_)) if acquires(flow) => {
                let what = "what is delivered as part of a transaction (txn-id in a flow)";
                return Err(Fault::Link(handle, Failure::not_built(what)));
            }
            Some(Link::Sender(_)) => self.take_credit(handle, flow, client, output, now),
            // What the peer says of its own end is a hint.
            Some(Link::Receiver(_)) => {}
        }
        if flow.echo {
            self.put_link_flow(handle, output);
        }
        Ok(())
    }

    /// Takes the credit that the peer grants.
    fn take_credit(&mut self, handle: u32, flow: &Flow<'_>, client: &mut Client, output: &mut Output, now: Instant) {
        let stopped = self.deliveries.stopped;
        let Some(Link::Sender(sender)) = self.links.get_mut(handle) else { return };
        if let Some(link_credit) = flow.link_credit {
            sender.grant(flow.delivery_count, link_credit);
        }
        if sender.responses.is_some() {
            return self.take_response_credit(handle, flow, client, output);
        }
        sender.drains = flow.drain;
        let left = sender.credit;
        if flow.drain && (sender.ended || stopped && left == 0) {
            // A browser has seen all, or the queue has no credit for this link.
            if let Some(drained) = self.deliveries.drained(Drained { handle, unused: left }) {
                self.put_drained(drained, output);
            }
            return;
        }
        if !stopped {
            // The queue answers a drain, also one without credit: behind what it has sent already.
            let rest = if flow.drain { Rest::Drained } else { Rest::Kept };
            let tag = sender.tag.clone();
            client.set_credit(self.id, &tag, Credit::Granted { left, rest }, now);
        }
    }
}

/// Whether the deliveries are to be part of a transaction (part 4, §4.4.3).
fn acquires(flow: &Flow<'_>) -> bool {
    flow.properties.is_some_and(|properties| properties.iter().any(|(name, _)| name.as_text() == Some("txn-id")))
}

/// The peer names a link that is not there.
pub(super) fn unattached(handle: u32) -> Fault {
    Fault::session(condition::UNATTACHED_HANDLE, format!("no link of this session has the handle {handle}"))
}
