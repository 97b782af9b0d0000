//! Ready-made scenarios: the rows of the speed table that every release publishes.

use crate::arrivals::Arrivals;
use crate::scenario::{Destination, Mode, Payload, QueueKind, Rate, Scenario};

/// A row of the speed table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Preset {
    /// 64 B transient, automatic acknowledgement, 1:1, saturated
    Transient64,
    /// 1 KiB transient, automatic acknowledgement, 1:1, saturated
    Transient1k,
    /// 1 KiB persistent, confirms with a window of 1000, prefetch 1000, one acknowledgement each,
    /// 1:1 on two connections
    Persistent1k,
    /// 64 B transient, one message at a time there and back
    Pingpong,
    /// 1 KiB transient, open loop at half of the target's own saturation
    Halfload,
    /// 1 KiB transient, saturated, with a second matching queue that has no consumer
    Fanout,
    /// 1 KiB persistent, one publisher that waits for each confirm
    Sync,
}

impl Preset {
    /// The scenario of this row.
    pub fn scenario(self) -> Scenario {
        let base = Scenario::default();
        let persistent = Scenario { persistent: true, queue: QueueKind::Durable, ..base.clone() };
        match self {
            Self::Transient64 => Scenario { size: 64, ..base },
            Self::Transient1k => base,
            Self::Persistent1k => Scenario { window: 1000, prefetch: 1000, ack_every: 1, ..persistent },
            Self::Pingpong => Scenario { mode: Mode::Pingpong, size: 64, ..base },
            Self::Halfload => Scenario { rate: Rate::Half, ..base },
            Self::Fanout => Scenario { destination: Destination::Fanout, idle_queues: 1, ..base },
            Self::Sync => Scenario { window: 1, consumers: 0, ..persistent },
        }
    }
}

impl Default for Scenario {
    /// 1 KiB transient, automatic acknowledgement, one producer, one consumer, saturated.
    fn default() -> Self {
        Self {
            mode: Mode::Throughput,
            producers: 1,
            consumers: 1,
            queues: 1,
            destination: Destination::Queue,
            bindings: 1,
            idle_queues: 0,
            idle_length: 1000,
            queue: QueueKind::Exclusive,
            queue_name: None,
            size: 1024,
            payload: Payload::Random,
            tail: None,
            persistent: false,
            priority: None,
            selector: None,
            window: 0,
            prefetch: 0,
            ack_every: 0,
            dups_ok: false,
            poll: false,
            drain: false,
            bystander: false,
            reply: false,
            nodelay: true,
            rate: Rate::Saturate,
            arrivals: Arrivals::Uniform,
            in_flight: 50_000,
            duration: 5.0,
            warmup: 1.0,
            until_steady: false,
            messages: None,
            warmup_messages: 0,
            cap: None,
            patience: 5.0,
            batch: 64 * 1024,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn every_preset_can_be_run() {
        for preset in Preset::value_variants() {
            let scenario = preset.scenario();
            scenario.check().unwrap_or_else(|failure| panic!("{preset:?}: {failure}"));
            assert_eq!(scenario.persistent, scenario.queue == QueueKind::Durable, "{preset:?}");
        }
    }
}
