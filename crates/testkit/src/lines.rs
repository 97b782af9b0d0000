//! A protocol of text lines. It shows that a protocol is a folder and a row: it needs nothing but
//! what `front` and the broker offer to all.
//!
//! Requests, `-` standing for none: `login USER PASSWORD`, `queue NAME`, `publish NUMBER KEY BODY`,
//! to a queue, or with `topic/` before it a topic, or with `retained/` a topic whose value it
//! becomes,
//! `consume QUEUE TAG WINDOW`, without a window for granted credit, `browse QUEUE TAG LEFT`,
//! `subscribe CLIENT NAME TOPIC TAG WINDOW`, shared where there is no client, with `retained`
//! behind it for the retained messages too, `unsubscribe CLIENT NAME`,
//! `listen TOPIC TAG`, without a queue and with retained messages,
//! `grant TAG LEFT`, `drain TAG LEFT`, `settle FIRST LAST OUTCOME`, with `NAME=VALUE` behind it to
//! note on what is modified, `cancel TAG`, `bye`. What is
//! answered is in [`Open::write`] and behind each request. An error other than that of a publish
//! ends the connection.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use auth::sasl::Mechanism;
use broker::{
    Awaited, Broker, Client, Confirm, Consume, ConsumerArguments, Credit, DirectSource, Error, Event, Mode, Outcome,
    Publish, QueueSpec, Refusal, Rest, RetainedWanted, SessionId, Sharing, Source, Subscribed, SubscriptionFilter,
    SubscriptionName, SubscriptionSpec, Table, Tags, Terms, Unroutable, Value,
};
use front::{Conversation, End, Label, Line, Parts, PendingLogin, Turns, View, Wish, Words};
use wire::{CloseReason, Connection, Output, Peer, Protocol, ReadState, Recognition};

use crate::broker::TextDialect;

/// The exchange of its topics.
const TOPICS: &str = "amq.topic";
/// Longest line in bytes.
const LINE: usize = 1024;
/// How long a log-in may take.
const HANDSHAKE: Duration = Duration::from_secs(10);

const WORDS: Words = Words {
    protocol: "lines",
    login_refused: "login refused",
    names_mechanism: true,
    refused: "connection refused",
    opened: "connection open",
};

/// The protocol, as a listener serves it.
#[derive(Clone)]
pub struct Lines {
    broker: Broker,
}

impl Lines {
    /// Serves `broker`, which must know [`TextDialect`].
    pub fn new(broker: Broker) -> Self {
        Self { broker }
    }
}

impl Protocol for Lines {
    fn name(&self) -> &'static str {
        WORDS.protocol
    }

    fn recognise(&self, first: &[u8]) -> Recognition {
        const FIRST: &[u8] = b"login ";
        let known = first.len().min(FIRST.len());
        match first[..known] == FIRST[..known] {
            false => Recognition::No,
            true if known < FIRST.len() => Recognition::Incomplete,
            true => Recognition::Yes,
        }
    }

    fn accept(&self, peer: Peer, waker: Waker, now: Instant) -> Box<dyn Connection> {
        let line = Line::new(peer, waker, &WORDS, now + HANDSHAKE, now);
        let (output, phase) = (Output::default(), Phase::Greeting);
        Box::new(Turns(Speaker { broker: self.broker.clone(), line, output, phase, last: "" }))
    }
}

enum Phase {
    /// Only `login` is accepted.
    Greeting,
    /// The password is being checked.
    Checking(PendingLogin),
    Open(Box<Open>),
    /// The last line is in the output.
    Answered,
}

struct Speaker {
    broker: Broker,
    line: Line,
    output: Output,
    phase: Phase,
    last: &'static str,
}

/// A client that has logged in.
struct Open {
    client: Client,
    session: SessionId,
    /// The answer that must wait, and what for. Nothing is taken meanwhile.
    answer: Option<(Awaited, String)>,
    /// The answer is the last one.
    leaving: bool,
}

/// Why a connection ends.
struct Failure(String);

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self(format!("{:?}", error.kind))
    }
}

impl Speaker {
    fn put(&mut self, line: &str) {
        put(&mut self.output, line);
    }

    fn fail(&mut self, why: &str) {
        self.put(&format!("error {why}"));
        self.leave();
    }

    fn leave(&mut self) {
        if let Phase::Open(open) = std::mem::replace(&mut self.phase, Phase::Answered) {
            self.line.leave(open.client);
        }
    }

    fn handle(&mut self, request: &str, now: Instant) -> Result<(), Failure> {
        let words: Vec<&str> = request.split(' ').collect();
        match (&mut self.phase, &words[..]) {
            (Phase::Greeting, ["login", user, password]) => {
                self.last = "login";
                let entrance = self.line.entrance(&self.broker);
                self.phase = Phase::Checking(entrance.log_in(Mechanism::Plain, user, password.as_bytes(), now));
                self.finish_login()
            }
            (Phase::Open(open), words) => {
                self.last = open.handle(words, &mut self.output, now)?;
                Ok(())
            }
            _ => Err(Failure("log in first".into())),
        }
    }

    fn finish_login(&mut self) -> Result<(), Failure> {
        let Phase::Checking(login) = &self.phase else { return Ok(()) };
        let entrance = self.line.entrance(&self.broker);
        let Some(outcome) = login.take(entrance) else { return Ok(()) };
        let identity = outcome.map_err(|_| Failure("refused".into()))?;
        let terms = Terms { mechanism: login.mechanism().name(), ..Terms::default() };
        let wish = Wish { vhost: "/".into(), name: None, properties: Table::default(), terms };
        let mut client = entrance.attach(identity, wish)?;
        entrance.note_open(&client, Label::Name(None));
        let session = client.open_session(1);
        self.phase = Phase::Open(Box::new(Open { client, session, answer: None, leaving: false }));
        self.line.phase_ends = None;
        self.put("ok");
        Ok(())
    }
}

impl Open {
    /// Carries out a request and returns its name.
    fn handle(&mut self, words: &[&str], output: &mut Output, now: Instant) -> Result<&'static str, Failure> {
        let Self { client, session, .. } = self;
        let session = *session;
        match *words {
            ["queue", name] => {
                let spec = QueueSpec { name: name.into(), durable: true, ..QueueSpec::default() };
                let declared = client.declare_queue(&spec, now)?;
                self.answer = Some((declared.ticket.into(), format!("queue {name}")));
                Ok("queue")
            }
            ["publish", number, key, body] => {
                self.publish(number, key, body)?;
                Ok("publish")
            }
            ["consume", queue, tag, window] => {
                let credit = match window {
                    "-" => Credit::Granted { left: 0, rest: Rest::Kept },
                    window => Credit::Window { most: NonZeroU32::new(number(window)?) },
                };
                let (source, tag) = (queue.into(), tag.into());
                client.consume(session, Consume { source, tag, credit, ..Consume::default() }, now)?;
                Ok("consume")
            }
            ["listen", topic, tag] => {
                self.listen(topic, tag, now)?;
                Ok("listen")
            }
            ["browse", queue, tag, left] => {
                self.browse(queue, tag, number(left)?, now)?;
                Ok("browse")
            }
            ["subscribe", client_id, name, topic, tag, window, ref rest @ ..] => {
                let wanted = (topic, retained(rest)?);
                self.subscribe(subscription(client_id, name), wanted, tag, number(window)?, now)?;
                Ok("subscribe")
            }
            ["unsubscribe", client_id, name] => {
                let identity = subscription(client_id, name);
                let ticket = client.unsubscribe(&identity, &identity.to_string(), now)?;
                self.answer = Some((ticket.into(), format!("unsubscribed {name}")));
                Ok("unsubscribe")
            }
            ["grant", tag, left] => {
                client.set_credit(session, tag, Credit::Granted { left: number(left)?, rest: Rest::Kept }, now);
                Ok("grant")
            }
            ["drain", tag, left] => {
                client.set_credit(session, tag, Credit::Granted { left: number(left)?, rest: Rest::Drained }, now);
                Ok("drain")
            }
            ["settle", first, last, named, ref noted @ ..] => {
                let tags = Tags::Range { first: number(first)?, last: number(last)? };
                client.settle(session, tags, &outcome(named, noted)?)?;
                Ok("settle")
            }
            ["cancel", tag] => {
                let ticket = client.cancel(session, tag, now, &mut |event| drop(Self::write(output, event)));
                self.answer = Some((ticket.into(), format!("cancelled {tag}")));
                Ok("cancel")
            }
            ["bye"] => {
                self.answer = Some((client.close(now), "bye".into()));
                self.leaving = true;
                Ok("bye")
            }
            _ => Err(Failure(format!("no request {}", words.join(" ")))),
        }
    }

    /// Consumes what is published to a topic, without a queue.
    fn listen(&mut self, topic: &str, tag: &str, now: Instant) -> Result<(), Failure> {
        let filter = SubscriptionFilter { exchange: TOPICS.into(), key: topic.into(), ..Default::default() };
        let source = DirectSource { filters: vec![filter], retained: RetainedWanted::OfAll };
        let (source, tag) = (Source::Direct(source), tag.into());
        self.client.consume(self.session, Consume { source, tag, no_ack: true, ..Consume::default() }, now)?;
        Ok(())
    }

    /// Shows messages of a queue, and takes none.
    fn browse(&mut self, queue: &str, tag: &str, left: u32, now: Instant) -> Result<(), Failure> {
        let arguments = Ok(ConsumerArguments { mode: Mode::Browse, ..ConsumerArguments::default() });
        let (source, tag) = (queue.into(), tag.into());
        let credit = Credit::Granted { left, rest: Rest::Kept };
        let consume = Consume { source, tag, no_ack: true, credit, arguments, ..Consume::default() };
        self.client.consume(self.session, consume, now)?;
        Ok(())
    }

    fn publish(&mut self, asked: &str, routing_key: &str, body: &str) -> Result<(), Failure> {
        let (confirm, unroutable) = match asked {
            "-" => (Confirm::None, Unroutable::Drop),
            asked => (Confirm::Numbered(number(asked)?), Unroutable::Tell),
        };
        let retained = routing_key.strip_prefix("retained/");
        let topic = retained.or_else(|| routing_key.strip_prefix("topic/"));
        let (exchange, routing_key) = topic.map_or(("", routing_key), |key| (TOPICS, key));
        let publish = Publish {
            exchange,
            routing_key,
            dialect: TextDialect::ID,
            properties: if retained.is_some() { b"x-retain=true\n" } else { b"" },
            persistent: true,
            priority: None,
            expiration: None,
            body: body.as_bytes().into(),
            confirm,
            unroutable,
            copies: false,
            instructed: retained.is_some(),
        };
        match (self.client.publish(self.session, publish), confirm) {
            (Err(error), Confirm::Numbered(number)) => Ok(self.client.refuse(self.session, number, error.kind)?),
            (published, _) => Ok(published?),
        }
    }

    /// Begins a durable subscription to a topic, or finds it again, and consumes from it.
    fn subscribe(
        &mut self,
        name: SubscriptionName,
        (topic, retained): (&str, RetainedWanted),
        tag: &str,
        window: u32,
        now: Instant,
    ) -> Result<(), Failure> {
        let sharing = if name.client.is_some() { Sharing::Exclusive } else { Sharing::Shared };
        let filter = SubscriptionFilter { exchange: TOPICS.into(), key: topic.into(), arguments: Table::default() };
        let queue = QueueSpec { name: name.to_string(), durable: true, ..QueueSpec::default() };
        let spec = SubscriptionSpec {
            name,
            sharing,
            selector: String::new(),
            expires: None,
            filters: vec![filter],
            retained,
            queue,
        };
        let Subscribed { name, ticket, .. } = self.client.subscribe(&spec, now)?;
        self.answer = Some((ticket.into(), format!("subscribed {tag}")));
        let (source, credit) = (Source::Subscription(name), Credit::Window { most: NonZeroU32::new(window) });
        let consume = Consume { source, tag: tag.into(), credit, ..Consume::default() };
        self.client.consume(self.session, consume, now)?;
        Ok(())
    }

    /// Writes an event as a line.
    fn write(output: &mut Output, event: Event<'_>) -> Result<(), Failure> {
        match event {
            Event::Deliver(delivery) => {
                let (consumer, tag) = (delivery.consumer_tag, delivery.tag);
                let body = String::from_utf8_lossy(delivery.message.body());
                let again = if delivery.redelivered { " again" } else { "" };
                let retained = if delivery.message.is_retained() { " retained" } else { "" };
                output.put(format!("{consumer} {tag} {body}{again}{retained}").as_bytes());
                for (name, value) in delivery.message.annotations().unwrap_or_default().noted.0 {
                    output.put(format!(" {name}={}", value.as_text().unwrap_or_default()).as_bytes());
                }
                output.put(b"\n");
            }
            Event::Confirmed { up_to, .. } => put(output, &format!("accepted to {up_to}")),
            Event::Refused { number, why, .. } => match why {
                Refusal::Error(kind) => put(output, &format!("refused {number} {kind:?}")),
                why => put(output, &format!("refused {number} {why:?}")),
            },
            Event::Unroutable { number, .. } => {
                number.into_iter().for_each(|number| put(output, &format!("unroutable {number}")));
            }
            Event::Cancelled { consumer_tag, .. } => put(output, &format!("cancelled {consumer_tag}")),
            Event::Drained { consumer_tag, unused, .. } => put(output, &format!("drained {consumer_tag} {unused}")),
            Event::Blocked { reason } => put(output, &format!("blocked {reason}")),
            Event::Unblocked => put(output, "unblocked"),
            Event::SessionFailed { error, .. } => return Err(error.into()),
            Event::Overdue { .. } => return Err(Failure("overdue".into())),
            Event::Kicked { reason } => return Err(Failure(reason)),
            // It has no transactions.
            Event::Committed { .. } | Event::RolledBack { .. } => {}
        }
        Ok(())
    }
}

/// The retained messages that the last words of a subscription ask for.
fn retained(words: &[&str]) -> Result<RetainedWanted, Failure> {
    match words {
        [] => Ok(RetainedWanted::None),
        ["retained"] => Ok(RetainedWanted::OfAll),
        other => Err(Failure(format!("no subscription {}", other.join(" ")))),
    }
}

fn subscription(client_id: &str, name: &str) -> SubscriptionName {
    let client = Some(client_id.to_owned()).filter(|id| id != "-");
    SubscriptionName { client, name: name.to_owned() }
}

fn put(output: &mut Output, line: &str) {
    output.put(line.as_bytes());
    output.put(b"\n");
    output.count_answer(line.len() + 1);
}

/// The outcome of this name, with `NAME=VALUE` to note on what is modified.
fn outcome(named: &str, noted: &[&str]) -> Result<Outcome, Failure> {
    let noted = noted.iter().filter_map(|noted| noted.split_once('='));
    let noted = noted.map(|(name, value)| (name.to_owned(), Value::Text(value.to_owned())));
    let modified = |failed, elsewhere| Outcome::Modified {
        failed,
        elsewhere,
        annotations: Some(Arc::new(Table(noted.collect()))).filter(|noted| !noted.is_empty()),
    };
    Ok(match named {
        "accepted" => Outcome::Accepted,
        "released" => Outcome::Released,
        "modified" => modified(false, false),
        "failed" => modified(true, false),
        "elsewhere" => modified(true, true),
        "rejected" => Outcome::REJECTED,
        other => return Err(Failure(format!("no outcome {other}"))),
    })
}

fn number<N: std::str::FromStr>(word: &str) -> Result<N, Failure> {
    word.parse().map_err(|_| Failure(format!("no number {word}")))
}

impl Conversation for Speaker {
    const BEAT: &'static [u8] = b"\n";

    fn parts(&mut self) -> Parts<'_> {
        let client = match &mut self.phase {
            Phase::Open(open) => Some(&mut open.client),
            Phase::Greeting | Phase::Checking(_) | Phase::Answered => None,
        };
        Parts { line: &mut self.line, client, output: &mut self.output }
    }

    fn view(&self) -> View<'_> {
        let (client, state) = match &self.phase {
            Phase::Greeting => (None, ReadState::Handshake),
            Phase::Checking(_) => (None, ReadState::Pause),
            Phase::Open(open) if open.answer.is_some() => (Some(&open.client), ReadState::Pause),
            Phase::Open(open) => (Some(&open.client), ReadState::Read),
            Phase::Answered => (None, ReadState::Answered),
        };
        View { line: &self.line, client, output: &self.output, state }
    }

    fn last(&self) -> &'static str {
        self.last
    }

    fn take(&mut self, input: &[u8], now: Instant) -> usize {
        let Some(end) = input.iter().take(LINE).position(|byte| *byte == b'\n') else {
            if input.len() >= LINE {
                self.fail("a line is too long");
            }
            return 0;
        };
        let handled = match std::str::from_utf8(&input[..end]) {
            Ok(request) => self.handle(request, now),
            Err(_) => Err(Failure("a line is not text".into())),
        };
        if let Err(Failure(why)) = handled {
            self.fail(&why);
        }
        end + 1
    }

    fn report(&mut self, room: usize, now: Instant) -> bool {
        if let Err(Failure(why)) = self.finish_login() {
            self.fail(&why);
        }
        let Phase::Open(open) = &mut self.phase else { return false };
        let (output, mut result) = (&mut self.output, Ok(()));
        let more = open.client.drain(now, room, &mut |event| {
            if result.is_ok() {
                result = Open::write(output, event);
            }
        });
        if let Err(Failure(why)) = result {
            self.fail(&why);
            return false;
        }
        let Open { client, answer, leaving, .. } = &mut **open;
        if let Some((_, answer)) = answer.take_if(|(awaited, _)| client.durable(*awaited)) {
            put(output, &answer);
            if *leaving {
                self.leave();
            }
        }
        more
    }

    fn end(&mut self, why: End, _: Instant) {
        match why {
            End::Late => self.fail("late"),
            End::Silent => self.fail("silent"),
            End::Asked(CloseReason::Gone) => self.leave(),
            End::Asked(CloseReason::Shutdown) => self.fail("shutdown"),
            End::Asked(CloseReason::Forced(reason)) => self.fail(&reason),
        }
    }
}

#[cfg(test)]
mod tests;
