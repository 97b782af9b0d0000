//! One connection over AMQP 1.0 with one session: requests, and what was heard, in owned words.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use amqp10::client::{Client, Ending, Event, LinkId, Login, Options, SendMode, in_transaction};
use amqp10::codec::message::{Body, Header, Message};
use amqp10::codec::performative::{Attach, Disposition, ReceiverSettleMode, Role, SenderSettleMode};
use amqp10::codec::state::{Modified, Rejected};
use amqp10::codec::terminus::{Coordinator, Durability, ExpiryPolicy};
use amqp10::codec::{AttachTarget, DeliveryState, Encode, Map, Outcome, Section, Source, Symbols, Target, Value};

use super::books::{Fate, Marks, Place};
use crate::talk::{Broken, Link};

/// The annotation that consumers note their numbers in.
const NOTE: &str = "x-opt-note";
/// What begins the name of every queue and topic of this load.
const QUEUE: &str = "crash.ten.";
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a read waits.
pub(super) const GLANCE: Duration = Duration::from_millis(20);
/// The largest body is so long.
const LONGEST: u64 = 1500;

/// Something that the broker said.
#[derive(Debug)]
pub(super) enum Heard {
    /// Messages of this link, by number, have an outcome.
    Answered(LinkId, RangeInclusive<u64>, Answer),
    /// A message came: its id, its number, and what is on it.
    Delivered(LinkId, u32, u64, Marks),
    /// Settlements of these ids are for good.
    Settled(RangeInclusive<u32>),
    /// All that there was on this link has come.
    Drained(LinkId),
}

/// Whether a message is sent with a wish for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    Answer,
    None,
}

/// What the broker said to a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Accepted,
    Declared(Vec<u8>),
    Other(String),
}

/// A connection with its session.
pub(super) struct Peer {
    link: Link,
    client: Client,
    output: Vec<u8>,
    channel: u16,
}

/// The queue or topic of a place.
pub(super) fn name_of(place: Place) -> String {
    let name = match place {
        Place::Work => "work",
        Place::Dead => "dead",
        Place::Left => "left",
        Place::Right => "right",
        Place::Own | Place::Shared => "news",
    };
    format!("{QUEUE}{name}")
}

/// How a place is named by a client. The queues of transactions are made by their links.
fn address_of(place: Place) -> String {
    match place {
        Place::Work | Place::Dead => format!("/queues/{}", name_of(place)),
        Place::Left | Place::Right => name_of(place),
        Place::Own | Place::Shared => format!("/topic/{}", name_of(place)),
    }
}

impl Peer {
    /// Connects as this container.
    pub(super) fn open(port: u16, container: &str) -> Result<Self, Broken> {
        let login = Login::plain("guest", "guest");
        let options = Options { login, container_id: container.to_owned(), ..Options::default() };
        let (link, client) = (Link::open(port)?, Client::new(options));
        let mut peer = Self { link, client, output: Vec::new(), channel: 0 };
        peer.client.start(&mut peer.output);
        peer.wait_for(|event| matches!(event, Event::Opened(_)))?;
        peer.channel = peer.client.begin(&mut peer.output).map_err(refused)?;
        Ok(peer)
    }

    /// A link to send to a place.
    pub(super) fn sender(&mut self, name: &str, place: Place) -> Result<LinkId, Broken> {
        let address = address_of(place);
        let target = Some(AttachTarget::Target(Target { address: Some(&address), ..Target::default() }));
        let source = Some(Source::default());
        self.attach(&Attach { name, role: Role::Sender, source, target, ..Attach::default() })
    }

    /// A link to the coordinator of transactions.
    pub(super) fn coordinator(&mut self) -> Result<LinkId, Broken> {
        let capabilities = Symbols::of(&["amqp:local-transactions"]);
        let target = Some(AttachTarget::Coordinator(Coordinator { capabilities }));
        let source = Some(Source::default());
        self.attach(&Attach { name: "coordinator", role: Role::Sender, source, target, ..Attach::default() })
    }

    /// A link to receive from a place, whose broker settles first and then tells.
    pub(super) fn receiver(&mut self, name: &str, place: Place, rest: Fate) -> Result<LinkId, Broken> {
        let address = address_of(place);
        let (durable, expiry_policy) = match place {
            Place::Own | Place::Shared => (Durability::UnsettledState, ExpiryPolicy::Never),
            _ => (Durability::None, ExpiryPolicy::SessionEnd),
        };
        let capabilities = match place {
            Place::Own => Symbols::of(&["topic"]),
            Place::Shared => Symbols::of(&["topic", "shared", "global"]),
            _ => Symbols::NONE,
        };
        let default_outcome = Some(outcome(rest, None));
        let address = Some(address.as_str());
        let source = Source { address, durable, expiry_policy, default_outcome, capabilities, ..Source::default() };
        self.attach(&Attach {
            name,
            role: Role::Receiver,
            snd_settle_mode: SenderSettleMode::Unsettled,
            rcv_settle_mode: ReceiverSettleMode::Second,
            source: Some(source),
            target: Some(AttachTarget::Target(Target::default())),
            ..Attach::default()
        })
    }

    /// Attaches, and waits until the broker has.
    fn attach(&mut self, attach: &Attach<'_>) -> Result<LinkId, Broken> {
        let id = self.client.attach(self.channel, attach, &mut self.output).map_err(refused)?;
        self.wait_for(|event| matches!(event, Event::Attached { link, .. } if *link == id))?;
        Ok(id)
    }

    /// Appends a message. Returns its number on the link.
    pub(super) fn send(
        &mut self,
        link: LinkId,
        number: u64,
        wish: Wish,
        transaction: Option<&[u8]>,
    ) -> Result<u64, Broken> {
        let mut message = Vec::new();
        Header { durable: true, ..Header::default() }.encode(&mut message);
        Section::Data.encode(&body(number).as_slice(), &mut message);
        let mode = SendMode { settled: wish == Wish::None, transaction };
        self.client.send(link, mode, &[&message], &mut self.output).map_err(refused)
    }

    pub(super) fn declare(&mut self, coordinator: LinkId) -> Result<(), Broken> {
        self.client.declare(coordinator, &mut self.output).map(drop).map_err(refused)
    }

    pub(super) fn discharge(&mut self, coordinator: LinkId, id: &[u8], ending: Ending) -> Result<(), Broken> {
        self.client.discharge(coordinator, id, ending, &mut self.output).map(drop).map_err(refused)
    }

    /// Allows so many messages more.
    pub(super) fn grant(&mut self, link: LinkId, credit: u32) -> Result<(), Broken> {
        self.client.grant(link, credit, &mut self.output).map_err(refused)
    }

    /// Asks for what there is, up to so many messages.
    pub(super) fn fetch(&mut self, link: LinkId, credit: u32) -> Result<(), Broken> {
        self.client.fetch(link, credit, &mut self.output).map_err(refused)
    }

    /// Settles a delivery, and asks to be told when that is for good.
    pub(super) fn settle(&mut self, id: u32, fate: Fate) -> Result<(), Broken> {
        let annotations = match fate {
            Fate::Noted(number) => Value::Map(vec![(Value::Symbol(NOTE.to_owned()), Value::U64(number))]).to_bytes(),
            _ => Vec::new(),
        };
        let annotations = match fate {
            Fate::Noted(_) => Some(Map::new(&annotations).map_err(refused)?),
            _ => None,
        };
        let state = Some(DeliveryState::Outcome(outcome(fate, annotations)));
        let disposition = Disposition { role: Role::Receiver, first: id, state, ..Disposition::default() };
        self.client.disposition(self.channel, &disposition, &mut self.output).map_err(refused)
    }

    /// Accepts a delivery in a transaction.
    pub(super) fn accept_in(&mut self, id: u32, transaction: &[u8]) -> Result<(), Broken> {
        let state = in_transaction(transaction, Outcome::Accepted);
        self.client.settle(self.channel, id..=id, state, &mut self.output).map_err(refused)
    }

    /// Ends links without an end of their subscriptions, and the connection.
    pub(super) fn suspend(&mut self, links: &[LinkId]) -> Result<(), Broken> {
        for id in links {
            self.client.suspend_link(*id, &mut self.output).map_err(refused)?;
        }
        self.client.close(&mut self.output);
        let end = Instant::now() + PATIENCE;
        let mut closed = false;
        while !closed && Instant::now() < end {
            self.read(GLANCE, |event| {
                closed |= matches!(event, Event::Closed { error: None });
                Ok(())
            })?;
        }
        if closed { Ok(()) } else { Err(Broken::Lost("no answer to a close".to_owned())) }
    }

    /// Writes what was asked for, and reads what there is.
    pub(super) fn exchange(&mut self) -> Result<Vec<Heard>, Broken> {
        let mut all = Vec::new();
        self.read(GLANCE, |event| {
            ended(&event)?;
            all.extend(heard(&event)?);
            Ok(())
        })?;
        Ok(all)
    }

    /// Writes and reads until this comes; nothing else that matters may.
    fn wait_for(&mut self, is_it: impl Fn(&Event<'_>) -> bool) -> Result<(), Broken> {
        let (end, mut seen) = (Instant::now() + PATIENCE, false);
        while !seen && Instant::now() < end {
            self.read(GLANCE, |event| {
                seen |= is_it(&event);
                ended(&event)
            })?;
        }
        if seen { Ok(()) } else { Err(Broken::Refused(format!("no answer within {PATIENCE:?}"))) }
    }

    fn read(&mut self, wait: Duration, mut take: impl FnMut(Event<'_>) -> Result<(), Broken>) -> Result<(), Broken> {
        self.link.turn(&mut self.output, wait)?;
        let mut rest = self.link.input();
        let before = rest.len();
        let mut outcome = Ok(());
        while outcome.is_ok() {
            match self.client.poll(&mut rest, &mut self.output) {
                Ok(Some(event)) => outcome = take(event),
                Ok(None) => break,
                Err(error) => outcome = Err(refused(error)),
            }
        }
        let used = before - rest.len();
        self.link.consume(used);
        outcome
    }
}

fn outcome(fate: Fate, message_annotations: Option<Map<'_>>) -> Outcome<'_> {
    let modified = Modified { delivery_failed: false, undeliverable_here: false, message_annotations };
    match fate {
        Fate::Accepted => Outcome::Accepted,
        Fate::Released => Outcome::Released,
        Fate::Rejected => Outcome::Rejected(Rejected { error: None }),
        Fate::Failed => Outcome::Modified(Modified { delivery_failed: true, ..modified }),
        Fate::Elsewhere => Outcome::Modified(Modified { undeliverable_here: true, ..modified }),
        Fate::Noted(_) => Outcome::Modified(modified),
    }
}

/// The body of a message: its number, and bytes that follow from it.
fn body(number: u64) -> Vec<u8> {
    let mut body = format!("{number}:").into_bytes();
    body.extend((0..number.wrapping_mul(7919) % LONGEST).map(|at| (number ^ at) as u8));
    body
}

/// The end of a link, a session or the connection that was not asked for.
fn ended(event: &Event<'_>) -> Result<(), Broken> {
    let (what, error) = match event {
        Event::Detached { error, .. } => ("a link", error),
        Event::Ended { error, .. } => ("a session", error),
        Event::Closed { error } => ("a connection", error),
        _ => return Ok(()),
    };
    let text = format!("the broker has ended {what}: {error:?}");
    // The connection that had the subscription may not be gone yet.
    let locked = error.is_some_and(|error| error.condition.0 == "amqp:resource-locked");
    Err(if locked { Broken::Lost(text) } else { Broken::Refused(text) })
}

fn heard(event: &Event<'_>) -> Result<Option<Heard>, Broken> {
    Ok(match event {
        Event::Answered { link, numbers, state } => {
            let answer = match state {
                Some(DeliveryState::Outcome(Outcome::Accepted)) => Answer::Accepted,
                Some(DeliveryState::Outcome(Outcome::Declared(declared))) => Answer::Declared(declared.txn_id.to_vec()),
                Some(DeliveryState::Transactional(state)) if state.outcome == Some(Outcome::Accepted) => {
                    Answer::Accepted
                }
                other => Answer::Other(format!("{other:?}")),
            };
            Some(Heard::Answered(*link, numbers.clone(), answer))
        }
        Event::Delivery { link, delivery } => {
            let message = Message::decode(&delivery.message).map_err(|error| refused(format!("{error:?}")))?;
            let Body::Data(data) = message.body else { return Err(refused("a message has another body")) };
            let bytes = data.single().unwrap_or_default();
            let digits = bytes.split(|byte| *byte == b':').next().unwrap_or_default();
            let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
            let number = number.filter(|number| body(*number) == bytes);
            let number = number.ok_or_else(|| refused("a body is not what was sent"))?;
            let header = message.header.unwrap_or_default();
            let note = message.message_annotations.and_then(|all| all.get(NOTE)?.as_integer());
            let (failures, first) = (header.delivery_count, header.first_acquirer);
            let marks = Marks { failures, first, note: note.map_or(0, |note| note as u64) };
            Some(Heard::Delivered(*link, delivery.id, number, marks))
        }
        Event::Settled { ids, .. } => Some(Heard::Settled(ids.clone())),
        Event::Drained { link } => Some(Heard::Drained(*link)),
        _ => None,
    })
}

fn refused(error: impl std::fmt::Display) -> Broken {
    Broken::Refused(error.to_string())
}
