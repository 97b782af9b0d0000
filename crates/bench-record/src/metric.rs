//! What the figures of cells are called, in which unit they are, which direction is better, and how
//! they follow from a slice.

use crate::scenario::Scenario;
use crate::slice::Measured;
use crate::statistics::spread::Spread;
use crate::suite::{Cell, Figures, Metric};

impl Metric {
    /// What it is, in words that can stand above a column.
    pub fn title(self) -> &'static str {
        match self {
            Self::MessagesPerSecond => "message rate",
            Self::MegabytesPerSecond => "bandwidth",
            Self::LatencyUs => "median latency",
            Self::CompletionUs => "completion time of an order",
            Self::PacketsPerOrder => "packets per order",
            Self::CpuUsPerMessage => "CPU time of the broker per message",
            Self::ResidentMib => "resident memory of the broker",
            Self::Passed => "passed",
        }
    }

    /// Its unit, short.
    pub fn unit(self) -> &'static str {
        match self {
            Self::MessagesPerSecond => "msg/s",
            Self::MegabytesPerSecond => "MB/s",
            Self::LatencyUs | Self::CompletionUs => "µs",
            Self::PacketsPerOrder => "packets/order",
            Self::CpuUsPerMessage => "µs CPU/msg",
            Self::ResidentMib => "MiB",
            Self::Passed => "",
        }
    }

    /// True where a larger figure is the better one.
    pub fn more_is_better(self) -> bool {
        matches!(self, Self::MessagesPerSecond | Self::MegabytesPerSecond | Self::Passed)
    }

    /// The figure of one slice; none where slices do not tell it.
    pub fn of_slice(self, measured: &Measured, load: &Scenario) -> Option<f64> {
        match self {
            Self::MessagesPerSecond => Some(measured.rates.messages_per_s),
            Self::MegabytesPerSecond => Some(measured.rates.messages_per_s * load.message.size as f64 / 1e6),
            Self::LatencyUs => measured
                .latencies
                .latency_us
                .as_ref()
                .or(measured.latencies.confirm_us.as_ref())
                .map(|latency| latency.p50),
            Self::CpuUsPerMessage => measured.costs.broker.map(|cost| cost.cpu_us_per_message),
            Self::ResidentMib => measured.costs.broker.map(|cost| cost.resident_bytes as f64 / 1_048_576.0),
            Self::CompletionUs | Self::PacketsPerOrder | Self::Passed => None,
        }
    }
}

/// A metric of a cell over its slices: the cell's own, or one that its slices tell.
pub fn spread_of(metric: Metric, cell: &Cell, found: &Figures) -> Option<Spread> {
    if metric == cell.metric {
        return Some(found.value.clone());
    }
    let counted = || found.all.iter().filter(|slice| !slice.superseded).filter_map(|slice| slice.measured.as_ref());
    let values = |only_valid: bool| {
        let usable = counted().filter(|measured| !only_valid || measured.verdict.valid);
        usable.filter_map(|measured| metric.of_slice(measured, &cell.load)).collect::<Vec<f64>>()
    };
    Spread::of(values(found.valid > 0))
}
