//! How a socket ends once all that was to be said is written.
//!
//! To close it with bytes unread, or while the peer still sends, would make the kernel reset it.
//! The peer might then lose what it has not read yet. So what comes is read and discarded until the
//! peer has ended its side, within a time. A connection counts as open, and as a stranger's if it
//! is one, until then.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};

use crate::registry::Listed;
use crate::stream::Stream;

/// How long a peer that has not logged in may take to end its side.
const STRANGER: Duration = Duration::from_millis(500);
/// How long, and for how many bytes, a socket is read after the end of its own sending side.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 4 << 20;
/// Reads in a row before other connections get their turn.
const READS: usize = 16;

/// The protocol has said its last word, and the peer should end the connection. No end of ours
/// reaches it within `patience`, unless the server goes down. A client that closes by itself must
/// not see the end before its own close has returned.
pub(crate) async fn leave_to_peer(socket: &mut Stream, listed: &Listed, patience: Duration) {
    let (patience, bytes) =
        if listed.is_pending() { (patience.min(STRANGER), LINGER_BYTES) } else { (patience, usize::MAX) };
    let ended = !listed.is_going_down() && {
        let waiting = async {
            poll_fn(|cx| socket.poll_end_of_messages(cx)).await?;
            discard(socket, bytes, Some(listed)).await
        };
        matches!(tokio::time::timeout(patience, waiting).await, Ok(Ok(Left::Ended)))
    };
    if ended {
        // Within TLS the peer may wait for an end that is said.
        drop(tokio::time::timeout(LINGER, socket.shutdown()).await);
    } else {
        end(socket).await;
    }
}

/// Ends the sending side, and reads on for a moment.
pub(crate) async fn end(socket: &mut Stream) {
    let ending = async {
        socket.shutdown().await?;
        discard(socket, LINGER_BYTES, None).await
    };
    drop(tokio::time::timeout(LINGER, ending).await);
}

/// Why nothing more is discarded.
enum Left {
    /// The peer has ended its side.
    Ended,
    /// It sends too much, or the connection was ordered to end.
    Enough,
}

/// Reads until the peer has ended its side or sent `bytes`, or `listed` is ordered to end.
async fn discard(socket: &mut Stream, mut bytes: usize, listed: Option<&Listed>) -> io::Result<Left> {
    poll_fn(|cx| {
        let orders = listed.map(|listed| listed.wakeup().take());
        if orders.is_some_and(|orders| orders.close() || orders.cut()) {
            return Poll::Ready(Ok(Left::Enough));
        }
        for _ in 0..READS {
            match poll_discard(socket, cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(0)) => return Poll::Ready(Ok(Left::Ended)),
                Poll::Ready(Ok(count)) if count > bytes => return Poll::Ready(Ok(Left::Enough)),
                Poll::Ready(Ok(count)) => bytes -= count,
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}

/// One read. Its memory is on the stack: a task would carry it from its first day.
fn poll_discard(socket: &mut Stream, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
    let mut space = [0; 4096];
    let mut space = ReadBuf::new(&mut space);
    Pin::new(socket).poll_read(cx, &mut space).map_ok(|()| space.filled().len())
}
