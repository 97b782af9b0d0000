//! Figures that strangers may read: sums over all objects. They are built off the loop, for one
//! request at a time, and for at most a fifth of the time. A request that waited gets a scrape that
//! began after it asked, if there is one.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use tokio::sync::Semaphore;

/// After a scrape there is a pause, this many times as long as the scrape took.
const REST: u32 = 4;

/// The figures that most scrapes ask for; and those that few ask for, apart from the others so that
/// those do not wait for them.
#[derive(Debug, Default)]
pub(crate) struct Scrapes {
    pub(crate) usual: Figures,
    pub(crate) rare: Figures,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Figures {
    turn: Arc<Semaphore>,
    last: Arc<Mutex<Option<Scrape>>>,
}

#[derive(Debug, Clone)]
struct Scrape {
    /// What the request asked for.
    key: String,
    begun: Instant,
    ended: Instant,
    text: Bytes,
}

impl Scrape {
    /// When the pause after this scrape ends.
    fn rested(&self) -> Instant {
        self.ended + (self.ended - self.begun) * REST
    }
}

impl Default for Figures {
    fn default() -> Self {
        Self { turn: Arc::new(Semaphore::new(1)), last: Arc::default() }
    }
}

impl Figures {
    /// Figures as `build` writes them for `key`, no older than this call.
    ///
    /// # Errors
    /// If `build` panicked, or the server is stopping.
    pub(crate) async fn read(
        &self,
        key: impl Into<String>,
        build: impl FnOnce() -> String + Send + 'static,
    ) -> Result<Bytes, String> {
        let (asked, key) = (Instant::now(), key.into());
        let turn = Arc::clone(&self.turn).acquire_owned().await.map_err(|error| error.to_string())?;
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(last) = last {
            if last.begun >= asked && last.key == key {
                return Ok(last.text);
            }
            let wait = last.rested().saturating_duration_since(Instant::now());
            if wait > Duration::ZERO {
                tokio::time::sleep(wait).await;
            }
        }
        let last = Arc::clone(&self.last);
        // The scrape runs to its end and is kept, even if its request has gone.
        let built = tokio::task::spawn_blocking(move || {
            let begun = Instant::now();
            let text = Bytes::from(build());
            let scrape = Scrape { key, begun, ended: Instant::now(), text: text.clone() };
            *last.lock().unwrap_or_else(PoisonError::into_inner) = Some(scrape);
            drop(turn);
            text
        });
        built.await.map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn who_waits_shares_what_is_built_next() {
        let figures = Arc::<Figures>::default();
        let built = Arc::<AtomicUsize>::default();
        let scrape = |figures: &Arc<Figures>| {
            let (figures, built) = (Arc::clone(figures), Arc::clone(&built));
            async move { figures.read("", move || built.fetch_add(1, Ordering::SeqCst).to_string()).await.unwrap() }
        };
        let turn = figures.turn.clone().acquire_owned().await.unwrap();
        let waiting: Vec<_> = (0..100).map(|_| tokio::spawn(scrape(&figures))).collect();
        tokio::task::yield_now().await;
        drop(turn);
        for task in waiting {
            task.await.unwrap();
        }
        assert!(built.load(Ordering::SeqCst) <= 2, "a hundred scrapes were built {built:?} times");
        assert_eq!(scrape(&figures).await, scrape_number(&built), "what is asked for later is built later");
    }

    #[tokio::test]
    async fn who_asks_for_something_else_is_given_that() {
        let figures = Arc::<Figures>::default();
        let turn = figures.turn.clone().acquire_owned().await.unwrap();
        let ask = |key: &'static str| {
            let figures = Arc::clone(&figures);
            tokio::spawn(async move { figures.read(key, move || key.to_owned()).await.unwrap() })
        };
        let waiting: Vec<_> = ["a", "b", "a"].map(ask).into();
        tokio::task::yield_now().await;
        drop(turn);
        for (task, expected) in waiting.into_iter().zip(["a", "b", "a"]) {
            assert_eq!(task.await.unwrap(), expected);
        }
    }

    fn scrape_number(built: &AtomicUsize) -> Bytes {
        (built.load(Ordering::SeqCst) - 1).to_string().into()
    }

    #[test]
    fn a_scrape_is_followed_by_a_rest() {
        let begun = Instant::now();
        let scrape = Scrape { key: String::new(), begun, ended: begun + Duration::from_millis(20), text: Bytes::new() };
        assert_eq!(scrape.rested(), begun + Duration::from_millis(100));
    }
}
