//! A message that arrives in pieces. It is kept per channel until it is complete, in buffers that
//! are reused.

use crate::client::{ClientError, Event, WholeContent};
use crate::codec::{ContentHeader, Method, decode_method};
use crate::limits::BASIC_CLASS;

/// The state of one channel's incoming content.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    expects: Expects,
    /// Payload of the method frame.
    method: Vec<u8>,
    properties: Vec<u8>,
    body: Vec<u8>,
    /// Announced size of the body.
    body_size: u64,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Expects {
    #[default]
    Method,
    Header,
    Body,
}

/// Whether content follows this method.
pub(crate) fn has_content(method: &Method<'_>) -> bool {
    matches!(method, Method::BasicDeliver(_) | Method::BasicGetOk(_) | Method::BasicReturn(_) | Method::BasicPublish(_))
}

impl Assembly {
    /// Takes a method with content.
    pub(crate) fn begin(&mut self, payload: &[u8]) -> Result<(), ClientError> {
        if self.expects != Expects::Method {
            return Err(ClientError::Unexpected("expected content, got a method with content instead"));
        }
        self.method.extend_from_slice(payload);
        self.expects = Expects::Header;
        Ok(())
    }

    /// Takes a header. True if the message is complete already.
    pub(crate) fn take_header(&mut self, payload: &[u8], limit: u64) -> Result<bool, ClientError> {
        let header = match ContentHeader::decode(payload) {
            Some(header) if self.expects == Expects::Header && header.class == BASIC_CLASS => header,
            _ => return Err(ClientError::Unexpected("expected no such content header")),
        };
        if header.body_size > limit {
            return Err(ClientError::TooLarge(header.body_size));
        }
        self.properties.extend_from_slice(header.properties);
        self.body_size = header.body_size;
        self.expects = Expects::Body;
        Ok(self.body_size == 0)
    }

    /// Takes a part of the body. True if the message is complete.
    pub(crate) fn take_body(&mut self, payload: &[u8]) -> Result<bool, ClientError> {
        if self.expects != Expects::Body {
            return Err(ClientError::Unexpected("expected no body frame"));
        }
        self.body.extend_from_slice(payload);
        if self.body.len() as u64 > self.body_size {
            return Err(ClientError::Unexpected("a body longer than its header announced"));
        }
        Ok(self.body.len() as u64 == self.body_size)
    }

    /// The complete message as an event.
    pub(crate) fn event(&self, channel: u16) -> Result<Event<'_>, ClientError> {
        let method = decode_method(&self.method)?;
        Ok(WholeContent { method, properties: &self.properties, body: &self.body }.event(channel))
    }

    /// Gets ready for the next message.
    pub(crate) fn clear(&mut self) {
        self.expects = Expects::Method;
        self.body_size = 0;
        for buffer in [&mut self.method, &mut self.properties, &mut self.body] {
            buffer.clear();
        }
    }
}
