//! The delay before returned messages are delivered again: `x-delayed-retry-type`, `-min` and
//! `-max`. Names and rules are those of RabbitMQ's quorum queues, for queues of every type.

use super::{QueueArguments, positive, positive_span, word};
use crate::value::{Table, Value};

pub(super) const TYPE: &str = "x-delayed-retry-type";
pub(super) const MIN: &str = "x-delayed-retry-min";
pub(super) const MAX: &str = "x-delayed-retry-max";

/// The way in which a message came back.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum ReturnCause {
    /// Its consumer failed or has gone.
    Failed,
    /// Its consumer returned it, or held it for too long.
    Returned,
}

/// The messages that wait before they are delivered again, and how long.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Retry {
    /// Only those that came back in this way; `None` for all.
    only: Option<ReturnCause>,
    /// Milliseconds.
    min: u64,
    max: u64,
}

impl Retry {
    /// How many milliseconds a message waits, by the way in which it came back and by the returns
    /// that count.
    pub(crate) fn delay(&self, how: ReturnCause, returns: u32) -> Option<u64> {
        let waits = self.only.is_none_or(|only| only == how);
        waits.then(|| self.min.saturating_mul(returns.max(1).into()).min(self.max))
    }
}

impl QueueArguments {
    /// True when the queue counts how often messages come back.
    pub(crate) fn counts_returns(&self) -> bool {
        self.delivery_limit.is_some() || self.retry.is_some()
    }

    /// Parses one of the arguments named here, or says what is wrong with it.
    pub(super) fn take_retry(&mut self, argument: &str, value: &Value, table: &Table) -> Result<(), String> {
        let only = match table.get(TYPE).map(word).transpose()? {
            None | Some("disabled") => None,
            Some("all") => Some(None),
            Some("failed") => Some(Some(ReturnCause::Failed)),
            Some("returned") => Some(Some(ReturnCause::Returned)),
            Some(other) => {
                return Err(format!(
                    "{other} is not a valid delayed retry type. Must be one of: all, failed, returned, disabled"
                ));
            }
        };
        if argument != TYPE {
            positive_span(value)?;
            return if table.get(TYPE).is_some() { Ok(()) } else { Err(format!("has no effect without {TYPE}")) };
        }
        let number = |name| table.get(name).and_then(|value| positive(value).ok());
        self.retry = match (only, number(MIN)) {
            (None, _) => None,
            (Some(_), None) => {
                let kind = word(value)?;
                return Err(format!("delayed-retry-min is required when delayed-retry-type is {kind}"));
            }
            (Some(only), Some(min)) => {
                let max = number(MAX).unwrap_or(min);
                if max < min {
                    return Err(format!(
                        "delayed-retry-max ({max}) must not be smaller than delayed-retry-min ({min})"
                    ));
                }
                Some(Retry { only, min, max })
            }
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_grows_with_each_return_up_to_the_most() {
        let retry = Retry { only: None, min: 100, max: 250 };
        let delays: Vec<_> = (0..5).map(|returns| retry.delay(ReturnCause::Failed, returns)).collect();
        assert_eq!(delays, [Some(100), Some(100), Some(200), Some(250), Some(250)]);
        let retry = Retry { only: Some(ReturnCause::Failed), ..retry };
        assert_eq!((retry.delay(ReturnCause::Failed, 1), retry.delay(ReturnCause::Returned, 1)), (Some(100), None));
    }
}
