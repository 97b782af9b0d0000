//! Answers that wait until what they say is on disk, in order: SUBACK and UNSUBACK, and the second
//! half of quality 2 (section 4.3.3 of MQTT 5).
//!
//! The steps of messages of quality 2 are gathered in a turn, and handed to the broker together.
//! PUBREL and PUBCOMP leave in the order of what they answer [MQTT-4.6.0-4].

use std::collections::{HashSet, VecDeque};

use broker::{Awaited, Client, Handover, SessionId, Ticket};
use wire::Output;

use super::failure::Failure;
use super::seldom::{Seldom, empty};
use crate::codec::{Ack, Packet, PacketId, PacketKind, Properties, Reason, Version, encode};

/// An answer.
#[derive(Debug)]
enum Fenced {
    /// These bytes.
    Packet(Vec<u8>),
    /// An answer to an answer.
    Answer(PacketKind, PacketId, Reason),
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Fences {
    waiting: VecDeque<(Awaited, Fenced)>,
    /// Steps of this turn, and the answers that wait for them.
    steps: Vec<Handover>,
    /// The identifiers among them that are free again.
    released: HashSet<PacketId>,
    answers: Vec<(PacketKind, PacketId, Reason)>,
}

empty!(Fences);

impl Seldom<Fences> {
    /// Gives back what is kept for the next ones.
    pub(super) fn rest(&mut self) {
        if self.has_nothing() {
            self.let_go();
        }
    }
}

impl Fences {
    /// Whether no answer waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.answers.is_empty()
    }

    /// Whether nothing is gathered or waits.
    pub(super) fn has_nothing(&self) -> bool {
        self.is_empty() && self.steps.is_empty()
    }

    /// The client has forgotten a message of its own.
    pub(super) fn release_id(&mut self, id: PacketId) {
        self.steps.push(Handover::Released(id.get().into()));
        self.released.insert(id);
    }

    /// Whether this turn has released an identifier, and the broker does not know that yet.
    pub(super) fn has_released(&self, id: PacketId) -> bool {
        self.released.contains(&id)
    }

    /// A message of quality 2 has come so far.
    pub(super) fn step(&mut self, step: Handover) {
        self.steps.push(step);
    }

    /// PUBREL or PUBCOMP, which leaves when all steps before it are kept.
    pub(super) fn answer(&mut self, kind: PacketKind, id: PacketId, reason: Reason) {
        self.answers.push((kind, id, reason));
    }

    /// An answer that is written when `ticket` and all earlier settlements are durable.
    pub(super) fn fence(&mut self, ticket: Ticket, packet: &Packet<'_>, version: Version) {
        let mut bytes = Vec::new();
        encode(packet, version, &mut bytes);
        self.waiting.push_back((ticket.into(), Fenced::Packet(bytes)));
    }

    /// All that follows waits until `ticket` is durable.
    pub(super) fn wait(&mut self, ticket: Ticket) {
        self.waiting.push_back((ticket.into(), Fenced::Packet(Vec::new())));
    }

    /// Hands the steps of the turn to the broker. Their answers wait for them.
    pub(super) fn hand_over(&mut self, client: &mut Client, session: SessionId) -> Result<(), Failure> {
        let mut ticket = Ticket::NONE;
        if !self.steps.is_empty() {
            ticket = client.hand_over(session, &self.steps)?;
            self.steps.clear();
            self.released.clear();
        }
        for (kind, id, reason) in self.answers.drain(..) {
            self.waiting.push_back((ticket.into(), Fenced::Answer(kind, id, reason)));
        }
        Ok(())
    }

    /// Writes the answers that have nothing more to wait for.
    pub(super) fn release(&mut self, client: &mut Client, version: Version, output: &mut Output) {
        while let Some((_, fenced)) = self.waiting.pop_front_if(|(awaited, _)| client.durable(*awaited)) {
            let before = output.len();
            match fenced {
                Fenced::Packet(bytes) => output.put(&bytes),
                Fenced::Answer(kind, id, reason) => {
                    Ack { id, reason, properties: Properties::NONE }.write(kind, version, output.tail());
                }
            }
            output.count_answer(output.len() - before);
        }
    }
}
