//! One request while it is answered: where it comes from, on whose connection, and what its
//! document and its answer take of the budget.
//!
//! It lives until the answer has been written or its connection has ended.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};

use crate::budget::{Budget, Charge, NoRoom};
use crate::door::Place;

/// See the module. A clone is the same visit.
#[derive(Debug, Clone)]
pub(crate) struct Visit(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    peer: SocketAddr,
    place: Arc<Place>,
    charge: Mutex<Charge>,
}

impl Visit {
    /// A request of a peer that has not said who it is. `None` when its connection has to go.
    pub(crate) fn begin(peer: SocketAddr, place: &Arc<Place>, budget: &Arc<Budget>) -> Option<Self> {
        let charge = Mutex::new(budget.charge(""));
        place.begin().then(|| Self(Arc::new(Inner { peer, place: Arc::clone(place), charge })))
    }

    pub(crate) fn peer(&self) -> SocketAddr {
        self.0.peer
    }

    /// Whether only health may be asked for.
    pub(crate) fn is_kept(&self) -> bool {
        self.0.place.is_kept()
    }

    /// The request is this user's.
    pub(crate) fn is_of(&self, user: &str) {
        self.0.charge.lock().unwrap_or_else(PoisonError::into_inner).move_to(user);
        self.0.place.is_of(user);
    }

    /// Charges so many bytes more.
    pub(crate) fn charge(&self, bytes: usize) -> Result<(), NoRoom> {
        self.0.charge.lock().unwrap_or_else(PoisonError::into_inner).grow(bytes)
    }

    /// Charges a body whose size is known; one that is made while it is written charges itself.
    pub(crate) fn charge_body(&self, body: &Body) -> Result<(), NoRoom> {
        let size = body.size_hint().exact().unwrap_or_default();
        self.charge(usize::try_from(size).unwrap_or(usize::MAX))
    }

    /// Goes with a body. While that is written a user's connection keeps its place, and a
    /// stranger's may lose it.
    pub(crate) fn carry(self, body: Body) -> Carried {
        if !self.0.place.is_known() {
            self.0.place.end();
        }
        Carried { body, _visit: self }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.place.end();
    }
}

/// The body of an answer, and its visit for as long.
#[derive(Debug)]
pub(crate) struct Carried {
    body: Body,
    _visit: Visit,
}

impl HttpBody for Carried {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
