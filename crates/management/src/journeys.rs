//! People who are on the pages of the server that logs them in, and are expected back.
//!
//! Each has a random state, which goes there and comes back, and which the person's browser keeps
//! in a cookie. A browser that a stranger leads here has no such cookie. Each person comes back
//! once. The table is bounded: strangers fill it, and the oldest goes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use auth::{Journey, SignOn};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tokio::sync::{Semaphore, SemaphorePermit};

/// How long a person may take.
pub(crate) const LONGEST: Duration = Duration::from_secs(10 * 60);
/// Most people who are away.
const MOST: usize = 1000;
/// Questions to the server that are under way at once. Strangers can make them.
const QUESTIONS: usize = 4;
/// Bytes of a state, and of a verifier.
const BYTES: usize = 32;

/// See the module.
#[derive(Debug)]
pub(crate) struct Journeys {
    table: Mutex<HashMap<String, Away>>,
    questions: Semaphore,
    /// The server, if there is one.
    sign_on: OnceLock<Arc<dyn SignOn>>,
}

/// One who is away.
#[derive(Debug)]
pub(crate) struct Away {
    pub(crate) journey: Journey,
    /// The page that is wanted afterwards.
    pub(crate) to: String,
    since: Instant,
}

impl Default for Journeys {
    fn default() -> Self {
        Self { table: Mutex::default(), questions: Semaphore::new(QUESTIONS), sign_on: OnceLock::new() }
    }
}

impl Journeys {
    /// People are led to this server. The first one counts.
    pub(crate) fn lead_to(&self, sign_on: Arc<dyn SignOn>) {
        let _ = self.sign_on.set(sign_on);
    }

    pub(crate) fn sign_on(&self) -> Option<Arc<dyn SignOn>> {
        self.sign_on.get().cloned()
    }

    /// Begins one that leads back to this address, and then to this page.
    ///
    /// # Errors
    /// If the system has no random bytes.
    pub(crate) fn begin(&self, back: String, to: &str, now: Instant) -> Result<Journey, getrandom::Error> {
        let journey = Journey { back, state: random()?, verifier: random()? };
        let mut table = self.lock();
        table.retain(|_, away| !away.is_over(now));
        if table.len() >= MOST {
            let oldest = table.iter().min_by_key(|(_, away)| away.since).map(|(state, _)| state.clone());
            oldest.and_then(|state| table.remove(&state));
        }
        let away = Away { journey: journey.clone(), to: to.to_owned(), since: now };
        table.insert(journey.state.clone(), away);
        Ok(journey)
    }

    /// The one with this state, who is back now.
    pub(crate) fn end(&self, state: &str, now: Instant) -> Option<Away> {
        self.lock().remove(state).filter(|away| !away.is_over(now))
    }

    /// Leave to ask the server. `None` if others ask it.
    pub(crate) fn question(&self) -> Option<SemaphorePermit<'_>> {
        self.questions.try_acquire().ok()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Away>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Away {
    fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= LONGEST
    }
}

fn random() -> Result<String, getrandom::Error> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_comes_back_once_and_in_time() {
        let (journeys, start) = (Journeys::default(), Instant::now());
        let begin = |to: &str| journeys.begin("https://mq/login/back".to_owned(), to, start).unwrap();
        let (one, other) = (begin("/queues"), begin("/"));
        assert_ne!(one.state, other.state);
        assert_ne!(one.verifier, other.verifier);
        assert_eq!(one.verifier.len(), 43, "RFC 7636 §4.1 wants 43 to 128 letters");
        assert!(journeys.end("guessed", start).is_none());
        let away = journeys.end(&one.state, start).unwrap();
        assert_eq!((away.to.as_str(), away.journey.verifier), ("/queues", one.verifier));
        assert!(journeys.end(&one.state, start).is_none(), "once");
        assert!(journeys.end(&other.state, start + LONGEST).is_none(), "in time");
    }

    #[test]
    fn the_table_and_the_questions_are_bounded() {
        let (journeys, start) = (Journeys::default(), Instant::now());
        let begin =
            |after: u64| journeys.begin(String::new(), "/", start + Duration::from_millis(after)).unwrap().state;
        let states: Vec<_> = (0..=MOST as u64).map(begin).collect();
        assert_eq!(journeys.lock().len(), MOST);
        assert!(journeys.end(&states[0], start).is_none(), "the oldest went");
        assert!(journeys.end(&states[1], start).is_some());
        let held: Vec<_> = (0..QUESTIONS).map(|_| journeys.question().unwrap()).collect();
        assert!(journeys.question().is_none());
        drop(held);
        assert!(journeys.question().is_some());
    }
}
