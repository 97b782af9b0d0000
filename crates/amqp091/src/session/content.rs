//! Incoming content: a publish, its header and its body, whole in the read buffer or frame by
//! frame.
//!
//! Only the part of a body that has arrived is kept. Its announced size is checked against the
//! limits first.

use broker::{Body, Charge, Gathered, LARGE_BODY, SessionId};

use crate::codec::methods::{BasicPublish, decode_publish};
use crate::codec::{ContentHeader, Frame, FrameKind, decode_frame};
use crate::limits::BASIC_CLASS;
use crate::session::channel::{Channel, Step};
use crate::session::context::Context;
use crate::session::error::{Failure, ReplyCode};
use crate::session::incoming::{Address, Incoming};

/// The largest body that may be announced, whatever the settings: RabbitMQ's bound.
const BODY_MAX: u64 = 512 * 1024 * 1024;
/// How many bodies of the largest size may be incomplete on all channels of a connection together.
const UNFINISHED_BODIES: u64 = 4;

/// While their body is arriving, properties are counted if they have more bytes than this.
const LARGE_PROPERTIES: usize = 1024;

const PUBLISH: (u16, u16) = (BASIC_CLASS, 40);

/// Whether this is the method frame of a publish.
#[inline]
pub(super) fn is_publish(frame: Frame<'_>) -> bool {
    frame.kind == FrameKind::Method && matches!(frame.payload, [0, 60, 0, 40, ..])
}

/// Header and body at the start of `after`, if both are complete there and the body has at most one
/// frame. Also their length with all frames.
#[inline]
fn whole_content(channel: u16, after: &[u8], frame_max: u32) -> Option<(&[u8], &[u8], usize)> {
    // Anything else at this point is taken frame by frame.
    let header_frame = decode_frame(after, frame_max).ok().flatten()?;
    if header_frame.kind != FrameKind::Header || header_frame.channel != channel {
        return None;
    }
    let header = ContentHeader::decode(header_frame.payload).filter(|header| header.class == BASIC_CLASS)?;
    let length = header_frame.wire_len();
    if header.body_size == 0 {
        return Some((header.properties, &[], length));
    }
    let body = decode_frame(&after[length..], frame_max).ok().flatten()?;
    let fits = body.kind == FrameKind::Body && body.channel == channel && body.payload.len() as u64 == header.body_size;
    fits.then_some((header.properties, body.payload, length + body.wire_len()))
}

impl Channel {
    /// The fast way of a publish. Returns how many bytes of `after` belong to it; 0 means that the
    /// frame must take the general way.
    #[inline]
    pub(super) fn take_whole_publish(
        &mut self,
        cx: &mut Context<'_>,
        frame: Frame<'_>,
        after: &[u8],
    ) -> Result<usize, Failure> {
        if self.is_closing() || !matches!(self.incoming, Incoming::Method) {
            return Ok(0);
        }
        let Some((properties, body, length)) = whole_content(frame.channel, after, cx.link.frame_max) else {
            return Ok(0);
        };
        let Some(publish) = decode_publish(frame.payload) else { return Ok(0) };
        let publish = publish?;
        check_immediate(&publish)?;
        // If this fails, the channel closes. Then it ignores the content frames, which are still in
        // the input.
        self.publish(cx, &publish, properties, body.into()).map_err(|failure| failure.of(PUBLISH))?;
        Ok(length)
    }

    /// Takes a publish whose content follows.
    pub(super) fn begin_publish(&mut self, publish: &BasicPublish<'_>) -> Result<(), Failure> {
        check_immediate(publish)?;
        self.incoming = Incoming::Header(Address {
            exchange: publish.exchange.to_owned(),
            routing_key: publish.routing_key.to_owned(),
            mandatory: publish.mandatory,
        });
        Ok(())
    }

    /// Takes a frame while content is expected.
    pub(super) fn take_content(&mut self, cx: &mut Context<'_>, frame: Frame<'_>) -> Result<Step, Failure> {
        let session = self.session;
        let whole = match &mut self.incoming {
            Incoming::Method => return Ok(Step::Done),
            Incoming::Header(_) => self.take_header(cx, frame),
            Incoming::Body { size, body, charge, .. } => take_body(cx, session, frame, *size, (body, charge)),
        };
        if whole.map_err(|failure| failure.of(PUBLISH))? {
            self.finish_content(cx).map_err(|failure| failure.of(PUBLISH))?;
        }
        Ok(Step::Done)
    }

    /// True if the content has no body and is complete.
    fn take_header(&mut self, cx: &mut Context<'_>, frame: Frame<'_>) -> Result<bool, Failure> {
        let unexpected = |what: String| {
            let text = format!("expected content header for class {BASIC_CLASS}, got {what} instead");
            Failure::new(ReplyCode::UnexpectedFrame, text)
        };
        if frame.kind != FrameKind::Header {
            return Err(unexpected("non content header frame".to_owned()));
        }
        let header = ContentHeader::decode(frame.payload)
            .ok_or_else(|| Failure::new(ReplyCode::SyntaxError, "malformed content header"))?;
        if header.class != BASIC_CLASS {
            return Err(unexpected(format!("one for class {}", header.class)));
        }
        let size = header.body_size;
        if size > BODY_MAX {
            let text = format!("content body size {size} exceeds maximum allowed size {BODY_MAX}");
            return Err(Failure::new(ReplyCode::FrameError, text));
        }
        let max = cx.broker.limits().max_message_bytes;
        if size > max {
            let text = format!("message size {size} is larger than configured max size {max}");
            return Err(Failure::new(ReplyCode::PreconditionFailed, text));
        }
        if let Incoming::Header(address) = std::mem::replace(&mut self.incoming, Incoming::Method) {
            let properties = header.properties.to_vec();
            *cx.unfinished += properties.len() as u64;
            let mut charge = None;
            if size > 0 && properties.len() > LARGE_PROPERTIES {
                cx.client.check_room(properties.len(), "message")?;
                charge.insert(cx.client.body_charge()).add(properties.len());
            }
            cx.client.body_arrives(self.session, size, cx.now);
            let body = Gathered::new(&address.exchange, &address.routing_key, properties.len());
            self.incoming = Incoming::Body { address, properties, size, body, charge };
        }
        Ok(size == 0)
    }

    fn finish_content(&mut self, cx: &mut Context<'_>) -> Result<(), Failure> {
        let Incoming::Body { address, properties, body, .. } = std::mem::replace(&mut self.incoming, Incoming::Method)
        else {
            return Ok(());
        };
        *cx.unfinished -= (body.len() + properties.len()) as u64;
        let Address { exchange, routing_key, mandatory } = &address;
        let publish = BasicPublish { exchange, routing_key, mandatory: *mandatory, ..Default::default() };
        self.publish(cx, &publish, &properties, Body::Gathered(body))
    }
}

fn check_immediate(publish: &BasicPublish<'_>) -> Result<(), Failure> {
    if publish.immediate {
        return Err(Failure::new(ReplyCode::NotImplemented, "immediate=true").of(PUBLISH));
    }
    Ok(())
}

/// True if the body is complete.
fn take_body(
    cx: &mut Context<'_>,
    session: SessionId,
    frame: Frame<'_>,
    size: u64,
    (body, charge): (&mut Gathered, &mut Option<Charge>),
) -> Result<bool, Failure> {
    if frame.kind != FrameKind::Body {
        let text = "expected content body, got non content body frame instead";
        return Err(Failure::new(ReplyCode::UnexpectedFrame, text));
    }
    let part = frame.payload;
    if part.len() as u64 > size - body.len() as u64 {
        return Err(Failure::new(ReplyCode::FrameError, "content body frame exceeds remaining content size"));
    }
    let limit = cx.broker.limits().max_message_bytes.saturating_mul(UNFINISHED_BODIES);
    if *cx.unfinished + part.len() as u64 > limit {
        let text = format!("unfinished messages on all channels together exceed {limit} bytes");
        return Err(Failure::new(ReplyCode::ResourceError, text));
    }
    *cx.unfinished += part.len() as u64;
    let place = cx.client.body_arrives(session, size, cx.now);
    body.push(part, size, place);
    let whole = body.len() as u64 == size;
    if !whole && size <= LARGE_BODY {
        let unfinished = usize::try_from(*cx.unfinished).unwrap_or(usize::MAX);
        cx.client.check_room(part.len(), "message")?;
        charge.get_or_insert_with(|| cx.client.body_charge()).add(part.len());
        cx.client.check_hold(unfinished, "message")?;
    }
    Ok(whole)
}
