//! Frames of STOMP 1.0, 1.1 and 1.2 and their bytes, in both directions, without sockets or time.
//!
//! The decoder borrows from the received bytes. It gives the same frames however the bytes are
//! split.

mod command;
mod decoder;
mod encoder;
mod error;
mod frame;
mod headers;
mod heart_beat;

pub use command::{Command, Version};
pub use decoder::{Decoded, Decoder};
#[cfg(feature = "session")]
pub(crate) use encoder::Spoken;
pub use encoder::{FrameWriter, Trailer};
pub use error::FrameError;
pub use frame::{Body, Frame};
pub use headers::Headers;
#[cfg(feature = "session")]
pub(crate) use headers::unescape;
pub use heart_beat::HeartBeat;

use crate::limits::Limits;

/// Decodes every complete frame at the front of `input` and passes each to `visit`. Returns the
/// number of bytes of these frames and of the end-of-lines between them. It is meant for fuzzing
/// and for tools that read captured bytes.
///
/// # Errors
/// The first violation of the protocol or of `limits`.
pub fn decode(
    input: &[u8],
    version: Version,
    limits: Limits,
    visit: &mut dyn FnMut(&Frame<'_>),
) -> Result<usize, FrameError> {
    let mut decoder = Decoder::new(limits);
    decoder.set_version(version);
    let mut consumed = 0;
    loop {
        let decoded = decoder.decode(&input[consumed..])?;
        consumed += decoded.consumed;
        match decoded.frame {
            Some(frame) => visit(&frame),
            None => return Ok(consumed),
        }
    }
}
