//! Transfers of the peer: put together, published, and answered.

use std::time::Instant;

use broker::{Client, Confirm, LARGE_BODY, Publish, TransactionId};
use wire::Output;

use crate::codec::error::condition;
use crate::codec::performative::Transfer;
use crate::codec::{Message, Outcome, Value};
use crate::delivery::{Delivery, Step};
use crate::dialect::{self, ENCODING, Published};
use crate::session::begun::{Begun, Unanswered};
use crate::session::error::{Failure, Fault};
use crate::session::flow::unattached;
use crate::session::link::Link;
use crate::session::receiver::{Receiver, Refuses};
use crate::session::running::{Running, Taken};
use crate::session::target::Destination;
use crate::session::termini::Resumed;
use crate::session::transactions::{self, Reply};
use crate::session::window::Gate;

/// Messages that are not whole may have so many times the largest message together, on all links.
const UNFINISHED_MESSAGES: u64 = 4;
/// Room for the stored form of a message is kept for the next one up to so many bytes.
const STORED_KEPT: usize = 1024;

impl Running {
    pub(super) fn take_transfer(
        &mut self,
        channel: u16,
        transfer: &Transfer<'_>,
        payload: &[u8],
        output: &mut Output,
        now: Instant,
    ) -> Result<Taken, Fault> {
        let handle = transfer.handle;
        let Some(begun) = self.begun(channel) else { return Ok(Taken::Done) };
        if !begun.incoming.take() {
            return Err(Fault::session(condition::WINDOW_VIOLATION, "more transfers than the incoming-window allows"));
        }
        if begun.incoming.is_low() {
            begun.put_flow(output);
        }
        let Some(receiver) = begun.receiver(handle)? else { return Ok(Taken::Done) };
        let step = receiver.take(transfer, payload).map_err(|failure| Fault::Link(handle, failure))?;
        match step {
            Step::Complete(delivery) => return self.take_message((channel, handle), &delivery, output, now),
            Step::Incomplete => {
                self.note_part(channel, handle, payload.len(), now).map_err(|failure| Fault::Link(handle, failure))?;
            }
            Step::Aborted(_) => {
                self.end_message((channel, handle))?;
                if let Some(session) = self.begun(channel).map(|begun| begun.id) {
                    self.client.body_abandoned(session);
                }
                self.top_up((channel, handle), output);
            }
        }
        Ok(Taken::Done)
    }

    /// Takes a message that is whole. What is wrong with it is told of the message alone, unless
    /// its publisher has settled it.
    fn take_message(
        &mut self,
        at: (u16, u32),
        delivery: &Delivery<'_>,
        output: &mut Output,
        now: Instant,
    ) -> Result<Taken, Fault> {
        let Some(receiver) = self.end_message(at)? else { return Ok(Taken::Done) };
        let taken = match (&receiver.destination, &delivery.transaction) {
            _ if delivery.resumed => {
                self.resume(at, delivery, output)?;
                Ok(())
            }
            (Destination::Management(_), _) => return self.take_request(at.0, at.1, delivery, now),
            (Destination::Coordinator, _) => self.coordinate(at.0, at.1, delivery, output, now),
            (_, Some(id)) => self.hand_over_in(id.as_bytes(), at, delivery, output, now),
            (_, None) => self.hand_over(at, delivery, None, now),
        };
        if let Err(failure) = taken {
            self.refuse(at, delivery, failure, output)?;
        }
        self.top_up(at, output);
        Ok(Taken::Done)
    }

    /// Counts a part of a message that is not whole.
    fn note_part(&mut self, channel: u16, handle: u32, bytes: usize, now: Instant) -> Result<(), Failure> {
        let largest = self.broker.limits().max_message_bytes;
        let Self { client, sessions, unfinished, .. } = self;
        let Some(begun) = sessions.begun(channel) else { return Ok(()) };
        let Some(Link::Receiver(receiver)) = begun.links.get_mut(handle) else { return Ok(()) };
        let limit = largest.saturating_mul(UNFINISHED_MESSAGES);
        if *unfinished as u64 + bytes as u64 > limit {
            let text = format!("unfinished messages on all links together exceed {limit} bytes");
            return Err(Failure::new(condition::RESOURCE_LIMIT_EXCEEDED, text));
        }
        *unfinished += bytes;
        receiver.unfinished += bytes;
        // The length of a large one is not known, so it counts as one of the largest size.
        let arrived = receiver.unfinished as u64;
        client.body_arrives(begun.id, if arrived > LARGE_BODY { largest } else { arrived }, now);
        if arrived <= LARGE_BODY {
            client.check_room(bytes, "message")?;
            receiver.charge.get_or_insert_with(|| client.body_charge()).add(bytes);
            client.check_hold(*unfinished, "message")?;
        }
        Ok(())
    }

    /// A message is whole, or was given up. Returns the link that it came on.
    fn end_message(&mut self, (channel, handle): (u16, u32)) -> Result<Option<&Receiver>, Fault> {
        let Some(begun) = self.sessions.begun(channel) else { return Ok(None) };
        let Some(Link::Receiver(receiver)) = begun.links.get_mut(handle) else { return Ok(None) };
        self.unfinished -= receiver.unfinished.min(self.unfinished);
        receiver.unfinished = 0;
        receiver.charge = None;
        if receiver.count() {
            return Ok(Some(receiver));
        }
        let text = "a message was sent without credit for it";
        Err(Fault::Link(handle, Failure::new(condition::TRANSFER_LIMIT_EXCEEDED, text)))
    }

    fn top_up(&mut self, (channel, handle): (u16, u32), output: &mut Output) {
        let gate = self.sessions.gate;
        let Some(begun) = self.begun(channel) else { return };
        let Some(Link::Receiver(receiver)) = begun.links.get_mut(handle) else { return };
        if gate == Gate::Open && receiver.top_up() {
            begun.put_link_flow(handle, output);
        }
    }

    /// Tells the peer that a message is refused.
    fn refuse(
        &mut self,
        (channel, handle): (u16, u32),
        delivery: &Delivery<'_>,
        failure: Failure,
        output: &mut Output,
    ) -> Result<(), Fault> {
        let Some(begun) = self.begun(channel) else { return Ok(()) };
        let refuses = match begun.links.get(handle) {
            Some(Link::Receiver(receiver)) => receiver.refuses,
            _ => Refuses::Alone,
        };
        if delivery.settled || refuses == Refuses::WithLink {
            let tag = Value::Binary(delivery.tag.as_bytes().to_vec());
            return Err(Fault::Link(handle, failure.about("delivery-tag", tag)));
        }
        begun.reject(delivery.id, handle, failure, output);
        Ok(())
    }

    /// Takes up a delivery of an earlier attachment of the link (part 2, §2.6.13). It is not
    /// published again.
    fn resume(
        &mut self,
        (channel, handle): (u16, u32),
        delivery: &Delivery<'_>,
        output: &mut Output,
    ) -> Result<(), Fault> {
        let Some(begun) = self.begun(channel) else { return Ok(()) };
        let Some(Link::Receiver(receiver)) = begun.links.get(handle) else { return Ok(()) };
        let resumed = receiver.terminus.as_ref().map(|terminus| terminus.resume(delivery.tag, delivery.id));
        match resumed {
            Some(Resumed::Ended(answer)) if !delivery.settled => {
                begun.put_answer(Unanswered { number: 0, delivery: delivery.id, handle }, delivery.id, &answer, output);
                Ok(())
            }
            Some(Resumed::Undecided) => {
                let text = "the outcome of this delivery is not known yet: attach the link again";
                Err(Fault::Link(handle, Failure::new(condition::ILLEGAL_STATE, text)))
            }
            // The peer settles it, or resumes what it must not.
            Some(Resumed::Ended(_) | Resumed::Unknown) | None => Ok(()),
        }
    }

    /// The same within a transaction, which answers at once. What is refused fails all of it.
    fn hand_over_in(
        &mut self,
        id: &[u8],
        (channel, handle): (u16, u32),
        delivery: &Delivery<'_>,
        output: &mut Output,
        now: Instant,
    ) -> Result<(), Failure> {
        let transaction = self.sessions.transactions.find(id)?;
        let published = self.hand_over((channel, handle), delivery, Some(transaction), now);
        if let Err(failure) = published {
            self.sessions.transactions.fail(id, &failure);
            return Err(failure);
        }
        if let Some(begun) = self.begun(channel).filter(|_| !delivery.settled) {
            let taken = Unanswered { number: 0, delivery: delivery.id, handle };
            begun.put_state(taken, taken.delivery, transactions::state(id, Outcome::Accepted), output);
        }
        Ok(())
    }

    /// Hands a message to the broker.
    fn hand_over(
        &mut self,
        (channel, handle): (u16, u32),
        delivery: &Delivery<'_>,
        within: Option<TransactionId>,
        now: Instant,
    ) -> Result<(), Failure> {
        if delivery.format != 0 {
            return Err(Failure::not_built("a message format other than 0"));
        }
        let mut message = Message::default();
        message.read(&delivery.message)?;
        let Self { client, sessions, relay, stored, .. } = self;
        let mut published = dialect::published(&message, || client.unix_ms(), std::mem::take(stored))?;
        check_user(client, &published)?;
        let Some(begun) = sessions.begun(channel) else { return Ok(()) };
        let Some(Link::Receiver(receiver)) = begun.links.get_mut(handle) else { return Ok(()) };
        let own;
        let (exchange, routing_key, unroutable) = match receiver.destination.route(published.subject) {
            Some(fixed) => fixed,
            None => {
                own = relay.route(&published, Reply::to(delivery), client, now)?;
                (&*own.exchange, &*own.key, own.unroutable)
            }
        };
        let number = begun.published + 1;
        let confirm = if delivery.settled || within.is_some() { Confirm::None } else { Confirm::Numbered(number) };
        let publish = Publish {
            exchange,
            routing_key,
            dialect: ENCODING,
            properties: &published.properties,
            persistent: published.persistent,
            priority: Some(published.priority),
            expiration: published.expiration,
            body: (&*published.body).into(),
            confirm,
            unroutable,
            copies: false,
            instructed: published.instructed,
        };
        match within {
            Some(transaction) => client.publish_in(transaction, begun.id, publish)?,
            None => client.publish(begun.id, publish)?,
        }
        if published.properties.capacity() <= STORED_KEPT {
            *stored = std::mem::take(&mut published.properties);
        }
        if confirm == Confirm::None {
            return Ok(());
        }
        if number == 1 {
            client.show_confirming(begun.id);
        }
        begun.published = number;
        begun.unanswered.push_back(Unanswered { number, delivery: delivery.id, handle });
        receiver.unanswered += 1;
        receiver.terminus.iter().for_each(|terminus| terminus.taken(delivery.tag, delivery.id));
        Ok(())
    }
}

impl Begun {
    /// The link on which the peer sends. `None` if this side has ended it.
    #[inline]
    fn receiver(&mut self, handle: u32) -> Result<Option<&mut Receiver>, Fault> {
        match self.links.get_mut(handle) {
            Some(Link::Receiver(receiver)) => Ok(Some(receiver)),
            Some(Link::Detached) => Ok(None),
            None => Err(unattached(handle)),
            Some(Link::Sender(_) | Link::Found(_)) => {
                let text = format!("a transfer on the link of handle {handle}, which sends to the peer");
                Err(Fault::session(condition::NOT_ALLOWED, text))
            }
        }
    }
}

/// A publisher says its own name or none.
fn check_user(client: &Client, published: &Published<'_>) -> Result<(), Failure> {
    let user = client.user();
    match published.user_id {
        Some(said) if !said.is_empty() && said != user.as_bytes() => Err(Failure::new(
            condition::UNAUTHORIZED_ACCESS,
            format!(
                "user_id property set to '{}' but authenticated user was '{user}'",
                auth::shown_name(&String::from_utf8_lossy(said))
            ),
        )),
        _ => Ok(()),
    }
}
