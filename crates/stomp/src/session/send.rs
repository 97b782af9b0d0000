//! SEND: a message for the broker, at once or within a transaction.
//!
//! Its receipt waits for the confirm. Within a transaction it only says that the message was
//! accepted, and COMMIT's receipt says that it is durable.

use std::time::Instant;

use broker::{Confirm, Publish, Ticket, Unroutable};

use super::destination::{Destination, Routing};
use super::error::Failure;
use super::open::Session;
use crate::codec::{Command, Frame, Version};
use crate::dialect::{self, Marked};

/// Headers of a SEND that do not belong to the message. They address or frame it, or only the
/// server may set them on a MESSAGE.
const NOT_KEPT: [&str; 8] = [
    "destination",
    "destination-type",
    "content-length",
    "receipt",
    "transaction",
    "subscription",
    "ack",
    "redelivered",
];

impl Session {
    pub(super) fn send(&mut self, frame: &Frame<'_>, now: Instant) -> Result<(), Failure> {
        let mut lines = std::mem::take(&mut self.lines);
        lines.clear();
        let sent = self.send_with(frame, &mut lines, now);
        self.lines = lines;
        sent
    }

    fn send_with(&mut self, frame: &Frame<'_>, lines: &mut Vec<u8>, now: Instant) -> Result<(), Failure> {
        let headers = &frame.headers;
        let destination = headers.get("destination").ok_or_else(|| Failure::missing(Command::Send, "destination"))?;
        let routing = headers.get("destination-type").map(|value| Routing::parse("destination-type", &value));
        let destination = self.own(Destination::parse(&destination, routing.transpose()?)?)?;
        let reply_to = match headers.get("reply-to") {
            Some(reply_to) => self.reply_address(&reply_to, now)?,
            None => None,
        };
        let marked = self.read_headers(frame, reply_to.as_deref(), lines)?;
        self.ensure_recipient(&destination, headers, now)?;
        let (exchange, routing_key) = destination.address();
        let publish = Publish {
            exchange,
            routing_key,
            dialect: dialect::ENCODING,
            properties: lines,
            persistent: marked.persistent,
            priority: marked.priority,
            expiration: marked.expiration,
            body: frame.body.as_slice().into(),
            confirm: Confirm::None,
            unroutable: Unroutable::Drop,
            copies: false,
            instructed: marked.instructed,
        };
        if let Some(transaction) = headers.get("transaction") {
            let transaction = self.transactions.id(&transaction)?;
            self.client.publish_in(transaction, self.id, publish)?;
            self.fence(frame, Ticket::NONE);
            return Ok(());
        }
        let Some(receipt) = headers.get("receipt") else { return Ok(self.client.publish(self.id, publish)?) };
        if self.published == 0 {
            self.client.show_confirming(self.id);
        }
        self.published += 1;
        let confirm = Confirm::Numbered(self.published);
        self.client.publish(self.id, Publish { confirm, ..publish })?;
        self.receipts.after_send(self.published, receipt.into_owned());
        Ok(())
    }

    /// The queue that belongs to a temporary destination of this connection.
    fn own<'a>(&self, destination: Destination<'a>) -> Result<Destination<'a>, Failure> {
        let Destination::Temporary(name) = &destination else { return Ok(destination) };
        match self.temporaries.get(&**name) {
            Some(queue) => Ok(Destination::Reply(queue.clone().into())),
            None => {
                let detail = format!(
                    "this connection has no temporary queue '{name}'; subscribe to it first, or name it in reply-to of a SEND"
                );
                Err(Failure::new("Unknown destination", detail))
            }
        }
    }

    /// Checks the headers, and copies those that belong to the message into `lines`, as the dialect
    /// stores them. `reply_to` replaces the client's value.
    fn read_headers(&self, frame: &Frame<'_>, reply_to: Option<&str>, lines: &mut Vec<u8>) -> Result<Marked, Failure> {
        let mut marked = Marked::default();
        for (name, value) in frame.headers.raw() {
            if NOT_KEPT.contains(&name) {
                continue;
            }
            let value = reply_to.filter(|_| name == "reply-to").unwrap_or(value);
            self.check_header(name, value)?;
            if name == "expires" {
                marked.expires(value, self.client.unix_ms())?;
            } else {
                marked.note(name, value)?;
            }
            if self.version == Version::V1_0 {
                store_escaped(name, value, lines);
            } else {
                // The escapes of 1.1 are among those of 1.2.
                for part in [name, ":", value, "\n"] {
                    lines.extend_from_slice(part.as_bytes());
                }
            }
        }
        Ok(marked)
    }

    fn check_header(&self, name: &str, value: &str) -> Result<(), Failure> {
        match name {
            "message-id" => Err(Failure::new("Invalid header", "'message-id' is not allowed on 'SEND'")),
            "user-id" if value != self.client.user() => Err(Failure::new(
                "precondition_failed",
                format!("user_id property set to '{value}' but authenticated user was '{}'", self.client.user()),
            )),
            "AMQ_SCHEDULED_DELAY" => Ok(()),
            scheduled if scheduled.starts_with("AMQ_SCHEDULED_") => Err(Failure::not_built(Command::Send, scheduled)),
            _ => Ok(()),
        }
    }
}

/// Appends a header of STOMP 1.0, which has no escapes, with those of 1.2.
fn store_escaped(name: &str, value: &str, lines: &mut Vec<u8>) {
    for (text, end) in [(name, b':'), (value, b'\n')] {
        for &byte in text.as_bytes() {
            // The text comes from one line, so it has no line feed. A name has no colon.
            if byte == b'\\' {
                lines.push(b'\\');
            }
            lines.push(byte);
        }
        lines.push(end);
    }
}
