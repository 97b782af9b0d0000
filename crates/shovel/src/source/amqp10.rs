//! A source by AMQP 1.0. A node does not say how many messages it has. When none has come for a
//! while the credit is drained: if still none comes, it has none.

use amqp10::client::{Client, Event, LinkId};
use amqp10::codec::performative::{Attach, Role, SenderSettleMode};
use amqp10::codec::{AttachTarget, DeliveryState, Outcome, Source, Target};

use super::{Content, SourceEvent, Terms};
use crate::peer::{condition, options10};
use crate::spec::AckMode;
use crate::uri::Uri;
use crate::window::Done;

/// See the module.
pub(crate) struct Source10 {
    client: Client,
    address: String,
    terms: Terms,
    link: Option<LinkId>,
    /// Messages that were granted and have not come, and those that have not been settled.
    open: u32,
    lull: Lull,
}

/// Whether messages come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lull {
    /// Some came since it was asked last.
    None,
    /// None came.
    Begun,
    /// The credit is being drained.
    Drains,
}

impl Source10 {
    pub(crate) fn new(address: &str, uri: &Uri, terms: Terms) -> Self {
        let client = Client::new(options10(uri, "source"));
        Self { client, address: address.to_owned(), terms, link: None, open: 0, lull: Lull::None }
    }

    pub(crate) fn start(&mut self, out: &mut Vec<u8>) {
        self.client.start(out);
    }

    pub(crate) fn close(&mut self, out: &mut Vec<u8>) {
        self.client.close(out);
    }

    pub(crate) fn heartbeat(&mut self, out: &mut Vec<u8>) {
        self.client.heartbeat(out);
    }

    pub(crate) fn settle(&mut self, done: &Done, out: &mut Vec<u8>) -> Result<(), String> {
        let Some(link) = self.link else { return Ok(()) };
        self.open = self.open.saturating_sub(u32::try_from(done.messages).unwrap_or(u32::MAX));
        if self.terms.ack != AckMode::NoAck {
            let (from, to) = (id_of(done.from), id_of(done.to));
            let accepted = DeliveryState::Outcome(Outcome::Accepted);
            self.client.settle(link.channel, from..=to, accepted, out).map_err(|error| error.to_string())?;
        }
        self.grant(out)
    }

    /// Grants credit again once half of it is used.
    fn grant(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        let Some(link) = self.link.filter(|_| self.lull != Lull::Drains) else { return Ok(()) };
        let prefetch = u32::from(self.terms.prefetch.max(1));
        let credit = self.client.credit(link).map_err(|error| error.to_string())?;
        let due = prefetch.saturating_sub(self.open);
        if credit < due.div_ceil(2) {
            self.client.grant(link, due, out).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    pub(crate) fn ask_left(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        let Some(link) = self.link else { return Ok(()) };
        match self.lull {
            Lull::None => self.lull = Lull::Begun,
            Lull::Begun if self.open == 0 => {
                self.lull = Lull::Drains;
                self.client.drain(link, out).map_err(|error| error.to_string())?;
            }
            Lull::Begun | Lull::Drains => {}
        }
        Ok(())
    }

    pub(crate) fn poll<'a, 'i: 'a>(
        &'a mut self,
        input: &mut &'i [u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<SourceEvent<'a>>, String> {
        let Some(event) = self.client.poll(input, out).map_err(|error| error.to_string())? else { return Ok(None) };
        Ok(Some(match event {
            Event::Opened(_) => {
                self.attach(out)?;
                SourceEvent::Progress
            }
            Event::Attached { link, attach } if attach.source.is_some_and(|source| source.address.is_some()) => {
                self.link = Some(link);
                self.grant(out)?;
                SourceEvent::Ready { left: None }
            }
            Event::Delivery { delivery, .. } => {
                self.open += 1;
                if self.lull != Lull::Drains {
                    self.lull = Lull::None;
                }
                SourceEvent::Message { tag: delivery.id.into(), content: Content::Amqp10(delivery.message) }
            }
            Event::Drained { .. } => {
                let was_empty = self.open == 0;
                self.lull = Lull::None;
                self.grant(out)?;
                if was_empty { SourceEvent::Left(0) } else { SourceEvent::Progress }
            }
            Event::Closed { error: None } => SourceEvent::Closed,
            Event::Detached { error, .. } | Event::Ended { error, .. } | Event::Closed { error } => {
                return Err(format!("the source refused it: {}", condition(error.as_ref())));
            }
            _ => SourceEvent::Progress,
        }))
    }

    fn attach(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        let channel = self.client.begin(out).map_err(|error| error.to_string())?;
        let settled = match self.terms.ack {
            AckMode::NoAck => SenderSettleMode::Settled,
            AckMode::OnConfirm | AckMode::OnPublish => SenderSettleMode::Unsettled,
        };
        let attach = Attach {
            name: "shovel",
            role: Role::Receiver,
            snd_settle_mode: settled,
            source: Some(Source { address: Some(&self.address), ..Source::default() }),
            target: Some(AttachTarget::Target(Target::default())),
            ..Attach::default()
        };
        self.client.attach(channel, &attach, out).map_err(|error| error.to_string())?;
        Ok(())
    }
}

/// The id that a tag was made of.
fn id_of(tag: u64) -> u32 {
    u32::try_from(tag).unwrap_or_default()
}
