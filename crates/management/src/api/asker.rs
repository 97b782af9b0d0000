//! The user that asks: it needs a password, a token, or the cookie of a session, and a tag that
//! lets it in. Its tags say what it may see and do.
//!
//! As in RabbitMQ, `management` shows the user's own objects, and `policymaker` may set policies as
//! well. `monitoring` sees everything, and `administrator` changes everything. What a user does in
//! a vhost needs its permissions there.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use auth::{Authority, Identity, shown_name};
use axum::extract::{Extension, FromRequestParts};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value as Json;
use tracing::field::Empty;

use super::answer::Failure;
use crate::budget::NoRoom;
use crate::change::{self, Caller};
use crate::cookies;
use crate::listing::Rights;
use crate::pool::Work;
use crate::sessions::Token;
use crate::source::Source;
use crate::visit::Visit;

/// Vhosts that a program elsewhere is asked about for one request.
const MOST_VHOSTS: usize = 256;

/// The authenticated user of a request.
#[derive(Clone)]
pub(crate) struct Asker {
    identity: Identity,
    visit: Visit,
}

impl Asker {
    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    pub(crate) fn user(&self) -> &str {
        self.identity.user()
    }

    pub(crate) fn caller(&self) -> Caller {
        Caller { identity: self.identity.clone(), from: self.visit.peer().to_string() }
    }

    /// Charges bytes of a document, or of an answer that is made while it is written.
    pub(crate) fn charge(&self, bytes: usize) -> Result<(), NoRoom> {
        self.visit.charge(bytes)
    }

    pub(crate) fn is_administrator(&self) -> bool {
        self.identity.tags().has("administrator")
    }

    /// Whether the user sees the objects of other users.
    pub(crate) fn monitors(&self) -> bool {
        self.is_administrator() || self.identity.tags().has("monitoring")
    }

    /// Fails unless the user is an administrator.
    pub(crate) fn administers(&self) -> Result<(), Failure> {
        self.is_administrator().then_some(()).ok_or_else(Failure::forbidden)
    }

    /// Fails unless the user may set policies in this vhost.
    pub(crate) fn sets_policies(&self, source: &Source, vhost: &str) -> Result<(), Failure> {
        if !self.is_administrator() && !self.identity.tags().has("policymaker") {
            return Err(Failure::forbidden());
        }
        self.enters(source, vhost)
    }

    /// Fails unless the user may see the objects of this vhost. Only users that see all vhosts are
    /// told that a vhost does not exist.
    pub(crate) fn looks_into(&self, source: &Source, vhost: &str) -> Result<(), Failure> {
        if !self.monitors() {
            return self.enters(source, vhost);
        }
        source.broker.has_vhost(vhost).then_some(()).ok_or_else(Failure::not_found)
    }

    /// Fails unless the user may work in this vhost. Only users that see all vhosts are told that a
    /// vhost does not exist.
    pub(crate) fn enters(&self, source: &Source, vhost: &str) -> Result<(), Failure> {
        if self.monitors() && !source.broker.has_vhost(vhost) {
            return Err(Failure::not_found());
        }
        let entered = source.broker.authority().enter(&self.identity, vhost);
        entered.map_err(|_| Failure::not_authorized(format!("User not authorised to access virtual host '{vhost}'")))
    }

    /// Asks a program elsewhere, if one decides about the user, which vhosts it may enter. The loop
    /// and the lists look at what is known.
    async fn foresee(&self, source: &Arc<Source>) -> Result<(), Failure> {
        if !self.identity.is_decided_elsewhere() {
            return Ok(());
        }
        let (there, identity) = (Arc::clone(source), self.identity.clone());
        let ask = move || {
            for vhost in there.broker.vhost_names().iter().take(MOST_VHOSTS) {
                // The answer is kept.
                let _ = there.broker.authority().enter(&identity, vhost);
            }
        };
        source.pool.run(Work::Elsewhere, self.user(), ask).await.map_err(Failure::failed)
    }

    /// Whether the user sees this row of a list.
    pub(crate) fn sees(&self, source: &Source, rights: Rights, row: &Json) -> bool {
        let field = match rights {
            Rights::Administrators | Rights::VhostItself => "name",
            Rights::Owner => "user",
            Rights::Vhost => "vhost",
        };
        self.sees_of(source, rights, row.get(field).and_then(Json::as_str).unwrap_or_default())
    }

    /// Whether the user sees what is of this user or in this vhost.
    pub(crate) fn sees_of(&self, source: &Source, rights: Rights, of: &str) -> bool {
        self.monitors()
            || match rights {
                Rights::Administrators => self.is_administrator(),
                Rights::Owner => of == self.user(),
                Rights::VhostItself | Rights::Vhost => source.broker.authority().enter(&self.identity, of).is_ok(),
            }
    }

    /// Fails if the user may see nothing of this list.
    pub(crate) fn may_list(&self, rights: Rights) -> Result<(), Failure> {
        if rights == Rights::Administrators { self.administers() } else { Ok(()) }
    }
}

impl Asker {
    /// A user that has logged in, if one of its tags lets it in.
    ///
    /// # Errors
    /// If none does.
    pub(crate) fn of(identity: Identity, visit: Visit) -> Result<Self, Failure> {
        let tags = ["management", "policymaker", "monitoring", "administrator"];
        if !tags.iter().any(|tag| identity.tags().has(tag)) {
            return Err(Failure::not_authorized("Not management user"));
        }
        visit.is_of(identity.user());
        Ok(Self { identity, visit })
    }

    /// Logs a user in by its password. The audit log is told of a refusal.
    ///
    /// # Errors
    /// `LogIn::Refused` if user or password is wrong, or may not be tried now; `LogIn::Tags` if no
    /// tag of the user lets it in.
    pub(crate) async fn log_in(source: &Source, user: &str, password: &[u8], visit: Visit) -> Result<Self, LogIn> {
        let identity = identify(source.broker.authority(), user, password, visit.peer()).await;
        Self::of(identity.ok_or(LogIn::Refused)?, visit).map_err(LogIn::Tags)
    }
}

/// The user with this password; none if it is wrong, or may not be tried now. The audit log is told
/// of a refusal.
pub(crate) async fn identify(authority: &Authority, user: &str, password: &[u8], peer: SocketAddr) -> Option<Identity> {
    let mut login = None;
    let outcome = poll_fn(|context| {
        let login = login.get_or_insert_with(|| {
            let waker = context.waker().clone();
            authority.login(user, password, peer.ip().to_canonical(), Instant::now(), waker)
        });
        login.take().map_or(Poll::Pending, Poll::Ready)
    })
    .await;
    let refusal = match outcome {
        Ok(identity) => return Some(identity),
        Err(refusal) => refusal,
    };
    let user = shown_name(user);
    // The refusals that led to an endless one are in the log. It can be repeated as fast as
    // requests can be made, so it is logged at debug level only.
    if refusal.is_endless() {
        tracing::debug!(target: change::AUDIT, user, %peer, reason = %refusal, "HTTP login refused");
    } else {
        tracing::warn!(target: change::AUDIT, user, %peer, reason = %refusal, stranger = Empty, "HTTP login refused");
    }
    None
}

/// Why a log-in failed.
#[derive(Debug)]
pub(crate) enum LogIn {
    /// User or password is wrong, or may not be tried now.
    Refused,
    /// No tag of the user lets it in.
    Tags(Failure),
}

impl FromRequestParts<Arc<Source>> for Asker {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, source: &Arc<Source>) -> Result<Self, Response> {
        let Extension(visit) =
            Extension::<Visit>::from_request_parts(parts, source).await.map_err(IntoResponse::into_response)?;
        let asker = match credentials(&parts.headers) {
            None => {
                let (identity, _) = session(source, &visit, &parts.headers).ok_or_else(Failure::challenge)?;
                Self::of(identity, visit).map_err(IntoResponse::into_response)?
            }
            Some((user, password)) => {
                let asked = Self::log_in(source, &user, &password, visit).await;
                asked.map_err(|refused| match refused {
                    LogIn::Refused => Failure::challenge(),
                    LogIn::Tags(failure) => failure.into_response(),
                })?
            }
        };
        asker.foresee(source).await.map_err(IntoResponse::into_response)?;
        Ok(asker)
    }
}

/// The session whose cookie a request has, if its user's password and tags are still the same.
pub(crate) fn session(source: &Source, visit: &Visit, headers: &HeaderMap) -> Option<(Identity, Token)> {
    let token = Token::of(cookies::find(headers, cookies::name(visit.transport()))?);
    let is_current =
        |identity: &Identity| source.broker.authority().has_its_tags(identity) && source.broker.is_current(identity);
    let identity = source.sessions.find(&token, Instant::now(), is_current)?;
    Some((identity, token))
}

/// User and password of `Authorization: Basic`; or the token of `Authorization: Bearer`, which says
/// itself who the user is (RFC 6750).
pub(crate) fn credentials(headers: &HeaderMap) -> Option<(String, Vec<u8>)> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, encoded) = value.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some((String::new(), encoded.trim().as_bytes().to_vec()));
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = STANDARD.decode(encoded.trim()).ok()?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    let user = String::from_utf8(decoded[..colon].to_vec()).ok()?;
    Some((user, decoded[colon + 1..].to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_read_as_the_header_has_them() {
        for (value, expected) in [
            ("Basic Z3Vlc3Q6Z3Vlc3Q=", Some(("guest", "guest"))),
            ("basic  Z3Vlc3Q6Z3Vlc3Q= ", Some(("guest", "guest"))),
            ("Basic YTpiOmM=", Some(("a", "b:c"))),
            ("Basic Ojo=", Some(("", ":"))),
            ("Basic Z3Vlc3Q=", None),
            ("Basic ?", None),
            ("Bearer ey.ey.x", Some(("", "ey.ey.x"))),
            ("bearer  ey.ey.x ", Some(("", "ey.ey.x"))),
            ("Bearer", None),
            ("Digest Z3Vlc3Q6Z3Vlc3Q=", None),
            ("", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().unwrap());
            let expected = expected.map(|(user, password)| (user.to_owned(), password.as_bytes().to_vec()));
            assert_eq!(credentials(&headers), expected, "{value}");
        }
        assert_eq!(credentials(&HeaderMap::new()), None);
    }
}
