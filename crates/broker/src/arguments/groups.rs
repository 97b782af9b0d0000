//! Message groups: `x-message-groups`, `x-group-buckets` and `x-group-rebalance`, as in Artemis
//! (groups, group buckets and group rebalance).

use super::{QueueArguments, positive, unacceptable};
use crate::value::{Table, Value};

pub(crate) const ENABLED: &str = "x-message-groups";
pub(super) const BUCKETS: &str = "x-group-buckets";
pub(super) const REBALANCE: &str = "x-group-rebalance";

/// Buckets for groups without an argument.
const USUAL_BUCKETS: u32 = 1024;
/// The largest number in an argument: each bucket takes eight bytes.
const MOST_BUCKETS: u64 = 65_536;

/// How the groups of a queue are shared out.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Grouping {
    /// 1 to [`MOST_BUCKETS`].
    pub(crate) buckets: u32,
    /// A new consumer gets groups from the others.
    pub(crate) rebalance: bool,
}

fn flag(value: &Value) -> Result<bool, String> {
    match value {
        Value::Bool(flag) => Ok(*flag),
        other => Err(unacceptable(other)),
    }
}

fn buckets(value: &Value) -> Result<u32, String> {
    match positive(value)? {
        number if number > MOST_BUCKETS => Err(format!("{{value_too_large,{number}}}")),
        number => Ok(number as u32),
    }
}

impl QueueArguments {
    /// Parses one of the arguments named here, or says what is wrong with it.
    pub(super) fn take_groups(&mut self, argument: &str, value: &Value, table: &Table) -> Result<(), String> {
        match argument {
            BUCKETS => drop(buckets(value)?),
            _ => drop(flag(value)?),
        }
        if argument != ENABLED {
            let enabled = table.get(ENABLED) == Some(&Value::Bool(true));
            return if enabled { Ok(()) } else { Err(format!("has no effect without {ENABLED}")) };
        }
        if flag(value)? {
            if table.get("x-single-active-consumer") == Some(&Value::Bool(true)) {
                return Err("the queue has a single active consumer, which takes whatever comes".to_owned());
            }
            let number = table.get(BUCKETS).and_then(|value| buckets(value).ok());
            let rebalance = table.get(REBALANCE) == Some(&Value::Bool(true));
            self.grouping = Some(Grouping { buckets: number.unwrap_or(USUAL_BUCKETS), rebalance });
        }
        Ok(())
    }
}
