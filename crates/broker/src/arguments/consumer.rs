//! What a consumer asks of its queue, and the one table of `x-` arguments that says so in text.
//!
//! A protocol with such arguments parses them where they arrive. One without them fills the fields.
//! An `x-` argument without a meaning here is refused by name. Others are the application's.

use std::time::Duration;

use super::{CONSUMER_TIMEOUT, NOT_BUILT};
use crate::clock::{LONGEST_SPAN_MS, SPAN_WANTED};
use crate::error::Error;
use crate::value::{Table, Value};

pub(crate) const PRIORITY: &str = "x-priority";
pub(crate) const SELECTOR: &str = "x-selector";
pub(crate) const BROWSE: &str = "x-browse";

/// What becomes of the messages that a consumer is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// They leave the queue when they are settled.
    #[default]
    Take,
    /// They stay. A browser sees what was in the queue when it came, and ends with
    /// [`Event::Cancelled`](crate::Event::Cancelled). It settles nothing, so it needs `no_ack`.
    Browse,
}

/// What a consumer asks of its queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConsumerArguments {
    /// It takes messages, or only sees them.
    pub mode: Mode,
    /// It gets the messages that this selector is true of; all, if it is empty.
    pub selector: String,
    /// Consumers of a higher priority are served first.
    pub priority: i32,
    /// How long it may hold a delivery, zero for any time; `None` for what its queue says.
    pub timeout: Option<Duration>,
}

/// An argument that cannot be served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidArgument {
    name: String,
    why: String,
}

impl InvalidArgument {
    pub(crate) fn new(name: &str, why: impl Into<String>) -> Self {
        Self { name: name.to_owned(), why: why.into() }
    }

    /// The same as the answer about a queue.
    pub(crate) fn at(&self, queue: &str, vhost: &str) -> Error {
        let Self { name, why } = self;
        Error::precondition(format!("invalid arg '{name}' for queue '{queue}' in vhost '{vhost}': {why}"))
    }
}

impl ConsumerArguments {
    /// Parses them.
    ///
    /// # Errors
    /// The first one that is refused. It belongs into [`Consume`](crate::Consume) as it is: the
    /// client is told of it after the queue was found and may be read.
    pub fn parse(table: &Table) -> Result<Self, InvalidArgument> {
        let mut parsed = Self::default();
        for (name, value) in &table.0 {
            parsed.take(name, value).map_err(|why| InvalidArgument::new(name, why))?;
        }
        Ok(parsed)
    }

    fn take(&mut self, name: &str, value: &Value) -> Result<(), String> {
        match name {
            PRIORITY => {
                let number = value.as_integer().and_then(|number| i32::try_from(number).ok());
                self.priority = number.ok_or("expected an integer of 32 bits")?;
            }
            CONSUMER_TIMEOUT => {
                let number = value.as_integer().and_then(|number| u64::try_from(number).ok());
                let number = number.filter(|ms| *ms <= LONGEST_SPAN_MS);
                let number = number.ok_or_else(|| format!("expected {SPAN_WANTED}"))?;
                self.timeout = Some(Duration::from_millis(number));
            }
            SELECTOR => value.as_text().ok_or("expected a selector as text")?.clone_into(&mut self.selector),
            BROWSE => match value {
                Value::Bool(true) => self.mode = Mode::Browse,
                Value::Bool(false) => self.mode = Mode::Take,
                _ => return Err("expected true or false".to_owned()),
            },
            // Queues have no mirrors, so there is never a fail-over to report.
            "x-cancel-on-ha-failover" => match value {
                Value::Bool(_) => {}
                _ => return Err("expected a bool".to_owned()),
            },
            _ if name.starts_with("x-") => return Err(NOT_BUILT.to_owned()),
            _ => {}
        }
        Ok(())
    }

    /// The same as text, for reports: those that differ from what every consumer has.
    pub(crate) fn shown(&self) -> Table {
        let mut table = Table::default();
        if self.priority != 0 {
            table.set(PRIORITY, Value::I32(self.priority));
        }
        if let Some(timeout) = self.timeout {
            table.set(CONSUMER_TIMEOUT, Value::I64(i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX)));
        }
        if !self.selector.is_empty() {
            table.set(SELECTOR, Value::Text(self.selector.clone()));
        }
        if self.mode == Mode::Browse {
            table.set(BROWSE, Value::Bool(true));
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(entries: &[(&str, Value)]) -> Table {
        Table(entries.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
    }

    #[test]
    fn what_is_parsed_is_shown_again() {
        let number = |number| Value::I32(number);
        let text = |text: &str| Value::Text(text.to_owned());
        let cases: &[&[(&str, Value)]] = &[
            &[],
            &[("x-priority", number(-3))],
            &[("x-consumer-timeout", Value::I64(0))],
            &[("x-priority", number(2)), ("x-selector", text("a = 1")), ("x-browse", Value::Bool(true))],
        ];
        for case in cases {
            let parsed = ConsumerArguments::parse(&table(case)).expect("each is valid");
            assert_eq!(parsed.shown(), table(case));
        }
        let usual = [("owner", text("me")), ("x-priority", number(0)), ("x-browse", Value::Bool(false))];
        assert_eq!(ConsumerArguments::parse(&table(&usual)), Ok(ConsumerArguments::default()));
    }

    #[test]
    fn the_first_that_is_refused_is_named() {
        let cases = [
            ("x-priority", Value::I64(1 << 40), "expected an integer of 32 bits"),
            ("x-consumer-timeout", Value::I32(-1), "expected a number of milliseconds"),
            ("x-selector", Value::I32(5), "expected a selector as text"),
            ("x-browse", Value::I32(1), "expected true or false"),
            ("x-cancel-on-ha-failover", Value::I32(1), "expected a bool"),
            ("x-stream-offset", Value::I32(1), "not implemented yet"),
        ];
        for (name, value, why) in cases {
            let last = ("x-later", Value::Bool(true));
            let refused = ConsumerArguments::parse(&table(&[(name, value), last])).expect_err("it is refused");
            let text = refused.at("q", "/").to_string();
            assert!(text.contains(&format!("invalid arg '{name}' for queue 'q' in vhost '/': {why}")), "{text}");
        }
    }
}
