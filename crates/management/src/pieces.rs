//! Answers that are made a piece at a time, each off the loop and when the one before it has been
//! read. So a long answer takes no more memory than a short one and what it is made from.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::Frame;

use crate::pool::{Pool, Work};

/// Bytes of one piece; it may be a little larger.
pub(crate) const PIECE: usize = 64 * 1024;
/// Bytes by which a piece may be larger, about.
pub(crate) const BEYOND: usize = 4 * 1024;
/// Bytes that an answer takes besides what it is made from: one piece is made while one is
/// written.
pub(crate) const UNDER_WAY: usize = 2 * (PIECE + BEYOND);

/// Something that is written in pieces.
pub(crate) trait Pieces: Send + 'static {
    /// Writes the next piece, and says whether more follows.
    fn write(&mut self, text: &mut String) -> bool;
}

/// The next piece, in no more memory than it is charged with, and whether more follows.
pub(crate) fn next(pieces: &mut impl Pieces) -> (String, bool) {
    let mut text = String::with_capacity(PIECE + BEYOND);
    let more = pieces.write(&mut text);
    (text, more)
}

/// A body that begins so and goes on with these pieces, made in places of this user.
pub(crate) fn body<P: Pieces>(first: String, rest: P, (pool, user): (Arc<Pool>, String)) -> Body {
    Body::new(Streamed { first: Some(first.into()), pool, user, state: State::Waiting(Box::new(rest)) })
}

struct Streamed<P> {
    first: Option<Bytes>,
    pool: Arc<Pool>,
    user: String,
    state: State<P>,
}

type Made<P> = (String, Option<Box<P>>);

enum State<P> {
    /// The next piece has not been started.
    Waiting(Box<P>),
    /// The next piece is being made.
    Making(Pin<Box<dyn Future<Output = Result<Made<P>, String>> + Send>>),
    Done,
}

async fn make<P: Pieces>(mut pieces: Box<P>, pool: Arc<Pool>, user: String) -> Result<Made<P>, String> {
    let work = move || {
        let (text, more) = next(&mut *pieces);
        (text, more.then_some(pieces))
    };
    pool.run(Work::List, &user, work).await
}

impl<P: Pieces> HttpBody for Streamed<P> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        loop {
            self.state = match std::mem::replace(&mut self.state, State::Done) {
                State::Done => return Poll::Ready(None),
                State::Waiting(pieces) => {
                    State::Making(Box::pin(make(pieces, Arc::clone(&self.pool), self.user.clone())))
                }
                State::Making(mut making) => {
                    let Poll::Ready(made) = making.as_mut().poll(context) else {
                        self.state = State::Making(making);
                        return Poll::Pending;
                    };
                    let (text, rest) = made.map_err(axum::Error::new)?;
                    self.state = rest.map_or(State::Done, State::Waiting);
                    return Poll::Ready(Some(Ok(Frame::data(text.into()))));
                }
            };
        }
    }
}
