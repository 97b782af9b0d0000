//! A copy of what a queue gets: to which queue, and of which messages.

use selector::Selector;

use super::{LONGEST_NAME, QueueArguments, name, word};
use crate::value::{Table, Value};

/// The queue that gets the copies.
pub(crate) const TO: &str = "x-copy-to";
/// The messages that are copied; without one, all.
pub(crate) const SELECTOR: &str = "x-copy-selector";

/// See the module.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct CopyRule {
    /// The name of the queue that gets the copies.
    pub(crate) to: Box<str>,
    /// It is true of the messages that are copied.
    pub(crate) selector: Option<Selector>,
}

impl CopyRule {
    /// Parses both arguments, or says what is wrong with this one.
    fn parse(argument: &str, value: &Value, table: &Table) -> Result<Option<Self>, String> {
        if argument == SELECTOR {
            let text = word(value)?;
            if table.get(TO).is_none() {
                return Err(format!("has no effect without {TO}"));
            }
            return Selector::parse(text).map(|_| None).map_err(|error| error.to_string());
        }
        let to = name(value)?;
        if to.is_empty() {
            return Err(format!("expected the name of a queue, of 1 to {LONGEST_NAME} bytes"));
        }
        // A wrong one is refused under its own name.
        let text = table.get(SELECTOR).and_then(Value::as_text).unwrap_or_default();
        Ok(Some(Self { to: to.into(), selector: Selector::parse(text).ok().flatten() }))
    }
}

impl QueueArguments {
    /// Parses one of the arguments named here, or says what is wrong with it.
    pub(super) fn take_copies(&mut self, argument: &str, value: &Value, table: &Table) -> Result<(), String> {
        if let Some(rule) = CopyRule::parse(argument, value, table)? {
            self.intake.copies = Some(rule.into());
        }
        Ok(())
    }
}
