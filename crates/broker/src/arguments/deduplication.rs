//! How long ids of messages are remembered: `x-message-deduplication`, `x-cache-size` and
//! `x-cache-ttl`, of queues and of exchanges, with the rules of RabbitMQ's plugin for both.

use super::{QueueArguments, positive, positive_span, unacceptable};
use crate::clock::LONGEST_SPAN_MS;
use crate::value::{Table, Value};

pub(super) const ENABLED: &str = "x-message-deduplication";
pub(super) const SIZE: &str = "x-cache-size";
pub(super) const TTL: &str = "x-cache-ttl";
/// The plugin's choice between memory and disk. Here ids are as durable as their messages, so
/// either value is stored.
pub(super) const PERSISTENCE: &str = "x-cache-persistence";

/// Ids that a queue or an exchange remembers without an argument.
pub(crate) const USUAL_SIZE: u64 = 100_000;
/// The largest size of an argument: each id takes memory, and is restated when the log is recycled.
pub(crate) const LARGEST_SIZE: u64 = 1_000_000;

/// How long the id of a message is remembered.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Remember {
    /// While its message is in the queue, but at most [`USUAL_SIZE`] of them.
    WhileQueued,
    /// The last `size` ids, each for `ttl` milliseconds, whatever has become of their messages.
    Window { size: u64, ttl: Option<u64> },
}

impl Remember {
    /// How many ids are remembered at most.
    pub(crate) fn size(self) -> u64 {
        match self {
            Self::WhileQueued => USUAL_SIZE,
            Self::Window { size, .. } => size,
        }
    }

    /// The time until which an id of `now` is remembered, with its `own` milliseconds, if any. In
    /// milliseconds since 1970; 0 is for ever.
    pub(crate) fn until(self, now: u64, own: Option<u64>) -> u64 {
        let ttl = match self {
            Self::WhileQueued => None,
            Self::Window { ttl, .. } => own.or(ttl),
        };
        ttl.map_or(0, |ttl| now.saturating_add(ttl))
    }

    /// The arguments of an exchange that drops duplicates. The error is in the plugin's words.
    pub(super) fn of_exchange(table: &Table) -> Result<Self, String> {
        let number = |name: &str| -> Option<u64> {
            match table.get(name)? {
                Value::Text(text) => text.trim().parse().ok(),
                other => other.as_integer().and_then(|number| u64::try_from(number).ok()),
            }
        };
        let size = number(SIZE).filter(|size| *size > 0);
        let Some(size) = size else {
            return Err(format!("Missing or invalid argument, '{SIZE}' must be an integer greater than 0"));
        };
        if size > LARGEST_SIZE {
            return Err(format!("Invalid argument, '{SIZE}' must not be greater than {LARGEST_SIZE}"));
        }
        let ttl = match table.get(TTL) {
            None => None,
            Some(_) => match number(TTL).filter(|ttl| *ttl > 0) {
                None => return Err(format!("Invalid argument, '{TTL}' must be an integer greater than 0")),
                Some(ttl) if ttl > LONGEST_SPAN_MS => {
                    return Err(format!("Invalid argument, '{TTL}' must not be greater than {LONGEST_SPAN_MS}"));
                }
                ttl => ttl,
            },
        };
        match table.get(PERSISTENCE).map(Value::as_text) {
            None | Some(Some("disk" | "memory")) => Ok(Self::Window { size, ttl }),
            Some(_) => Err(format!("Invalid argument, '{PERSISTENCE}' must be either 'disk' or 'memory'")),
        }
    }
}

impl QueueArguments {
    /// Parses one of the queue arguments named here, or says what is wrong with it.
    pub(super) fn take_deduplication(&mut self, argument: &str, value: &Value, table: &Table) -> Result<(), String> {
        if argument != ENABLED {
            match argument {
                SIZE if positive(value)? <= LARGEST_SIZE => {}
                SIZE => return Err(format!("{{value_too_large,{}}}", positive(value)?)),
                _ => drop(positive_span(value)?),
            }
            return if table.get(ENABLED) == Some(&Value::Bool(true)) {
                Ok(())
            } else {
                Err(format!("has no effect without {ENABLED}"))
            };
        }
        let number = |name| table.get(name).and_then(|value| positive(value).ok());
        self.intake.deduplication = match (value, number(SIZE), number(TTL)) {
            (Value::Bool(false), ..) => None,
            (Value::Bool(true), None, None) => Some(Remember::WhileQueued),
            (Value::Bool(true), size, ttl) => Some(Remember::Window { size: size.unwrap_or(USUAL_SIZE), ttl }),
            (other, ..) => return Err(unacceptable(other)),
        };
        Ok(())
    }
}
