//! The annotations on a message beside its publisher's properties: where it died, why and how
//! often, and what consumers noted on it when they gave it back.
//!
//! The publisher's properties stay as they were. The overlay of a message has
//! [`Annotations::headers`] and what was noted. Names and types of the headers, and the rule
//! for cycles, are those of RabbitMQ.

use std::fmt;

use hashbrown::HashSet;

use crate::encoding::{
    Malformed, Reader, check_depth, table_bytes, write_optional_varint, write_table, write_text, write_varint,
};
use crate::error::Error;
use crate::value::{Table, Value, ms_of_seconds};

const X_DEATH: &str = "x-death";
const X_FIRST: [&str; 3] = ["x-first-death-queue", "x-first-death-reason", "x-first-death-exchange"];
const X_LAST_SAID: &str = "x-last-death-description";
const X_LAST: [&str; 3] = ["x-last-death-queue", "x-last-death-reason", "x-last-death-exchange"];

/// Why a message died.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// A consumer rejected it without requeue.
    Rejected,
    /// Its time to live was over.
    Expired,
    /// The queue was over its length limit.
    MaxLength,
    /// It came back as often as the queue allows.
    DeliveryLimit,
}

impl Reason {
    const ALL: [Self; 4] = [Self::Rejected, Self::Expired, Self::MaxLength, Self::DeliveryLimit];

    /// Its name in headers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rejected => "rejected",
            Self::Expired => "expired",
            Self::MaxLength => "maxlen",
            Self::DeliveryLimit => "delivery_limit",
        }
    }

    /// Its number in the journal; never reused or renumbered.
    fn id(self) -> u8 {
        match self {
            Self::Rejected => 1,
            Self::Expired => 2,
            Self::MaxLength => 3,
            Self::DeliveryLimit => 4,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// All deaths of a message in one queue for one reason. Everything except the count is of the first
/// of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Death {
    /// Name of the queue it died in.
    pub queue: String,
    /// Why.
    pub reason: Reason,
    /// Name of the exchange that it came through.
    pub exchange: String,
    /// The routing keys that brought it there: those of `CC` included, those of `BCC` not.
    pub routing_keys: Vec<String>,
    /// How often it died there for this reason, at least 1.
    pub count: u64,
    /// When, in seconds since 1970-01-01T00:00:00Z.
    pub time: u64,
    /// The time to live, in milliseconds, that was removed so that it does not expire again.
    pub original_expiration: Option<u64>,
}

/// The queue, reason and exchange of one death.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeathPlace {
    /// Name of the queue it died in.
    pub queue: String,
    /// Why.
    pub reason: Reason,
    /// Name of the exchange that it came through.
    pub exchange: String,
}

impl From<&Death> for DeathPlace {
    fn from(death: &Death) -> Self {
        Self { queue: death.queue.clone(), reason: death.reason, exchange: death.exchange.clone() }
    }
}

/// The moves that a message and all its copies may make from queue to queue without a rejection. No
/// chain of queues is so long. The bound keeps queues and bindings from multiplying one message
/// without end.
pub(crate) const MOVES: u64 = 256;

/// The moves that each copy has at least after a first hop, so that a hop to thousands of queues
/// leaves each a short chain.
const LEAST_MOVES: u64 = 16;

/// Bytes that are kept of what a consumer said when it rejected a message.
pub const SAID_MAX: usize = 255;

/// Bytes of what consumers noted on a message, as it is stored.
pub(crate) const ANNOTATIONS_MAX: usize = 4096;

/// Adds what a consumer noted. It replaces older notes of the same names. Where all are too many,
/// the oldest go.
pub(crate) fn merge(into: &mut Table, newer: &Table) {
    for (name, value) in &newer.0 {
        into.0.retain(|(known, _)| known != name);
        into.0.push((name.clone(), value.clone()));
    }
    while into.len() > 1 && table_bytes(into) > ANNOTATIONS_MAX {
        into.0.remove(0);
    }
}

/// Refuses notes that can't be stored.
///
/// # Errors
/// `Precondition` for notes of more than [`ANNOTATIONS_MAX`] bytes, and for those that nest too
/// deeply.
pub(crate) fn check_notes(notes: &Table) -> Result<(), Error> {
    check_depth(notes)?;
    let bytes = table_bytes(notes);
    if bytes > ANNOTATIONS_MAX {
        return Err(Error::precondition(format!(
            "annotations of {bytes} bytes on a delivery; at most {ANNOTATIONS_MAX} are kept"
        )));
    }
    Ok(())
}

/// In the log in the place of the moves that are left, where all are and something follows.
const ALL_MOVES: u64 = u64::MAX;

/// The deaths of a message, and what was noted on it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Annotations {
    /// Newest first, one for each queue and reason.
    pub deaths: Vec<Death>,
    /// The first death of all; `None` only without deaths.
    pub first: Option<DeathPlace>,
    /// The newest death; `None` only without deaths.
    pub last: Option<DeathPlace>,
    /// What the consumer said at the newest death, if it rejected the message and said why.
    pub said: Option<String>,
    /// What consumers noted on it, the newest last.
    pub noted: Table,
    /// How many at the end of `deaths` came from a client that published the message again, and
    /// have not happened since. Only messages of earlier versions have such deaths.
    carried: usize,
    /// The part of [`MOVES`] that is left to this copy; `None` while all are.
    moves_left: Option<u64>,
}

impl Annotations {
    /// Takes the moves of a hop to so many queues off, and shares out the rest: each queue gets one
    /// copy with these annotations. False when too few are left. The first hop, and the first after
    /// a rejection, may lead to any number of queues, as a publish may.
    pub(crate) fn share_moves(&mut self, queues: usize) -> bool {
        let rejected = self.last.as_ref().is_some_and(|last| last.reason == Reason::Rejected);
        let queues = queues.max(1) as u64;
        let each = match self.moves_left.filter(|_| !rejected) {
            None => Some((MOVES.saturating_sub(queues) / queues).max(LEAST_MOVES)),
            Some(left) => left.checked_sub(queues).map(|rest| rest / queues),
        };
        self.moves_left = each.or(self.moves_left);
        each.is_some()
    }

    /// How often the moves were halved when they were shared out: 0 for a message that went to one
    /// queue at a time. The more, the fewer copies can still follow from this one.
    pub(crate) fn halvings(&self) -> u32 {
        self.moves_left.map_or(0, |left| (MOVES / left.max(1)).max(1).ilog2())
    }

    /// Adds a death of just now. If the message died in this queue for this reason before, that
    /// death counts one more and becomes the newest.
    pub fn record(&mut self, death: Death) {
        let place = DeathPlace::from(&death);
        let before = self.deaths.iter().position(|known| known.queue == death.queue && known.reason == death.reason);
        let newest = match before {
            Some(at) => {
                if at >= self.deaths.len() - self.carried {
                    self.carried -= 1;
                }
                let mut known = self.deaths.remove(at);
                known.count = known.count.saturating_add(1);
                known
            }
            None => Death { count: 1, ..death },
        };
        self.deaths.insert(0, newest);
        if self.first.is_none() {
            self.first = Some(place.clone());
        }
        self.last = Some(place);
        self.said = None;
    }

    /// Notes what the consumer said at the newest death.
    pub fn say(&mut self, said: &str) {
        self.said = Some(said[..said.floor_char_boundary(SAID_MAX)].to_owned());
    }

    /// The message is sent on its way again: its earlier deaths no longer count for cycles.
    pub(crate) fn carry(&mut self) {
        self.carried = self.deaths.len();
        self.moves_left = None;
    }

    /// The queues to which the message would return in a cycle. It died there before, and neither
    /// that death nor a later one was a rejection. It is not sent there.
    ///
    /// Deaths that a client brought along don't count here, since the client published the message.
    pub fn cycles(&self) -> HashSet<&str> {
        let unasked = self.own().iter().take_while(|death| death.reason != Reason::Rejected);
        unasked.map(|death| death.queue.as_str()).collect()
    }

    /// The queues in which the message died. A client's own history does not count.
    pub fn queues(&self) -> HashSet<&str> {
        self.own().iter().map(|death| death.queue.as_str()).collect()
    }

    /// The deaths that the broker has seen.
    fn own(&self) -> &[Death] {
        &self.deaths[..self.deaths.len().saturating_sub(self.carried)]
    }

    /// The headers that a consumer sees: `x-death` (newest first), `x-first-death-*`,
    /// `x-last-death-*`, and what was said at the last one. They replace headers of the same name.
    /// Empty without deaths.
    pub(crate) fn headers(&self) -> Vec<(&'static str, Value)> {
        let mut headers = Vec::new();
        if !self.deaths.is_empty() {
            let deaths = self.deaths.iter().map(|death| Value::Table(death_table(death))).collect();
            headers.push((X_DEATH, Value::Array(deaths)));
        }
        for (names, place) in [(X_FIRST, &self.first), (X_LAST, &self.last)] {
            if let Some(place) = place {
                let values = [place.queue.as_str(), place.reason.name(), place.exchange.as_str()];
                headers.extend(names.into_iter().zip(values.map(text)));
            }
        }
        headers.extend(self.said.as_deref().map(|said| (X_LAST_SAID, text(said))));
        headers
    }

    /// Appends the encoding for the log.
    pub fn encode(&self, into: &mut Vec<u8>) {
        write_varint(into, self.deaths.len() as u64);
        for death in &self.deaths {
            encode_place(into, &death.queue, death.reason, &death.exchange);
            write_varint(into, death.routing_keys.len() as u64);
            for key in &death.routing_keys {
                write_text(into, key);
            }
            write_varint(into, death.count);
            write_varint(into, death.time);
            write_optional_varint(into, death.original_expiration);
        }
        write_varint(into, self.carried as u64);
        for place in [&self.first, &self.last] {
            into.push(u8::from(place.is_some()));
            if let Some(place) = place {
                encode_place(into, &place.queue, place.reason, &place.exchange);
            }
        }
        let noted = !self.noted.is_empty();
        if self.moves_left.is_some() || self.said.is_some() || noted {
            write_varint(into, self.moves_left.unwrap_or(ALL_MOVES));
        }
        if self.said.is_some() || noted {
            write_text(into, self.said.as_deref().unwrap_or_default());
        }
        if noted {
            let written = write_table(into, &self.noted);
            debug_assert!(written.is_ok(), "notes that nest too deeply are refused");
        }
    }

    /// Reads the encoding of [`Annotations::encode`]. An error of kind `Internal` says where the
    /// bytes can't be right.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(bytes);
        let annotations = decode_annotations(&mut reader)?;
        reader.end()?;
        Ok(annotations)
    }
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

/// AMQP's long is signed, and no message dies that often.
fn long(number: u64) -> Value {
    Value::I64(i64::try_from(number).unwrap_or(i64::MAX))
}

fn death_table(death: &Death) -> Table {
    let keys = death.routing_keys.iter().map(|key| text(key)).collect();
    let mut fields = vec![
        ("count".to_owned(), long(death.count)),
        ("reason".to_owned(), text(death.reason.name())),
        ("queue".to_owned(), text(&death.queue)),
        ("time".to_owned(), Value::Timestamp(ms_of_seconds(death.time))),
        ("exchange".to_owned(), text(&death.exchange)),
        ("routing-keys".to_owned(), Value::Array(keys)),
    ];
    if let Some(expiration) = death.original_expiration {
        fields.push(("original-expiration".to_owned(), text(&expiration.to_string())));
    }
    Table(fields)
}

fn encode_place(into: &mut Vec<u8>, queue: &str, reason: Reason, exchange: &str) {
    write_text(into, queue);
    into.push(reason.id());
    write_text(into, exchange);
}

fn decode_place(reader: &mut Reader<'_>) -> Result<DeathPlace, Malformed> {
    let queue = reader.text()?.to_owned();
    let id = reader.byte()?;
    let Some(reason) = Reason::ALL.into_iter().find(|reason| reason.id() == id) else {
        return Err(reader.malformed("an unknown reason of death before this"));
    };
    Ok(DeathPlace { queue, reason, exchange: reader.text()?.to_owned() })
}

fn decode_death(reader: &mut Reader<'_>) -> Result<Death, Malformed> {
    let DeathPlace { queue, reason, exchange } = decode_place(reader)?;
    let mut routing_keys = Vec::new();
    for _ in 0..reader.varint()? {
        routing_keys.push(reader.text()?.to_owned());
    }
    Ok(Death {
        queue,
        reason,
        exchange,
        routing_keys,
        count: reader.varint()?,
        time: reader.varint()?,
        original_expiration: reader.optional_varint()?,
    })
}

fn decode_annotations(reader: &mut Reader<'_>) -> Result<Annotations, Malformed> {
    let mut deaths = Vec::new();
    for _ in 0..reader.varint()? {
        deaths.push(decode_death(reader)?);
    }
    let carried = match usize::try_from(reader.varint()?) {
        Ok(carried) if carried <= deaths.len() => carried,
        _ => return Err(reader.malformed("more deaths carried along than there are before this")),
    };
    let mut place = || if reader.bool()? { decode_place(reader).map(Some) } else { Ok(None) };
    let (first, last) = (place()?, place()?);
    // Earlier versions end here.
    let moves_left = if reader.is_empty() { ALL_MOVES } else { reader.varint()? };
    let moves_left = (moves_left != ALL_MOVES).then_some(moves_left);
    let mut said = if reader.is_empty() { None } else { Some(reader.text()?.to_owned()) };
    let mut noted = Table::default();
    if !reader.is_empty() {
        said.take_if(|said| said.is_empty());
        noted = reader.table()?;
        if noted.is_empty() {
            return Err(reader.malformed("no notes where some are told before this"));
        }
    }
    Ok(Annotations { deaths, carried, first, last, moves_left, said, noted })
}

#[cfg(test)]
mod tests;
