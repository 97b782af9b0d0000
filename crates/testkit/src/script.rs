//! Conversations with a broker as lines of text: what a peer does, and what it is told.
//!
//! A line is `peer statement; statement; …` or `peer/session …`: one turn of that peer, made at its
//! first mention. The answer is what the statements gave, then what the peer was told, joined by
//! `, `. After each turn the journal is flushed and the housekeeping runs, unless the script holds
//! it. Lines of the peer `*` are about the world: `* tick 500`, `* hold`, `* release`, `* restart`,
//! `* crash`, `* cut`, `* counts q`, `* counts q delayed`, `* browse q`, `* redrive q`,
//! `* trace on`, `* subscriptions`.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use broker::{
    BindingSpec, Browse, Confirm, Consume, ConsumerArguments, Credit, DeleteIf, DestinationName, DirectSource, Error,
    ErrorKind, ExchangeSpec, Fetch, Outcome, Publish, QueueSpec, RedriveMode, Rest, RetainedWanted, SessionId,
    Settling, Sharing, Source, SubscriptionFilter, SubscriptionName, SubscriptionSpec, Table, Tags, Unroutable,
};

use crate::broker::{Setup, TestBroker, TextDialect, value_of};
use crate::peer::{Peer, Received, error_text};
use crate::sim_disk::SimDisk;

/// A broker and the peers of one conversation.
pub struct Script {
    /// The broker; none only while it restarts.
    broker: Option<TestBroker>,
    disk: Option<SimDisk>,
    peers: BTreeMap<String, Peer>,
    /// Peers that do not drain.
    mute: Vec<String>,
    held: bool,
    /// The last name that the broker gave.
    named: String,
}

/// One statement, taken apart.
struct Statement<'a> {
    verb: &'a str,
    words: Vec<&'a str>,
    table: Table,
}

impl<'a> Statement<'a> {
    fn parse(text: &'a str, named: &'a str) -> Self {
        let mut words = Vec::new();
        let mut table = Table::default();
        for word in text.split_whitespace() {
            match word.split_once('=') {
                Some((name, value)) => table.0.push((name.to_owned(), value_of(value))),
                None => words.push(if word == "$" { named } else { word }),
            }
        }
        let verb = if words.is_empty() { "" } else { words.remove(0) };
        Self { verb, words, table }
    }

    /// The word at `at`; `-` is the empty name.
    fn word(&self, at: usize) -> &'a str {
        match self.words.get(at) {
            Some(word) if *word != "-" => word,
            _ => "",
        }
    }

    fn number(&self, at: usize) -> u64 {
        self.word(at).parse().unwrap_or_else(|_| panic!("'{}' of '{}' should be a number", self.word(at), self.verb))
    }

    /// Why a consumer rejects a message.
    fn said(&self) -> Option<Arc<String>> {
        self.table.get("said").and_then(broker::Value::as_text).map(|said| Arc::new(said.to_owned()))
    }

    fn has(&self, flag: &str) -> bool {
        self.words.contains(&flag)
    }

    /// Takes a number out of the table.
    fn take(&mut self, name: &str) -> Option<u64> {
        let value = self.table.get(name).and_then(broker::Value::as_integer)?;
        self.table.0.retain(|(key, _)| key != name);
        u64::try_from(value).ok()
    }
}

impl Script {
    /// Over memory.
    pub fn memory() -> Self {
        Self::open(Setup::memory(), None)
    }

    /// Over a simulated disk with a ring of `ring` bytes.
    pub fn stepped(disk: &SimDisk, ring: u64) -> Self {
        Self::open(Setup::stepped(disk, ring), Some(disk.clone()))
    }

    /// Over anything. Crashes need the simulated disk.
    pub fn open(setup: Setup, disk: Option<SimDisk>) -> Self {
        Self::with(TestBroker::open(setup), disk)
    }

    /// With a broker that is open.
    pub fn with(broker: TestBroker, disk: Option<SimDisk>) -> Self {
        let broker = Some(broker);
        Self { broker, disk, peers: BTreeMap::new(), mute: Vec::new(), held: false, named: String::new() }
    }

    /// Says each first part and expects exactly the second.
    ///
    /// # Panics
    /// If anything else is said.
    pub fn check(&mut self, steps: &[(&str, &str)]) {
        for (at, (line, expected)) in steps.iter().enumerate() {
            let said = self.say(line);
            assert_eq!(said, *expected, "step {at}: {line}");
        }
    }

    /// The broker.
    ///
    /// # Panics
    /// Never: it is there between lines.
    pub fn broker(&self) -> &TestBroker {
        self.broker.as_ref().expect("the broker runs between lines")
    }

    /// Says one line and gives the answer.
    ///
    /// # Panics
    /// If the line makes no sense.
    pub fn say(&mut self, line: &str) -> String {
        let (who, what) = line.split_once(' ').unwrap_or((line, ""));
        if who == "*" {
            return self.world(what);
        }
        let (name, session) = who.split_once('/').unwrap_or((who, "1"));
        let number: u32 = session.parse().expect("a session is a number");
        let broker = self.broker.as_ref().expect("the broker runs between lines");
        if !self.peers.contains_key(name) {
            let user = if ["reader", "writer", "stranger"].contains(&name) { name } else { "guest" };
            match Peer::attach(broker, user) {
                Ok(peer) => drop(self.peers.insert(name.to_owned(), peer)),
                Err(error) => return error_text(&error),
            }
        }
        let named = self.named.clone();
        let mut said = Vec::new();
        for text in what.split(';') {
            let statement = Statement::parse(text, &named);
            match statement.verb {
                "mute" => self.mute.push(name.to_owned()),
                "listen" => self.mute.retain(|other| other != name),
                "close" => {
                    self.peers.remove(name);
                }
                _ => said.extend(self.act(name, number, statement)),
            }
        }
        if let (Some(peer), Some(broker)) = (self.peers.get_mut(name), &self.broker) {
            peer.client.flush(broker.now());
        }
        said.extend(self.after(name));
        said.join(", ")
    }

    /// What follows a turn: flushes, and what the peer is told.
    fn after(&mut self, name: &str) -> Vec<String> {
        let broker = self.broker.as_ref().expect("the broker runs between lines");
        let mute = self.mute.iter().any(|other| other == name);
        let mut seen = Vec::new();
        for _ in 0..3 {
            if !self.held {
                broker.flush();
            }
            if let Some(peer) = self.peers.get_mut(name).filter(|_| !mute) {
                seen.extend(peer.drain(broker).iter().map(ToString::to_string));
                peer.client.flush(broker.now());
            }
        }
        seen
    }

    fn world(&mut self, what: &str) -> String {
        let statement = Statement::parse(what, "");
        match statement.verb {
            "tick" => {
                self.broker().setup.clock.advance(statement.number(0));
                self.broker().flush();
            }
            "hold" => self.held = true,
            "release" => {
                self.held = false;
                self.broker().flush();
            }
            "flush" => self.broker().flush(),
            "trace" => {
                let switch = if statement.word(0) == "on" { broker::Switch::On } else { broker::Switch::Off };
                self.broker().broker.trace("/", switch).expect("the vhost is there");
            }
            "background" => assert!(self.broker().background(1000), "the journal takes its records"),
            "counts" => return self.counts(statement.word(0), statement.word(1)),
            "browse" => return self.browse(&statement),
            "subscriptions" => return self.subscriptions(),
            "redrive" => return self.redrive(&statement),
            "user" => {
                let (name, configure) = (statement.word(0), statement.word(1));
                self.broker().user(name, configure, statement.word(2), statement.word(3));
            }
            "restart" => self.restart(None),
            "crash" => self.restart(Some(SimDisk::restart)),
            "cut" => self.restart(Some(SimDisk::power_cut)),
            other => panic!("the world does not know how to {other}"),
        }
        String::new()
    }

    /// Ready and unsettled entries of a queue, or another count of it.
    fn counts(&self, queue: &str, what: &str) -> String {
        match (self.broker().broker.queues().iter().find(|report| report.name == queue), what) {
            (Some(report), "delayed") => report.delayed.to_string(),
            (Some(report), "duplicates") => report.duplicates.to_string(),
            (Some(report), "superseded") => report.superseded.to_string(),
            (Some(report), "targetless") => report.figures.totals.targetless.to_string(),
            (Some(report), _) => format!("{} {}", report.ready, report.unacked),
            (None, _) => "none".to_owned(),
        }
    }

    /// The bodies of the messages in a queue.
    fn browse(&self, statement: &Statement<'_>) -> String {
        let mut bodies = Vec::new();
        let shown = self.broker().broker.browse(&meant(statement), &|| true, &mut |browsed| {
            bodies.push(String::from_utf8_lossy(browsed.message.body()).into_owned());
        });
        shown.map_or_else(|error| error_text(&error), |()| bodies.join(" "))
    }

    /// Each subscription with its queue.
    fn subscriptions(&self) -> String {
        let queues = self.broker().broker.queues();
        let subscribed = queues.iter().filter_map(|queue| Some((&queue.name, queue.declared.subscription.as_ref()?)));
        let lines = subscribed.map(|(queue, subscription)| {
            let broker::SubscriptionFact { name, sharing, selector, expires } = &**subscription;
            let expires = expires.map_or(String::new(), |ms| format!(" {ms} ms"));
            let line = format!("{queue}: {name} {sharing:?} {selector}");
            format!("{}{expires}", line.trim_end())
        });
        lines.collect::<Vec<_>>().join(", ")
    }

    /// Sends dead letters back: how many did, never died, have no home, or find their queue full.
    fn redrive(&self, statement: &Statement<'_>) -> String {
        let mode = if statement.has("dry-run") { RedriveMode::DryRun } else { RedriveMode::Move };
        let redriven = self.broker().broker.redrive(&meant(statement), mode, &|| true);
        self.broker().flush();
        match redriven {
            Ok(one) => format!("{} {} {} {}", one.moved, one.alive, one.homeless, one.refused),
            Err(error) => error_text(&error),
        }
    }

    fn restart(&mut self, crash: Option<fn(&SimDisk)>) {
        let setup = match (crash, &self.disk) {
            (Some(crash), Some(disk)) => {
                crash(disk);
                self.peers.clear();
                self.broker.take().map(TestBroker::abandon)
            }
            _ => {
                self.peers.clear();
                self.broker.take().map(|broker| {
                    broker.flush();
                    broker.stop()
                })
            }
        };
        self.mute.clear();
        self.held = false;
        self.broker = setup.map(TestBroker::open);
    }

    fn act(&mut self, name: &str, number: u32, statement: Statement<'_>) -> Option<String> {
        let result = match statement.verb {
            "" => return None,
            "queue" | "passive" | "delete" | "purge" => self.queue(name, &statement),
            "exchange" | "passive-exchange" | "delete-exchange" | "bind" | "unbind" => self.exchange(name, &statement),
            "publish" | "tx-publish" => self.publish(name, number, statement),
            "subscribe" | "unsubscribe" => self.subscribe(name, &statement),
            "ack" | "nack" | "fail" | "reject" | "modify" | "tx-ack" | "tx-nack" | "tx-reject" | "tx-modify"
            | "tx-hold" => self.settle(name, number, &statement),
            _ => self.session(name, number, &statement),
        };
        match result {
            Ok(said) if said.is_empty() => None,
            Ok(said) => Some(said),
            Err(error) => Some(error_text(&error)),
        }
    }

    fn peer(&mut self, name: &str) -> (&mut Peer, std::time::Instant) {
        let now = self.broker().now();
        (self.peers.get_mut(name).expect("the peer is attached"), now)
    }

    fn queue(&mut self, name: &str, statement: &Statement<'_>) -> Result<String, Error> {
        let (peer, now) = self.peer(name);
        let queue = statement.word(0);
        let declared = match statement.verb {
            "queue" => {
                let spec = QueueSpec {
                    name: queue.to_owned(),
                    durable: statement.has("durable"),
                    exclusive: statement.has("exclusive"),
                    auto_delete: statement.has("auto-delete"),
                    arguments: statement.table.clone(),
                };
                peer.client.declare_queue(&spec, now)?
            }
            "passive" => peer.client.check_queue(queue, now)?,
            "delete" => {
                let (unused, empty) = (statement.has("if-unused"), statement.has("if-empty"));
                return Ok(peer.client.delete_queue(queue, DeleteIf { unused, empty }, now)?.0.to_string());
            }
            _ => return Ok(peer.client.purge_queue(queue, now)?.0.to_string()),
        };
        if queue.is_empty() {
            self.named = declared.name;
        }
        Ok(format!("{} {}", declared.ready, declared.consumers))
    }

    fn exchange(&mut self, name: &str, statement: &Statement<'_>) -> Result<String, Error> {
        let (peer, now) = self.peer(name);
        let exchange = statement.word(0);
        match statement.verb {
            "exchange" => {
                let spec = ExchangeSpec {
                    name: exchange.to_owned(),
                    kind: statement.word(1).to_owned(),
                    durable: statement.has("durable"),
                    auto_delete: statement.has("auto-delete"),
                    internal: statement.has("internal"),
                    arguments: statement.table.clone(),
                };
                peer.client.declare_exchange(&spec, now)?;
            }
            "passive-exchange" => drop(peer.client.check_exchange(exchange, now)?),
            "delete-exchange" => {
                let only = DeleteIf { unused: statement.has("if-unused"), empty: false };
                peer.client.delete_exchange(exchange, only, now)?;
            }
            verb => {
                let to = statement.word(2);
                let destination = match to.strip_prefix("exchange:") {
                    Some(exchange) => DestinationName::Exchange(exchange.to_owned()),
                    None => DestinationName::Queue(to.to_owned()),
                };
                let spec = BindingSpec {
                    source: exchange.to_owned(),
                    destination,
                    key: statement.word(1).to_owned(),
                    arguments: statement.table.clone(),
                };
                if verb == "bind" {
                    peer.client.bind(&spec, now)?
                } else {
                    peer.client.unbind(&spec, now)?
                };
            }
        }
        Ok(String::new())
    }

    /// `subscribe CLIENT/NAME QUEUE EXCHANGE KEY …`, more of the latter two, flags behind a `+`;
    /// `expires=MS` is how long it outlives its last consumer.
    fn subscribe(&mut self, name: &str, statement: &Statement<'_>) -> Result<String, Error> {
        let (peer, now) = self.peer(name);
        let identity = subscription(statement.word(0));
        if statement.verb == "unsubscribe" {
            return peer.client.unsubscribe(&identity, statement.word(1), now).map(|_| String::new());
        }
        let filters: Vec<_> = statement.words.iter().skip(2).take_while(|word| **word != "+").collect();
        let filter = |pair: &[&&str]| SubscriptionFilter {
            exchange: (**pair[0]).to_owned(),
            key: pair.get(1).map_or(String::new(), |key| (**key).to_owned()),
            arguments: Table::default(),
        };
        let mut arguments = statement.table.clone();
        arguments.0.retain(|(name, _)| !["x-selector", "expires"].contains(&name.as_str()));
        let expires = statement.table.get("expires").and_then(broker::Value::as_integer);
        let spec = SubscriptionSpec {
            name: identity,
            sharing: if statement.has("shared") { Sharing::Shared } else { Sharing::Exclusive },
            selector: meant(statement).selector.to_owned(),
            expires: expires.and_then(|ms| u64::try_from(ms).ok()),
            filters: filters.chunks(2).map(filter).collect(),
            retained: match (statement.has("retained"), statement.has("retained-of-new")) {
                (true, _) => RetainedWanted::OfAll,
                (false, true) => RetainedWanted::OfNew,
                (false, false) => RetainedWanted::None,
            },
            queue: QueueSpec {
                name: statement.word(1).to_owned(),
                durable: statement.has("durable"),
                exclusive: statement.has("exclusive"),
                auto_delete: statement.has("auto-delete"),
                arguments,
            },
        };
        let subscribed = match statement.has("exactly") {
            true => peer.client.subscribe_exactly(&spec, now)?,
            false => peer.client.subscribe(&spec, now)?,
        };
        if spec.queue.name.is_empty() {
            self.named = subscribed.queue;
        }
        Ok(String::new())
    }

    fn publish(&mut self, name: &str, number: u32, mut statement: Statement<'_>) -> Result<String, Error> {
        let (peer, _) = self.peer(name);
        let session = peer.session(number);
        let expiration = statement.take("ttl");
        let size = statement.take("size").unwrap_or(0);
        let confirm = statement.take("confirm");
        let priority = statement.take("priority").map(|number| u8::try_from(number).expect("a priority"));
        let mut body = statement.word(2).to_owned();
        while (body.len() as u64) < size {
            body.push('.');
        }
        let headers: Vec<String> =
            statement.table.0.iter().map(|(name, value)| format!("{name}={}\n", plain(value))).collect();
        let properties = headers.concat();
        let publish = Publish {
            exchange: statement.word(0),
            routing_key: statement.word(1),
            dialect: TextDialect::ID,
            properties: properties.as_bytes(),
            persistent: statement.has("persistent"),
            priority,
            expiration,
            body: body.as_bytes().into(),
            confirm: confirm.map_or(Confirm::None, Confirm::Numbered),
            unroutable: match (statement.has("mandatory"), statement.has("tell")) {
                (true, _) => Unroutable::Return,
                (false, true) => Unroutable::Tell,
                (false, false) => Unroutable::Drop,
            },
            instructed: statement.table.0.iter().any(|(name, _)| broker::is_instruction(name)),
            copies: ["CC", "BCC"].iter().any(|name| statement.table.get(name).is_some()),
        };
        match peer.transactions.get(&number) {
            Some(transaction) if statement.verb == "tx-publish" => {
                peer.client.publish_in(*transaction, session, publish)?;
            }
            _ => peer.publish(session, publish)?,
        }
        Ok(String::new())
    }

    fn settle(&mut self, name: &str, number: u32, statement: &Statement<'_>) -> Result<String, Error> {
        let (peer, _) = self.peer(name);
        let session = peer.session(number);
        let tags = named(statement);
        let outcome = match statement.verb.trim_start_matches("tx-") {
            "ack" | "hold" => Outcome::Accepted,
            "nack" => Outcome::Released,
            "fail" => Outcome::FAILED,
            "reject" => Outcome::Rejected { said: statement.said() },
            "modify" => Outcome::Modified {
                failed: statement.has("failed"),
                elsewhere: statement.has("elsewhere"),
                annotations: (!statement.table.is_empty()).then(|| Arc::new(statement.table.clone())),
            },
            other => panic!("no outcome {other}"),
        };
        let settled = match peer.transactions.get(&number) {
            Some(transaction) if statement.verb == "tx-hold" => {
                peer.client.settle_held_in(*transaction, session, statement.number(0), &outcome)?
            }
            Some(transaction) if statement.verb.starts_with("tx-") => {
                peer.client.settle_in(*transaction, session, tags, &outcome)?
            }
            _ => peer.client.settle(session, tags, &outcome)?,
        };
        let nothing = settled == 0 && matches!(tags, Tags::One(_) | Tags::UpTo(_));
        Ok(if nothing { "settled already".to_owned() } else { String::new() })
    }

    fn session(&mut self, name: &str, number: u32, statement: &Statement<'_>) -> Result<String, Error> {
        let (peer, now) = self.peer(name);
        let session = peer.session(number);
        match statement.verb {
            "open" => {}
            "confirm" => peer.confirm(session),
            "refuse" => peer.client.refuse(session, statement.number(0), ErrorKind::AccessRefused)?,
            "prefetch" => {
                let most = NonZeroU32::new(statement.number(0) as u32);
                match statement.word(1) {
                    "shared" => peer.client.share_window(session, most, now),
                    "all" => peer.client.set_credit_of_all(session, Credit::Window { most }, now),
                    _ => peer.client.show_window(session, most),
                }
                if statement.word(1) != "shared" {
                    peer.windows.insert(session, most);
                }
            }
            "credit" => {
                let credit = Credit::Granted { left: statement.number(1) as u32, rest: rest(statement) };
                peer.client.set_credit(session, statement.word(0), credit, now);
            }
            "consume" => return consume(peer, session, statement, now),
            "cancel" => {
                let mut seen = Vec::new();
                let mut report = |event: broker::Event<'_>| seen.push(crate::peer::seen_of(event).to_string());
                peer.client.cancel(session, statement.word(0), now, &mut report);
                seen.push("cancelled".to_owned());
                return Ok(seen.join(", "));
            }
            "get" => return self.get(name, session, statement),
            "recover" => drop(peer.client.recover(session, now)),
            "begin" => {
                let transaction = peer.client.begin(session);
                peer.transactions.insert(number, transaction);
            }
            "commit" | "rollback" => {
                let Some(transaction) = peer.transactions.remove(&number) else { return Ok("no transaction".into()) };
                if statement.verb == "commit" {
                    peer.client.commit(transaction, now)?;
                } else {
                    peer.client.rollback(transaction);
                }
            }
            "end" => {
                peer.sessions.remove(&number);
                peer.client.close_session(session, now);
            }
            "flow" => return Ok(format!("{:?}", peer.client.flow())),
            "parked" => return Ok(peer.client.parked(session).to_string()),
            other => panic!("a script does not know how to {other}"),
        }
        Ok(String::new())
    }

    fn get(&mut self, name: &str, session: SessionId, statement: &Statement<'_>) -> Result<String, Error> {
        for _ in 0..10 {
            let mut said = String::new();
            let (peer, now) = self.peer(name);
            let settling = if statement.has("no-ack") { Settling::Auto } else { Settling::Manual };
            let fetch = peer.client.get(session, statement.word(0), settling, now, &mut |delivery, left| {
                said = format!("{} left {left}", Received::of(delivery));
            })?;
            match fetch {
                Fetch::Message => return Ok(said),
                Fetch::Empty => return Ok("empty".to_owned()),
                Fetch::Wait(_) if self.held => return Ok("waits".to_owned()),
                Fetch::Wait(ticket) => {
                    self.broker().flush();
                    while !self.peer(name).0.client.durable(ticket) {
                        std::thread::yield_now();
                    }
                }
            }
        }
        panic!("a get waits for ever");
    }
}

/// The deliveries that a settlement names: `3`, `3 multiple` for all up to it, `0 multiple` for
/// all, `3..5` for a range.
fn named(statement: &Statement<'_>) -> Tags {
    if let Some((first, last)) = statement.word(0).split_once("..") {
        let number = |text: &str| text.parse().expect("a tag");
        return Tags::Range { first: number(first), last: number(last) };
    }
    match (statement.number(0), statement.has("multiple")) {
        (tag, false) => Tags::One(tag),
        (0, true) => Tags::All,
        (tag, true) => Tags::UpTo(tag),
    }
}

/// The queue that a statement names, with its `x-selector` and `limit`.
fn meant<'a>(statement: &'a Statement<'a>) -> Browse<'a> {
    let selector = statement.table.get("x-selector").and_then(broker::Value::as_text).unwrap_or_default();
    let limit = statement.table.get("limit").and_then(broker::Value::as_integer);
    let limit = limit.map_or(u64::MAX, |limit| limit.unsigned_abs());
    Browse { vhost: "/", queue: statement.word(0), selector, limit }
}

/// `CLIENT/NAME`, or a name without a client.
fn subscription(word: &str) -> SubscriptionName {
    let (client, name) = word.split_once('/').map_or((None, word), |(client, name)| (Some(client), name));
    SubscriptionName { client: client.map(str::to_owned), name: name.to_owned() }
}

/// `drain` takes back the credit that is left.
fn rest(statement: &Statement<'_>) -> Rest {
    if statement.has("drain") { Rest::Drained } else { Rest::Kept }
}

fn consume(
    peer: &mut Peer,
    session: SessionId,
    statement: &Statement<'_>,
    now: std::time::Instant,
) -> Result<String, Error> {
    let direct = statement.word(0).strip_prefix("direct:");
    let consume = Consume {
        source: match (statement.word(0).strip_prefix("subscription:"), direct) {
            (Some(name), _) => Source::Subscription(subscription(name)),
            (None, Some(filters)) => Source::Direct(DirectSource {
                filters: filters.split(',').map(|filter| filter_of(filter, &statement.table)).collect(),
                retained: if statement.has("retained") { RetainedWanted::OfAll } else { RetainedWanted::None },
            }),
            (None, None) => statement.word(0).into(),
        },
        tag: statement.word(1).to_owned(),
        no_ack: statement.has("no-ack"),
        exclusive: statement.has("exclusive"),
        no_local: statement.has("no-local"),
        credit: match statement.table.get("credit").and_then(broker::Value::as_integer) {
            Some(left) => Credit::Granted { left: left as u32, rest: rest(statement) },
            None => Credit::Window { most: peer.windows.get(&session).copied().flatten() },
        },
        arguments: ConsumerArguments::parse(&statement.table),
    };
    let wanted = consume.tag.clone();
    let tag = peer.client.consume(session, consume, now)?;
    Ok(if tag == wanted { String::new() } else { "named".to_owned() })
}

/// `EXCHANGE/KEY`. Of a headers exchange the table has the headers.
fn filter_of(word: &str, table: &Table) -> SubscriptionFilter {
    let (exchange, key) = word.split_once('/').unwrap_or((word, ""));
    let arguments = if exchange == "amq.headers" { table.clone() } else { Table::default() };
    SubscriptionFilter { exchange: exchange.to_owned(), key: key.to_owned(), arguments }
}

fn plain(value: &broker::Value) -> String {
    match value {
        broker::Value::I64(number) => number.to_string(),
        broker::Value::Bool(truth) => truth.to_string(),
        other => other.as_text().unwrap_or_default().to_owned(),
    }
}
