//! A client of a test's broker that keeps what it is told as plain values.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::task::Waker;

use broker::{
    Client, Confirm, Consume, Counts, Credit, Error, ErrorKind, Event, Message, Publish, SessionId, Table,
    TransactionId,
};

use crate::broker::{TestBroker, WakeCount};

/// What a client was told.
#[derive(Debug, Clone, PartialEq)]
pub enum Seen {
    /// A message for a consumer.
    Delivery(Received),
    /// Everything up to this number.
    Confirmed(SessionId, u64),
    /// This publish was refused.
    Refused(SessionId, u64),
    /// This publish reached no queue: its number, and its message if it was returned.
    Unroutable(SessionId, Option<u64>, Option<String>),
    /// This consumer's queue is gone.
    Cancelled(SessionId, String),
    /// This consumer's queue has nothing more, and so much credit was unused.
    Drained(SessionId, String, u64),
    /// This transaction is durable.
    Committed(TransactionId),
    /// This one is undone.
    RolledBack(TransactionId, String),
    /// The session must close.
    Failed(SessionId, String),
    /// The session must close: a delivery was held for longer than so many milliseconds.
    Overdue(SessionId, u128),
    /// An alarm is up.
    Blocked(String),
    /// It is down.
    Unblocked,
    /// An operator closes the connection.
    Kicked(String),
}

/// A delivery or a fetched message.
#[derive(Debug, Clone, PartialEq)]
pub struct Received {
    /// The session.
    pub session: SessionId,
    /// The consumer's tag; empty for a fetched message.
    pub consumer: String,
    /// What it is settled by.
    pub tag: u64,
    /// It may have been delivered before.
    pub redelivered: bool,
    /// How often it came back.
    pub counts: Counts,
    /// Its body, without the dots at its end.
    pub body: String,
    /// Its deaths, newest first: queue, reason, count.
    pub deaths: Vec<(String, String, u64)>,
    /// What its consumer said at the newest of them.
    pub said: Option<String>,
    /// What consumers noted on it.
    pub noted: Table,
    /// Exchange and routing key.
    pub address: (String, String),
}

impl Received {
    /// Copies what matters of a delivery.
    pub fn of(delivery: &broker::Delivery<'_>) -> Self {
        let message = delivery.message;
        let annotations = message.annotations().unwrap_or_default();
        Self {
            session: delivery.session,
            consumer: delivery.consumer_tag.to_owned(),
            tag: delivery.tag,
            redelivered: delivery.redelivered,
            counts: delivery.counts,
            body: body_of(message),
            deaths: annotations
                .deaths
                .iter()
                .map(|death| (death.queue.clone(), death.reason.name().to_owned(), death.count))
                .collect(),
            said: annotations.said,
            noted: annotations.noted,
            address: (message.exchange().to_owned(), message.routing_key().to_owned()),
        }
    }
}

fn body_of(message: &Message) -> String {
    String::from_utf8_lossy(message.body()).trim_end_matches('.').to_owned()
}

/// As the codes and texts of AMQP 0-9-1, which are well known.
pub fn error_text(error: &Error) -> String {
    let code = match error.kind {
        ErrorKind::NotFound => 404,
        ErrorKind::AccessRefused => 403,
        ErrorKind::Precondition => 406,
        ErrorKind::Locked => 405,
        ErrorKind::NotAllowed => 530,
        ErrorKind::NotImplemented => 540,
        ErrorKind::ResourceLimit => 506,
        ErrorKind::Internal => 541,
    };
    format!("{code} {}", error.text)
}

/// `c:1=body`, with `!` when redelivered, `(n)` when it came back n times and all of that counts,
/// `(n/m)` when n of m do, `[q/reason*n …]` for its deaths, and what
/// was said at the last one.
impl fmt::Display for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}={}", self.consumer, self.tag, self.body)?;
        if self.redelivered {
            f.write_str("!")?;
        }
        match self.counts {
            Counts { delivery: None, acquired: None } => {}
            Counts { delivery: Some(count), acquired } if acquired.is_none_or(|acquired| acquired == count) => {
                write!(f, "({count})")?;
            }
            Counts { delivery, acquired } => {
                write!(f, "({}/{})", delivery.unwrap_or(0), acquired.unwrap_or(0))?;
            }
        }
        if !self.deaths.is_empty() {
            let deaths: Vec<_> =
                self.deaths.iter().map(|(queue, why, count)| format!("{queue}/{why}*{count}")).collect();
            write!(f, "[{}]", deaths.join(" "))?;
        }
        if let Some(said) = &self.said {
            write!(f, "\"{said}\"")?;
        }
        for (name, value) in &self.noted.0 {
            write!(f, " {name}={}", value.as_text().unwrap_or("…"))?;
        }
        Ok(())
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delivery(received) => received.fmt(f),
            Self::Confirmed(_, number) => write!(f, "+{number}"),
            Self::Refused(_, number) => write!(f, "-{number}"),
            Self::Unroutable(_, number, body) => {
                let number = number.map(|number| format!(" {number}")).unwrap_or_default();
                match body {
                    Some(body) => write!(f, "returned{number} {body}"),
                    None => write!(f, "unroutable{number}"),
                }
            }
            Self::Cancelled(_, tag) => write!(f, "cancelled {tag}"),
            Self::Drained(_, tag, unused) => write!(f, "drained {tag} {unused}"),
            Self::Committed(_) => f.write_str("committed"),
            Self::RolledBack(_, why) => write!(f, "rolled back: {why}"),
            Self::Failed(_, why) => write!(f, "failed: {why}"),
            Self::Overdue(_, timeout) => write!(f, "overdue {timeout} ms"),
            Self::Blocked(why) => write!(f, "blocked: {why}"),
            Self::Unblocked => f.write_str("unblocked"),
            Self::Kicked(why) => write!(f, "kicked: {why}"),
        }
    }
}

/// A client and its sessions, by the test's own numbers.
pub struct Peer {
    /// The client.
    pub client: Client,
    /// Sessions by the test's numbers.
    pub sessions: BTreeMap<u32, SessionId>,
    /// The last publish number of each session that confirms.
    numbers: BTreeMap<u32, u64>,
    /// The open transaction of each session.
    pub transactions: BTreeMap<u32, TransactionId>,
    /// The prefetch of later consumers of each session.
    pub windows: HashMap<SessionId, Option<NonZeroU32>>,
    /// Set when the broker wants it to drain.
    pub wakes: Arc<WakeCount>,
}

impl Peer {
    /// Attaches as `user`.
    ///
    /// # Errors
    /// The broker's.
    pub fn attach(broker: &TestBroker, user: &str) -> Result<Self, Error> {
        Self::attach_to(broker, user, "/")
    }

    /// Attaches as `user` to a vhost.
    ///
    /// # Errors
    /// The broker's.
    pub fn attach_to(broker: &TestBroker, user: &str, vhost: &str) -> Result<Self, Error> {
        let wakes = Arc::new(WakeCount::default());
        let client = broker.attach_to(user, vhost, Waker::from(Arc::clone(&wakes)))?;
        let (sessions, numbers, transactions, windows) = Default::default();
        Ok(Self { client, sessions, numbers, transactions, windows, wakes })
    }

    /// The session of this number, opened if need be.
    pub fn session(&mut self, number: u32) -> SessionId {
        let client = &mut self.client;
        *self.sessions.entry(number).or_insert_with(|| client.open_session(number))
    }

    /// Publishes in a session. Its publish is numbered if [`Peer::confirm`] was called for it.
    ///
    /// # Errors
    /// The broker's.
    pub fn publish(&mut self, session: SessionId, publish: Publish<'_>) -> Result<(), Error> {
        let Some(last) = self.numbers.get_mut(&session.0) else { return self.client.publish(session, publish) };
        self.client.publish(session, Publish { confirm: Confirm::Numbered(*last + 1), ..publish })?;
        *last += 1;
        Ok(())
    }

    /// Numbers the publishes of a session from here on.
    pub fn confirm(&mut self, session: SessionId) {
        self.numbers.entry(session.0).or_default();
    }

    /// Everything that waits for it.
    pub fn drain(&mut self, broker: &TestBroker) -> Vec<Seen> {
        let mut seen = Vec::new();
        loop {
            self.wakes.take();
            broker.page();
            if !self.drain_some(broker, &mut seen) && !self.wakes.take() {
                return seen;
            }
        }
    }

    /// Some of what waits for it, while nothing else happens; true if there is more.
    pub fn drain_some(&mut self, broker: &TestBroker, seen: &mut Vec<Seen>) -> bool {
        self.client.drain(broker.now(), 64 * 1024, &mut |event| seen.push(seen_of(event)))
    }

    /// Ends its turn, lets the disk and the background do theirs, and takes what it is told.
    ///
    /// # Panics
    /// If the journal does not take its records.
    pub fn turn(&mut self, broker: &TestBroker) -> Vec<Seen> {
        self.client.flush(broker.now());
        broker.flush();
        assert!(broker.background(100), "the journal takes its records");
        self.drain(broker)
    }

    /// Starts a consumer of its first session with a prefetch.
    ///
    /// # Panics
    /// If the broker refuses it.
    pub fn consume(&mut self, broker: &TestBroker, prefetch: u32, mut consume: Consume) {
        let (session, now) = (self.session(1), broker.now());
        if prefetch > 0 {
            consume.credit = window(prefetch);
        }
        self.client.consume(session, consume, now).expect("it may consume");
    }
}

/// A prefetch; 0 for none.
pub fn window(prefetch: u32) -> Credit {
    Credit::Window { most: NonZeroU32::new(prefetch) }
}

/// Copies what matters of an event.
pub fn seen_of(event: Event<'_>) -> Seen {
    match event {
        Event::Deliver(delivery) => Seen::Delivery(Received::of(&delivery)),
        Event::Confirmed { session, up_to } => Seen::Confirmed(session, up_to),
        Event::Refused { session, number, .. } => Seen::Refused(session, number),
        Event::Unroutable { session, number, message } => Seen::Unroutable(session, number, message.map(body_of)),
        Event::Cancelled { session, consumer_tag } => Seen::Cancelled(session, consumer_tag.to_owned()),
        Event::Drained { session, consumer_tag, unused } => Seen::Drained(session, consumer_tag.to_owned(), unused),
        Event::Committed { transaction } => Seen::Committed(transaction),
        Event::RolledBack { transaction, error } => Seen::RolledBack(transaction, error_text(&error)),
        Event::SessionFailed { session, error } => Seen::Failed(session, error_text(&error)),
        Event::Overdue { session, timeout } => Seen::Overdue(session, timeout.as_millis()),
        Event::Blocked { reason } => Seen::Blocked(reason.to_owned()),
        Event::Unblocked => Seen::Unblocked,
        Event::Kicked { reason } => Seen::Kicked(reason),
    }
}
