//! The delay before returned messages are delivered again: `x-delayed-retry-type`, `-min` and
//! `-max`. Names and rules are those of RabbitMQ's quorum queues, for queues of every type. With
//! `-multiplier` each delay is a multiple of the one before, as in Artemis and ActiveMQ.

use super::{QueueArguments, positive, positive_span, word};
use crate::value::{Table, Value};

pub(super) const TYPE: &str = "x-delayed-retry-type";
pub(super) const MIN: &str = "x-delayed-retry-min";
pub(super) const MAX: &str = "x-delayed-retry-max";
pub(super) const MULTIPLIER: &str = "x-delayed-retry-multiplier";

/// The largest factor.
const MOST: f64 = 1000.0;

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
    growth: Growth,
}

/// How the delay grows with each return.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Growth {
    /// By the least delay.
    ByStep,
    /// By this factor, in thousandths.
    ByFactor(u32),
}

impl Retry {
    /// How many milliseconds a message waits, by the way in which it came back and by the returns
    /// that count.
    pub(crate) fn delay(&self, how: ReturnCause, returns: u32) -> Option<u64> {
        let waits = self.only.is_none_or(|only| only == how);
        let delay = || match self.growth {
            Growth::ByStep => self.min.saturating_mul(returns.max(1).into()),
            Growth::ByFactor(thousandths) => {
                let power = i32::try_from(returns.saturating_sub(1)).unwrap_or(i32::MAX);
                // What is too large for a number becomes the largest.
                (self.min as f64 * (f64::from(thousandths) / 1000.0).powi(power)) as u64
            }
        };
        waits.then(|| delay().min(self.max))
    }
}

impl QueueArguments {
    /// True when the queue counts how often messages come back.
    pub(crate) fn counts_returns(&self) -> bool {
        self.delivering.count_returns || self.delivery_limit.is_some() || self.retry.is_some()
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
            match argument {
                MULTIPLIER => drop(factor(value)?),
                _ => drop(positive_span(value)?),
            }
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
                if max == min && table.get(MULTIPLIER).is_some() {
                    return Err(format!("{MULTIPLIER} has no effect unless {MAX} is above {MIN}"));
                }
                let growth = table.get(MULTIPLIER).and_then(|value| factor(value).ok());
                Some(Retry { only, min, max, growth: growth.map_or(Growth::ByStep, Growth::ByFactor) })
            }
        };
        Ok(())
    }
}

/// A factor in thousandths, from a number of any kind, or from its text where the protocol or tool
/// has no fractions.
fn factor(value: &Value) -> Result<u32, String> {
    let number = match value {
        Value::F32(number) => Some(f64::from(*number)),
        Value::F64(number) => Some(*number),
        Value::Decimal { scale, value } => Some(f64::from(*value) / 10f64.powi(i32::from(*scale))),
        Value::Text(text) => text.parse().ok(),
        other => other.as_integer().map(|number| number as f64),
    };
    match number {
        Some(number) if (1.0..=MOST).contains(&number) => Ok((number * 1000.0).round() as u32),
        _ => Err(format!("expected a factor from 1 to {MOST}, such as 2 or 1.5")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_grows_with_each_return_up_to_the_most() {
        let retry = Retry { only: None, min: 100, max: 250, growth: Growth::ByStep };
        let delays: Vec<_> = (0..5).map(|returns| retry.delay(ReturnCause::Failed, returns)).collect();
        assert_eq!(delays, [Some(100), Some(100), Some(200), Some(250), Some(250)]);
        let retry = Retry { only: Some(ReturnCause::Failed), ..retry };
        assert_eq!((retry.delay(ReturnCause::Failed, 1), retry.delay(ReturnCause::Returned, 1)), (Some(100), None));
    }

    #[test]
    fn a_factor_multiplies_the_delay_before() {
        let delays = |growth, max| {
            let retry = Retry { only: None, min: 100, max, growth };
            [0, 1, 2, 3, 4, 1000, u32::MAX].map(|returns| retry.delay(ReturnCause::Failed, returns).unwrap())
        };
        assert_eq!(delays(Growth::ByFactor(2000), 1000), [100, 100, 200, 400, 800, 1000, 1000]);
        assert_eq!(delays(Growth::ByFactor(1500), 300), [100, 100, 150, 225, 300, 300, 300]);
        assert_eq!(delays(Growth::ByFactor(1000), 300), [100; 7]);
    }

    #[test]
    fn factors_come_in_many_forms() {
        let text = |text: &str| Value::Text(text.to_owned());
        for (value, thousandths) in [
            (Value::I32(2), Some(2000)),
            (Value::F64(1.5), Some(1500)),
            (Value::F32(2.5), Some(2500)),
            (Value::Decimal { scale: 2, value: 125 }, Some(1250)),
            (text("1.5"), Some(1500)),
            (text("1000"), Some(1_000_000)),
            (text("1000.1"), None),
            (text("0.9"), None),
            (text("NaN"), None),
            (text("two"), None),
            (Value::I64(-1), None),
            (Value::Bool(true), None),
        ] {
            assert_eq!(factor(&value).ok(), thousandths, "{value:?}");
        }
    }
}
