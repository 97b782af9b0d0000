//! STOMP frames: the decoder gives the same frames however the bytes are split, in all three
//! versions.

use stomp::codec::{Decoder, FrameError, Version, decode};
use stomp::limits::Limits;

/// Small limits, so that inputs reach them.
const LIMITS: Limits = Limits { headers: 16, header_line: 128, head: 2048, body: 1024 };

/// The first byte says where to split the input; the rest is the peer's bytes.
pub(super) fn stomp(input: &[u8]) {
    let Some((&cut, bytes)) = input.split_first() else { return };
    for version in [Version::V1_0, Version::V1_1, Version::V1_2] {
        let mut whole = Vec::new();
        let outcome = decode(bytes, version, LIMITS, &mut |frame| whole.push(format!("{frame:?}")));
        let mut pieces = Vec::new();
        let in_pieces = decode_in_pieces(bytes, usize::from(cut) % 32 + 1, version, &mut pieces);
        assert_eq!(whole, pieces, "the frames depend on how the bytes arrive");
        assert_eq!(outcome.is_err(), in_pieces.is_err(), "an error depends on how the bytes arrive");
        stomp_client(bytes);
    }
}

/// Decodes with `step` more bytes at each call.
fn decode_in_pieces(bytes: &[u8], step: usize, version: Version, frames: &mut Vec<String>) -> Result<(), FrameError> {
    let mut decoder = Decoder::new(LIMITS);
    decoder.set_version(version);
    let mut start = 0;
    let mut end = 0;
    loop {
        let decoded = decoder.decode(&bytes[start..end])?;
        start += decoded.consumed;
        match decoded.frame {
            Some(frame) => frames.push(format!("{frame:?}")),
            None if end == bytes.len() => return Ok(()),
            None => end = (end + step).min(bytes.len()),
        }
    }
}

fn stomp_client(bytes: &[u8]) {
    let mut client = stomp::client::Client::new(LIMITS);
    let mut events = 0usize;
    let outcome = client.feed(bytes, |event, _| events += format!("{event:?}").len().min(1));
    assert!(outcome.map_or(0, |consumed| consumed) <= bytes.len());
    assert!(events <= bytes.len());
}
