//! Arguments without effect: RabbitMQ takes and ignores them, or they concern several nodes.
//!
//! Clients that still send them are not refused. So that no argument is ignored unseen, each is
//! stored, shown as without effect, and logged once in a vhost.

use hashbrown::HashSet;

use super::{CLASSIC, QUORUM, STREAM, known_to};
use crate::routing::ExchangeKind;
use crate::value::Table;

/// Arguments of queues of any type and of exchanges that have no effect in any current RabbitMQ, or
/// none with one node. As there, they may have any values, and a second declaration may leave them
/// out.
const LEGACY: &[&str] = &[
    // They mirrored queues before RabbitMQ 3.0, and libraries still send them.
    "x-ha-policy",
    "x-ha-policy-params",
    "x-ha-nodes",
    // Settings of policies until RabbitMQ 4.0, sent as arguments.
    "x-ha-mode",
    "x-ha-params",
    "x-ha-sync-mode",
    "x-ha-sync-batch-size",
    "x-ha-promote-on-failure",
    "x-ha-promote-on-shutdown",
    // An argument of consumers, sent with queues.
    "x-cancel-on-ha-failover",
    // The wanted number of copies of a quorum queue.
    "x-quorum-target-group-size",
    // RabbitMQ's federation marks its own queues and exchanges with it.
    "x-internal-purpose",
];

/// Arguments of queues whose values are checked and change nothing.
const CHECKED: &[&str] = &[
    "x-queue-mode",
    "x-queue-version",
    "x-queue-master-locator",
    "x-queue-leader-locator",
    "x-quorum-initial-group-size",
    "x-member-placement-tag",
    "x-max-in-memory-length",
    "x-max-in-memory-bytes",
    "x-consumer-disconnected-timeout",
];

/// Logged arguments that a vhost remembers; further ones are not logged.
const MOST_TOLD: usize = 64;
/// Bytes of a name that tell arguments apart.
const NAME: usize = 64;

/// True for an argument that every queue and exchange takes and ignores.
pub(super) fn is_legacy(argument: &str) -> bool {
    LEGACY.contains(&argument)
}

/// The arguments of a queue that have no effect.
pub(crate) fn of_queue(table: &Table) -> Vec<&str> {
    let unknown = |name: &str| ![CLASSIC, QUORUM, STREAM].iter().any(|known| known.contains(&name));
    names(table, |name| CHECKED.contains(&name) || unknown(name))
}

/// The arguments of an exchange that have no effect.
pub(crate) fn of_exchange(kind: ExchangeKind, table: &Table) -> Vec<&str> {
    names(table, |name| !known_to(kind).contains(&name))
}

/// The names that are not the application's and are idle.
fn names(table: &Table, is_idle: impl Fn(&str) -> bool) -> Vec<&str> {
    let names = table.0.iter().map(|(name, _)| name.as_str());
    names.filter(|name| name.starts_with("x-") && is_idle(name)).collect()
}

/// The arguments of a vhost that were logged.
#[derive(Debug, Default)]
pub(crate) struct Told(HashSet<Box<str>>);

impl Told {
    /// Keeps the beginnings of those `names` that were not logged before.
    pub(crate) fn retain_new(&mut self, names: &mut Vec<&str>) {
        names.retain_mut(|name| {
            *name = &name[..name.floor_char_boundary(NAME)];
            self.0.len() < MOST_TOLD && self.0.insert((*name).into())
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{Declared, ExchangeArguments, QUEUE_TYPE, QueueArguments, inequivalence};
    use crate::settings::UnknownArguments::Refuse;
    use crate::value::Value;

    fn table(names: &[&str]) -> Table {
        Table(names.iter().map(|name| ((*name).to_owned(), Value::Array(vec![Value::Null]))).collect())
    }

    #[test]
    fn what_rabbitmq_ignores_is_taken_by_queues_of_every_type_and_by_exchanges() {
        for name in LEGACY {
            for queue_type in ["classic", "quorum"] {
                let kind = (QUEUE_TYPE.to_owned(), Value::Text(queue_type.to_owned()));
                let (mut with, without) = (table(&[name]), Table(vec![kind.clone()]));
                with.0.push(kind);
                let parsed = QueueArguments::parse("q", "/", &with, Refuse);
                assert_eq!(parsed, QueueArguments::parse("q", "/", &without, Refuse), "{name}");
                assert!(parsed.is_ok() && of_queue(&with) == [*name], "{name}");
                let declared = |arguments| Declared { durable: true, auto_delete: false, arguments };
                assert_eq!(inequivalence("q", "/", &declared(&with), &declared(&without)), None, "{name}");
            }
            let (kind, with) = (ExchangeKind::Direct, table(&[name]));
            assert!(ExchangeArguments::parse(kind, "x", "/", &with, Refuse).is_ok(), "{name}");
            assert_eq!(of_exchange(kind, &with), [*name]);
        }
    }

    #[test]
    fn idle_is_what_changes_nothing() {
        let all = table(&["owner", "x-queue-mode", "x-max-length", "x-ha-policy", "x-unheard-of", "x-delayed-type"]);
        assert_eq!(of_queue(&all), ["x-queue-mode", "x-ha-policy", "x-unheard-of", "x-delayed-type"]);
        let of_delayed = of_exchange(ExchangeKind::Delayed, &all);
        assert_eq!(of_delayed, ["x-queue-mode", "x-max-length", "x-ha-policy", "x-unheard-of"]);
        // Queues know every name in a list of its own.
        assert!(CHECKED.iter().all(|name| CLASSIC.contains(name) || QUORUM.contains(name)));
        assert!(LEGACY.iter().all(|name| ![CLASSIC, QUORUM, STREAM].iter().any(|known| known.contains(name))));
    }

    #[test]
    fn each_is_told_of_once_and_no_more_than_some() {
        let mut told = Told::default();
        let mut new = |names: &[&'static str]| {
            let mut names = names.to_vec();
            told.retain_new(&mut names);
            names
        };
        assert_eq!(new(&["x-a", "x-b", "x-a"]), ["x-a", "x-b"]);
        assert_eq!(new(&["x-b", "x-c"]), ["x-c"]);
        for number in 0..2 * MOST_TOLD {
            let name = format!("{}{number}", "x".repeat(NAME - 3));
            told.retain_new(&mut vec![&name]);
        }
        assert_eq!(told.0.len(), MOST_TOLD);
        let mut late = vec!["x-late"];
        told.retain_new(&mut late);
        assert!(late.is_empty());
    }
}
