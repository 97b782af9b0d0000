//! The broker's events as frames.
//!
//! A delivery is the hottest of them: no allocation, one copy of a small body, none of a large one.

use broker::{Broker, Counts, Delivery, Event, Message, SessionId};

use crate::codec::methods::{BasicAck, BasicCancel, BasicNack, ConnectionBlocked, ConnectionUnblocked, TxCommitOk};
use crate::codec::{Body, Content, Deliver, GetOk, Return, encode_deliver, encode_get_ok, encode_return};
use crate::dialect::delivered_properties;
use crate::limits::{SHARED_BODY, SHORT_STRING_MAX};
use crate::session::context::Sessions;
use crate::session::error::{Failure, ReplyCode};
use crate::session::link::{After, Link, Waiting};

/// Writes the frames of `event`, or notes what else it requires.
pub(super) fn report(link: &mut Link, sessions: &mut Sessions, broker: &Broker, event: Event<'_>) {
    match event {
        Event::Deliver(delivery) => deliver(link, sessions, broker, &delivery),
        Event::Confirmed { session, up_to } => confirm(link, sessions, session, up_to),
        Event::Refused { session, number, .. } => {
            let Some(known) = sessions.get_mut(session) else { return };
            // The next confirm must cover earlier publishes that are still open, so `answered` must
            // not pass them.
            if number == known.answered + 1 {
                known.answered = number;
            }
            let channel = known.channel;
            link.send(channel, BasicNack { delivery_tag: number, multiple: false, requeue: false });
        }
        Event::Unroutable { session, number, message } => {
            if let (Some(channel), Some(message)) = (sessions.channel_of(session), message) {
                give_back(link, broker, channel, message);
            }
            // A returned message counts as taken.
            if let Some(number) = number {
                confirm(link, sessions, session, number);
            }
        }
        Event::Cancelled { session, consumer_tag } => {
            if let (Some(channel), true) = (sessions.channel_of(session), link.traits.cancel_notify) {
                link.send_after_reply(channel, BasicCancel { consumer_tag, nowait: true });
            }
        }
        // No channel grants credit.
        Event::Drained { .. } => {}
        Event::SessionFailed { session, error } => {
            if let Some(channel) = sessions.channel_of(session) {
                link.after.push(After::CloseChannel(channel, error.into()));
            }
        }
        Event::Overdue { session, timeout } => {
            if let Some(channel) = sessions.channel_of(session) {
                let text = format!(
                    "delivery acknowledgement on channel {channel} timed out. Timeout value used: {} ms. This timeout value \
                     can be configured, see consumers doc guide to learn more",
                    timeout.as_millis()
                );
                link.after.push(After::CloseChannel(channel, Failure::new(ReplyCode::PreconditionFailed, text)));
            }
        }
        Event::Committed { .. } => {
            if let Some(Waiting::Commit { channel }) = link.waiting.take_if(|w| matches!(w, Waiting::Commit { .. })) {
                link.send(channel, TxCommitOk {});
            }
        }
        Event::RolledBack { error, .. } => {
            if let Some(Waiting::Commit { channel }) = link.waiting.take_if(|w| matches!(w, Waiting::Commit { .. })) {
                link.after.push(After::CloseChannel(channel, Failure::from(error).of((90, 20))));
            }
        }
        Event::Blocked { reason } if link.traits.blocked => link.send(0, ConnectionBlocked { reason }),
        Event::Unblocked if link.traits.blocked => link.send(0, ConnectionUnblocked {}),
        Event::Blocked { .. } | Event::Unblocked => {}
        Event::Kicked { reason } => {
            link.after.push(After::CloseConnection(Failure::new(ReplyCode::ConnectionForced, reason)));
        }
    }
}

/// Acknowledges the publishes of a channel up to this number.
fn confirm(link: &mut Link, sessions: &mut Sessions, session: SessionId, up_to: u64) {
    let Some(known) = sessions.get_mut(session) else { return };
    let multiple = up_to > known.answered + 1;
    known.answered = up_to;
    let channel = known.channel;
    link.send(channel, BasicAck { delivery_tag: up_to, multiple });
}

/// Calls `write` with the content of a message. The message keeps a referenced body alive.
#[inline]
fn with_content(
    link: &mut Link,
    broker: &Broker,
    message: &Message,
    counts: Counts,
    write: impl FnOnce(&mut Link, &Content<'_>),
) {
    let sent = message.sent();
    let properties = match delivered_properties(message, sent.content.properties, counts, broker.dialects()) {
        Ok(properties) => properties,
        Err(error) => {
            link.after.push(After::CloseConnection(error.into()));
            return;
        }
    };
    let mut room;
    let address = match sent.short_address {
        Some(address) => address,
        None => {
            room = [0; 2 * (1 + SHORT_STRING_MAX)];
            long_address(message, &mut room)
        }
    };
    let (properties, body) = (properties.as_ref(), sent.content.body);
    if body.len() < SHARED_BODY {
        write(link, &Content { address, properties, body: Body::Copied(body) });
    } else {
        let body = message.body_shared();
        write(link, &Content { address, properties, body: Body::Shared(&body) });
    }
}

/// Exchange and routing key, each behind an octet with its length. What is too long for that is
/// cut.
#[cold]
fn long_address<'r>(message: &Message, room: &'r mut [u8; 2 * (1 + SHORT_STRING_MAX)]) -> &'r [u8] {
    let mut end = 0;
    for name in [message.exchange(), message.routing_key()] {
        let kept = &name.as_bytes()[..name.floor_char_boundary(SHORT_STRING_MAX)];
        room[end] = kept.len() as u8;
        room[end + 1..][..kept.len()].copy_from_slice(kept);
        end += 1 + kept.len();
    }
    &room[..end]
}

#[inline]
fn deliver(link: &mut Link, sessions: &mut Sessions, broker: &Broker, delivery: &Delivery<'_>) {
    let Some(channel) = sessions.receiver(delivery.session) else { return };
    let deliver =
        Deliver { consumer_tag: delivery.consumer_tag, delivery_tag: delivery.tag, redelivered: delivery.redelivered };
    with_content(link, broker, delivery.message, delivery.counts, |link, content| {
        encode_deliver(&mut link.out, channel, link.frame_max, &deliver, content);
    });
}

/// Writes the message that `basic.get` asked for.
pub(super) fn got(link: &mut Link, sessions: &mut Sessions, broker: &Broker, delivery: &Delivery<'_>, remaining: u64) {
    let Some(channel) = sessions.receiver(delivery.session) else { return };
    let got = GetOk {
        delivery_tag: delivery.tag,
        redelivered: delivery.redelivered,
        message_count: u32::try_from(remaining).unwrap_or(u32::MAX),
    };
    let before = link.out.len();
    with_content(link, broker, delivery.message, delivery.counts, |link, content| {
        encode_get_ok(&mut link.out, channel, link.frame_max, &got, content);
    });
    link.out.count_answer(link.out.len() - before);
}

fn give_back(link: &mut Link, broker: &Broker, channel: u16, message: &Message) {
    let returned = Return { reply_code: ReplyCode::NoRoute as u16, reply_text: ReplyCode::NoRoute.name() };
    let before = link.out.len();
    with_content(link, broker, message, Counts::default(), |link, content| {
        encode_return(&mut link.out, channel, link.frame_max, &returned, content);
    });
    link.out.count_answer(link.out.len() - before);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stored message of the exchange `e` with this routing key.
    fn with_key(key: &str) -> Message {
        let mut block = vec![3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, b'e'];
        block.extend([key.len() as u8 | 0x80, (key.len() >> 7) as u8]);
        block.extend(key.bytes());
        block.push(0);
        Message::from_stored(block.into()).expect("a valid block")
    }

    #[test]
    fn a_key_that_is_too_long_for_this_protocol_is_cut_between_characters() {
        for (key, shown) in [
            ("k".repeat(200), 200),
            ("k".repeat(255), 255),
            ("k".repeat(256), 255),
            ("k".repeat(9000), 255),
            ("\u{e9}".repeat(200), 254),
        ] {
            let message = with_key(&key);
            assert_eq!(message.sent().short_address, None);
            let mut room = [0; 512];
            let address = long_address(&message, &mut room);
            assert_eq!(address, [&[1, b'e', shown as u8], &key.as_bytes()[..shown]].concat());
        }
    }
}
