//! What is done to a broker: how many connections, which messages, which promises, how fast and for how long.

use serde::{Deserialize, Serialize};

use crate::failure::{Context, Failure};
use crate::load::Totals;
use crate::measure::schedule::Arrivals;

/// The kind of load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    /// Producers and consumers at once.
    Throughput,
    /// One message at a time, sent back by the far end: round trips.
    Pingpong,
}

/// How fast producers send.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Rate {
    /// Closed loop: as fast as window and in-flight bound allow. Latency counts from the send time.
    Saturate,
    /// Open loop: this many messages a second in all, whatever the broker does. Latency counts from the intended time.
    Fixed(f64),
    /// Open loop at half of what the target was first measured to sustain.
    Half,
}

impl std::str::FromStr for Rate {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        match text {
            "max" => Ok(Self::Saturate),
            "half" => Ok(Self::Half),
            _ => {
                let rate: f64 = text.parse().context(format!("{text}: a rate is messages per second, max or half"))?;
                if !rate.is_finite() || rate <= 0.0 {
                    return Err(Failure::new(format!(
                        "{text}: a rate must be more than 0; leave it away for a closed loop"
                    )));
                }
                Ok(Self::Fixed(rate))
            }
        }
    }
}

/// How long a queue lives and who may use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum QueueKind {
    /// Survives a restart.
    Durable,
    /// Belongs to its consumer's connection; needs exactly one consumer for each queue.
    Exclusive,
    /// Shared, and gone after a restart.
    Transient,
}

/// How consumers acknowledge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ack {
    /// One acknowledgement for this many messages; 0: automatic.
    pub(crate) every: u64,
}

impl std::str::FromStr for Ack {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let every = match text.split_once(':') {
            None if text == "auto" => 0,
            None if text == "each" => 1,
            Some(("every", count)) => count.parse().context(format!("{text}: how many"))?,
            _ => return Err(Failure::new(format!("{text}: acknowledgement is auto, each or every:K"))),
        };
        if every == 0 && text != "auto" {
            return Err(Failure::new(format!("{text}: K must be at least 1")));
        }
        Ok(Self { every })
    }
}

/// The warm-up: seconds, or `steady`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct WarmUp {
    /// Its length, or the most that it may take.
    pub(crate) seconds: f64,
    pub(crate) until_steady: bool,
}

/// Longest warm-up of a rate that never becomes steady, seconds.
const LONGEST_WARMUP: f64 = 60.0;

impl std::str::FromStr for WarmUp {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        if text == "steady" {
            return Ok(Self { seconds: LONGEST_WARMUP, until_steady: true });
        }
        let seconds = text.parse().context(format!("{text}: a warm-up is a number of seconds, or steady"))?;
        Ok(Self { seconds, until_steady: false })
    }
}

/// Confirms: `none`, or a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Confirms {
    /// Most unconfirmed messages of one producer; 0: no confirms.
    pub(crate) window: u64,
}

impl std::str::FromStr for Confirms {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        if text == "none" {
            return Ok(Self { window: 0 });
        }
        let window = text.parse().context(format!("{text}: a window is none or a number of messages"))?;
        if window == 0 {
            return Err(Failure::new("a window of 0 would never send; use none for no confirms"));
        }
        Ok(Self { window })
    }
}

/// One kind of run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Scenario {
    pub(crate) mode: Mode,
    pub(crate) producers: usize,
    pub(crate) consumers: usize,
    pub(crate) queues: usize,
    /// True: one exchange copies each message to all queues. False: producer i sends to queue i modulo queues.
    pub(crate) fanout: bool,
    /// Further queues that match and that nobody consumes.
    pub(crate) idle_queues: usize,
    /// Messages that such a queue holds before it drops its oldest.
    pub(crate) idle_length: u32,
    pub(crate) queue: QueueKind,
    /// Name of the only queue; none: names of the run's own.
    pub(crate) queue_name: Option<String>,
    /// Bytes of a body.
    pub(crate) size: usize,
    pub(crate) persistent: bool,
    /// Most unconfirmed messages of one producer; 0: no confirms.
    pub(crate) window: u64,
    /// Most unacknowledged messages of one consumer; 0: no limit.
    pub(crate) prefetch: u16,
    /// One acknowledgement for this many messages; 0: automatic.
    pub(crate) ack_every: u64,
    pub(crate) rate: Rate,
    pub(crate) arrivals: Arrivals,
    /// Closed loop: most messages sent and not yet received, over all producers; 0: no bound.
    pub(crate) in_flight: u64,
    /// Measured seconds.
    pub(crate) duration: f64,
    /// Seconds before that which are not measured.
    pub(crate) warmup: f64,
    /// Those are the most: the warm-up ends as soon as the rate is steady.
    #[serde(default)]
    pub(crate) until_steady: bool,
    /// Messages in all, measured from the first to the last, instead of a time.
    pub(crate) messages: Option<u64>,
    /// Seconds of silence after which a drain is given up and what is missing is lost.
    pub(crate) patience: f64,
    /// A producer gathers at most this many bytes into one write; 1: every message by itself.
    pub(crate) batch: usize,
}

impl Scenario {
    /// How often each message sent is received.
    pub(crate) fn copies(&self) -> u64 {
        match (self.consumers, self.fanout) {
            (0, _) => 0,
            (_, true) => self.queues as u64,
            _ => 1,
        }
    }

    /// The count that a slice is about: received, or confirmed (sent, without confirms) where nobody receives.
    pub(crate) fn main_count(&self, totals: &Totals) -> u64 {
        match (self.copies(), self.window) {
            (0, 0) => totals.sent,
            (0, _) => totals.confirmed,
            _ => totals.received,
        }
    }

    /// How many messages producer `id` may send.
    pub(crate) fn quota(&self, id: usize) -> u64 {
        let producers = self.producers as u64;
        self.messages.map_or(u64::MAX, |all| all / producers + u64::from((id as u64) < all % producers))
    }

    /// The nearest thing that a relay can do: pairs of one producer and one consumer. Where there are confirms, the
    /// consumer's acknowledgements pass through the relay and are the producer's confirms.
    pub(crate) fn for_relay(&self) -> Self {
        let ack_every = if self.window > 0 { self.ack_every.clamp(1, self.window) } else { 0 };
        let one_to_one = Self { consumers: self.producers, queues: self.producers, ack_every, ..self.clone() };
        Self { fanout: false, idle_queues: 0, persistent: false, queue: QueueKind::Transient, ..one_to_one }
    }

    /// Says what can't be done.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let refuse = |text: &str| Err(Failure::new(text));
        if self.queues == 0 || self.producers == 0 {
            return refuse("at least one producer and one queue are needed");
        }
        if self.producers > usize::from(u16::MAX) {
            return refuse("at most 65535 producers");
        }
        if self.queue == QueueKind::Exclusive && self.mode == Mode::Throughput && self.consumers != self.queues {
            return refuse("exclusive queues need exactly one consumer each; use --queue durable");
        }
        if self.consumers > 0 && self.consumers < self.queues {
            return refuse(
                "a queue without a consumer would never be emptied; use as many consumers as queues, or none, or --idle-queues",
            );
        }
        if !self.fanout && self.producers < self.queues {
            return refuse("producer i sends to queue i modulo queues: queues without a producer measure nothing");
        }
        if self.idle_queues > 0 && !self.fanout {
            return refuse("--idle-queues needs --fanout: only then do they match");
        }
        if self.queue_name.is_some() && (self.queues != 1 || self.fanout || self.mode == Mode::Pingpong) {
            return refuse("a queue can be named where there is one only");
        }
        if self.mode == Mode::Pingpong && self.rate != Rate::Saturate {
            return refuse("ping-pong has no rate: one message is under way at a time");
        }
        if self.duration <= 0.0 || self.warmup < 0.0 || !(self.duration + self.warmup).is_finite() {
            return refuse("--duration must be more than 0 seconds and --warmup not less than 0");
        }
        if !(self.patience > 0.0 && self.patience.is_finite()) {
            return refuse("--patience must be more than 0 seconds");
        }
        if self.batch == 0 || self.size > LARGEST_BODY || self.messages == Some(0) {
            return refuse("--batch and --messages must be at least 1, --size at most 134217728");
        }
        Ok(())
    }
}

/// Largest body, in bytes.
const LARGEST_BODY: usize = 128 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::Preset;

    #[test]
    fn options_with_a_grammar_are_read() {
        assert_eq!("auto".parse::<Ack>().unwrap().every, 0);
        assert_eq!("each".parse::<Ack>().unwrap().every, 1);
        assert_eq!("every:100".parse::<Ack>().unwrap().every, 100);
        assert_eq!("none".parse::<Confirms>().unwrap().window, 0);
        assert_eq!("1000".parse::<Confirms>().unwrap().window, 1000);
        assert_eq!("2.5".parse::<Rate>().unwrap(), Rate::Fixed(2.5));
        assert_eq!("half".parse::<Rate>().unwrap(), Rate::Half);
        for bad in ["", "every:", "every:0", "some", "every:x"] {
            assert!(bad.parse::<Ack>().is_err(), "{bad}");
        }
        for bad in ["0", "-1", "x", "inf", "NaN"] {
            assert!(bad.parse::<Rate>().is_err(), "{bad}");
            assert!(bad.parse::<Confirms>().is_err(), "{bad}");
        }
    }

    #[test]
    fn quotas_add_up_and_a_relay_confirms_by_acknowledging() {
        let scenario = Scenario { producers: 3, messages: Some(11), ..Scenario::default() };
        assert_eq!((0..4).map(|id| if id < 3 { scenario.quota(id) } else { 0 }).sum::<u64>(), 11);
        for preset in [Preset::Sync, Preset::Persistent1k, Preset::Fanout] {
            let relay = preset.scenario().for_relay();
            assert!(relay.check().is_ok() && relay.consumers == relay.producers && !relay.fanout);
            assert_eq!(relay.ack_every > 0, relay.window > 0, "{preset:?}");
        }
    }

    /// What the refusal says, and what leads to it.
    type Case = (&'static str, fn(&mut Scenario));

    #[test]
    fn what_can_not_be_done_is_refused() {
        let base = Preset::Transient64.scenario();
        assert!(base.check().is_ok());
        let cases: &[Case] = &[
            ("at least one producer", |s| s.producers = 0),
            ("exactly one consumer", |s| s.consumers = 2),
            ("never be emptied", |s| (s.queue, s.producers, s.queues) = (QueueKind::Durable, 2, 2)),
            ("without a producer", |s| (s.queue, s.consumers, s.queues) = (QueueKind::Durable, 2, 2)),
            ("needs --fanout", |s| s.idle_queues = 1),
            ("where there is one only", |s| (s.mode, s.queue_name) = (Mode::Pingpong, Some("q".to_owned()))),
            ("has no rate", |s| (s.mode, s.rate) = (Mode::Pingpong, Rate::Half)),
            ("--duration", |s| s.duration = 0.0),
            ("--batch", |s| s.batch = 0),
        ];
        for (part, change) in cases {
            let mut scenario = base.clone();
            change(&mut scenario);
            let failure = scenario.check().unwrap_err().to_string();
            assert!(failure.contains(part), "{failure}");
        }
    }
}
