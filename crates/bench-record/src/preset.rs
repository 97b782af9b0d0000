//! Ready-made scenarios: the rows of the speed table that every release publishes.

use crate::scenario::{Destination, Mode, QueueKind, Rate, Scenario};

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
        let persistent = base.clone().with(|s| (s.message.persistent, s.topology.queue) = (true, QueueKind::Durable));
        match self {
            Self::Transient64 => base.with(|s| s.message.size = 64),
            Self::Transient1k => base,
            Self::Persistent1k => persistent.with(|s| {
                (s.clients.window, s.clients.prefetch, s.clients.ack_every) = (1000, 1000, 1);
            }),
            Self::Pingpong => base.with(|s| (s.mode, s.message.size) = (Mode::Pingpong, 64)),
            Self::Halfload => base.with(|s| s.pace.rate = Rate::Half),
            Self::Fanout => base.with(|s| {
                (s.topology.destination, s.topology.idle_queues) = (Destination::Fanout, 1);
            }),
            Self::Sync => persistent.with(|s| (s.clients.window, s.topology.consumers) = (1, 0)),
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
            assert_eq!(scenario.message.persistent, scenario.topology.queue == QueueKind::Durable, "{preset:?}");
        }
    }
}
