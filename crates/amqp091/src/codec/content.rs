//! Methods with content from the server: deliver, get-ok and return, each with its header and body
//! frames.
//!
//! These are the hottest encoders of a broker, and allocate nothing. A small message takes one
//! check of the buffer's room and a few copies; a large body goes to the socket by reference.
//! Properties are written exactly as the publisher encoded them.

use bytes::Bytes;
use wire::Output;

use crate::codec::frame::{FrameKind, frame_header, max_body_payload};
use crate::limits::{BASIC_CLASS, FRAME_END, FRAME_HEADER};

/// The body of a message on its way out.
#[derive(Debug, Clone, Copy)]
pub enum Body<'a> {
    /// A body that is copied into the output.
    Copied(&'a [u8]),
    /// A body that the output references.
    Shared(&'a Bytes),
}

impl Body<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Copied(bytes) => bytes.len(),
            Self::Shared(bytes) => bytes.len(),
        }
    }

    /// How many bytes of the body go through the output's own buffer.
    fn copied_len(&self) -> usize {
        match self {
            Self::Copied(bytes) => bytes.len(),
            Self::Shared(_) => 0,
        }
    }
}

/// The content that follows each of these methods.
#[derive(Debug, Clone, Copy)]
pub struct Content<'a> {
    /// Exchange and routing key, each as a length octet and its bytes.
    pub address: &'a [u8],
    /// Property flags and values, verbatim.
    pub properties: &'a [u8],
    /// The body.
    pub body: Body<'a>,
}

/// The arguments of `basic.deliver`.
#[derive(Debug, Clone, Copy)]
pub struct Deliver<'a> {
    /// At most 255 bytes; a longer one is cut.
    pub consumer_tag: &'a str,
    /// Counts from 1 on each channel.
    pub delivery_tag: u64,
    /// True when the message may have been delivered before.
    pub redelivered: bool,
}

/// The arguments of `basic.get-ok`.
#[derive(Debug, Clone, Copy)]
pub struct GetOk {
    /// Counts from 1 on each channel.
    pub delivery_tag: u64,
    /// True when the message may have been delivered before.
    pub redelivered: bool,
    /// How many ready messages remain in the queue.
    pub message_count: u32,
}

/// The arguments of `basic.return`.
#[derive(Debug, Clone, Copy)]
pub struct Return<'a> {
    /// The reason as a number: 312 for no route.
    pub reply_code: u16,
    /// The reason as a text of at most 255 bytes; a longer one is cut.
    pub reply_text: &'a str,
}

/// Appends `basic.deliver` and its content.
#[inline]
pub fn encode_deliver(out: &mut Output, channel: u16, frame_max: u32, deliver: &Deliver<'_>, content: &Content<'_>) {
    let tag = cut(deliver.consumer_tag);
    let size = 4 + 1 + tag.len() + 9 + content.address.len();
    let tail = begin(out, size, content);
    let [f0, f1, f2, f3, f4, f5, f6] = frame_header(FrameKind::Method, channel, size);
    tail.extend_from_slice(&[f0, f1, f2, f3, f4, f5, f6, 0, BASIC_CLASS as u8, 0, 60, tag.len() as u8]);
    tail.extend_from_slice(tag);
    put_tag(tail, deliver.delivery_tag, u8::from(deliver.redelivered));
    tail.extend_from_slice(content.address);
    finish(out, channel, frame_max, content);
}

/// Appends `basic.get-ok` and its content.
pub fn encode_get_ok(out: &mut Output, channel: u16, frame_max: u32, got: &GetOk, content: &Content<'_>) {
    let size = 4 + 9 + content.address.len() + 4;
    let tail = begin(out, size, content);
    tail.extend_from_slice(&frame_header(FrameKind::Method, channel, size));
    tail.extend_from_slice(&[0, BASIC_CLASS as u8, 0, 71]);
    put_tag(tail, got.delivery_tag, u8::from(got.redelivered));
    tail.extend_from_slice(content.address);
    tail.extend_from_slice(&got.message_count.to_be_bytes());
    finish(out, channel, frame_max, content);
}

/// Appends `basic.return` and its content.
pub fn encode_return(out: &mut Output, channel: u16, frame_max: u32, returned: &Return<'_>, content: &Content<'_>) {
    let text = cut(returned.reply_text);
    let size = 4 + 2 + 1 + text.len() + content.address.len();
    let tail = begin(out, size, content);
    tail.extend_from_slice(&frame_header(FrameKind::Method, channel, size));
    tail.extend_from_slice(&[0, BASIC_CLASS as u8, 0, 50]);
    tail.extend_from_slice(&returned.reply_code.to_be_bytes());
    tail.push(text.len() as u8);
    tail.extend_from_slice(text);
    tail.extend_from_slice(content.address);
    finish(out, channel, frame_max, content);
}

#[inline]
fn cut(text: &str) -> &[u8] {
    &text.as_bytes()[..text.floor_char_boundary(crate::limits::SHORT_STRING_MAX)]
}

/// The output's buffer with room for a method of `size` bytes, the header frame and one body frame.
#[inline]
fn begin<'o>(out: &'o mut Output, size: usize, content: &Content<'_>) -> &'o mut Vec<u8> {
    let tail = out.tail();
    tail.reserve(size + content.properties.len() + content.body.copied_len() + 3 * (FRAME_HEADER + 1) + 12);
    tail
}

#[inline]
fn put_tag(tail: &mut Vec<u8>, tag: u64, flags: u8) {
    let [t0, t1, t2, t3, t4, t5, t6, t7] = tag.to_be_bytes();
    tail.extend_from_slice(&[t0, t1, t2, t3, t4, t5, t6, t7, flags]);
}

/// Ends the method frame and appends the header frame and the body frames.
#[inline]
fn finish(out: &mut Output, channel: u16, frame_max: u32, content: &Content<'_>) {
    let body_len = content.body.len();
    let tail = out.tail();
    let [f0, f1, f2, f3, f4, f5, f6] = frame_header(FrameKind::Header, channel, 12 + content.properties.len());
    let [s0, s1, s2, s3, s4, s5, s6, s7] = (body_len as u64).to_be_bytes();
    tail.extend_from_slice(&[
        FRAME_END,
        f0,
        f1,
        f2,
        f3,
        f4,
        f5,
        f6,
        0,
        BASIC_CLASS as u8,
        0,
        0,
        s0,
        s1,
        s2,
        s3,
        s4,
        s5,
        s6,
        s7,
    ]);
    tail.extend_from_slice(content.properties);
    match content.body {
        Body::Copied(body) if !body.is_empty() && body_len <= max_body_payload(frame_max) => {
            let [f0, f1, f2, f3, f4, f5, f6] = frame_header(FrameKind::Body, channel, body_len);
            tail.extend_from_slice(&[FRAME_END, f0, f1, f2, f3, f4, f5, f6]);
            tail.extend_from_slice(body);
            tail.push(FRAME_END);
        }
        Body::Copied(body) => {
            tail.push(FRAME_END);
            for part in body.chunks(max_body_payload(frame_max)) {
                tail.extend_from_slice(&frame_header(FrameKind::Body, channel, part.len()));
                tail.extend_from_slice(part);
                tail.push(FRAME_END);
            }
        }
        Body::Shared(body) => {
            tail.push(FRAME_END);
            put_shared(out, channel, max_body_payload(frame_max), body);
        }
    }
}

fn put_shared(out: &mut Output, channel: u16, limit: usize, body: &Bytes) {
    let mut start = 0;
    while start < body.len() {
        let end = (start + limit).min(body.len());
        out.put(&frame_header(FrameKind::Body, channel, end - start));
        out.put_shared(&body.slice(start..end));
        out.tail().push(FRAME_END);
        start = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::methods::{BasicDeliver, BasicGetOk, BasicReturn};
    use crate::codec::{Method, frame};

    const ADDRESS: &[u8] = b"\x02ex\x01k";
    const PROPERTIES: &[u8] = &[0x10, 0, 2];

    /// The same content, from the general encoders.
    fn expected(method: Method<'_>, frame_max: u32, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        method.encode(9, &mut out);
        frame::encode_header(&mut out, 9, body.len() as u64, PROPERTIES);
        frame::encode_body(&mut out, 9, frame_max, body);
        out
    }

    fn taken(write: impl FnOnce(&mut Output)) -> Vec<u8> {
        let mut out = Output::default();
        write(&mut out);
        out.take()
    }

    #[test]
    fn content_is_the_same_as_from_the_general_encoders() {
        for length in [0, 1, 64, 4087, 4088, 4089, 9000, 300_000] {
            let body: Vec<u8> = (0..length).map(|i| i as u8).collect();
            let shared = Bytes::from(body.clone());
            for (frame_max, body_form) in
                [(4096, Body::Copied(&body)), (131_072, Body::Copied(&body)), (131_072, Body::Shared(&shared))]
            {
                let content = Content { address: ADDRESS, properties: PROPERTIES, body: body_form };
                let deliver = Deliver { consumer_tag: "tag", delivery_tag: 1 << 40, redelivered: true };
                let method = BasicDeliver {
                    consumer_tag: "tag",
                    delivery_tag: 1 << 40,
                    redelivered: true,
                    exchange: "ex",
                    routing_key: "k",
                };
                assert_eq!(
                    taken(|out| encode_deliver(out, 9, frame_max, &deliver, &content)),
                    expected(method.into(), frame_max, &body)
                );
                let got = GetOk { delivery_tag: 2, redelivered: false, message_count: 77 };
                let method = BasicGetOk {
                    delivery_tag: 2,
                    redelivered: false,
                    exchange: "ex",
                    routing_key: "k",
                    message_count: 77,
                };
                assert_eq!(
                    taken(|out| encode_get_ok(out, 9, frame_max, &got, &content)),
                    expected(method.into(), frame_max, &body)
                );
                let returned = Return { reply_code: 312, reply_text: "NO_ROUTE" };
                let method = BasicReturn { reply_code: 312, reply_text: "NO_ROUTE", exchange: "ex", routing_key: "k" };
                assert_eq!(
                    taken(|out| encode_return(out, 9, frame_max, &returned, &content)),
                    expected(method.into(), frame_max, &body)
                );
            }
        }
    }
}
