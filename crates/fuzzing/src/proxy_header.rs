//! Headers of the PROXY protocol: the same outcome however the bytes are split, and never more
//! bytes than a header may have.

use wire::{LONGEST_PROXY_HEADER, ProxyError, ProxyHeader, Taken};

/// The first byte says where to split the input; the rest is what a proxy sends.
pub(super) fn proxy_header(input: &[u8]) {
    let Some((&cut, bytes)) = input.split_first() else { return };
    let whole = taken_in_pieces(bytes, bytes.len().max(1)).map_err(drop);
    let in_pieces = taken_in_pieces(bytes, usize::from(cut) % 16 + 1).map_err(drop);
    assert_eq!(whole, in_pieces, "a header depends on how its bytes arrive");
    let length = whole.map_or(0, |header| header.map_or(bytes.len(), |(length, _)| length));
    assert!(length <= LONGEST_PROXY_HEADER && length <= bytes.len(), "a header of {length} bytes");
}

/// The length of the header and what it says; `None` while it is not complete.
type Outcome = Result<Option<(usize, Option<wire::Forwarded>)>, ProxyError>;

fn taken_in_pieces(bytes: &[u8], step: usize) -> Outcome {
    let mut header = ProxyHeader::default();
    let mut before = 0;
    for piece in bytes.chunks(step) {
        match header.take(piece)? {
            Taken::All => before += piece.len(),
            Taken::End(count, forwarded) => return Ok(Some((before + count, forwarded))),
        }
    }
    Ok(None)
}
