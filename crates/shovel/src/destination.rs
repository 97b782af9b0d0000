//! The end that messages go to, without I/O. A message of the other protocol is translated first.

mod amqp091;
mod amqp10;

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::source::Content;
use crate::spec::{Destination as DestinationSpec, GiveTo};
use crate::translate::{Translate, Translating};
use crate::uri::Uri;

pub(crate) use self::amqp10::Destination10;
pub(crate) use self::amqp091::Destination091;

/// The end that messages go to, and what makes them messages of its protocol.
pub(crate) struct Destination {
    end: End,
    translating: Translating,
}

enum End {
    Amqp091(Box<Destination091>),
    Amqp10(Box<Destination10>),
}

/// What came from a destination.
pub(crate) enum DestinationEvent {
    /// Nothing of note; more may follow.
    Progress,
    /// It is open, and takes messages.
    Ready,
    /// It has these messages.
    Confirmed(RangeInclusive<u64>),
    /// It reads nothing at the moment.
    Blocked,
    /// It reads again.
    Unblocked,
    /// It has said goodbye.
    Closed,
}

impl Destination {
    pub(crate) fn new(spec: &DestinationSpec, uri: &Uri, translate: Arc<dyn Translate>) -> Self {
        let end = match &spec.to {
            GiveTo::Address(address) => End::Amqp10(Box::new(Destination10::new(spec, address, uri))),
            _ => End::Amqp091(Box::new(Destination091::new(spec, uri))),
        };
        Self { end, translating: Translating::new(translate) }
    }

    pub(crate) fn start(&mut self, out: &mut Vec<u8>) {
        match &mut self.end {
            End::Amqp091(destination) => destination.start(out),
            End::Amqp10(destination) => destination.start(out),
        }
    }

    /// Takes the next event from `input`; `None` if more bytes are needed.
    ///
    /// # Errors
    /// Why it can't go on: also because it refused a message.
    pub(crate) fn poll(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Result<Option<DestinationEvent>, String> {
        match &mut self.end {
            End::Amqp091(destination) => destination.poll(input, out),
            End::Amqp10(destination) => destination.poll(input, out),
        }
    }

    /// Gives it a message. Its number is the next one, from 1 on.
    ///
    /// # Errors
    /// If the message can't be read.
    pub(crate) fn give(&mut self, content: &Content<'_>, out: &mut Vec<u8>) -> Result<(), String> {
        let Self { end, translating } = self;
        match (end, content) {
            (End::Amqp091(destination), Content::Amqp091(message)) => destination.give(message, out),
            (End::Amqp10(destination), Content::Amqp10(message)) => destination.give(message, out),
            (End::Amqp091(destination), Content::Amqp10(message)) => {
                translating.to_amqp091(message, |message| destination.give(message, out))
            }
            (End::Amqp10(destination), Content::Amqp091(message)) => {
                destination.give(&translating.to_amqp10(message)?, out)
            }
        }
    }

    /// Bytes that wait inside for the other side's leave.
    pub(crate) fn waiting(&self) -> usize {
        match &self.end {
            End::Amqp091(_) => 0,
            End::Amqp10(destination) => destination.waiting(),
        }
    }

    pub(crate) fn close(&mut self, out: &mut Vec<u8>) {
        match &mut self.end {
            End::Amqp091(destination) => destination.close(out),
            End::Amqp10(destination) => destination.close(out),
        }
    }

    pub(crate) fn heartbeat(&mut self, out: &mut Vec<u8>) {
        match &mut self.end {
            End::Amqp091(destination) => destination.heartbeat(out),
            End::Amqp10(destination) => destination.heartbeat(out),
        }
    }
}
