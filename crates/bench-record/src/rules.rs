//! Whether the figures of a slice may be believed. The rules are the benchmark's own and the same
//! for every target.

use std::ops::RangeInclusive;

use crate::arrivals::Arrivals;
use crate::durability::Durability;
use crate::integrity::Integrity;
use crate::scenario::{Mode, Rate, Scenario};
use crate::slice::Measured;
use crate::verdict::{DISTURBED, Verdict};

/// Open loop: less than this share of the offered rate and the broker did not keep up.
const ACHIEVED: f64 = 0.99;
/// Open loop: independent arrivals may be fewer than their mean by this many standard deviations,
/// which is chance.
const BY_CHANCE: f64 = 3.0;
/// Open loop: when the generator's own lateness is more than this share of the latency (both at the
/// 99th percentile), the latency is the generator's and not the broker's.
const LATENESS: f64 = 0.5;
/// Above this share a reader is told: the latency is an upper bound then, and the transit the
/// better figure.
const NOTED_LATENESS: f64 = 0.1;
/// A load thread that uses more than this share of a core is itself the limit.
pub const FULL_THREAD: f64 = 0.95;
/// A machine that uses less than this many cores is quiet.
pub const QUIET_CORES: f64 = 0.25;
/// More than this share of all cores taken by a hypervisor disturbs it too.
const STOLEN: f64 = 0.1;
/// Above this share a reader is told. Blocks that are interleaved suffer alike, and intervals grow
/// by it.
const NOTED_STOLEN: f64 = 0.02;
/// A worker whose machine collects garbage for more than this share of the time says so.
const COLLECTED: f64 = 0.05;
/// A worker whose busiest thread is the Java machine's own, and uses more than this share of a
/// core, says so.
const OWN_WORK: f64 = 0.25;
/// How such threads are called: those that compile and those that collect garbage. The system keeps
/// 15 letters of a name.
const OWN_THREADS: [&str; 4] = ["C1 Compiler", "C2 Compiler", "GC Thread", "VM Thread"];
/// Persistent confirms without at least this share of the flushes that full windows need were not
/// forced to disk.
pub const FLUSHED: f64 = 0.5;
/// What the rate of the second half may be of that of the first before a reader is told.
const STEADY: RangeInclusive<f64> = 0.86..=1.16;
/// So many flushes a second are not what a machine does on its own account.
const MANY_FLUSHES: f64 = 50.0;

/// How a slice was measured, beside its figures.
#[derive(Debug, Clone, Copy, Default)]
pub struct Conditions {
    /// The measured time was cut short.
    pub interrupted: bool,
    /// No broker was measured, only the floor.
    pub is_relay: bool,
}

/// Holds the figures of a slice against the rules.
pub fn verdict(scenario: &Scenario, measured: &Measured, conditions: Conditions) -> Verdict {
    let Conditions { interrupted, is_relay } = conditions;
    let mut violations = Vec::new();
    integrity(&measured.integrity, &mut violations);
    if interrupted {
        violations.push("interrupted before its time was over".to_owned());
    }
    if measured.rates.messages_per_s == 0.0 {
        violations.push("no message arrived in the measured time".to_owned());
    }
    if falls_short(scenario, measured) {
        violations.push("less than 99 % of the offered rate was reached".to_owned());
    }
    if let (Some(late), Some(total)) = (&measured.latencies.lateness_us, &measured.latencies.latency_us)
        && late.p99 > total.p99 * LATENESS
    {
        violations.push("the generator was late: its p99 lateness is more than half of the p99 latency".to_owned());
    }
    let mut notes = Vec::new();
    if let (Some(late), Some(total)) = (&measured.latencies.lateness_us, &measured.latencies.latency_us)
        && (total.p99 * NOTED_LATENESS..=total.p99 * LATENESS).contains(&late.p99)
    {
        notes
            .push("more than a tenth of the p99 latency is the generator's lateness: compare transit times".to_owned());
    }
    if let Some((name, share)) = &measured.costs.busiest_thread
        && *share > FULL_THREAD
        && scenario.mode == Mode::Throughput
    {
        let text = "the generator was the limit: one of its threads used a whole core, the rate is a lower bound";
        // A relay is the floor of CPU: a faster one would not change what is said of a broker.
        let list = if is_relay { &mut notes } else { &mut violations };
        list.push(format!("{text} ({})", name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-')));
    }
    if measured.costs.other_cores.is_some_and(|cores| cores > QUIET_CORES) {
        violations.push(format!("{DISTURBED}other processes used more than a quarter of a core"));
    }
    let cores = std::thread::available_parallelism().map_or(1.0, |count| usize::from(count) as f64);
    match measured.costs.stolen_cores.map(|stolen| stolen / cores) {
        Some(share) if share > STOLEN => {
            violations.push(format!("{DISTURBED}the hypervisor took more than a tenth of the machine away"));
        }
        Some(share) if share > NOTED_STOLEN => {
            notes.push("the hypervisor took more than 2 % of the machine away".to_owned());
        }
        _ => {}
    }
    if let Some(worker) = &measured.worker {
        notes.push(format!("loaded by {}, JMS {}, on Java {}", worker.provider, worker.jms, worker.jvm));
        if measured.worker_gc_ms.is_some_and(|ms| ms as f64 > measured.seconds * 1000.0 * COLLECTED) {
            notes.push("the worker collected garbage for more than a twentieth of the measured time".to_owned());
        }
        notes.extend(measured.costs.busiest_thread.as_ref().and_then(own_work));
    }
    if scenario.pace.rate == Rate::Saturate
        && let Some(part) = measured.over_time.second_half()
        && !STEADY.contains(&part)
    {
        let way = if part < 1.0 { "slower" } else { "faster" };
        notes.push(format!("{way} by more than a sixth in its second half: a longer slice would have another rate"));
    }
    if measured.integrity.redelivered > 0 {
        notes.push("the broker marked messages as redelivered".to_owned());
    }
    notes.extend(measured.durability_at_most.filter(|_| !is_relay).map(flushed));
    if !is_relay && forces_for_nothing(scenario, measured) {
        notes.push("forced to disk though nothing is to be kept: it does more than the others are asked to".to_owned());
    }
    Verdict { valid: violations.is_empty(), violations, notes }
}

/// What is said where a worker's Java machine was busier with itself than any of its threads with
/// the load.
fn own_work((name, share): &(String, f64)) -> Option<String> {
    let own = OWN_THREADS.iter().find(|own| name.starts_with(**own))?;
    let text = "no thread of the worker was busier than one of the Java machine's own, which used more than a quarter of a core";
    (*share > OWN_WORK).then(|| format!("{text} ({own})"))
}

/// True where an open loop sent less than it offered, or less came of that than had to.
fn falls_short(scenario: &Scenario, measured: &Measured) -> bool {
    let Some(offered) = measured.rates.offered_per_s else { return false };
    let reached = measured.rates.sent_per_s.min(measured.rates.messages_per_s / scenario.receipts_per_send());
    let chance = match scenario.pace.arrivals {
        // The variance of their number is its mean.
        Arrivals::Poisson => BY_CHANCE * (offered / measured.seconds).sqrt(),
        Arrivals::Uniform | Arrivals::Bursts => 0.0,
    };
    reached < offered * ACHIEVED - chance
}

/// True when nothing was found wrong with the messages.
pub fn is_whole(found: &Integrity) -> bool {
    let mut violations = Vec::new();
    integrity(found, &mut violations);
    violations.is_empty()
}

/// Names what was found wrong with the messages.
pub fn integrity(found: &Integrity, violations: &mut Vec<String>) {
    let counts = [
        (found.lost, "lost"),
        (found.duplicated, "duplicated"),
        (found.unselected, "received that no selector asked for"),
        (found.reordered, "reordered"),
        (found.corrupted, "corrupted"),
        (found.refused, "refused"),
        (found.unsettled, "neither confirmed nor refused"),
        (found.returned, "returned"),
        (found.unknown_confirms, "confirmed twice or never sent"),
    ];
    violations.extend(counts.iter().filter(|(count, _)| *count > 0).map(|(_, what)| format!("messages {what}")));
}

/// Compares the flushes that the disks counted with the fewest that forced confirms need: one for
/// each full window.
pub fn durability_at_most(scenario: &Scenario, measured: &Measured) -> Option<Durability> {
    if !scenario.is_kept() || scenario.clients.window == 0 || measured.rates.confirmed_per_s == 0.0 {
        return None;
    }
    Some(if forces_enough(scenario, measured)? { Durability::D3 } else { Durability::D2 })
}

/// True where the disks counted flushes as if each window of confirms was forced; none where they
/// count nothing.
fn forces_enough(scenario: &Scenario, measured: &Measured) -> Option<bool> {
    let fewest = measured.rates.confirmed_per_s / (scenario.clients.window * scenario.topology.producers as u64) as f64;
    Some(measured.costs.flushes_per_s? >= fewest * FLUSHED)
}

/// True of a load that is not to survive anything, and that all the same seems to wait for the disk
/// at each window.
fn forces_for_nothing(scenario: &Scenario, measured: &Measured) -> bool {
    let confirmed = scenario.clients.window > 0 && measured.rates.confirmed_per_s > 0.0;
    let many = measured.costs.flushes_per_s.is_some_and(|count| count > MANY_FLUSHES);
    confirmed && many && !scenario.is_kept() && forces_enough(scenario, measured) == Some(true)
}

/// What is to be said when a target claims more than the flushes leave it.
pub fn unsupported_claim(claimed: Option<Durability>, measured: &Measured) -> Option<String> {
    let (claimed, at_most) = claimed.zip(measured.durability_at_most)?;
    let text =
        format!("CLAIM NOT SUPPORTED: {claimed} is claimed, and the disks' flushes leave {at_most} at most; see audit");
    (claimed > at_most).then_some(text)
}

/// The same in words.
fn flushed(at_most: Durability) -> String {
    let text = if at_most < Durability::D3 {
        "not forced to disk: the disks counted less than half a flush for each window of confirms"
    } else {
        "forced to disk: the disks' flushes are enough for the confirms"
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_java_machine_that_is_busy_with_itself_is_noticed() {
        let said = |name: &str, share: f64| own_work(&(name.to_owned(), share)).is_some();
        let cases = [
            ("C2 CompilerThre", 0.46, true),
            ("GC Thread#1", 0.3, true),
            ("C2 CompilerThre", 0.2, false),
            ("producer-0", 0.9, false),
        ];
        for (name, share, noted) in cases {
            assert_eq!(said(name, share), noted, "{name} {share}");
        }
    }
}
