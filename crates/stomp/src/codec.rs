//! Frames of STOMP 1.0, 1.1 and 1.2 and their bytes, in both directions, without sockets or time.
//!
//! The decoder borrows from the received bytes and gives the same frames however the bytes were
//! cut.

mod decoder;
mod encoder;
mod error;
mod frame;
mod headers;
mod heart_beat;

pub use decoder::{Decoded, Decoder};
#[cfg(feature = "session")]
pub(crate) use encoder::Spoken;
pub use encoder::{FrameWriter, Trailer};
pub use error::FrameError;
pub use frame::{Body, Command, Frame, Version};
pub use headers::Headers;
#[cfg(feature = "session")]
pub(crate) use headers::unescape;
pub use heart_beat::HeartBeat;

use crate::limits::Limits;

/// Decodes every complete frame at the front of `input`, hands each to `visit`, and returns how
/// many bytes the frames and the end-of-lines between them took. The entry for fuzzing and for
/// tools that read captured bytes.
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
