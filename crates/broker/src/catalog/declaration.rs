//! What can be declared, and the one place where a declaration is checked.
//!
//! It is what is there already, or new with the meaning of its arguments, or refused with a text.
//! Clients declare by this, and an import is checked by it before its vhosts are there.

use std::sync::Arc;

use super::{Exchange, Tables};
use crate::arguments::{self, ExchangeArguments, QueueArguments, QueueType};
use crate::error::{Error, ErrorKind};
use crate::message::{KEY_MAX, NAME_MAX};
use crate::queue::Queue;
use crate::routing::ExchangeKind;
use crate::settings::UnknownArguments;
use crate::value::Table;

/// The prefix of generated queue names.
pub(crate) const GENERATED: &str = "amq.gen-";

/// A queue to declare.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct QueueSpec {
    /// Its name; empty for a generated one.
    pub name: String,
    /// It survives a restart.
    pub durable: bool,
    /// It belongs to this connection and is deleted with it.
    pub exclusive: bool,
    /// It is deleted with its last consumer.
    pub auto_delete: bool,
    /// `x-…` arguments.
    pub arguments: Table,
}

/// An exchange to declare.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExchangeSpec {
    /// Its name.
    pub name: String,
    /// Its type, such as `direct` or `topic`; `docs/manual/exchanges.md` lists them.
    pub kind: String,
    /// It survives a restart.
    pub durable: bool,
    /// It is deleted with its last binding.
    pub auto_delete: bool,
    /// Clients may not publish to it.
    pub internal: bool,
    /// Arguments.
    pub arguments: Table,
}

/// The destination of a binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DestinationName {
    /// A queue.
    Queue(String),
    /// An exchange.
    Exchange(String),
}

/// A binding to make or to remove.
#[derive(Debug, Clone, PartialEq)]
pub struct BindingSpec {
    /// The exchange that messages come from.
    pub source: String,
    /// The destination of the messages.
    pub destination: DestinationName,
    /// The routing key or pattern.
    pub key: String,
    /// Arguments, for headers exchanges.
    pub arguments: Table,
}

/// A declaration that is not refused.
pub(crate) enum Checked<There, New> {
    /// The same is there.
    There(There),
    /// It can be made.
    New(New),
}

/// Who declares, and the rules for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Declarer {
    /// The number of the client; `None` for an import, which no exclusive queue belongs to.
    pub(crate) client: Option<u64>,
    /// An operator may restore a queue with a name that the broker could have generated.
    pub(crate) is_operator: bool,
    pub(crate) unknown: UnknownArguments,
}

impl Declarer {
    /// Checks the declaration of a queue under this name, which is a generated one if the
    /// declaration has none. There are no `tables` while the vhost is to come.
    pub(crate) fn queue<'t>(
        self,
        (vhost, tables): (&str, Option<&'t Tables>),
        name: &str,
        spec: &QueueSpec,
    ) -> Result<Checked<&'t Arc<Queue>, QueueArguments>, Error> {
        if let Some(existing) = tables.and_then(|tables| tables.queue(name)) {
            self.same_queue(existing, spec)?;
            return Ok(Checked::There(existing));
        }
        refuse_ended(vhost, tables)?;
        let is_named = !spec.name.is_empty();
        if is_named && !(self.is_operator && name.starts_with(GENERATED)) {
            refuse_reserved("queue", name)?;
        }
        let parsed = QueueArguments::parse(name, vhost, &spec.arguments, self.unknown)?;
        check_properties(parsed.queue_type, vhost, name, spec)?;
        parsed.dead_letters.made().try_for_each(|made| check_made(name, made))?;
        if !is_named && parsed.queue_type != QueueType::Classic {
            // Those who share it must know its name.
            let kind = parsed.queue_type.module();
            return Err(Error::precondition(format!("Cannot declare a server-named queue for type {kind}")));
        }
        Ok(Checked::New(parsed))
    }

    /// Checks the declaration of an exchange. There are no `tables` while the vhost is to come.
    pub(crate) fn exchange<'t>(
        self,
        (vhost, tables): (&str, Option<&'t Tables>),
        spec: &ExchangeSpec,
    ) -> Result<Checked<&'t Exchange, (ExchangeKind, ExchangeArguments)>, Error> {
        let name = spec.name.as_str();
        let Some(kind) = ExchangeKind::parse(&spec.kind) else {
            // A client knows which exchange it declares, an import has many.
            return Err(Error::precondition(match self.client {
                Some(_) => format!("unknown exchange type '{}'", spec.kind),
                None => format!("unknown exchange type '{}' of exchange '{name}'", spec.kind),
            }));
        };
        if let Some(existing) = tables.and_then(|tables| tables.exchange(name)) {
            same_exchange(existing, spec, kind, vhost)?;
            return Ok(Checked::There(existing));
        }
        refuse_ended(vhost, tables)?;
        refuse_reserved("exchange", name)?;
        let parsed = ExchangeArguments::parse(kind, name, vhost, &spec.arguments, self.unknown)?;
        Ok(Checked::New((kind, parsed)))
    }

    /// Fails unless a queue has the properties of a declaration.
    fn same_queue(self, existing: &Queue, spec: &QueueSpec) -> Result<(), Error> {
        let is_anothers = existing.exclusive_to.is_some_and(|owner| self.client != Some(owner));
        if is_anothers || existing.exclusive_to.is_some() != spec.exclusive {
            return Err(locked(&existing.name, &existing.vhost));
        }
        let was = arguments::Declared {
            durable: existing.logged(),
            auto_delete: existing.auto_delete,
            arguments: &existing.declared,
        };
        let wanted = arguments::Declared {
            durable: spec.durable && !spec.exclusive,
            auto_delete: spec.auto_delete,
            arguments: &spec.arguments,
        };
        arguments::inequivalence(&existing.name, &existing.vhost, &was, &wanted).map_or(Ok(()), Err)
    }
}

/// Fails unless an exchange has the properties of a declaration.
fn same_exchange(existing: &Exchange, spec: &ExchangeSpec, kind: ExchangeKind, vhost: &str) -> Result<(), Error> {
    let was = arguments::DeclaredExchange {
        kind: existing.kind,
        durable: existing.durable,
        auto_delete: existing.auto_delete,
        internal: existing.internal,
        arguments: &existing.arguments,
    };
    let wanted = arguments::DeclaredExchange {
        kind,
        durable: spec.durable,
        auto_delete: spec.auto_delete,
        internal: spec.internal,
        arguments: &spec.arguments,
    };
    arguments::exchange_inequivalence(&existing.name, vhost, &was, &wanted).map_or(Ok(()), Err)
}

/// Refuses properties that a queue of this type can't have.
fn check_properties(kind: QueueType, vhost: &str, name: &str, spec: &QueueSpec) -> Result<(), Error> {
    let property = match kind {
        QueueType::Classic => return Ok(()),
        QueueType::Quorum if spec.auto_delete => "auto-delete",
        QueueType::Quorum if spec.exclusive => "exclusive-owner",
        QueueType::Quorum if !spec.durable => "non-durable",
        QueueType::Quorum => return Ok(()),
    };
    Err(Error::precondition(format!("invalid property '{property}' for queue '{name}' in vhost '{vhost}'")))
}

/// Fails for a name that no queue could have. This comes before the rights on it.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    if name.len() > NAME_MAX {
        return Err(Error::precondition(format!("a name of {} bytes is longer than {NAME_MAX}", name.len())));
    }
    Ok(())
}

/// Fails for a dead-letter queue that can't be made under its name.
pub(crate) fn check_made(queue: &str, made: &str) -> Result<(), Error> {
    let refuse =
        |what: &str| Error::precondition(format!("no dead-letter queue can be made for queue '{queue}': {what}"));
    if made.len() > NAME_MAX {
        return Err(refuse(&format!("its name of {} bytes is longer than {NAME_MAX}", made.len())));
    }
    refuse_reserved("queue", made).map_err(|error| refuse(&error.text))
}

/// Fails for a name that no declared exchange could have. This comes before the rights on it.
pub(crate) fn check_exchange_name(name: &str) -> Result<(), Error> {
    refuse_default_exchange(name)?;
    check_name(name)
}

/// Fails for a binding that no exchange could have.
pub(crate) fn check_binding_names(spec: &BindingSpec) -> Result<(), Error> {
    refuse_default_exchange(&spec.source)?;
    if spec.key.len() > KEY_MAX {
        return Err(Error::precondition(format!("routing key is longer than {KEY_MAX} bytes")));
    }
    match &spec.destination {
        DestinationName::Queue(_) => Ok(()),
        DestinationName::Exchange(name) => refuse_default_exchange(name),
    }
}

pub(crate) fn refuse_default_exchange(name: &str) -> Result<(), Error> {
    if name.is_empty() {
        return Err(Error::refused("operation not permitted on the default exchange"));
    }
    Ok(())
}

/// Refuses any change in a vhost that was deleted: its connections are being closed.
fn refuse_ended(vhost: &str, tables: Option<&Tables>) -> Result<(), Error> {
    if tables.is_some_and(Tables::is_ended) {
        return Err(Error::not_found(format!("vhost '{vhost}' is deleted")));
    }
    Ok(())
}

fn refuse_reserved(what: &str, name: &str) -> Result<(), Error> {
    if name.starts_with("amq.") {
        return Err(Error::refused(format!("{what} name '{name}' contains reserved prefix 'amq.*'")));
    }
    Ok(())
}

pub(crate) fn locked(name: &str, vhost: &str) -> Error {
    Error::new(
        ErrorKind::Locked,
        format!(
            "cannot obtain exclusive access to locked queue '{name}' in vhost '{vhost}'. It could be originally declared \
             on another connection or the exclusive property value does not match that of the original declaration."
        ),
    )
}

/// The topic whose right a binding needs. Beside its bindings a subscription may note what its
/// client has elsewhere, under keys that nothing is published to: `$direct.KEY` for a consumer
/// without a queue, `$share.GROUP.KEY` for a shared subscription. The right is that to the key.
pub(crate) fn topic_of_note(key: &str) -> &str {
    let key = key.strip_prefix("$direct.").unwrap_or(key);
    let shared = key.strip_prefix("$share.").and_then(|shared| shared.split_once('.'));
    shared.map_or(key, |(_, topic)| topic)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::QUEUE_TYPE;
    use crate::value::Value;

    fn checked(declarer: Declarer, name: &str, spec: &QueueSpec) -> Result<(), Error> {
        declarer.queue(("/", None), name, spec).map(drop)
    }

    const CLIENT: Declarer = Declarer { client: Some(1), is_operator: false, unknown: UnknownArguments::Refuse };

    #[test]
    fn what_a_quorum_queue_cannot_be() {
        // durable, exclusive, auto-delete
        let cases = [
            ((true, false, false), None),
            ((false, false, false), Some("non-durable")),
            ((true, true, false), Some("exclusive-owner")),
            ((false, true, false), Some("exclusive-owner")),
            ((true, false, true), Some("auto-delete")),
            ((false, true, true), Some("auto-delete")),
        ];
        let arguments = Table(vec![(QUEUE_TYPE.to_owned(), Value::Text("quorum".to_owned()))]);
        for ((durable, exclusive, auto_delete), property) in cases {
            let classic =
                QueueSpec { name: "q".to_owned(), durable, exclusive, auto_delete, arguments: Table::default() };
            assert_eq!(checked(CLIENT, "q", &classic), Ok(()));
            let quorum = QueueSpec { arguments: arguments.clone(), ..classic };
            let refused = |name| Error::precondition(format!("invalid property '{name}' for queue 'q' in vhost '/'"));
            assert_eq!(checked(CLIENT, "q", &quorum), property.map_or(Ok(()), |name| Err(refused(name))));
        }
        let unnamed = QueueSpec { durable: true, arguments, ..QueueSpec::default() };
        let text = "Cannot declare a server-named queue for type rabbit_quorum_queue";
        assert_eq!(checked(CLIENT, "amq.gen-1", &unnamed), Err(Error::precondition(text)));
        assert_eq!(checked(CLIENT, "amq.gen-1", &QueueSpec::default()), Ok(()));
    }

    #[test]
    fn only_an_operator_restores_a_generated_name_and_neither_takes_another_reserved_one() {
        let operator = Declarer { client: None, is_operator: true, ..CLIENT };
        for (declarer, name, taken) in [
            (CLIENT, "q", true),
            (CLIENT, "amq.gen-1", false),
            (CLIENT, "amq.q", false),
            (operator, "amq.gen-1", true),
            (operator, "amq.q", false),
        ] {
            let spec = QueueSpec { name: name.to_owned(), ..QueueSpec::default() };
            assert_eq!(checked(declarer, name, &spec).is_ok(), taken, "{declarer:?} {name}");
        }
        let spec = ExchangeSpec { name: "x".to_owned(), kind: "odd".to_owned(), ..ExchangeSpec::default() };
        let text = |declarer: Declarer| declarer.exchange(("/", None), &spec).err().map(|error| error.text);
        assert_eq!(text(CLIENT).as_deref(), Some("unknown exchange type 'odd'"));
        assert_eq!(text(operator).as_deref(), Some("unknown exchange type 'odd' of exchange 'x'"));
    }

    #[test]
    fn a_note_needs_the_right_to_its_topic() {
        for (key, topic) in [
            ("a.b", "a.b"),
            ("$direct.a.#", "a.#"),
            ("$share.g.a.*", "a.*"),
            ("$direct.$share.g.a", "a"),
            ("$share.g", "$share.g"),
            ("$direct", "$direct"),
            ("x.$direct.a", "x.$direct.a"),
        ] {
            assert_eq!(topic_of_note(key), topic);
        }
    }
}
