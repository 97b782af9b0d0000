//! What consumers note on messages (the annotations of AMQP 1.0's `modified`). One client takes a
//! message, notes a number on it and gives it back, again and again. Once the broker has settled
//! that, the number is on the message for good: behind a kill it is the last one that was settled,
//! or the one that was under way.

use std::time::{Duration, Instant};

use amqp10::client::{Client, Event as Heard, LinkId, Login, Options};
use amqp10::codec::message::Message;
use amqp10::codec::performative::{Attach, Disposition, ReceiverSettleMode, Role};
use amqp10::codec::state::Modified;
use amqp10::codec::{AttachTarget, DeliveryState, Map, Outcome, Source, Target, Value};

use crate::history::Event;
use crate::random::Random;
use crate::stage::Stage;
use crate::talk::{Broken, Link};

/// The queue of the message.
pub(crate) const NOTED: &str = "crash.noted";
/// The annotation.
const NUMBER: &str = "x-opt-number";
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the broker has settled, and what it was asked for last.
#[derive(Debug, Default)]
pub(crate) struct Noted {
    number: u64,
    pending: Option<u64>,
    next: u64,
}

impl Noted {
    /// Notes numbers until the broker dies, or until then.
    pub(crate) fn play(&mut self, stage: &Stage, random: &mut Random, until: Instant) {
        let outcome = Annotator::open(stage).and_then(|mut annotator| {
            while !stage.is_dying() && Instant::now() < until {
                let (id, found) = annotator.take()?;
                self.judge(found).map_err(Broken::Refused)?;
                self.next += random.within(1..=3);
                self.pending = Some(self.next);
                annotator.note(id, self.next)?;
                (self.number, self.pending) = (self.next, None);
                stage.tell(&[Event::Kept]);
            }
            Ok(())
        });
        if let (Err(broken), false) = (outcome, stage.is_dying()) {
            stage.report("annotator", &broken);
        }
    }

    /// Looks at the message behind a kill.
    ///
    /// # Errors
    /// Where it has another number than it may have.
    pub(crate) fn check(&mut self, stage: &Stage) -> Result<(), String> {
        let found = Annotator::open(stage).and_then(|mut annotator| annotator.take());
        self.judge(found.map_err(|broken| broken.to_string())?.1)
    }

    fn judge(&mut self, found: u64) -> Result<(), String> {
        if found != self.number && Some(found) != self.pending {
            let Self { number, pending, .. } = self;
            return Err(format!("I15 what was noted on a message: {found}, not {number}, nor {pending:?} under way"));
        }
        (self.number, self.pending) = (found, None);
        Ok(())
    }
}

/// A connection over AMQP 1.0 with a link from the queue.
struct Annotator {
    link: Link,
    client: Client,
    output: Vec<u8>,
    channel: u16,
    from: LinkId,
}

impl Annotator {
    fn open(stage: &Stage) -> Result<Self, Broken> {
        let options = Options { login: Login::plain("guest", "guest"), ..Options::default() };
        let from = LinkId { channel: 0, handle: 0 };
        let (link, client) = (Link::open(stage.ports.amqp)?, Client::new(options));
        let mut annotator = Self { link, client, output: Vec::new(), channel: 0, from };
        annotator.client.start(&mut annotator.output);
        annotator.wait(|event| matches!(event, Heard::Opened(_)).then_some(()))?;
        annotator.channel = annotator.client.begin(&mut annotator.output).map_err(refused)?;
        let address = format!("/queues/{NOTED}");
        let attach = Attach {
            name: NOTED,
            role: Role::Receiver,
            rcv_settle_mode: ReceiverSettleMode::Second,
            source: Some(Source { address: Some(&address), ..Source::default() }),
            target: Some(AttachTarget::Target(Target::default())),
            ..Attach::default()
        };
        annotator.from = annotator.client.attach(annotator.channel, &attach, &mut annotator.output).map_err(refused)?;
        annotator.wait(|event| matches!(event, Heard::Attached { .. }).then_some(()))?;
        Ok(annotator)
    }

    /// Takes the message: its id here, and the number on it, which is 0 at first.
    fn take(&mut self) -> Result<(u32, u64), Broken> {
        self.client.grant(self.from, 1, &mut self.output).map_err(refused)?;
        self.wait(|event| {
            let Heard::Delivery { delivery, .. } = event else { return None };
            let annotations = Message::decode(&delivery.message).ok()?.message_annotations;
            let number = annotations.and_then(|all| all.get(NUMBER)?.as_integer());
            Some((delivery.id, number.map_or(0, |number| number as u64)))
        })
    }

    /// Gives it back with a number, and waits until that is settled.
    fn note(&mut self, id: u32, number: u64) -> Result<(), Broken> {
        let annotations = Value::Map(vec![(Value::Symbol(NUMBER.to_owned()), Value::U64(number))]).to_bytes();
        let annotations = Map::new(&annotations).map_err(refused)?;
        let (delivery_failed, undeliverable_here) = (false, false);
        let modified = Modified { delivery_failed, undeliverable_here, message_annotations: Some(annotations) };
        let state = Some(DeliveryState::Outcome(Outcome::Modified(modified)));
        let disposition = Disposition { role: Role::Receiver, first: id, state, ..Disposition::default() };
        self.client.disposition(self.channel, &disposition, &mut self.output).map_err(refused)?;
        self.wait(|event| match event {
            Heard::Settled { ids, .. } => ids.contains(&id).then_some(()),
            _ => None,
        })
    }

    /// Writes what was asked for, and reads until `pick` finds what was waited for.
    fn wait<T>(&mut self, pick: impl Fn(&Heard<'_>) -> Option<T>) -> Result<T, Broken> {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            self.link.turn(&mut self.output, Duration::from_millis(20))?;
            let mut rest = self.link.input();
            let before = rest.len();
            let mut found = None;
            while found.is_none() {
                let Some(event) = self.client.poll(&mut rest, &mut self.output).map_err(refused)? else { break };
                if let Heard::Detached { error, .. } | Heard::Ended { error, .. } | Heard::Closed { error } = &event {
                    return Err(Broken::Refused(format!("the annotator was ended: {error:?}")));
                }
                found = pick(&event);
            }
            let used = before - rest.len();
            self.link.consume(used);
            if let Some(found) = found {
                return Ok(found);
            }
        }
        Err(Broken::Refused(format!("no answer to the annotator within {PATIENCE:?}")))
    }
}

fn refused(error: impl std::fmt::Display) -> Broken {
    Broken::Refused(format!("annotator: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_the_last_one_or_the_one_under_way() {
        for (found, fits) in [(4, false), (5, true), (6, false), (7, true), (8, false), (0, false)] {
            let mut noted = Noted { number: 5, pending: Some(7), next: 7 };
            assert_eq!(noted.judge(found).is_ok(), fits, "{found}");
            let expected = if fits { (found, None) } else { (5, Some(7)) };
            assert_eq!((noted.number, noted.pending), expected);
        }
    }
}
