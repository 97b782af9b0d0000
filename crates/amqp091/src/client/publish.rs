//! Publishing at the speed of a copy: everything except the body is encoded only once.

use crate::codec::frame::{self, frame_header, max_body_payload};
use crate::codec::methods::BasicPublish;
use crate::codec::{FrameKind, Method};
use crate::limits::FRAME_END;

/// The frames of a publish up to its body, for one channel, address and set of properties.
#[derive(Debug, Clone)]
pub struct PublishTemplate {
    channel: u16,
    max_payload: usize,
    /// Method frame and header frame.
    prefix: Vec<u8>,
    /// Where the size of the body goes in the prefix.
    size_at: usize,
}

impl PublishTemplate {
    /// Prepares publishes. `properties` are encoded flags and values
    /// ([`BasicProperties::to_bytes`](crate::codec::BasicProperties::to_bytes)); `frame_max` is the
    /// negotiated one.
    pub fn new(channel: u16, publish: BasicPublish<'_>, properties: &[u8], frame_max: u32) -> Self {
        let mut prefix = Vec::new();
        Method::from(publish).encode(channel, &mut prefix);
        // Class and weight stand between the frame's header and the size.
        let size_at = prefix.len() + crate::limits::FRAME_HEADER + 4;
        frame::encode_header(&mut prefix, channel, 0, properties);
        Self { channel, max_payload: max_body_payload(frame_max), prefix, size_at }
    }

    /// Appends one publish.
    #[inline]
    pub fn append(&self, body: &[u8], out: &mut Vec<u8>) {
        out.reserve(self.prefix.len() + body.len() + 8);
        let start = out.len();
        out.extend_from_slice(&self.prefix);
        let size_at = start + self.size_at;
        out[size_at..size_at + 8].copy_from_slice(&(body.len() as u64).to_be_bytes());
        for part in body.chunks(self.max_payload) {
            out.extend_from_slice(&frame_header(FrameKind::Body, self.channel, part.len()));
            out.extend_from_slice(part);
            out.push(FRAME_END);
        }
    }
}
