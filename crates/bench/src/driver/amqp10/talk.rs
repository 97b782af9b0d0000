//! One AMQP 1.0 connection that carries messages: sends in turn on its links, takes what is pushed
//! to it or asks for each message by itself, and accepts what is due.

use std::borrow::Cow;

use amqp10::client::{Client, Event as Said, LinkId, SendMode};
use amqp10::codec::message::Message;
use amqp10::codec::{Body, DeliveryState, Outcome, Section};
use wire::Output;

use super::session::refusal;
use crate::driver::{AckCount, Conversation, Event, in_turn};
use bench_record::failure::{Context, Failure};

/// How a connection sends.
#[derive(Debug)]
pub(super) struct Sending {
    /// Message number n goes to the one at n modulo their number.
    pub(super) links: Vec<LinkId>,
    /// Likewise: what stands before its body.
    pub(super) fronts: Vec<Vec<u8>>,
    /// Whether it wants no answer.
    pub(super) settled: bool,
}

/// How a connection takes messages.
#[derive(Debug)]
pub(super) struct Taking {
    pub(super) acks: AckCount,
    /// Messages of one link that may be on their way or not settled.
    pub(super) prefetch: u32,
    /// Whether it asks for each message by itself.
    pub(super) polls: bool,
}

/// One connection that carries messages.
pub(super) struct Amqp10Talk {
    client: Client,
    channel: u16,
    output: Output,
    sending: Sending,
    published: u64,
    /// The front of a message with the head of its body.
    head: Vec<u8>,
    taking: Taking,
    pending: Pending,
}

/// Deliveries that are not settled.
#[derive(Debug, Default)]
struct Pending {
    count: u32,
    first: u32,
    newest: u32,
}

impl Pending {
    fn add(&mut self, id: u32) {
        if self.count == 0 {
            self.first = id;
        }
        (self.count, self.newest) = (self.count + 1, id);
    }
}

impl Amqp10Talk {
    pub(super) fn new(client: Client, channel: u16, sending: Sending, taking: Taking) -> Self {
        Self {
            client,
            channel,
            output: Output::keeping_all(),
            sending,
            published: 0,
            head: Vec::new(),
            taking,
            pending: Pending::default(),
        }
    }

    /// Asks for the first messages of these links.
    pub(super) fn begin(&mut self, receivers: &[LinkId]) -> Result<(), Failure> {
        receivers.iter().try_for_each(|link| self.ask_for_more(*link))
    }

    /// Gives a link new credit when half of it is used, or asks for the next message.
    fn ask_for_more(&mut self, link: LinkId) -> Result<(), Failure> {
        let out = self.output.tail();
        if self.taking.polls {
            return self.client.fetch(link, 1, out).context("asking for a message");
        }
        let (prefetch, pending) = (self.taking.prefetch, self.pending.count);
        let credit = self.client.credit(link).context("the credit of a link")?;
        if credit.saturating_add(pending) <= prefetch / 2 {
            self.client.grant(link, prefetch - pending, out).context("credit for a link")?;
        }
        Ok(())
    }

    fn accept(&mut self) -> Result<(), Failure> {
        let Pending { count, first, newest } = std::mem::take(&mut self.pending);
        if count == 0 {
            return Ok(());
        }
        let accepted = DeliveryState::Outcome(Outcome::Accepted);
        self.client.settle(self.channel, first..=newest, accepted, self.output.tail()).context("accepting messages")
    }

    fn take_delivery(
        &mut self,
        link: LinkId,
        delivery: &amqp10::delivery::Delivery<'_>,
        on: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), Failure> {
        let message = Message::decode(&delivery.message).context("a message that cannot be read")?;
        let body = match message.body {
            Body::Data(data) => match data.single() {
                Some(bytes) => Cow::Borrowed(bytes),
                None => Cow::Owned(data.iter().collect::<Vec<_>>().concat()),
            },
            _ => return Err(Failure::new("a message came back with another kind of body")),
        };
        let redelivered = message.header.is_some_and(|header| header.delivery_count > 0);
        on(Event::Delivery { body: &body, redelivered });
        if !delivery.settled {
            self.pending.add(delivery.id);
        }
        if self.taking.acks.due() {
            self.accept()?;
        }
        self.ask_for_more(link)
    }

    /// The number on this connection of a message with the number `on_link` on one of its links.
    fn number(&self, link: LinkId, on_link: u64) -> u64 {
        let links = &self.sending.links;
        let (count, at) = (links.len() as u64, links.iter().position(|other| *other == link).unwrap_or(0) as u64);
        // The first message has the number 1, and so goes to the second link.
        let first = if at == 0 { count } else { at };
        first + (on_link - 1) * count
    }
}

impl Conversation for Amqp10Talk {
    fn publish(&mut self, body: &[u8]) -> Result<(), Failure> {
        self.published += 1;
        let link = *in_turn(&self.sending.links, self.published)?;
        self.head.clear();
        self.head.extend_from_slice(in_turn(&self.sending.fronts, self.published)?);
        Section::encode_data_head(body.len(), &mut self.head);
        let mode = SendMode { settled: self.sending.settled, transaction: None };
        self.client.send(link, mode, &[&self.head, body], self.output.tail()).context("sending")?;
        Ok(())
    }

    fn receive(&mut self, input: &[u8], on: &mut dyn FnMut(Event<'_>)) -> Result<usize, Failure> {
        let mut rest = input;
        while let Some(said) = self.client.poll(&mut rest, self.output.tail()).context("reading from the broker")? {
            match said {
                Said::Delivery { link, delivery } => self.take_delivery(link, &delivery, on)?,
                Said::Drained { link } => self.ask_for_more(link)?,
                Said::Answered { link, numbers, state } => {
                    let accepted = matches!(state, None | Some(DeliveryState::Outcome(Outcome::Accepted)));
                    for number in numbers {
                        on(Event::Confirm { upto: self.number(link, number), multiple: false, accepted });
                    }
                }
                other => {
                    if let Some(failure) = refusal(&other) {
                        return Err(failure);
                    }
                }
            }
        }
        Ok(input.len() - rest.len())
    }

    fn settle(&mut self) -> Result<(), Failure> {
        if self.taking.acks.take_rest() { self.accept() } else { Ok(()) }
    }

    /// Also what waits for credit.
    fn waiting(&mut self) -> usize {
        self.output.len() + self.client.waiting()
    }

    fn output(&mut self) -> &mut Output {
        &mut self.output
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use amqp10::client::Options;

    #[test]
    fn messages_are_numbered_over_all_links() {
        let links: Vec<LinkId> = (0..3).map(|handle| LinkId { channel: 0, handle }).collect();
        let sending = Sending { links: links.clone(), fronts: vec![Vec::new()], settled: false };
        let taking = Taking { acks: AckCount::new(0), prefetch: 1, polls: false };
        let talk = Amqp10Talk::new(Client::new(Options::default()), 0, sending, taking);
        let mut sent = [0; 3];
        for number in 1..=10 {
            let link = *in_turn(&links, number).unwrap();
            sent[link.handle as usize] += 1;
            assert_eq!(talk.number(link, sent[link.handle as usize]), number);
        }
    }
}
