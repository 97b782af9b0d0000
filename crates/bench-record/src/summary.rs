//! What a target's slices say together: medians over blocks for the eye, ratios within blocks with
//! their intervals for a judgement, and what was remarked.

use crate::run::{Ratios, TargetSummary, Times, WithinBlocks};
use crate::slice::{Measured, SliceRecord};
use crate::statistics::ratio::Ratio;
use crate::statistics::spread::Spread;
use crate::statistics::trend::{Trend, mann_kendall};
use crate::target::{LOG, Target};

/// A figure of a slice.
type Figure = fn(&Measured) -> Option<f64>;

fn rate(measured: &Measured) -> Option<f64> {
    Some(measured.rates.messages_per_s)
}

fn cpu(measured: &Measured) -> Option<f64> {
    measured.costs.broker.map(|cost| cost.cpu_us_per_message)
}

fn latency_p50(measured: &Measured) -> Option<f64> {
    measured.latencies.latency_us.as_ref().map(|latency| latency.p50)
}

fn latency_p99(measured: &Measured) -> Option<f64> {
    measured.latencies.latency_us.as_ref().map(|latency| latency.p99)
}

fn confirm_p50(measured: &Measured) -> Option<f64> {
    measured.latencies.confirm_us.as_ref().map(|latency| latency.p50)
}

fn confirm_p99(measured: &Measured) -> Option<f64> {
    measured.latencies.confirm_us.as_ref().map(|latency| latency.p99)
}

/// How the figures of `name` compare with those of `other` within blocks. `control` names the
/// target whose difference from `other` is noise.
pub fn ratios(name: &str, other: &str, control: Option<&str>, slices: &[SliceRecord]) -> Ratios {
    let theirs = usable(other, slices);
    let of = |name: &str, figure: Figure, noise: Option<(f64, f64)>| {
        let mine = usable(name, slices);
        let pairs = mine.iter().filter_map(|(block, measured)| {
            let (_, their) = theirs.iter().find(|(their_block, _)| their_block == block)?;
            Some((figure(measured)?, figure(their)?))
        });
        Ratio::of(pairs, noise)
    };
    let both = |figure: Figure| {
        let noise = control.filter(|control| *control != name).and_then(|control| of(control, figure, None));
        of(name, figure, noise.and_then(|noise| noise.interval))
    };
    Ratios {
        rate: both(rate),
        cpu: both(cpu),
        latency_p50: both(latency_p50),
        latency_p99: both(latency_p99),
        confirm_p50: both(confirm_p50),
        confirm_p99: both(confirm_p99),
    }
}

/// The figures of one target over its blocks, and its ratios to the relay and to the first target
/// within each block.
pub fn summarise(target: &Target, all: &[Target], control: Option<&str>, slices: &[SliceRecord]) -> TargetSummary {
    let mine: Vec<(usize, &Measured)> = usable(&target.name, slices);
    let relay = all.iter().find(|other| other.only_copies() && other.name != target.name);
    let log = all.iter().find(|other| other.is_relay() && other.name == LOG && target.name != LOG);
    let first = all.first().filter(|other| other.name != target.name);
    let spread = |value: &dyn Fn(&Measured) -> Option<f64>| {
        Spread::of(mine.iter().filter_map(|(_, measured)| value(measured)).collect())
    };
    let ratio = |other: Option<&Target>, value: &dyn Fn(&Measured) -> Option<f64>| {
        let theirs = usable(&other?.name, slices);
        let ratios = mine.iter().filter_map(|(block, measured)| {
            let (_, their) = theirs.iter().find(|(their_block, _)| their_block == block)?;
            Some(value(measured)? / value(their).filter(|value| *value > 0.0)?)
        });
        Spread::of(ratios.collect())
    };
    let counted = of_target(&target.name, slices);
    TargetSummary {
        target: target.name.clone(),
        slices: counted.clone().count(),
        valid: counted.filter(|slice| slice.measured.as_ref().is_some_and(|measured| measured.verdict.valid)).count(),
        messages_per_s: spread(&rate),
        cpu_us_per_message: spread(&cpu),
        switches_per_message: spread(&|m| m.costs.broker.map(|cost| cost.switches_per_message)),
        resident_bytes: spread(&|m| m.costs.broker.map(|cost| cost.resident_bytes as f64)),
        times: Times {
            latency_p50_us: spread(&latency_p50),
            latency_p99_us: spread(&latency_p99),
            confirm_p50_us: spread(&confirm_p50),
            confirm_p99_us: spread(&confirm_p99),
        },
        flushes_per_s: spread(&|m| m.costs.flushes_per_s),
        flushes_per_message: spread(&|m| m.costs.flushes_per_message),
        within_blocks: WithinBlocks {
            rate_to_relay: ratio(relay, &rate),
            cpu_to_relay: ratio(relay, &cpu),
            rate_to_first: ratio(first, &rate),
            cpu_to_first: ratio(first, &cpu),
        },
        to_log: log.map(|log| ratios(&target.name, &log.name, None, slices)),
        to_first: first.map(|first| ratios(&target.name, &first.name, control, slices)),
        remarks: remarks(&target.name, slices),
    }
}

/// The slices of a target that count.
fn of_target<'a>(name: &str, slices: &'a [SliceRecord]) -> impl Iterator<Item = &'a SliceRecord> + Clone {
    slices.iter().filter(move |slice| slice.target == name && !slice.superseded)
}

/// The measured slices of a target by block: the valid ones, or all where none is valid.
pub fn usable<'a>(name: &str, slices: &'a [SliceRecord]) -> Vec<(usize, &'a Measured)> {
    let mine = of_target(name, slices);
    let all: Vec<(usize, &Measured)> = mine.filter_map(|slice| Some((slice.block, slice.measured.as_ref()?))).collect();
    let valid: Vec<(usize, &Measured)> = all.iter().copied().filter(|(_, measured)| measured.verdict.valid).collect();
    if valid.is_empty() { all } else { valid }
}

/// What was remarked about a target's slices, each text once.
pub fn remarks(name: &str, slices: &[SliceRecord]) -> Vec<(String, usize)> {
    let mut counts: Vec<(String, usize)> = Vec::new();
    let rates: Vec<f64> = usable(name, slices).iter().map(|(_, measured)| measured.rates.messages_per_s).collect();
    if let Some(trend) = mann_kendall(&rates) {
        let way = if trend == Trend::Up { "up" } else { "down" };
        counts.push((format!("its rate went {way} from block to block: its blocks are not alike"), rates.len()));
    }
    for slice in of_target(name, slices) {
        let texts: Vec<String> = match (&slice.measured, &slice.error) {
            (Some(measured), _) => {
                let broken = measured.verdict.violations.iter().map(|text| format!("INVALID: {text}"));
                broken.chain(measured.verdict.notes.iter().cloned()).collect()
            }
            (None, Some(error)) => vec![format!("FAILED: {error}")],
            (None, None) => Vec::new(),
        };
        for text in texts {
            match counts.iter_mut().find(|(known, _)| *known == text) {
                Some((_, count)) => *count += 1,
                None => counts.push((text, 1)),
            }
        }
    }
    counts
}
