//! Transfers of the peer: put together, published, and answered.

use std::time::Instant;

use broker::{Confirm, LARGE_BODY, Publish, TransactionId, Unroutable};
use wire::Output;

use crate::codec::error::condition;
use crate::codec::performative::{ReceiverSettleMode, Transfer};
use crate::codec::{Message, Outcome, Symbols, Value};
use crate::delivery::{Delivery, Step};
use crate::dialect::{self, ENCODING, Published};
use crate::session::address::{Address, TOPICS};
use crate::session::begun::Unanswered;
use crate::session::error::{Failure, Fault};
use crate::session::flow::unattached;
use crate::session::link::Link;
use crate::session::receiver::Refuses;
use crate::session::running::{Running, Taken};
use crate::session::target::{Destination, ensure};
use crate::session::termini::Resumed;
use crate::session::transactions::{self, Reply};
use crate::session::window::Gate;

/// Messages that are not whole may have so many times the largest message together, on all links.
const UNFINISHED_MESSAGES: u64 = 4;
/// How many queues of anonymous relays are remembered. Beyond that all are forgotten.
const KNOWN_QUEUES: usize = 1024;

/// Where one message goes.
struct Route {
    exchange: String,
    key: String,
    unroutable: Unroutable,
}

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
        let step = match begun.links.get_mut(&handle) {
            None => return Err(unattached(handle)),
            Some(Link::Detached) => return Ok(Taken::Done),
            Some(Link::Sender(_) | Link::Found(_)) => {
                let text = format!("a transfer on the link of handle {handle}, which sends to the peer");
                return Err(Fault::session(condition::NOT_ALLOWED, text));
            }
            Some(Link::Receiver(receiver)) => {
                if !receiver.settles_second && transfer.rcv_settle_mode == Some(ReceiverSettleMode::Second) {
                    let text = "rcv-settle-mode of a transfer is second on a link of which it is first";
                    return Err(Fault::Link(handle, Failure::invalid(text)));
                }
                let step = receiver.assembly.transfer(transfer, payload);
                step.map_err(|error| Fault::Link(handle, error.into()))?
            }
        };
        match step {
            Step::Incomplete => {
                self.note_part(channel, handle, payload.len(), now).map_err(|failure| Fault::Link(handle, failure))?;
            }
            Step::Aborted(_) => {
                self.end_message(channel, handle)?;
                if let Some(session) = self.begun(channel).map(|begun| begun.id) {
                    self.client.body_abandoned(session);
                }
                self.top_up(channel, handle, output);
            }
            Step::Complete(delivery) => {
                self.end_message(channel, handle)?;
                if delivery.resumed {
                    self.resume(channel, handle, &delivery, output)?;
                    self.top_up(channel, handle, output);
                    return Ok(Taken::Done);
                }
                if self.is_management(channel, handle) {
                    return self.take_request(channel, handle, &delivery, now);
                }
                self.publish(channel, handle, &delivery, output, now)?;
                self.top_up(channel, handle, output);
            }
        }
        Ok(Taken::Done)
    }

    /// Counts a part of a message that is not whole.
    fn note_part(&mut self, channel: u16, handle: u32, bytes: usize, now: Instant) -> Result<(), Failure> {
        let largest = self.broker.limits().max_message_bytes;
        let Self { client, sessions, unfinished, .. } = self;
        let Some(begun) = sessions.begun(channel) else { return Ok(()) };
        let Some(Link::Receiver(receiver)) = begun.links.get_mut(&handle) else { return Ok(()) };
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

    /// A message is whole, or was given up.
    fn end_message(&mut self, channel: u16, handle: u32) -> Result<(), Fault> {
        let Some(begun) = self.sessions.begun(channel) else { return Ok(()) };
        let Some(Link::Receiver(receiver)) = begun.links.get_mut(&handle) else { return Ok(()) };
        self.unfinished -= receiver.unfinished.min(self.unfinished);
        receiver.unfinished = 0;
        receiver.charge = None;
        if receiver.count() {
            return Ok(());
        }
        let text = "a message was sent without credit for it";
        Err(Fault::Link(handle, Failure::new(condition::TRANSFER_LIMIT_EXCEEDED, text)))
    }

    fn top_up(&mut self, channel: u16, handle: u32, output: &mut Output) {
        let gate = self.sessions.gate;
        let Some(begun) = self.begun(channel) else { return };
        let Some(Link::Receiver(receiver)) = begun.links.get_mut(&handle) else { return };
        if gate == Gate::Open && receiver.top_up() {
            begun.put_link_flow(handle, output);
        }
    }

    /// Hands a message to the broker. What is wrong with it is told of the message alone, unless
    /// its publisher has settled it.
    fn publish(
        &mut self,
        channel: u16,
        handle: u32,
        delivery: &Delivery<'_>,
        output: &mut Output,
        now: Instant,
    ) -> Result<(), Fault> {
        let coordinates = self.begun(channel).is_some_and(|begun| match begun.links.get(&handle) {
            Some(Link::Receiver(receiver)) => matches!(receiver.destination, Destination::Coordinator),
            _ => false,
        });
        let published = match (&delivery.transaction, coordinates) {
            (_, true) => self.coordinate(channel, handle, delivery, output, now),
            (Some(id), false) => self.hand_over_in(id.as_bytes(), channel, handle, delivery, output, now),
            (None, false) => self.hand_over(channel, handle, delivery, None, now),
        };
        match published {
            Ok(()) => Ok(()),
            Err(failure) if delivery.settled || self.refuses(channel, handle) == Refuses::WithLink => {
                let tag = Value::Binary(delivery.tag.as_bytes().to_vec());
                Err(Fault::Link(handle, failure.about("delivery-tag", tag)))
            }
            Err(failure) => {
                if let Some(begun) = self.begun(channel) {
                    begun.reject(delivery.id, handle, failure, output);
                }
                Ok(())
            }
        }
    }

    /// Takes up a delivery of an earlier attachment of the link (part 2, §2.6.13). It is not
    /// published again.
    fn resume(&mut self, channel: u16, handle: u32, delivery: &Delivery<'_>, output: &mut Output) -> Result<(), Fault> {
        let Some(begun) = self.begun(channel) else { return Ok(()) };
        let Some(Link::Receiver(receiver)) = begun.links.get(&handle) else { return Ok(()) };
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

    /// How the peer is told of a message that is refused.
    fn refuses(&mut self, channel: u16, handle: u32) -> Refuses {
        match self.begun(channel).and_then(|begun| begun.links.get(&handle)) {
            Some(Link::Receiver(receiver)) => receiver.refuses,
            _ => Refuses::Alone,
        }
    }

    /// The same within a transaction, which answers at once. What is refused fails all of it.
    fn hand_over_in(
        &mut self,
        id: &[u8],
        channel: u16,
        handle: u32,
        delivery: &Delivery<'_>,
        output: &mut Output,
        now: Instant,
    ) -> Result<(), Failure> {
        let transaction = self.sessions.transactions.find(id)?;
        let published = self.hand_over(channel, handle, delivery, Some(transaction), now);
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

    fn hand_over(
        &mut self,
        channel: u16,
        handle: u32,
        delivery: &Delivery<'_>,
        within: Option<TransactionId>,
        now: Instant,
    ) -> Result<(), Failure> {
        if delivery.format != 0 {
            return Err(Failure::not_built("a message format other than 0"));
        }
        let message = Message::decode(&delivery.message)?;
        let published = dialect::published(&message, self.client.unix_ms())?;
        self.check_user(&published)?;
        let route = self.route(channel, handle, &published, Reply::to(delivery), now)?;
        let Self { client, sessions, .. } = self;
        let Some(begun) = sessions.begun(channel) else { return Ok(()) };
        let number = begun.published + 1;
        let confirm = if delivery.settled || within.is_some() { Confirm::None } else { Confirm::Numbered(number) };
        let publish = Publish {
            exchange: &route.exchange,
            routing_key: &route.key,
            dialect: ENCODING,
            properties: &published.properties,
            persistent: published.persistent,
            priority: Some(published.priority),
            expiration: published.expiration,
            body: (&*published.body).into(),
            confirm,
            unroutable: route.unroutable,
            copies: false,
            instructed: published.instructed,
        };
        if let Some(transaction) = within {
            return Ok(client.publish_in(transaction, begun.id, publish)?);
        }
        client.publish(begun.id, publish)?;
        if delivery.settled {
            return Ok(());
        }
        if number == 1 {
            client.show_confirming(begun.id);
        }
        begun.published = number;
        begun.unanswered.push_back(Unanswered { number, delivery: delivery.id, handle });
        if let Some(Link::Receiver(receiver)) = begun.links.get_mut(&handle) {
            receiver.unanswered += 1;
            receiver.terminus.iter().for_each(|terminus| terminus.taken(delivery.tag, delivery.id));
        }
        Ok(())
    }

    /// A publisher says its own name or none.
    fn check_user(&self, published: &Published<'_>) -> Result<(), Failure> {
        let user = self.client.user();
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

    fn route(
        &mut self,
        channel: u16,
        handle: u32,
        published: &Published<'_>,
        answer: Reply,
        now: Instant,
    ) -> Result<Route, Failure> {
        let subject = || published.subject.unwrap_or_default().to_owned();
        if let Some(Link::Receiver(receiver)) = self.begun(channel).and_then(|begun| begun.links.get(&handle))
            && let Destination::Fixed { exchange, key, unroutable } = &receiver.destination
        {
            let key = key.clone().unwrap_or_else(subject);
            return Ok(Route { exchange: exchange.clone(), key, unroutable: *unroutable });
        }
        let to = published.to.ok_or_else(|| {
            let text = "the link has no address, so each message must have one in its property `to`";
            Failure::new(condition::PRECONDITION_FAILED, text)
        })?;
        let capabilities = if published.to_topic { Symbols::of(&["topic"]) } else { Symbols::NONE };
        let (exchange, key, unroutable) = match Address::parse(to, capabilities)? {
            Address::Queue(name) => {
                // Its publisher has no other answer than the end of the link (Anonymous Terminus,
                // §2.2.2).
                if answer == Reply::Unwanted && !self.known.contains(&*name) {
                    self.client.check_recipient(&name, now)?;
                    self.remember(&name);
                }
                (String::new(), name.into_owned(), Unroutable::Tell)
            }
            Address::LastingQueue(name) => {
                self.know(&name, now)?;
                (String::new(), name.into_owned(), Unroutable::Tell)
            }
            Address::Exchange(name, key) => {
                let unroutable = if published.to_topic { Unroutable::Drop } else { Unroutable::Tell };
                (name.into_owned(), key.map_or_else(subject, |key| key.into_owned()), unroutable)
            }
            Address::Topic(name) => (TOPICS.to_owned(), name.into_owned(), Unroutable::Drop),
        };
        Ok(Route { exchange, key, unroutable })
    }

    /// Makes the queue of a plain name, once.
    fn know(&mut self, queue: &str, now: Instant) -> Result<(), Failure> {
        if self.known.contains(queue) {
            return Ok(());
        }
        ensure(&mut self.client, queue, now)?;
        self.remember(queue);
        Ok(())
    }

    /// Remembers that a queue is there.
    fn remember(&mut self, queue: &str) {
        if self.known.len() >= KNOWN_QUEUES {
            self.known.clear();
        }
        self.known.insert(queue.to_owned());
    }
}
