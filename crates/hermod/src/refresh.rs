//! The thread that asks backends elsewhere again what those may do who are connected.
//!
//! One user after the other is asked about: a step is one question, so a stop waits for no more
//! than one. A backend that can't be asked leaves rights as they are, until the next round.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::Broker;

use crate::worker::{Rest, Worker};

/// Starts the thread, unless no backend is asked again.
pub(crate) fn start(broker: Broker) -> io::Result<Option<Worker>> {
    let Some(every) = broker.authority().asks_again_every() else { return Ok(None) };
    let mut round = Round { left: Vec::new(), begun: Instant::now() };
    Worker::start("hermod-refresh", move |_| round.step(&broker, every)).map(Some)
}

/// Those who are still to be asked about, and when the round began.
struct Round {
    left: Vec<(&'static str, Arc<str>)>,
    begun: Instant,
}

impl Round {
    /// Asks about one user, or rests until the next round.
    fn step(&mut self, broker: &Broker, every: Duration) -> Rest {
        let Some((backend, user)) = self.left.pop() else {
            let rest = every.saturating_sub(self.begun.elapsed());
            if rest.is_zero() {
                *self = Self { left: broker.authority().connected_from_elsewhere(), begun: Instant::now() };
                return if self.left.is_empty() { Rest::For(every) } else { Rest::None };
            }
            return Rest::For(rest);
        };
        match broker.ask_again(backend, &user) {
            Ok(true) => tracing::info!(backend, %user, "a user has other rights now than at its log-in"),
            Ok(false) => {}
            Err(why) => {
                tracing::warn!(left = self.left.len() + 1, "users keep the rights that they have: {why}");
                self.left.clear();
            }
        }
        Rest::None
    }
}
