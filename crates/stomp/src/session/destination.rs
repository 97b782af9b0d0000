//! Destinations: what a `destination` header names, and the one that a delivery is shown with.
//!
//! The syntax is that of RabbitMQ's STOMP plugin; `%2F` stands for a slash within a name.

use std::borrow::Cow;

use super::error::Failure;

/// The exchange behind `/topic`.
pub(super) const TOPIC_EXCHANGE: &str = "amq.topic";

/// Where a SEND goes or a SUBSCRIBE takes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Destination<'a> {
    /// `/queue/NAME`, or NAME alone: a queue that is declared when it is not there.
    Queue(Cow<'a, str>),
    /// `/amq/queue/NAME`: a queue that must exist.
    ExistingQueue(Cow<'a, str>),
    /// `/topic/KEY`: the topic exchange.
    Topic(Cow<'a, str>),
    /// `/exchange/NAME[/KEY]`: an exchange that must exist. Without a key the key is empty.
    Exchange(Cow<'a, str>, Cow<'a, str>),
}

impl<'a> Destination<'a> {
    pub(super) fn parse(text: &'a str) -> Result<Self, Failure> {
        let Some(path) = text.strip_prefix('/') else {
            return match text {
                "" => Err(Failure::new("Invalid destination", "the destination must not be empty")),
                name if name.contains('/') => Err(unknown(text)),
                name => Ok(Self::Queue(unescape(name))),
            };
        };
        let (kind, rest) = path.split_once('/').unwrap_or((path, ""));
        match kind {
            "queue" => Ok(Self::Queue(name(rest, "queue")?)),
            "topic" => Ok(Self::Topic(name(rest, "topic")?)),
            "exchange" => match rest.split_once('/') {
                None => Ok(Self::Exchange(name(rest, "exchange")?, Cow::Borrowed(""))),
                Some((exchange, key)) if !key.contains('/') => {
                    Ok(Self::Exchange(name(exchange, "exchange")?, unescape(key)))
                }
                Some(_) => Err(invalid(rest, "exchange")),
            },
            "amq" => match rest.strip_prefix("queue/") {
                Some(rest) => Ok(Self::ExistingQueue(name(rest, "amq/queue")?)),
                None => Err(unknown(text)),
            },
            _ => Err(unknown(text)),
        }
    }

    /// The exchange and the routing key that a SEND to it publishes with.
    pub(super) fn address(&self) -> (&str, &str) {
        match self {
            Self::Queue(name) | Self::ExistingQueue(name) => ("", name),
            Self::Topic(key) => (TOPIC_EXCHANGE, key),
            Self::Exchange(exchange, key) => (exchange, key),
        }
    }
}

fn name<'a>(text: &'a str, kind: &str) -> Result<Cow<'a, str>, Failure> {
    if text.is_empty() || text.contains('/') {
        return Err(invalid(text, kind));
    }
    Ok(unescape(text))
}

fn unescape(text: &str) -> Cow<'_, str> {
    if text.contains("%2F") { Cow::Owned(text.replace("%2F", "/")) } else { Cow::Borrowed(text) }
}

fn invalid(text: &str, kind: &str) -> Failure {
    Failure::new(
        "Invalid destination",
        format!("'/{text}' is not a valid {kind} destination; write a slash within a name as %2F"),
    )
}

fn unknown(text: &str) -> Failure {
    let hint = if text.starts_with("/temp-queue/") || text.starts_with("/reply-queue/") {
        "; temporary queues are not supported yet"
    } else {
        ""
    };
    Failure::new(
        "Unknown destination",
        format!(
            "'{text}' is not a valid destination{hint}. Valid destinations are /queue/NAME, /topic/KEY, \
             /exchange/NAME, /exchange/NAME/KEY and /amq/queue/NAME."
        ),
    )
}

/// Appends the destination that a message published to this exchange with this key is shown with: the one that a SEND
/// of the same would name.
pub(super) fn show(exchange: &str, key: &str, text: &mut String) {
    match exchange {
        "" => text.push_str("/queue/"),
        TOPIC_EXCHANGE => text.push_str("/topic/"),
        exchange => {
            text.push_str("/exchange/");
            escape(exchange, text);
            if key.is_empty() {
                return;
            }
            text.push('/');
        }
    }
    escape(key, text);
}

fn escape(name: &str, text: &mut String) {
    for (number, part) in name.split('/').enumerate() {
        if number > 0 {
            text.push_str("%2F");
        }
        text.push_str(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_name_exchanges_and_keys() {
        for (text, exchange, key) in [
            ("/queue/a", "", "a"),
            ("a.b", "", "a.b"),
            ("/queue/a%2Fb", "", "a/b"),
            ("/amq/queue/a", "", "a"),
            ("/topic/a.*.#", "amq.topic", "a.*.#"),
            ("/exchange/logs", "logs", ""),
            ("/exchange/logs/", "logs", ""),
            ("/exchange/logs/a%2Fb", "logs", "a/b"),
        ] {
            let destination = Destination::parse(text).unwrap();
            assert_eq!(destination.address(), (exchange, key), "{text}");
            let mut shown = String::new();
            show(exchange, key, &mut shown);
            assert_eq!(Destination::parse(&shown).unwrap().address(), (exchange, key), "{shown}");
        }
    }

    #[test]
    fn anything_else_is_refused_by_name() {
        for text in [
            "",
            "/",
            "a/b",
            "/queue",
            "/queue/",
            "/queue/a/b",
            "/topic/",
            "/exchange",
            "/exchange//k",
            "/exchange/a/b/c",
            "/amq/topic/x",
            "/amq/queue/",
            "/temp-queue/x",
            "/reply-queue/x",
            "/dsub/x",
        ] {
            let failure = Destination::parse(text).unwrap_err().summary();
            assert!(failure.contains("destination"), "{failure}");
        }
        assert!(Destination::parse("/temp-queue/x").unwrap_err().summary().contains("temporary queues"));
    }
}
