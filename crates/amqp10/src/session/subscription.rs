//! Subscriptions to topics that are more than a link: durable ones, and those that links share.
//!
//! Jakarta Messaging over AMQP names them by their links (amqp-bindmap-jms). An unshared one is
//! known by its container id and the whole name of its link. A shared one is known by what comes
//! before `|`, and by the container id unless it is `global`.

use broker::{ErrorKind, QueueSpec, Sharing, SubscriptionName, Table, Value};

use crate::codec::Symbols;
use crate::codec::error::condition;
use crate::codec::terminus::{Durability, ExpiryPolicy, Source};
use crate::session::error::Failure;

/// A terminus that may be used by several links.
pub(super) const SHARED: &str = "shared";
/// One that does not belong to a container.
pub(super) const GLOBAL: &str = "global";

/// Which subscription a link is of, and how long that lasts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) name: SubscriptionName,
    pub(super) sharing: Sharing,
    pub(super) lasts: Lasts,
    /// Whether it survives a restart.
    is_durable: bool,
}

/// How long a subscription lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lasts {
    /// Until it is ended by a detach that closes.
    Ended,
    /// The same, or until it has had no link for so many seconds.
    Seconds(u32),
    /// While it has links.
    Links,
}

/// A subscription that outlives its links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lasting {
    pub(super) name: SubscriptionName,
    pub(super) queue: String,
}

impl Identity {
    /// The subscription of a link; `None` if it lasts as long as the link and is not shared.
    pub(super) fn of(link: &str, container: &str, source: &Source<'_>) -> Result<Option<Self>, Failure> {
        let is_durable = source.durable != Durability::None;
        let lasts = match source.expiry_policy {
            ExpiryPolicy::Never => Lasts::Ended,
            _ if source.timeout > 0 => Lasts::Seconds(source.timeout),
            // Its end is told apart from its loss by the detach, so a durable one is kept.
            _ if is_durable => Lasts::Ended,
            _ => Lasts::Links,
        };
        let is_shared = source.capabilities.has(SHARED);
        if !is_shared && lasts == Lasts::Links {
            return Ok(None);
        }
        let mut name = name_of(link, container, source.capabilities);
        if name.name.is_empty() {
            return Err(Failure::invalid(format!("link '{link}' gives its subscription no name")));
        }
        if lasts == Lasts::Links {
            // A durable one of this name is another one.
            name.name.push_str("|volatile");
        }
        let sharing = if is_shared { Sharing::Shared } else { Sharing::Exclusive };
        Ok(Some(Self { name, sharing, lasts, is_durable }))
    }

    /// The queue behind it. The broker names it, so that no two names run together.
    pub(super) fn queue(&self) -> QueueSpec {
        let mut arguments = counting();
        if let Lasts::Seconds(seconds) = self.lasts {
            arguments.0.push(("x-expires".into(), Value::I64(i64::from(seconds) * 1000)));
        }
        let auto_delete = self.lasts == Lasts::Links;
        QueueSpec { durable: self.is_durable && !auto_delete, auto_delete, arguments, ..QueueSpec::default() }
    }

    /// The source that is in force.
    pub(super) fn shown<'a>(&self, source: &Source<'a>) -> Source<'a> {
        match self.lasts {
            Lasts::Ended => Source { expiry_policy: ExpiryPolicy::Never, timeout: 0, ..*source },
            Lasts::Seconds(_) => *source,
            Lasts::Links => Source { durable: Durability::None, ..*source },
        }
    }
}

/// The argument of a queue that counts how often each message failed.
pub(super) const COUNT: &str = "x-count-returns";

/// The arguments of a queue that does nothing besides.
pub(super) fn counting() -> Table {
    Table(vec![(COUNT.to_owned(), Value::Bool(true))])
}

/// What a link with these capabilities calls its subscription.
pub(super) fn name_of(link: &str, container: &str, capabilities: Symbols<'_>) -> SubscriptionName {
    if !capabilities.has(SHARED) {
        return SubscriptionName { client: Some(container.to_owned()), name: link.to_owned() };
    }
    let name = link.split_once('|').map_or(link, |(name, _)| name).to_owned();
    let client = (!capabilities.has(GLOBAL)).then(|| container.to_owned());
    SubscriptionName { client, name }
}

/// Why a subscription can't be as it is asked for, in the words of Jakarta Messaging.
pub(super) fn refused(error: broker::Error) -> Failure {
    match error.kind {
        _ if error.text.contains("x-selector") => Failure::invalid(error.text),
        ErrorKind::Precondition => Failure::new(condition::ILLEGAL_STATE, error.text),
        _ => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subscription_is_known_by_its_link_and_its_container() {
        let (durable, volatile) = (Durability::UnsettledState, Durability::None);
        for (link, capabilities, durability, expected) in [
            ("s", &["topic"][..], volatile, None),
            ("s", &["topic"], durable, Some((Some("c"), "s", Sharing::Exclusive, Lasts::Ended))),
            ("s|2", &["topic"], durable, Some((Some("c"), "s|2", Sharing::Exclusive, Lasts::Ended))),
            ("s|2", &["topic", "shared"], durable, Some((Some("c"), "s", Sharing::Shared, Lasts::Ended))),
            ("s|global2", &["topic", "shared", "global"], durable, Some((None, "s", Sharing::Shared, Lasts::Ended))),
            ("s", &["topic", "global"], durable, Some((Some("c"), "s", Sharing::Exclusive, Lasts::Ended))),
            (
                "s|volatile1",
                &["topic", "shared"],
                volatile,
                Some((Some("c"), "s|volatile", Sharing::Shared, Lasts::Links)),
            ),
        ] {
            let symbols = Symbols::of(capabilities);
            let source = Source { capabilities: symbols, durable: durability, ..Source::default() };
            let found = Identity::of(link, "c", &source).unwrap();
            let found = found
                .as_ref()
                .map(|found| (found.name.client.as_deref(), found.name.name.as_str(), found.sharing, found.lasts));
            assert_eq!(found, expected, "{link} {capabilities:?}");
        }
        let source = Source { capabilities: Symbols::of(&["shared"]), ..Source::default() };
        assert!(Identity::of("|2", "c", &source).is_err());
    }

    #[test]
    fn how_long_it_lasts_is_said_by_durability_and_expiry() {
        use {ExpiryPolicy as Expiry, Lasts::*};
        for (durability, expiry_policy, timeout, expected) in [
            (Durability::UnsettledState, Expiry::Never, 0, Some((true, false, None))),
            (Durability::UnsettledState, Expiry::SessionEnd, 0, Some((true, false, None))),
            (Durability::Configuration, Expiry::LinkDetach, 5, Some((true, false, Some(5000)))),
            (Durability::None, Expiry::Never, 0, Some((false, false, None))),
            (Durability::None, Expiry::SessionEnd, 0, None),
        ] {
            let source = Source { durable: durability, expiry_policy, timeout, ..Source::default() };
            let found = Identity::of("s", "c", &source).unwrap();
            let queue = found.map(|found| {
                let QueueSpec { durable, auto_delete, arguments, .. } = found.queue();
                let expires = arguments.0.get(1).map(|(name, value)| match value {
                    broker::Value::I64(ms) if &**name == "x-expires" => *ms,
                    other => panic!("{name} {other:?}"),
                });
                (durable, auto_delete, expires)
            });
            assert_eq!(queue, expected, "{durability:?} {expiry_policy:?} {timeout}");
        }
        let shared = Source { capabilities: Symbols::of(&["shared"]), ..Source::default() };
        let volatile = Identity::of("s", "c", &shared).unwrap().unwrap();
        assert_eq!((volatile.lasts, volatile.queue().auto_delete), (Links, true));
    }
}
