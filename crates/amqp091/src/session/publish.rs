//! `basic.publish` with its content: the checks of AMQP 0-9-1 on the properties, before the broker
//! takes the message.
//!
//! RabbitMQ checks the exchange before the properties, and clients see which error comes first. So
//! a wrong property is reported only if the exchange exists.

use broker::{Body, Confirm, Error, LONGEST_SPAN_MS, Properties, Publish, Unroutable};

use crate::codec::methods::BasicPublish;
use crate::codec::table::{Table, ValueRef};
use crate::codec::{PropertyScan, decode_properties, scan_properties};
use crate::dialect::{self, value_to_neutral};
use crate::session::channel::{Channel, Mode};
use crate::session::context::{Context, UserNames};
use crate::session::error::{Failure, ReplyCode};

/// The pseudo-queue of clients that receive replies without a queue.
pub(super) const REPLY_TO: &str = "amq.rabbitmq.reply-to";
/// How the address of every reply consumer begins, which RabbitMQ's clients and servers know.
pub(super) const REPLY_PREFIX: &str = "amq.rabbitmq.reply-to.";

impl Channel {
    /// Publishes a message whose content is complete.
    #[inline]
    pub(super) fn publish(
        &mut self,
        cx: &mut Context<'_>,
        to: &BasicPublish<'_>,
        properties: &[u8],
        body: Body<'_>,
    ) -> Result<(), Failure> {
        let scan = scan_properties(properties)?;
        let checked = self.reply_address(&scan, cx).and_then(|reply| Ok((reply, check_properties(&scan, cx)?)));
        let (reply_address, asked) = match checked {
            Ok(checked) => checked,
            Err(failure) => {
                cx.client.check_target(to.exchange)?;
                return Err(failure);
            }
        };
        let addressed = reply_address.map(|address| with_reply_to(properties, &address)).transpose()?;
        let publish = Publish {
            exchange: to.exchange,
            routing_key: to.routing_key,
            dialect: dialect::ENCODING,
            properties: addressed.as_deref().unwrap_or(properties),
            persistent: scan.is_persistent(),
            priority: scan.priority,
            expiration: asked.expiration,
            body,
            confirm: Confirm::None,
            unroutable: if to.mandatory { Unroutable::Return } else { Unroutable::Drop },
            copies: asked.copies,
            instructed: asked.instructed,
        };
        match &mut self.mode {
            Mode::Transactional(transaction) => cx.client.publish_in(*transaction, self.session, publish)?,
            Mode::Plain => cx.client.publish(self.session, publish)?,
            Mode::Confirming(published) => {
                *published += 1;
                let confirm = Confirm::Numbered(*published);
                cx.client.publish(self.session, Publish { confirm, ..publish })?;
            }
        }
        Ok(())
    }

    /// The address of replies, if the request asks for the pseudo-queue.
    #[inline]
    fn reply_address(&self, scan: &PropertyScan<'_>, cx: &Context<'_>) -> Result<Option<String>, Failure> {
        if scan.reply_to != Some(REPLY_TO.as_bytes()) {
            return Ok(None);
        }
        let address = cx.client.reply_address(self.session).map(str::to_owned);
        let missing = || Failure::new(ReplyCode::PreconditionFailed, "fast reply consumer does not exist");
        address.map(Some).ok_or_else(missing)
    }
}

/// A publish without a channel: properties in this protocol's encoding, with the same checks as for
/// a client's. Only the user that they name is not checked. It has no address and no body yet.
///
/// # Errors
/// `Precondition` if a client's publish would be refused.
pub fn encode<'a>(properties: &Properties, into: &'a mut Vec<u8>) -> Result<Publish<'a>, Error> {
    *into = dialect::encode(properties)?;
    let scan = scan_properties(into).map_err(|error| Error::internal(error.to_string()))?;
    let asked = asked(&scan).map_err(|failure| Error::precondition(failure.text))?;
    Ok(Publish {
        exchange: "",
        routing_key: "",
        dialect: dialect::ENCODING,
        persistent: scan.is_persistent(),
        priority: scan.priority,
        expiration: asked.expiration,
        properties: into,
        body: Body::Borrowed(&[]),
        confirm: Confirm::None,
        unroutable: Unroutable::Drop,
        copies: asked.copies,
        instructed: asked.instructed,
    })
}

/// These properties with another reply address.
fn with_reply_to(properties: &[u8], address: &str) -> Result<Vec<u8>, Failure> {
    let mut all = decode_properties(properties)?;
    all.reply_to = Some(address.as_bytes());
    Ok(all.to_bytes())
}

/// What the properties ask the broker to do.
struct Asked {
    /// The time to live in milliseconds.
    expiration: Option<u64>,
    /// Whether the headers name further routing keys.
    copies: bool,
    /// Whether the headers have instructions for the broker.
    instructed: bool,
}

/// Checks the properties, including the user that they name.
#[inline]
fn check_properties(scan: &PropertyScan<'_>, cx: &Context<'_>) -> Result<Asked, Failure> {
    let asked = match (scan.expiration, scan.headers) {
        (None, None) => Asked { expiration: None, copies: false, instructed: false },
        _ => asked(scan)?,
    };
    if let Some(user) = scan.user_id
        && user != cx.client.user().as_bytes()
        && cx.names == UserNames::Own
    {
        let (claimed, user) = (String::from_utf8_lossy(user), cx.client.user());
        let text = format!("user_id property set to '{claimed}' but authenticated user was '{user}'");
        return Err(Failure::new(ReplyCode::PreconditionFailed, text));
    }
    Ok(asked)
}

/// Reads what the properties ask for, for any publisher.
fn asked(scan: &PropertyScan<'_>) -> Result<Asked, Failure> {
    let expiration = match scan.expiration {
        None => None,
        Some(digits) => match parse_expiration(digits) {
            Ok(ms) => Some(ms),
            Err(why) => {
                let text = format!("invalid expiration '{}': {why}", String::from_utf8_lossy(digits));
                return Err(Failure::new(ReplyCode::PreconditionFailed, text));
            }
        },
    };
    let (copies, instructed) = match scan.headers {
        None => (false, false),
        Some(headers) => check_headers(headers)?,
    };
    Ok(Asked { expiration, copies, instructed })
}

/// Whether the headers have lists of further routing keys, and whether they have instructions for
/// the broker. If a header is there twice, the first counts.
fn check_headers(headers: Table<'_>) -> Result<(bool, bool), Failure> {
    let (mut cc, mut bcc, mut instructed) = (None, None, false);
    for (name, value) in headers.iter() {
        match name {
            "CC" => cc = cc.or(Some(value)),
            "BCC" => bcc = bcc.or(Some(value)),
            _ => instructed |= broker::is_instruction(name),
        }
    }
    for (name, value) in [("CC", cc), ("BCC", bcc)] {
        if let Some(value) = value.filter(|value| !matches!(value, ValueRef::Array(_))) {
            let kind = value_to_neutral(value).type_name();
            let text = format!("invalid message: {{unacceptable_type_in_header,\"{name}\",{kind}}}");
            return Err(Failure::new(ReplyCode::PreconditionFailed, text));
        }
    }
    Ok((cc.is_some() || bcc.is_some(), instructed))
}

/// Decimal digits as milliseconds; the reasons are RabbitMQ's.
fn parse_expiration(digits: &[u8]) -> Result<u64, String> {
    let text = String::from_utf8_lossy(digits);
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(&text);
    let length = unsigned.bytes().take_while(u8::is_ascii_digit).count();
    if length == 0 {
        return Err("no_integer".to_owned());
    }
    let (number, rest) = unsigned.split_at(length);
    if !rest.is_empty() {
        return Err(format!("{{leftover_string,\"{rest}\"}}"));
    }
    match number.parse::<u64>() {
        Ok(0) => Ok(0),
        _ if text.starts_with('-') => Err(format!("{{value_negative,{text}}}")),
        Ok(ms) if ms <= LONGEST_SPAN_MS => Ok(ms),
        _ => Err(format!("{{value_too_large,{number}}}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expirations_are_milliseconds_in_decimal_digits() {
        let table: &[(&str, Result<u64, &str>)] = &[
            ("0", Ok(0)),
            ("60000", Ok(60_000)),
            ("+5", Ok(5)),
            ("4294967295", Ok(4_294_967_295)),
            ("5184000000", Ok(5_184_000_000)),
            ("315360000000", Ok(315_360_000_000)),
            ("315360000001", Err("{value_too_large,315360000001}")),
            ("99999999999999999999999", Err("{value_too_large,99999999999999999999999}")),
            ("-1", Err("{value_negative,-1}")),
            ("", Err("no_integer")),
            ("soon", Err("no_integer")),
            ("10ms", Err("{leftover_string,\"ms\"}")),
        ];
        for (text, expected) in table {
            assert_eq!(
                parse_expiration(text.as_bytes()).as_ref().map_err(String::as_str),
                expected.as_ref().map_err(|e| *e)
            );
        }
    }
}
