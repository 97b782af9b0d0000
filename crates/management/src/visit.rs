//! One request while it is answered: its origin, its connection, and its charge for the document
//! and the answer.
//!
//! It lives until the answer has been written or its connection has ended.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};

use crate::budget::{Budget, Charge, NoRoom};
use crate::door::Place;

/// How a request came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    /// As it is.
    Plain,
    /// Encrypted.
    Tls,
}

/// See the module. A clone is the same visit.
#[derive(Debug, Clone)]
pub(crate) struct Visit(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    peer: SocketAddr,
    transport: Transport,
    place: Arc<Place>,
    charge: Mutex<Charge>,
}

impl Visit {
    /// A request of a peer that has not logged in. `None` if its connection must close.
    pub(crate) fn begin(
        peer: SocketAddr,
        transport: Transport,
        place: &Arc<Place>,
        budget: &Arc<Budget>,
    ) -> Option<Self> {
        let charge = Mutex::new(budget.charge(""));
        place.begin().then(|| Self(Arc::new(Inner { peer, transport, place: Arc::clone(place), charge })))
    }

    pub(crate) fn transport(&self) -> Transport {
        self.0.transport
    }

    pub(crate) fn peer(&self) -> SocketAddr {
        self.0.peer
    }

    /// Whether only health may be asked for.
    pub(crate) fn is_kept(&self) -> bool {
        self.0.place.is_kept()
    }

    /// Counts the request for this user.
    pub(crate) fn is_of(&self, user: &str) {
        self.0.charge.lock().unwrap_or_else(PoisonError::into_inner).move_to(user);
        self.0.place.is_of(user);
    }

    /// Charges these bytes in addition.
    pub(crate) fn charge(&self, bytes: usize) -> Result<(), NoRoom> {
        self.0.charge.lock().unwrap_or_else(PoisonError::into_inner).grow(bytes)
    }

    /// Charges a body of known size. A body that is made while it is written charges itself.
    pub(crate) fn charge_body(&self, body: &Body) -> Result<(), NoRoom> {
        let size = body.size_hint().exact().unwrap_or_default();
        self.charge(usize::try_from(size).unwrap_or(usize::MAX))
    }

    /// Attaches the visit to a body. While the body is written, a user's connection keeps its
    /// place, and a stranger's may lose it.
    pub(crate) fn carry(self, body: Body) -> Carried {
        if !self.0.place.is_known() {
            self.0.place.end();
        }
        Carried { body, rest: Bytes::new(), _visit: self }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.place.end();
    }
}

/// Bytes of a body that the connection gets at once. It asks for more when it has written them, so
/// that unread bytes stay here and stay charged.
const PIECE: usize = 64 << 10;

/// The body of an answer, which keeps its visit alive.
#[derive(Debug)]
pub(crate) struct Carried {
    body: Body,
    /// The rest of the frame that is being passed on.
    rest: Bytes,
    _visit: Visit,
}

impl HttpBody for Carried {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                end => return Poll::Ready(end),
            }
        }
        let size = self.rest.len().min(PIECE);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(size)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, of_body) = (self.rest.len() as u64, self.body.size_hint());
        let mut hint = SizeHint::new();
        hint.set_lower(of_body.lower() + rest);
        if let Some(upper) = of_body.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::door::{Door, Limits};

    /// The connection once took a body in one piece, and dropped the body. Then unread bytes were
    /// charged to no request.
    #[test]
    fn what_is_unread_stays_charged() {
        const SIZE: usize = 5 * PIECE + 1;
        let (head_timeout, write_timeout) = (Duration::from_secs(1), Duration::from_secs(1));
        let door = Door::new(Limits { connections: 12, per_network: 4, head_timeout, write_timeout });
        let peer: SocketAddr = "127.0.0.1:1".parse().unwrap();
        let place = Arc::new(door.admit(peer.ip()).unwrap().0);
        let budget = Arc::<Budget>::default();
        let visit = Visit::begin(peer, Transport::Plain, &place, &budget).unwrap();
        let body = Body::from(vec![b'x'; SIZE]);
        visit.charge_body(&body).unwrap();
        let mut carried = visit.carry(body);
        let mut context = Context::from_waker(std::task::Waker::noop());
        let mut given = 0;
        while !carried.is_end_stream() {
            assert_eq!(carried.size_hint().exact(), Some((SIZE - given) as u64));
            assert!(budget.charge("").grow(usize::MAX / 4).is_err(), "after {given} bytes it is still charged");
            let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut carried).poll_frame(&mut context) else {
                panic!("no frame after {given} bytes");
            };
            let size = frame.into_data().unwrap().len();
            assert!(size <= PIECE);
            given += size;
        }
        assert_eq!(given, SIZE);
        drop(carried);
        assert!(budget.charge("").grow(usize::MAX / 4).is_ok(), "nothing is charged, so anything goes alone");
    }
}
