//! Messages to the client: their packet identifiers, aliases, and what of them waits for an answer.
//!
//! A message of quality 2 keeps its place in the queue until PUBCOMP. Once its PUBREC has come, a
//! later connection of the session gets the PUBREL alone.
//!
//! Invariant: a message that comes again to the same session has the packet identifier that it had
//! [MQTT-4.4.0-1]. What a session left unanswered goes back to its place in the queue, so it comes
//! first, in the order in which it came before.

use std::collections::{HashMap, VecDeque};

use broker::{Delivery, Dialects, Message, Outcome};
use wire::Output;

use super::filters::Matched;
use crate::address::topic_of_key;
use crate::codec::{Ack, PacketId, PacketKind, Properties, PropertyBlock, PropertyId, Publish, QoS, Reason, Version};
use crate::dialect::{self, Stored};
use crate::limits;

/// What tells one message from another that has the same place in the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fingerprint(u64, usize, usize);

impl Fingerprint {
    fn of(message: &Message) -> Self {
        Self(message.published_at(), message.routing_key().len(), message.body().len())
    }
}

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

/// A message that a session left unanswered.
#[derive(Debug)]
pub(super) struct Left {
    id: PacketId,
    fingerprint: Fingerprint,
    stage: Stage,
}

/// Messages that a session left unanswered, in the order in which they were sent.
pub(super) type Unanswered = VecDeque<Left>;

/// What follows from an answer of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Follows {
    /// The delivery with this tag is settled by its reason.
    Settle(u64),
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
    /// The broker's tag.
    tag: u64,
    fingerprint: Fingerprint,
    stage: Stage,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Outgoing {
    accepts: Accepts,
    sent: HashMap<PacketId, Sent>,
    /// Those of the last connection, whose identifiers are used again.
    earlier: Unanswered,
    last: PacketId,
    aliases: HashMap<Box<str>, u16>,
    /// Reused for each message.
    block: PropertyBlock,
    /// Deliveries that need no answer of the client.
    pub(super) settled: Vec<(u64, Outcome)>,
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
    /// For a client that accepts this. `earlier` is what its session left unanswered before.
    pub(super) fn new(accepts: Accepts, earlier: Unanswered) -> Self {
        Self {
            accepts,
            sent: HashMap::new(),
            earlier,
            last: PacketId::MAX,
            aliases: HashMap::new(),
            block: PropertyBlock::default(),
            settled: Vec::new(),
        }
    }

    /// The client has answered a message by a packet of this kind. An identifier that is not known
    /// is passed over, except for PUBREC [MQTT-4.3.3-4].
    pub(super) fn answered(&mut self, kind: PacketKind, ack: &Ack<'_>) -> Follows {
        let stage = self.sent.get(&ack.id).map(|sent| sent.stage);
        match (kind, stage) {
            (PacketKind::PubAck, Some(Stage::Once)) | (PacketKind::PubComp, Some(Stage::Released)) => {}
            // A refused message is forgotten, and there is no PUBREL.
            (PacketKind::PubRec, Some(Stage::Received)) if ack.reason.is_error() => {}
            (PacketKind::PubRec, Some(Stage::Received | Stage::Released)) => {
                self.sent.entry(ack.id).and_modify(|sent| sent.stage = Stage::Released);
                return Follows::Release(Reason::Success);
            }
            (PacketKind::PubRec, None) if !ack.reason.is_error() => return Follows::Release(Reason::PacketIdNotFound),
            _ => return Follows::Nothing,
        }
        self.sent.remove(&ack.id).map_or(Follows::Nothing, |sent| Follows::Settle(sent.tag))
    }

    /// What was sent and not answered, in order, for the next connection of the session.
    pub(super) fn into_unanswered(self) -> Unanswered {
        let mut sent: Vec<_> = self.sent.into_iter().collect();
        sent.sort_unstable_by_key(|(_, sent)| sent.tag);
        let left = |(id, Sent { fingerprint, stage, .. })| Left { id, fingerprint, stage };
        sent.into_iter().map(left).chain(self.earlier).collect()
    }

    /// What the session has left of this message before.
    fn earlier(&mut self, fingerprint: Fingerprint) -> Option<Left> {
        let at = self.earlier.iter().position(|earlier| earlier.fingerprint == fingerprint)?;
        self.earlier.remove(at)
    }

    /// An identifier that is free.
    fn identify(&mut self) -> PacketId {
        let mut id = self.last;
        loop {
            id = PacketId::new(id.get().wrapping_add(1)).unwrap_or(PacketId::MIN);
            let is_taken = self.sent.contains_key(&id) || self.earlier.iter().any(|earlier| earlier.id == id);
            // Far fewer are unanswered than there are identifiers.
            if !is_taken {
                self.last = id;
                return id;
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
        let Some(granted) = matched.qos else { return self.settled.push((delivery.tag, Outcome::Accepted)) };
        let (message, body) = (delivery.message, delivery.message.body());
        let said = self.say(topic);
        let mut block = std::mem::take(&mut self.block);
        block.clear();
        let Some(shown) = show(delivery, dialects, now, &mut block) else {
            self.block = block;
            return self.settled.push((delivery.tag, Outcome::REJECTED));
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
            self.settled.push((delivery.tag, Outcome::REJECTED));
        } else {
            self.send(&mut publish, delivery, (topic, said), output);
        }
        self.block = block;
    }

    /// Sends a message: all of it, or its PUBREL if the client has it already.
    fn send(
        &mut self,
        publish: &mut Publish<'_>,
        delivery: &Delivery<'_>,
        (topic, said): (&str, Said),
        output: &mut Output,
    ) {
        let (version, body) = (self.accepts.version, delivery.message.body());
        let stage = self.note(publish, delivery);
        if let (Stage::Released, Some(id)) = (stage, publish.id) {
            return Ack::success(id).write(PacketKind::PubRel, version, output.tail());
        }
        if let Said::Named(alias) = said {
            self.aliases.insert(topic.into(), alias);
        }
        publish.write_head(version, body.len(), output.tail());
        if body.len() < limits::SHARED_PAYLOAD {
            output.put(body);
        } else {
            output.put_shared(&delivery.message.body_shared());
        }
    }

    /// Notes a message that is sent now, and gives it its identifier. Returns how far it has come.
    fn note(&mut self, publish: &mut Publish<'_>, delivery: &Delivery<'_>) -> Stage {
        let first = match publish.qos {
            QoS::AtMostOnce => {
                self.settled.push((delivery.tag, Outcome::Accepted));
                return Stage::Once;
            }
            QoS::AtLeastOnce => Stage::Once,
            QoS::ExactlyOnce => Stage::Received,
        };
        let fingerprint = Fingerprint::of(delivery.message);
        let (id, stage) = match self.earlier(fingerprint) {
            Some(Left { id, stage: Stage::Released, .. }) => (id, Stage::Released),
            Some(Left { id, .. }) => (id, first),
            None => (self.identify(), first),
        };
        publish.id = Some(id);
        self.sent.insert(id, Sent { tag: delivery.tag, fingerprint, stage });
        stage
    }

    /// How a topic is said: by an alias while the client takes more of them.
    fn say(&self, topic: &str) -> Said {
        let most = self.accepts.aliases.min(limits::ALIASES_OUT);
        // An alias takes three bytes.
        if most == 0 || topic.len() <= 3 {
            return Said::Topic;
        }
        let next = self.aliases.len() as u16 + 1;
        match self.aliases.get(topic) {
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
    let Some(seconds) = properties.number(PropertyId::MessageExpiry) else {
        return Some(Shown { qos, retain, properties: Shape::Own(properties) });
    };
    for (id, value) in properties.iter() {
        match id {
            PropertyId::MessageExpiry => block.number(id, left(u64::from(seconds) * 1000)),
            _ => block.put(id, value),
        };
    }
    Some(Shown { qos, retain, properties: Shape::Written })
}

/// The topic of a message: its routing key, whatever its exchange.
pub(super) fn topic_of<'m>(delivery: &Delivery<'m>) -> std::borrow::Cow<'m, str> {
    topic_of_key(delivery.message.routing_key())
}
