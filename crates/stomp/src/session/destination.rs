//! Destinations: the meaning of a `destination` header, and the destination that a delivery shows.
//!
//! The syntax is that of RabbitMQ's STOMP plugin; `%2F` is a slash within a name.

use std::borrow::Cow;

use super::error::Failure;

/// The exchange behind `/topic`.
pub(super) const TOPIC_EXCHANGE: &str = "amq.topic";

/// The target of a SEND or the source of a SUBSCRIBE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Destination<'a> {
    /// `/queue/NAME`, or NAME alone: a queue that is declared if it does not exist.
    Queue(Cow<'a, str>),
    /// `/amq/queue/NAME`: a queue that must exist.
    ExistingQueue(Cow<'a, str>),
    /// `/topic/KEY`: the topic exchange.
    Topic(Cow<'a, str>),
    /// `/exchange/NAME[/KEY]`: an exchange that must exist. Without a key the key is empty.
    Exchange(Cow<'a, str>, Cow<'a, str>),
    /// `/temp-queue/NAME`: a queue of this connection alone.
    Temporary(Cow<'a, str>),
    /// `/reply-queue/NAME`: the temporary queue of a requester, as its `reply-to` names it.
    Reply(Cow<'a, str>),
}

/// The meaning of a name without a path: the words are Artemis's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Routing {
    /// `ANYCAST`: a queue.
    Queue,
    /// `MULTICAST`: a topic.
    Topic,
}

impl Routing {
    pub(super) fn parse(header: &str, value: &str) -> Result<Self, Failure> {
        match value {
            "ANYCAST" => Ok(Self::Queue),
            "MULTICAST" => Ok(Self::Topic),
            other => Err(Failure::invalid(header, "ANYCAST or MULTICAST", other)),
        }
    }
}

/// Prefixes of names that clients of ActiveMQ and Artemis use, and the meaning of the rest.
const PREFIXES: [(&str, Routing); 4] = [
    ("queue://", Routing::Queue),
    ("topic://", Routing::Topic),
    ("jms.queue.", Routing::Queue),
    ("jms.topic.", Routing::Topic),
];

impl<'a> Destination<'a> {
    /// Parses a destination; `routing` gives the meaning of a name that may be a queue or a topic.
    pub(super) fn parse(text: &'a str, routing: Option<Routing>) -> Result<Self, Failure> {
        let prefixed = PREFIXES.iter().find_map(|(prefix, meant)| Some((text.strip_prefix(prefix)?, *meant)));
        let destination = match (prefixed, text.strip_prefix('/')) {
            (Some((rest, meant)), _) => Self::plain(rest, text, meant)?,
            (None, None) => return Self::plain(text, text, routing.unwrap_or(Routing::Queue)),
            (None, Some(path)) => Self::path(path, text)?,
        };
        let is_topic = matches!(destination, Self::Topic(_) | Self::Exchange(..));
        if routing.is_some_and(|routing| (routing == Routing::Topic) != is_topic) {
            let detail = format!("'{text}' says itself what it is; leave the header that says otherwise out");
            return Err(Failure::new("Invalid destination", detail));
        }
        Ok(destination)
    }

    /// A name without a path.
    fn plain(name: &'a str, text: &str, routing: Routing) -> Result<Self, Failure> {
        if name.is_empty() {
            return Err(Failure::new("Invalid destination", "the destination must not be empty"));
        }
        if name.contains('/') {
            return Err(unknown(text));
        }
        Ok(match routing {
            Routing::Queue => Self::Queue(unescape(name)),
            Routing::Topic => Self::Topic(unescape(name)),
        })
    }

    fn path(path: &'a str, text: &str) -> Result<Self, Failure> {
        let (kind, rest) = path.split_once('/').unwrap_or((path, ""));
        match kind {
            "queue" => Ok(Self::Queue(name(rest, "queue")?)),
            "topic" => Ok(Self::Topic(name(rest, "topic")?)),
            "temp-queue" => Ok(Self::Temporary(name(rest, "temp-queue")?)),
            "reply-queue" => Ok(Self::Reply(name(rest, "reply-queue")?)),
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

    /// Whether it is a queue, which exists without a subscription.
    pub(super) fn lasts(&self) -> bool {
        !matches!(self, Self::Topic(_) | Self::Exchange(..))
    }

    /// The exchange and the routing key of a SEND to it.
    pub(super) fn address(&self) -> (&str, &str) {
        match self {
            Self::Queue(name) | Self::ExistingQueue(name) | Self::Temporary(name) | Self::Reply(name) => ("", name),
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
    Failure::new(
        "Unknown destination",
        format!(
            "'{text}' is not a valid destination. Valid destinations are /queue/NAME, /topic/KEY, /exchange/NAME, \
             /exchange/NAME/KEY, /amq/queue/NAME, /temp-queue/NAME and /reply-queue/NAME."
        ),
    )
}

/// The pattern of a subscription to a topic. ActiveMQ's final `>` is `#` here.
pub(super) fn pattern(key: &str) -> Cow<'_, str> {
    match key.strip_suffix('>') {
        Some(rest) if rest.is_empty() || rest.ends_with('.') => Cow::Owned(format!("{rest}#")),
        _ => Cow::Borrowed(key),
    }
}

/// Appends the destination of a message with this exchange and this key. A SEND to it would have
/// the same exchange and key.
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
            ("/reply-queue/amq.gen-x", "", "amq.gen-x"),
            ("queue://a", "", "a"),
            ("topic://a.b", "amq.topic", "a.b"),
            ("jms.queue.a.b", "", "a.b"),
            ("jms.topic.a.b", "amq.topic", "a.b"),
        ] {
            let destination = Destination::parse(text, None).unwrap();
            assert_eq!(destination.address(), (exchange, key), "{text}");
            let mut shown = String::new();
            show(exchange, key, &mut shown);
            assert_eq!(Destination::parse(&shown, None).unwrap().address(), (exchange, key), "{shown}");
        }
    }

    #[test]
    fn a_name_alone_is_what_its_routing_type_says() {
        use Routing::{Queue, Topic};
        for (text, routing, exchange) in [
            ("a", Some(Queue), Some("")),
            ("a", Some(Topic), Some("amq.topic")),
            ("/queue/a", Some(Queue), Some("")),
            ("/queue/a", Some(Topic), None),
            ("/topic/a", Some(Topic), Some("amq.topic")),
            ("/topic/a", Some(Queue), None),
            ("queue://a", Some(Topic), None),
            ("topic://a", Some(Topic), Some("amq.topic")),
            ("/exchange/e/k", Some(Topic), Some("e")),
        ] {
            let found = Destination::parse(text, routing).ok().map(|found| found.address().0.to_owned());
            assert_eq!(found.as_deref(), exchange, "{text} {routing:?}");
        }
        assert_eq!(Routing::parse("destination-type", "ANYCAST").ok(), Some(Queue));
        assert_eq!(Routing::parse("destination-type", "MULTICAST").ok(), Some(Topic));
        assert!(Routing::parse("destination-type", "both").is_err());
    }

    #[test]
    fn patterns_of_activemq_end_as_they_do_here() {
        for (key, expected) in [("a.>", "a.#"), (">", "#"), ("a>", "a>"), ("a.*.b", "a.*.b"), ("a.#", "a.#"), ("", "")]
        {
            assert_eq!(pattern(key), expected, "{key}");
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
            "/temp-queue/",
            "/temp-topic/x",
            "/dsub/x",
            "queue://",
            "topic://a/b",
        ] {
            let failure = Destination::parse(text, None).unwrap_err().summary();
            assert!(failure.contains("destination"), "{failure}");
        }
    }
}
