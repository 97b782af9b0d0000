//! Messages from the client: topic aliases, answers in the order of the messages, and which of
//! quality 2 are known.
//!
//! Invariant: PUBACKs and PUBRECs leave in the order of their PUBLISHes, each when its message is
//! on disk. A message of quality 2 that comes again before its PUBREL is not published again
//! [MQTT-4.3.3-10].

use std::collections::{HashSet, VecDeque};

use broker::Refusal;

use super::failure::{Failure, reason_of};
use super::seldom::{Seldom, empty};
use crate::codec::{PacketId, PacketKind, PropertyId, Publish, QoS, Reason};
use crate::limits;

/// A message that is not answered.
#[derive(Debug)]
struct Pending {
    number: u64,
    id: PacketId,
    /// The kind of its answer: PUBACK or PUBREC.
    kind: PacketKind,
    /// What the broker said of it.
    outcome: Option<Reason>,
    /// Why it was refused.
    text: Option<String>,
}

/// An answer that can be sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) id: PacketId,
    pub(super) kind: PacketKind,
    pub(super) reason: Reason,
    pub(super) text: Option<String>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    /// The number of the last message with an answer.
    numbered: u64,
    pending: VecDeque<Pending>,
    /// The messages of quality 2 that have not been released.
    known: HashSet<PacketId>,
    /// The topics of the aliases from 1.
    aliases: Vec<Option<Box<str>>>,
}

empty!(Incoming);

impl Seldom<Incoming> {
    /// Gives back what is kept for the next ones; all of it for a client that only listens.
    pub(super) fn rest(&mut self) {
        if self.known.is_empty() && self.pending.is_empty() {
            if self.numbered == 0 && self.aliases.is_empty() {
                return self.let_go();
            }
            (self.known, self.pending) = Default::default();
        }
    }
}

impl Incoming {
    /// The topic of a message, which an alias may stand for.
    ///
    /// # Errors
    /// If the alias is larger than was offered [MQTT-3.2.2-17], or unknown (3.3.4: 0x82).
    pub(super) fn topic<'p>(&'p mut self, publish: &Publish<'p>) -> Result<&'p str, Failure> {
        let Some(alias) = publish.properties.number(PropertyId::TopicAlias) else { return Ok(publish.topic) };
        let invalid = |text: String| Failure::new(Reason::TopicAliasInvalid, text);
        if alias > u32::from(limits::ALIASES) {
            let most = limits::ALIASES;
            return Err(invalid(format!(
                "topic alias {alias} is above {most}, the Topic Alias Maximum of this server"
            )));
        }
        let at = alias as usize - 1;
        if publish.topic.is_empty() {
            let known = self.aliases.get(at).and_then(Option::as_deref);
            let text = || format!("topic alias {alias} has no topic yet");
            return known.ok_or_else(|| Failure::new(Reason::ProtocolError, text()));
        }
        if self.aliases.len() <= at {
            self.aliases.resize(at + 1, None);
        }
        self.aliases[at] = Some(publish.topic.into());
        let bytes: usize = self.aliases.iter().flatten().map(|topic| topic.len()).sum();
        if bytes > limits::ALIAS_BYTES {
            let most = limits::ALIAS_BYTES;
            return Err(Failure::new(
                Reason::QuotaExceeded,
                format!("the topics with aliases have more than {most} bytes"),
            ));
        }
        Ok(publish.topic)
    }

    /// What earlier connections of the session have left unreleased.
    pub(super) fn resume(&mut self, known: impl IntoIterator<Item = PacketId>) {
        self.known.extend(known);
    }

    /// PUBREL: the identifier is free again. Returns the reason of its PUBCOMP.
    pub(super) fn release(&mut self, id: PacketId) -> Reason {
        if self.known.remove(&id) { Reason::Success } else { Reason::PacketIdNotFound }
    }

    /// A message to answer; returns its number for the broker. `None` for one that came before: its
    /// answer comes again.
    ///
    /// # Errors
    /// If too many wait.
    pub(super) fn expect(&mut self, id: PacketId, qos: QoS) -> Result<Option<u64>, Failure> {
        let kind = if qos == QoS::ExactlyOnce { PacketKind::PubRec } else { PacketKind::PubAck };
        if kind == PacketKind::PubRec && self.known.contains(&id) {
            if !self.pending.iter().any(|pending| pending.id == id && pending.kind == kind) {
                let number = self.numbered;
                self.pending.push_back(Pending { number, id, kind, outcome: Some(Reason::Success), text: None });
            }
            return Ok(None);
        }
        if self.pending.len().max(self.known.len()) >= limits::UNANSWERED {
            let most = limits::RECEIVE_MAXIMUM;
            let text = format!("{} messages are not answered; the Receive Maximum is {most}", limits::UNANSWERED);
            return Err(Failure::new(Reason::ReceiveMaximumExceeded, text));
        }
        self.numbered += 1;
        self.pending.push_back(Pending { number: self.numbered, id, kind, outcome: None, text: None });
        if kind == PacketKind::PubRec {
            self.known.insert(id);
        }
        Ok(Some(self.numbered))
    }

    /// Whether this is the first message with an answer.
    pub(super) fn is_first(&self) -> bool {
        self.numbered == 1
    }

    /// Why the message of this number is refused, in words.
    pub(super) fn explain(&mut self, number: u64, text: String) {
        if let Some(pending) = self.of(number) {
            pending.text = Some(text);
        }
    }

    fn of(&mut self, number: u64) -> Option<&mut Pending> {
        // An answer that comes again has the number of a message before it.
        let at = self.pending.partition_point(|pending| pending.number < number);
        self.pending.get_mut(at).filter(|pending| pending.number == number)
    }

    /// All up to this number without an answer are as safe as they are to be.
    pub(super) fn confirmed(&mut self, up_to: u64) {
        let all = self.pending.iter_mut().take_while(|pending| pending.number <= up_to);
        all.filter(|pending| pending.outcome.is_none()).for_each(|pending| pending.outcome = Some(Reason::Success));
    }

    /// This one has no subscriber.
    pub(super) fn unroutable(&mut self, number: u64) {
        if let Some(pending) = self.of(number) {
            pending.outcome = Some(Reason::NoMatchingSubscribers);
        }
    }

    /// This one was refused.
    pub(super) fn refused(&mut self, number: u64, why: Refusal) {
        let Some(pending) = self.of(number) else { return };
        let (reason, text) = match why {
            Refusal::Full => (Reason::QuotaExceeded, Some("a queue is full, and refuses more")),
            Refusal::Alarm => (Reason::QuotaExceeded, Some("an alarm kept the message waiting for too long")),
            Refusal::Error(kind) => (reason_of(kind), None),
        };
        pending.outcome = Some(reason);
        pending.text = pending.text.take().or(text.map(str::to_owned));
    }

    /// The next answer, if it is known.
    pub(super) fn answer(&mut self) -> Option<Answer> {
        let pending = self.pending.pop_front_if(|pending| pending.outcome.is_some())?;
        let reason = pending.outcome.unwrap_or(Reason::Success);
        if reason.is_error() && pending.kind == PacketKind::PubRec {
            // Nothing of it is left on this side [MQTT-4.3.3-9].
            self.known.remove(&pending.id);
        }
        Some(Answer { id: pending.id, kind: pending.kind, reason, text: pending.text })
    }

    /// Whether no message waits for its answer.
    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u16) -> PacketId {
        PacketId::new(number).unwrap()
    }

    #[test]
    fn answers_keep_the_order_of_messages() {
        let mut incoming = Incoming::default();
        for number in [7, 3, 9] {
            incoming.expect(id(number), QoS::AtLeastOnce).unwrap();
        }
        assert!(!incoming.is_first());
        incoming.unroutable(2);
        incoming.refused(3, Refusal::Full);
        assert_eq!(incoming.answer(), None);
        incoming.confirmed(1);
        let mut answers = Vec::new();
        while let Some(answer) = incoming.answer() {
            answers.push((answer.id.get(), answer.reason, answer.text.is_some()));
        }
        let expected =
            [(7, Reason::Success, false), (3, Reason::NoMatchingSubscribers, false), (9, Reason::QuotaExceeded, true)];
        assert_eq!(answers, expected);
        assert!(incoming.is_empty());
    }

    #[test]
    fn more_than_a_client_may_leave_unanswered_is_refused() {
        let mut incoming = Incoming::default();
        (0..limits::UNANSWERED).for_each(|_| _ = incoming.expect(id(1), QoS::AtLeastOnce).unwrap());
        assert_eq!(incoming.expect(id(1), QoS::AtLeastOnce).unwrap_err().reason, Reason::ReceiveMaximumExceeded);
    }

    /// [MQTT-4.3.3-9], [MQTT-4.3.3-10]
    #[test]
    fn a_message_of_quality_2_is_taken_once_until_it_is_released() {
        let mut incoming = Incoming::default();
        let answers = |incoming: &mut Incoming| {
            std::iter::from_fn(|| incoming.answer()).map(|answer| (answer.kind, answer.reason)).collect::<Vec<_>>()
        };
        let rec = |reason| vec![(PacketKind::PubRec, reason)];
        assert_eq!(incoming.expect(id(5), QoS::ExactlyOnce), Ok(Some(1)));
        assert_eq!(incoming.expect(id(5), QoS::ExactlyOnce), Ok(None));
        incoming.confirmed(1);
        assert_eq!(answers(&mut incoming), rec(Reason::Success));
        assert_eq!(incoming.expect(id(5), QoS::ExactlyOnce), Ok(None));
        assert_eq!(answers(&mut incoming), rec(Reason::Success));
        let mut later = Incoming::default();
        later.resume([id(5)]);
        assert_eq!(later.expect(id(5), QoS::ExactlyOnce), Ok(None));
        assert_eq!(answers(&mut later), rec(Reason::Success));
        assert_eq!((later.release(id(5)), later.release(id(5))), (Reason::Success, Reason::PacketIdNotFound));
        assert_eq!(later.expect(id(5), QoS::ExactlyOnce), Ok(Some(1)));
        later.refused(1, Refusal::Full);
        assert_eq!(answers(&mut later), rec(Reason::QuotaExceeded));
        assert_eq!(later.release(id(5)), Reason::PacketIdNotFound);
    }
}
