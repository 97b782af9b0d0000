//! Who asks a node that follows another: a user of its leader, by a password or by the session of
//! the page. Its tags say what it may see and do, as on the leader.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use auth::Identity;
use axum::extract::{Extension, FromRequestParts};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};

use super::{Node, without_users};
use crate::api::{self, Failure};
use crate::cookies;
use crate::native::problem;
use crate::sessions::Token;
use crate::visit::Transport;

/// Where a request comes from, and how.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer {
    pub(super) address: SocketAddr,
    pub(super) transport: Transport,
}

/// A user that has logged in.
#[derive(Debug, Clone)]
pub(super) struct Asker {
    pub(super) identity: Identity,
    pub(super) from: SocketAddr,
}

impl Asker {
    pub(super) fn is_administrator(&self) -> bool {
        self.identity.tags().has("administrator")
    }

    /// Fails unless the user is an administrator.
    pub(super) fn administers(&self) -> Result<(), Failure> {
        self.is_administrator().then_some(()).ok_or_else(Failure::forbidden)
    }

    /// Fails unless the user sees the objects of others.
    pub(super) fn monitors(&self) -> Result<(), Failure> {
        let may = self.is_administrator() || self.identity.tags().has("monitoring");
        may.then_some(()).ok_or_else(Failure::forbidden)
    }
}

impl Node {
    /// The user with this password; none if it is wrong, or may not be tried now.
    ///
    /// # Errors
    /// If no user is known.
    pub(super) async fn log_in(&self, user: &str, password: &[u8], from: SocketAddr) -> Result<Option<Asker>, Failure> {
        let authority = (self.hooks.authority)().ok_or_else(without_users)?;
        let identity = api::identify(&authority, user, password, from).await;
        Ok(identity.map(|identity| Asker { identity, from }))
    }

    /// The user whose session's cookie a request has, if its password and tags are still the same.
    pub(super) fn session(&self, peer: Peer, headers: &HeaderMap) -> Option<(Asker, Token)> {
        let token = Token::of(cookies::find(headers, cookies::name(peer.transport))?);
        let authority = (self.hooks.authority)()?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_millis());
        let is_current = |identity: &Identity| {
            let has_ended = identity.expires().is_some_and(|at| u128::from(at) <= now);
            !has_ended && authority.has_its_tags(identity) && authority.is_current(identity)
        };
        let identity = self.sessions.find(&token, Instant::now(), is_current)?;
        Some((Asker { identity, from: peer.address }, token))
    }
}

impl FromRequestParts<Arc<Node>> for Asker {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, node: &Arc<Node>) -> Result<Self, Response> {
        let peer = Extension::<Peer>::from_request_parts(parts, node).await.map_err(IntoResponse::into_response)?;
        let Extension(peer) = peer;
        let asker = match api::credentials(&parts.headers) {
            None => node.session(peer, &parts.headers).map(|(asker, _)| asker),
            Some((user, password)) => {
                let asked = node.log_in(&user, &password, peer.address).await;
                asked.map_err(|failure| problem(failure.into_response()))?
            }
        };
        asker.ok_or_else(|| problem(Failure::challenge()))
    }
}
