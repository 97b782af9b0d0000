//! Who is logged in by a form, to the console or to `/api`: a random token in a cookie stands for
//! an identity that the server keeps.
//!
//! A session ends when its user logs out, after half an hour without a request, after twelve hours
//! in any case, and as soon as the user's password or tags are others. A password is never kept.
//! The table is bounded, and so is one user's part of it: the session that was idle longest goes.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use auth::Identity;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use crate::journeys::Journeys;

/// A session without a request for so long ends.
const IDLE: Duration = Duration::from_secs(30 * 60);
/// A session that is so old ends.
pub(crate) const LONGEST: Duration = Duration::from_secs(12 * 3600);
/// Most sessions of all users, and of one.
const MOST: usize = 1000;
const MOST_OF_USER: usize = 50;
/// Bytes of a token.
const BYTES: usize = 32;

/// What a cookie holds. Who has it is logged in, so it is never shown.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token(String);

impl Token {
    pub(crate) fn of(text: &str) -> Self {
        Self(text.to_owned())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// What the table knows a token by. So neither the table nor the time that a look-up takes
    /// tells a token.
    fn digest(&self) -> [u8; 32] {
        Sha256::digest(&self.0).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(hidden)")
    }
}

/// All sessions.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    table: Mutex<HashMap<[u8; 32], Session>>,
    /// Those who are logging in elsewhere.
    pub(crate) journeys: Journeys,
}

#[derive(Debug)]
struct Session {
    identity: Identity,
    begun: Instant,
    used: Instant,
    /// What the next page tells the user, once.
    said: Option<String>,
}

impl Session {
    fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.used) >= IDLE || now.saturating_duration_since(self.begun) >= LONGEST
    }
}

impl Sessions {
    /// Begins a session of a user that has just logged in, under a fresh token.
    ///
    /// # Errors
    /// If the system has no random bytes.
    pub(crate) fn begin(&self, identity: Identity, now: Instant) -> Result<Token, getrandom::Error> {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes)?;
        let token = Token(URL_SAFE_NO_PAD.encode(bytes));
        let mut table = self.lock();
        table.retain(|_, session| !session.is_over(now));
        let of_user = |session: &Session| session.identity.user() == identity.user();
        if table.values().filter(|session| of_user(session)).count() >= MOST_OF_USER {
            make_room(&mut table, of_user);
        }
        if table.len() >= MOST {
            make_room(&mut table, |_| true);
        }
        table.insert(token.digest(), Session { identity, begun: now, used: now, said: None });
        Ok(token)
    }

    /// The user of a session that is not over, and for which `is_current` is true. Otherwise the
    /// session ends.
    pub(crate) fn find(
        &self,
        token: &Token,
        now: Instant,
        is_current: impl FnOnce(&Identity) -> bool,
    ) -> Option<Identity> {
        let mut table = self.lock();
        let session = table.get_mut(&token.digest())?;
        if session.is_over(now) || !is_current(&session.identity) {
            table.remove(&token.digest());
            return None;
        }
        session.used = now;
        Some(session.identity.clone())
    }

    /// Ends a session.
    pub(crate) fn end(&self, token: &Token) {
        self.lock().remove(&token.digest());
    }

    /// Leaves a line for the next page of a session.
    pub(crate) fn say(&self, token: &Token, line: String) {
        if let Some(session) = self.lock().get_mut(&token.digest()) {
            session.said = Some(line);
        }
    }

    /// The line that was left for this page.
    pub(crate) fn said(&self, token: &Token) -> Option<String> {
        self.lock().get_mut(&token.digest())?.said.take()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 32], Session>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the session that was idle longest, of those for which `fits` is true.
fn make_room(table: &mut HashMap<[u8; 32], Session>, fits: impl Fn(&Session) -> bool) {
    let oldest = table.iter().filter(|(_, session)| fits(session)).min_by_key(|(_, session)| session.used);
    if let Some(digest) = oldest.map(|(digest, _)| *digest) {
        table.remove(&digest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn begin(sessions: &Sessions, user: &str, now: Instant) -> Token {
        sessions.begin(Identity::operator(user), now).unwrap()
    }

    fn user(sessions: &Sessions, token: &Token, now: Instant) -> Option<String> {
        sessions.find(token, now, |_| true).map(|identity| identity.user().to_owned())
    }

    #[test]
    fn a_session_ends_when_it_is_idle_old_or_not_current() {
        let (sessions, start) = (Sessions::default(), Instant::now());
        let token = begin(&sessions, "ada", start);
        assert_eq!(user(&sessions, &token, start + IDLE - SECOND).as_deref(), Some("ada"));
        assert_eq!(user(&sessions, &token, start + 2 * IDLE - 2 * SECOND).as_deref(), Some("ada"), "it was used");
        assert_eq!(user(&sessions, &token, start + 3 * IDLE), None, "idle");
        assert_eq!(user(&sessions, &token, start), None, "what is over does not come back");

        let token = begin(&sessions, "ada", start);
        let mut now = start;
        while now + IDLE / 2 < start + LONGEST {
            now += IDLE / 2;
            assert!(user(&sessions, &token, now).is_some());
        }
        assert_eq!(user(&sessions, &token, start + LONGEST), None, "old");

        let token = begin(&sessions, "ada", start);
        assert!(sessions.find(&token, start, |_| false).is_none(), "its password is another");
        assert_eq!(user(&sessions, &token, start), None);

        let token = begin(&sessions, "ada", start);
        sessions.end(&token);
        assert_eq!(user(&sessions, &token, start), None);
    }

    #[test]
    fn tokens_differ_and_say_nothing() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let (one, other) = (begin(&sessions, "ada", now), begin(&sessions, "ada", now));
        assert_ne!(one, other);
        assert_eq!(one.as_str().len(), 43);
        assert!(!format!("{one:?} {sessions:?}").contains(one.as_str()));
        assert_eq!(user(&sessions, &Token::of("guessed"), now), None);
    }

    #[test]
    fn the_table_is_bounded_and_one_user_takes_nobody_elses_place() {
        let (sessions, start) = (Sessions::default(), Instant::now());
        let kept = begin(&sessions, "ada", start);
        let first = begin(&sessions, "bob", start);
        for number in 0..3 * MOST_OF_USER {
            begin(&sessions, "bob", start + SECOND * u32::try_from(number).unwrap());
        }
        assert_eq!(sessions.lock().len(), MOST_OF_USER + 1);
        assert!(user(&sessions, &kept, start).is_some());
        assert!(user(&sessions, &first, start).is_none());
        for number in 0..2 * MOST {
            begin(&sessions, &format!("user {number}"), start + SECOND);
        }
        assert_eq!(sessions.lock().len(), MOST);
    }

    #[test]
    fn a_line_is_told_once() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let token = begin(&sessions, "ada", now);
        assert_eq!(sessions.said(&token), None);
        sessions.say(&token, "done".to_owned());
        assert_eq!(sessions.said(&token).as_deref(), Some("done"));
        assert_eq!(sessions.said(&token), None);
    }
}
