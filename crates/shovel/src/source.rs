//! The end that messages come from, without I/O: bytes in, events and bytes out.

mod amqp091;
mod amqp10;

use crate::spec::{AckMode, Source as SourceSpec, TakeFrom};
use crate::uri::Uri;
use crate::window::Done;

pub(crate) use self::amqp10::Source10;
pub(crate) use self::amqp091::Source091;

/// The end that messages come from.
pub(crate) enum Source {
    Amqp091(Box<Source091>),
    Amqp10(Box<Source10>),
}

/// What came from a source.
pub(crate) enum SourceEvent<'a> {
    /// Nothing of note; more may follow.
    Progress,
    /// It is open, and sends messages. How many it has, if it says.
    Ready { left: Option<u64> },
    /// How many messages are ready.
    Left(u64),
    /// It has said goodbye.
    Closed,
    /// A message.
    Message { tag: u64, content: Content<'a> },
}

/// A message on its way.
pub(crate) enum Content<'a> {
    /// Of AMQP 0-9-1.
    Amqp091(amqp091_client::Received<'a>),
    /// Of AMQP 1.0: its sections.
    Amqp10(std::borrow::Cow<'a, [u8]>),
}

use ::amqp091::client as amqp091_client;

impl Content<'_> {
    /// Its bytes.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Amqp091(message) => message.properties.len() + message.body.len(),
            Self::Amqp10(bytes) => bytes.len(),
        }
    }
}

/// How a source is asked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    /// Messages that it may send before some are acknowledged.
    pub(crate) prefetch: u16,
    pub(crate) ack: AckMode,
}

impl Source {
    pub(crate) fn new(spec: &SourceSpec, uri: &Uri, terms: Terms) -> Self {
        match &spec.from {
            TakeFrom::Address(address) => Self::Amqp10(Box::new(Source10::new(address, uri, terms))),
            from => Self::Amqp091(Box::new(Source091::new(from, uri, terms))),
        }
    }

    pub(crate) fn start(&mut self, out: &mut Vec<u8>) {
        match self {
            Self::Amqp091(source) => source.start(out),
            Self::Amqp10(source) => source.start(out),
        }
    }

    /// Takes the next event from `input`; `None` if more bytes are needed.
    ///
    /// # Errors
    /// Why it can't go on.
    pub(crate) fn poll<'a, 'i: 'a>(
        &'a mut self,
        input: &mut &'i [u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<SourceEvent<'a>>, String> {
        match self {
            Self::Amqp091(source) => source.poll(input, out),
            Self::Amqp10(source) => source.poll(input, out),
        }
    }

    /// These messages are at their destination.
    pub(crate) fn settle(&mut self, done: &Done, out: &mut Vec<u8>) -> Result<(), String> {
        match self {
            Self::Amqp091(source) => {
                source.settle(done, out);
                Ok(())
            }
            Self::Amqp10(source) => source.settle(done, out),
        }
    }

    /// Some time has passed: asks how many messages are left.
    pub(crate) fn ask_left(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        match self {
            Self::Amqp091(source) => {
                source.ask_left(out);
                Ok(())
            }
            Self::Amqp10(source) => source.ask_left(out),
        }
    }

    /// Says goodbye: what is not settled goes back to its place.
    pub(crate) fn close(&mut self, out: &mut Vec<u8>) {
        match self {
            Self::Amqp091(source) => source.close(out),
            Self::Amqp10(source) => source.close(out),
        }
    }

    pub(crate) fn heartbeat(&mut self, out: &mut Vec<u8>) {
        match self {
            Self::Amqp091(source) => source.heartbeat(out),
            Self::Amqp10(source) => source.heartbeat(out),
        }
    }
}
