//! Writing output to a socket: as much as the kernel takes, in as few calls as possible.
//!
//! Within TLS records may wait in the socket's own buffer, so what is written is flushed, too.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;
use wire::Output;

use crate::stream::Stream;

/// Pieces handed to the kernel at once. More would not be faster: pieces are at least 4 KiB or the
/// only small one.
const SLICES: usize = 32;

/// What became of the output.
#[derive(Debug)]
pub(crate) struct Flushed {
    /// Bytes the socket took and that were removed from the output.
    pub(crate) written: usize,
    /// Ready when nothing is left, in the socket neither. Pending when the kernel takes no more for
    /// now; the task is woken when it does.
    pub(crate) outcome: Poll<io::Result<()>>,
}

/// Writes until `output` is empty and the kernel has it all, or refuses.
pub(crate) fn poll_flush(socket: &mut Stream, output: &mut Output, cx: &mut Context<'_>) -> Flushed {
    let mut written = 0;
    while !output.is_empty() {
        match poll_write(socket, output, cx) {
            Poll::Ready(Ok(0)) => {
                return Flushed { written, outcome: Poll::Ready(Err(io::ErrorKind::WriteZero.into())) };
            }
            Poll::Ready(Ok(count)) => {
                output.advance(count);
                written += count;
            }
            Poll::Ready(Err(error)) => return Flushed { written, outcome: Poll::Ready(Err(error)) },
            Poll::Pending => return Flushed { written, outcome: Poll::Pending },
        }
    }
    Flushed { written, outcome: Pin::new(socket).poll_flush(cx) }
}

fn poll_write(socket: &mut Stream, output: &Output, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
    let mut slices = [IoSlice::new(&[]); SLICES];
    let filled = output.chunks(&mut slices);
    match &slices[..filled] {
        [only] => Pin::new(socket).poll_write(cx, only),
        several => Pin::new(socket).poll_write_vectored(cx, several),
    }
}
