//! Backends: who is asked when a user logs in, in which order, and what comes of an answer.
//!
//! The users of this broker are one backend. The others are programs elsewhere, behind the trait
//! [`Backend`]. What such a program says of a user is a [`Grant`]. A connection keeps its grant
//! until it is renewed or expires.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use ring::hmac;

use crate::asking::Asking;
use crate::{Judge, Scopes, Tags};

/// Answers that are kept at once.
const KEPT: usize = 10_000;
/// Longest secret that is shown to a backend elsewhere, in bytes: more than any token that the
/// handshake of a protocol lets through.
pub(crate) const MOST_SECRET: usize = 16 << 10;
/// Most bytes of a reason in the log.
const MOST_REASON: usize = 300;

/// A program elsewhere that knows users.
pub trait Backend: std::fmt::Debug + Send + Sync {
    /// Its name in the setting `auth_backends`.
    fn name(&self) -> &'static str;

    /// Whether this can be a secret of its users at all. It is called on the threads of
    /// connections, so it must be quick and ask no one.
    fn takes(&self, secret: &[u8]) -> bool;

    /// Whether these credentials are right, and what their user may do. It may take as long as a
    /// timeout of its own, on a thread for that.
    ///
    /// # Errors
    /// When it does not let the user in.
    fn ask(&self, credentials: Credentials<'_>) -> Result<Vouched, No>;

    /// What this user may do now, asked without a secret, on a thread that may wait. It is called
    /// only if [`Backend::asked_again_every`] says so.
    ///
    /// # Errors
    /// When it knows no such user any more, or can't be asked.
    fn again(&self, user: &str) -> Result<Grant, No> {
        Err(No::Unavailable(format!("it can't be asked about '{user}' without a secret")))
    }

    /// How often it is asked again what those may do who are connected. `None`: it is not.
    fn asked_again_every(&self) -> Option<Duration> {
        None
    }

    /// Who decides about each operation of the users that it lets in. `None`: what they may do is
    /// in their grant.
    fn judge(&self) -> Option<Arc<dyn Judge>> {
        None
    }
}

/// What a client shows.
#[derive(Clone, Copy)]
pub struct Credentials<'a> {
    /// The name that it gives; may be empty where the secret says it.
    pub user: &'a str,
    /// Password or token; never empty.
    pub secret: &'a [u8],
    /// The peer's own address.
    pub from: IpAddr,
}

/// An answer that lets a user in.
#[derive(Debug)]
pub struct Vouched {
    /// What the user may do.
    pub grant: Grant,
    /// How long it may be taken for the same credentials again, at most.
    pub valid_for: Duration,
}

/// An answer that lets no one in. The texts are for the log, and have no secret in them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum No {
    /// The credentials are wrong.
    Refused(String),
    /// It can't be found out at the moment.
    Unavailable(String),
}

/// What a backend elsewhere says of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The name that the user has there.
    pub user: Arc<str>,
    /// The name of the backend.
    pub backend: &'static str,
    /// Administrative tags.
    pub tags: Tags,
    /// What it may do, and where.
    pub scopes: Scopes,
    /// When this ends, in milliseconds since 1970.
    pub expires: Option<u64>,
}

/// One backend in the order of log-ins.
#[derive(Debug, Clone)]
pub enum Step {
    /// The users of this broker.
    Internal,
    /// A program elsewhere.
    Elsewhere {
        /// It says who one is.
        backend: Arc<dyn Backend>,
        /// Who says what one may do.
        rights: RightsOf,
    },
}

/// Who says what a user may do that a backend elsewhere lets in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RightsOf {
    /// The same backend.
    Backend,
    /// The user of the same name in this broker.
    Internal,
}

impl Step {
    /// Who decides about the operations of those that it lets in, if a program elsewhere does.
    pub(crate) fn asking(&self, keep_answers: Duration) -> Option<Arc<Asking>> {
        match self {
            Self::Elsewhere { backend, rights: RightsOf::Backend } => {
                Some(Arc::new(Asking::new(backend.judge()?, backend.name(), keep_answers)))
            }
            Self::Elsewhere { .. } | Self::Internal => None,
        }
    }

    /// Whether the users of this broker say who one is, or what one may do.
    pub(crate) fn asks_own_users(&self) -> bool {
        matches!(self, Self::Internal | Self::Elsewhere { rights: RightsOf::Internal, .. })
    }
}

/// A reason as the log shows it: not endless.
pub(crate) fn reason(backend: &str, text: &str) -> String {
    format!("{backend}: {}", &text[..text.floor_char_boundary(MOST_REASON)])
}

/// Answers of late, each under a hash keyed with a secret of this process, so that memory holds no
/// password and no token.
pub(crate) struct Answers {
    key: hmac::Key,
    keep_for: Duration,
    kept: Mutex<HashMap<[u8; 32], Kept>>,
}

struct Kept {
    until: Instant,
    grant: Arc<Grant>,
}

impl Answers {
    pub(crate) fn new(boot_key: &[u8; 32], keep_for: Duration) -> Self {
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, boot_key), keep_for, kept: Mutex::default() }
    }

    fn key(&self, backend: &str, user: &str, secret: &[u8]) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&self.key);
        for part in [backend.as_bytes(), user.as_bytes(), secret] {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        let mut key = [0; 32];
        key.copy_from_slice(context.sign().as_ref());
        key
    }

    pub(crate) fn find(&self, backend: &str, user: &str, secret: &[u8], now: Instant) -> Option<Arc<Grant>> {
        // At most times nothing is kept: then the key need not be computed.
        if self.kept.lock().is_empty() {
            return None;
        }
        let key = self.key(backend, user, secret);
        self.kept.lock().get(&key).filter(|kept| now < kept.until).map(|kept| Arc::clone(&kept.grant))
    }

    /// Keeps an answer, if there is room for it.
    pub(crate) fn keep(&self, (user, secret): (&str, &[u8]), vouched: Vouched, now: Instant) -> Arc<Grant> {
        let Vouched { grant, valid_for } = vouched;
        let (key, grant) = (self.key(grant.backend, user, secret), Arc::new(grant));
        let until = now + valid_for.min(self.keep_for);
        let mut kept = self.kept.lock();
        if kept.len() >= KEPT {
            kept.retain(|_, kept| now < kept.until);
        }
        if kept.len() < KEPT && now < until {
            kept.insert(key, Kept { until, grant: Arc::clone(&grant) });
        }
        grant
    }

    /// Forgets those about a user of a backend.
    pub(crate) fn forget_user(&self, backend: &str, user: &str) {
        self.kept.lock().retain(|_, kept| (kept.grant.backend, &*kept.grant.user) != (backend, user));
    }

    /// Forgets all.
    pub(crate) fn forget(&self) {
        self.kept.lock().clear();
    }
}
