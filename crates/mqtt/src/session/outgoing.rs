//! Messages to the client: their packet identifiers, aliases, and what of them waits for an answer.
//!
//! A message of quality 2 leaves the queue when its PUBREC has come. Its place is kept until
//! PUBCOMP, so that a later connection of the session gets the PUBREL.
//!
//! Invariant: the packet identifier of a message of quality 2 follows from its place in the
//! session's queue. So a message that comes again has the identifier that it had, also after an end
//! of the broker [MQTT-4.4.0-1]. One of quality 1 has another one where that is in use.

use std::collections::{BTreeSet, HashMap, VecDeque};

use broker::{Counts, Delivery, Dialects, Message, Outcome, SessionId};
use wire::Output;

use super::failure::Failure;
use super::filters::Matched;
use super::seldom::{Seldom, empty};
use super::store::OWN;
use crate::address::topic_of_key;
use crate::codec::{
    Ack, PacketId, PacketKind, Properties, PropertyBlock, PropertyId, PropertyValue, Publish, QoS, Reason, Version,
};
use crate::dialect::{self, Stored};
use crate::limits;

/// How far a message has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// It waits for PUBACK.
    Once,
    /// It waits for PUBREC.
    Received,
    /// It waits for PUBCOMP.
    Released,
}

/// What follows from an answer of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Follows {
    /// The delivery with this tag is settled by its reason.
    Settle(u64),
    /// The client has taken the delivery with this tag. A PUBREL follows.
    Take(u64),
    /// It has forgotten the message of this place.
    Complete {
        /// The place.
        place: u64,
        /// The tag of its delivery, if this connection has made it.
        tag: Option<u64>,
    },
    /// A PUBREL with this reason.
    Release(Reason),
    /// Nothing.
    Nothing,
}

/// What the client said of what it takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Accepts {
    pub(super) version: Version,
    /// The most bytes of a packet.
    pub(super) packet: u32,
    /// The largest alias of a topic.
    pub(super) aliases: u16,
}

/// A message that the client has not answered.
#[derive(Debug)]
struct Sent {
    /// The broker's tag, if it was sent by this connection.
    tag: Option<u64>,
    /// Its place in its queue.
    place: u64,
    stage: Stage,
}

/// A message of quality 2 whose identifier is in use.
#[derive(Debug)]
pub(super) struct Waiting {
    tag: u64,
    place: u64,
    redelivered: bool,
    counts: Counts,
    message: Message,
}

impl Waiting {
    /// The delivery that it was.
    pub(super) fn as_delivery<'d>(&'d self, session: SessionId, consumer_tag: &'d str) -> Delivery<'d> {
        let Self { tag, place, redelivered, counts, ref message } = *self;
        Delivery { session, consumer_tag, tag, redelivered, place, failures: 0, counts, message }
    }
}

/// The identifier that a message at this place in the session's queue has. A lane has far more
/// numbers than there are identifiers, so they come again.
fn id_of(place: u64) -> PacketId {
    let number = (place.wrapping_sub(1) % u64::from(u16::MAX)) as u16 + 1;
    PacketId::new(number).unwrap_or(PacketId::MIN)
}

/// See the module.
#[derive(Debug)]
pub(super) struct Outgoing {
    accepts: Accepts,
    ledger: Seldom<Ledger>,
}

/// What is not settled, and what is kept for the next messages.
#[derive(Debug)]
struct Ledger {
    sent: HashMap<PacketId, Sent>,
    /// How many of them wait for PUBCOMP.
    released: usize,
    waiting: VecDeque<Waiting>,
    /// The last identifier that does not follow from a place.
    last: PacketId,
    aliases: HashMap<Box<str>, u16>,
    /// Reused for each message.
    block: PropertyBlock,
    /// Deliveries that need no answer of the client.
    settled: Vec<(u64, Outcome)>,
}

empty!(Ledger);

impl Default for Ledger {
    fn default() -> Self {
        Self {
            sent: HashMap::new(),
            released: 0,
            waiting: VecDeque::new(),
            last: PacketId::MAX,
            aliases: HashMap::new(),
            block: PropertyBlock::default(),
            settled: Vec::new(),
        }
    }
}

/// A figure of the broker, as it is sent.
pub(super) struct Figure<'f> {
    pub(super) topic: &'f str,
    pub(super) value: &'f str,
    /// The flag RETAIN.
    pub(super) retain: bool,
}

/// What a message is, whatever it was published over.
struct Shown<'m> {
    qos: QoS,
    retain: bool,
    properties: Shape<'m>,
}

/// Where the properties of a message are.
enum Shape<'m> {
    /// They are its publisher's.
    Own(Properties<'m>),
    /// They were written, since they differ from its publisher's.
    Written,
}

/// How a topic is said.
#[derive(Clone, Copy)]
enum Said {
    /// As it is.
    Topic,
    /// As it is, with an alias from now on.
    Named(u16),
    /// By its alias.
    Alias(u16),
}

impl Outgoing {
    /// For a client that accepts this.
    pub(super) fn new(accepts: Accepts) -> Self {
        Self { accepts, ledger: Seldom::default() }
    }

    /// Gives back what is kept for the next ones; all of it where the client owes nothing and knows
    /// no alias.
    pub(super) fn rest(&mut self) {
        let ledger = &self.ledger;
        if ledger.sent.is_empty() && ledger.waiting.is_empty() && ledger.settled.is_empty() {
            if ledger.aliases.is_empty() {
                return self.ledger.let_go();
            }
            (self.ledger.sent, self.ledger.waiting, self.ledger.settled) = Default::default();
        }
        self.ledger.block = PropertyBlock::default();
    }

    /// Takes the deliveries that need no answer of the client, if there are any.
    pub(super) fn take_settled(&mut self) -> Option<Vec<(u64, Outcome)>> {
        (!self.ledger.settled.is_empty()).then(|| std::mem::take(&mut self.ledger.settled))
    }

    /// Gives the list of these back, empty.
    pub(super) fn settled_again(&mut self, mut settled: Vec<(u64, Outcome)>) {
        settled.clear();
        self.ledger.settled = settled;
    }

    /// Takes up the messages at these places, which the client has taken and not completed. Returns
    /// their identifiers, in order.
    pub(super) fn resume<'o>(&'o mut self, taken: &'o BTreeSet<u64>) -> impl Iterator<Item = PacketId> + 'o {
        taken.iter().map(|place| {
            let id = id_of(*place);
            self.ledger.sent.insert(id, Sent { tag: None, place: *place, stage: Stage::Released });
            self.ledger.released = self.ledger.sent.len();
            id
        })
    }

    /// The client has answered a message by a packet of this kind. An identifier that is not known
    /// is passed over, except for PUBREC [MQTT-4.3.3-4].
    ///
    /// # Errors
    /// If it is the answer to a message of another quality, or at another step (section 1.2,
    /// protocol error), or if too many messages wait for PUBCOMP.
    pub(super) fn answered(&mut self, kind: PacketKind, ack: &Ack<'_>) -> Result<Follows, Failure> {
        let stage = self.ledger.sent.get(&ack.id).map(|sent| sent.stage);
        match (kind, stage) {
            (PacketKind::PubAck, Some(Stage::Once)) => {}
            // A refused message is forgotten, and there is no PUBREL.
            (PacketKind::PubRec, Some(Stage::Received)) if ack.reason.is_error() => {}
            (PacketKind::PubRec, Some(Stage::Received)) => return self.take(ack.id),
            (PacketKind::PubRec, Some(Stage::Released)) => return Ok(Follows::Release(Reason::Success)),
            (PacketKind::PubRec, None) if !ack.reason.is_error() => {
                return Ok(Follows::Release(Reason::PacketIdNotFound));
            }
            (PacketKind::PubComp, Some(Stage::Released)) => {
                self.ledger.released -= 1;
                let sent = self.ledger.sent.remove(&ack.id);
                return Ok(sent.map_or(Follows::Nothing, |Sent { place, tag, .. }| Follows::Complete { place, tag }));
            }
            (_, None) => return Ok(Follows::Nothing),
            (_, Some(_)) => {
                let (kind, id) = (kind.as_str(), ack.id);
                return Err(Failure::protocol(format!("{kind} {id} is not what message {id} waits for [4.3]")));
            }
        }
        let tag = self.ledger.sent.remove(&ack.id).and_then(|sent| sent.tag);
        Ok(tag.map_or(Follows::Nothing, Follows::Settle))
    }

    fn take(&mut self, id: PacketId) -> Result<Follows, Failure> {
        if self.ledger.released >= limits::UNCOMPLETED {
            let text = format!("{} messages wait for PUBCOMP, the most that may: answer PUBREL", limits::UNCOMPLETED);
            return Err(Failure::new(Reason::QuotaExceeded, text));
        }
        let Ledger { sent, released, .. } = &mut *self.ledger;
        let Some(sent) = sent.get_mut(&id) else { return Ok(Follows::Nothing) };
        sent.stage = Stage::Released;
        *released += 1;
        Ok(sent.tag.map_or(Follows::Nothing, Follows::Take))
    }

    /// The next message that waited for its identifier, if that is free.
    pub(super) fn take_waiting(&mut self) -> Option<Waiting> {
        // Most sessions have none, at most times.
        if self.ledger.waiting.is_empty() {
            return None;
        }
        let Ledger { sent, waiting, .. } = &mut *self.ledger;
        waiting.pop_front_if(|waiting| !sent.contains_key(&id_of(waiting.place)))
    }

    /// The identifier of a message. `None` if it has to wait for its own.
    fn identify(&mut self, delivery: &Delivery<'_>, qos: QoS) -> Option<PacketId> {
        let own = id_of(delivery.place);
        if delivery.consumer_tag == OWN && !self.ledger.sent.contains_key(&own) {
            return Some(own);
        }
        if qos == QoS::ExactlyOnce {
            return None;
        }
        let mut id = self.ledger.last;
        loop {
            id = PacketId::new(id.get().wrapping_add(1)).unwrap_or(PacketId::MIN);
            // Far fewer are unanswered than there are identifiers.
            if !self.ledger.sent.contains_key(&id) {
                self.ledger.last = id;
                return Some(id);
            }
        }
    }

    /// Writes the PUBLISH of a delivery to the subscriptions that it matches. `now` is in
    /// milliseconds since 1970.
    pub(super) fn write(
        &mut self,
        delivery: &Delivery<'_>,
        topic: &str,
        matched: &Matched,
        (dialects, now): (&Dialects, u64),
        output: &mut Output,
    ) {
        let Some(granted) = matched.qos else { return self.settle(delivery, Outcome::Accepted) };
        let (message, body) = (delivery.message, delivery.message.body());
        let said = self.say(topic);
        let mut block = std::mem::take(&mut self.ledger.block);
        block.clear();
        let Some(shown) = show(delivery, dialects, now, &mut block) else {
            self.ledger.block = block;
            return self.settle(delivery, Outcome::REJECTED);
        };
        let properties = with_own(shown.properties, matched, said, &mut block);
        let qos = shown.qos.min(granted);
        let mut publish = Publish {
            dup: qos != QoS::AtMostOnce && delivery.redelivered,
            qos,
            retain: message.is_retained() || (shown.retain && matched.retain_as_published),
            topic: if matches!(said, Said::Alias(_)) { "" } else { topic },
            id: (qos != QoS::AtMostOnce).then_some(PacketId::MIN),
            properties,
            payload: &[],
        };
        if publish.total_length(self.accepts.version, body.len()) > self.accepts.packet as usize {
            // As if it had been sent [MQTT-3.1.2-25]; a dead-letter exchange gets it.
            self.settle(delivery, Outcome::REJECTED);
        } else {
            self.send(&mut publish, delivery, (topic, said), output);
        }
        self.ledger.block = block;
    }

    /// Writes a figure of the broker, which no queue has, to the subscriptions that its topic
    /// matches.
    pub(super) fn write_figure(&mut self, figure: &Figure<'_>, matched: &Matched, output: &mut Output) {
        if matched.qos.is_none() {
            return;
        }
        let mut block = std::mem::take(&mut self.ledger.block);
        block.clear();
        let properties = with_own(Shape::Written, matched, Said::Topic, &mut block);
        let &Figure { topic, value, retain } = figure;
        let publish = Publish { retain, topic, properties, ..Publish::default() };
        if publish.total_length(self.accepts.version, value.len()) <= self.accepts.packet as usize {
            publish.write_head(self.accepts.version, value.len(), output.tail());
            output.put(value.as_bytes());
        }
        self.ledger.block = block;
    }

    /// A delivery needs no answer of the client. One that comes from no queue needs none at all.
    fn settle(&mut self, delivery: &Delivery<'_>, outcome: Outcome) {
        if delivery.place != 0 {
            self.ledger.settled.push((delivery.tag, outcome));
        }
    }

    /// Sends a message, or lets it wait for its identifier.
    fn send(
        &mut self,
        publish: &mut Publish<'_>,
        delivery: &Delivery<'_>,
        (topic, said): (&str, Said),
        output: &mut Output,
    ) {
        let (version, body) = (self.accepts.version, delivery.message.body());
        if !self.note(publish, delivery) {
            let &Delivery { tag, place, redelivered, counts, message, .. } = delivery;
            let waiting = Waiting { tag, place, redelivered, counts, message: message.clone() };
            return self.ledger.waiting.push_back(waiting);
        }
        if let Said::Named(alias) = said {
            self.ledger.aliases.insert(topic.into(), alias);
        }
        publish.write_head(version, body.len(), output.tail());
        if body.len() < limits::SHARED_PAYLOAD {
            output.put(body);
        } else {
            output.put_shared(&delivery.message.body_shared());
        }
    }

    /// Notes a message that is sent now, and gives it its identifier. False if that is in use.
    fn note(&mut self, publish: &mut Publish<'_>, delivery: &Delivery<'_>) -> bool {
        let stage = match publish.qos {
            QoS::AtMostOnce => {
                self.settle(delivery, Outcome::Accepted);
                return true;
            }
            QoS::AtLeastOnce => Stage::Once,
            QoS::ExactlyOnce => Stage::Received,
        };
        let Some(id) = self.identify(delivery, publish.qos) else { return false };
        publish.id = Some(id);
        self.ledger.sent.insert(id, Sent { tag: Some(delivery.tag), place: delivery.place, stage });
        true
    }

    /// How a topic is said: by an alias while the client takes more of them.
    fn say(&self, topic: &str) -> Said {
        let most = self.accepts.aliases.min(limits::ALIASES_OUT);
        // An alias takes three bytes.
        if most == 0 || topic.len() <= 3 {
            return Said::Topic;
        }
        let next = self.ledger.aliases.len() as u16 + 1;
        match self.ledger.aliases.get(topic) {
            Some(alias) => Said::Alias(*alias),
            None if next <= most => Said::Named(next),
            None => Said::Topic,
        }
    }
}

/// Adds what belongs to this packet alone to the properties of its message.
fn with_own<'b>(shape: Shape<'b>, matched: &Matched, said: Said, block: &'b mut PropertyBlock) -> Properties<'b> {
    let alias = match said {
        Said::Named(alias) | Said::Alias(alias) => Some(alias),
        Said::Topic => None,
    };
    if let Shape::Own(own) = shape {
        if alias.is_none() && matched.ids.is_empty() {
            return own;
        }
        own.iter().for_each(|(id, value)| _ = block.put(id, value));
    }
    matched.ids.iter().for_each(|id| _ = block.number(PropertyId::SubscriptionId, *id));
    alias.iter().for_each(|alias| _ = block.number(PropertyId::TopicAlias, u32::from(*alias)));
    block.as_properties()
}

/// Reads what the message is. Properties that are not its publisher's are written into `block`.
/// `None` for a message that cannot be read.
fn show<'m>(delivery: &Delivery<'m>, dialects: &Dialects, now: u64, block: &mut PropertyBlock) -> Option<Shown<'m>> {
    let message = delivery.message;
    // The seconds that a message has left [MQTT-3.3.2-6].
    let left = |expiration: u64| {
        let end = message.published_at().saturating_add(expiration);
        u32::try_from(end.saturating_sub(now).div_ceil(1000)).unwrap_or(u32::MAX)
    };
    if message.dialect() != dialect::ENCODING {
        let neutral = dialects.read_shown(message, delivery.counts).ok()?;
        let qos = if neutral.persistent { QoS::AtLeastOnce } else { QoS::AtMostOnce };
        dialect::write(&neutral, neutral.expiration.map(left), block);
        let retain = neutral.headers.get("x-retain").is_some();
        return Some(Shown { qos, retain, properties: Shape::Written });
    }
    let Stored { qos, retain, properties, .. } = Stored::read(message.properties()).ok()?;
    // That a message was a topic's value is said by its flag.
    let overlay = if message.is_retained() { None } else { message.overlay(delivery.counts, dialects) };
    if overlay.is_none() && properties.number(PropertyId::MessageExpiry).is_none() {
        return Some(Shown { qos, retain, properties: Shape::Own(properties) });
    }
    let covers = |name: &str| overlay.as_ref().is_some_and(|overlay| overlay.covers(name));
    for (id, value) in properties.iter() {
        match (id, value, message.expiration()) {
            (PropertyId::MessageExpiry, _, Some(expiration)) => _ = block.number(id, left(expiration)),
            // What has expired does not expire again where it went.
            (PropertyId::MessageExpiry, _, None) => {}
            (_, PropertyValue::Pair(name, _), _) if covers(name) => {}
            _ => _ = block.put(id, value),
        }
    }
    for (name, value) in overlay.iter().flat_map(|overlay| overlay.headers()) {
        dialect::put_header(name, value, block);
    }
    Some(Shown { qos, retain, properties: Shape::Written })
}

/// The topic of a message: its routing key, whatever its exchange.
pub(super) fn topic_of<'m>(delivery: &Delivery<'m>) -> std::borrow::Cow<'m, str> {
    topic_of_key(delivery.message.routing_key())
}
