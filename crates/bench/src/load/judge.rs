//! From what a slice saw to its figures and their verdict.

use super::slice::Outcome;
use bench_record::failure::Failure;
use bench_record::rules::{Conditions, durability_at_most, verdict};
use bench_record::scenario::Scenario;
use bench_record::slice::{Cost, Costs, Latencies, LatencyFrom, Measured, MessageRates, MessageTotals};
use bench_record::usage::Usage;
use bench_record::verdict::Verdict;

/// What a slice is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measures {
    /// A broker.
    Broker,
    /// What no broker can be better than: a relay, or forced writes.
    Floor,
}

/// Works out the figures of a slice.
pub(crate) fn judge(scenario: &Scenario, outcome: &Outcome, measures: Measures) -> Result<Measured, Failure> {
    let (first, last) = (&outcome.first, &outcome.last);
    let seconds = last.at.saturating_sub(first.at) as f64 / 1e9;
    if seconds <= 0.0 {
        return Err(Failure::new("the run ended before anything was measured"));
    }
    let moved = |after: u64, before: u64| after.saturating_sub(before) as f64;
    let sent = moved(last.totals.sent, first.totals.sent);
    let confirmed = moved(last.totals.confirmed, first.totals.confirmed);
    let received = moved(last.totals.received, first.totals.received);
    let messages = scenario.main_count(&last.totals).saturating_sub(scenario.main_count(&first.totals)) as f64;
    let cost = |before: Option<Usage>, after: Option<Usage>| Some(Cost::between(&before?, &after?, messages, seconds));
    let flushes = last.flushes.zip(first.flushes).map(|(after, before)| moved(after, before));
    let machine = last.machine.zip(first.machine);
    let mut measured = Measured {
        seconds,
        rates: MessageRates {
            sent_per_s: sent / seconds,
            confirmed_per_s: confirmed / seconds,
            received_per_s: received / seconds,
            messages_per_s: messages / seconds,
            offered_per_s: outcome.offered,
        },
        totals: MessageTotals {
            all_sent: outcome.totals.sent,
            all_confirmed: outcome.totals.confirmed,
            all_received: outcome.totals.received,
        },
        latencies: Latencies {
            latency_from: if outcome.offered.is_some() { LatencyFrom::Intended } else { LatencyFrom::Send },
            latency_us: outcome.total.summary(),
            transit_us: outcome.transit.summary(),
            confirm_us: outcome.confirm.summary(),
            lateness_us: outcome.lateness.summary(),
        },
        costs: Costs {
            broker: cost(first.broker, last.broker),
            client: cost(first.client, last.client),
            busiest_thread: last.busiest(first),
            other_cores: last.other_cores(first),
            stolen_cores: machine.map(|(after, before)| moved(after.steal_ns, before.steal_ns) / 1e9 / seconds),
            flushes_per_s: flushes.map(|count| count / seconds),
            flushes_per_message: flushes.filter(|_| messages > 0.0).map(|count| count / messages),
        },
        durability_at_most: None,
        metrics: outcome.metrics.clone(),
        over_time: outcome.rates.over_time(first.at),
        thousands: outcome.rates.thousands(),
        worker: outcome.worker.clone(),
        worker_gc_ms: last.gc_ms.zip(first.gc_ms).map(|(after, before)| after.saturating_sub(before)),
        exchange: outcome.exchange.clone(),
        integrity: outcome.integrity,
        verdict: Verdict::default(),
    };
    measured.durability_at_most = durability_at_most(scenario, &measured);
    let conditions = Conditions { interrupted: outcome.interrupted, is_relay: measures == Measures::Floor };
    measured.verdict = verdict(scenario, &measured, conditions);
    measured.verdict.notes.extend(outcome.stopped.clone());
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::audit::audit;
    use crate::load::sample::Sample;
    use bench_record::arrivals::Arrivals;
    use bench_record::latency::Latency;
    use bench_record::over_time::Recorder;
    use bench_record::scenario::{Destination, QueueKind};
    use bench_record::totals::Totals;

    /// What five seconds saw in which these many messages were sent and received, of 1000 a second
    /// that were offered.
    fn outcome(scenario: &Scenario, (sent, received): (u64, u64)) -> Outcome {
        let totals = Totals { sent, confirmed: sent, refused: 0, received };
        let none = || Latency::new().unwrap();
        Outcome {
            first: Sample::default(),
            last: Sample { at: 5_000_000_000, totals, ..Sample::default() },
            totals,
            offered: Some(1000.0),
            stopped: None,
            integrity: audit(scenario, &totals, &[], &[], None).unwrap(),
            metrics: None,
            total: none(),
            transit: none(),
            confirm: none(),
            lateness: none(),
            exchange: None,
            rates: Recorder::default(),
            interrupted: false,
            worker: None,
        }
    }

    #[test]
    fn what_an_open_loop_must_reach_follows_from_what_it_sends() {
        let base = Scenario::default();
        let fanout = base.clone().with(|s| {
            (s.topology.destination, s.topology.consumers, s.topology.queues) = (Destination::Fanout, 10, 10);
        });
        let selecting = base.clone().with(|s| s.clients.selector = Some(10));
        let poisson = base.clone().with(|s| s.pace.arrivals = Arrivals::Poisson);
        let cases = [
            (&base, (5000, 4960), true),
            (&base, (5000, 4940), false),
            (&base, (4940, 5000), false),
            (&fanout, (5000, 49_600), true),
            (&fanout, (5000, 49_400), false),
            (&fanout, (5000, 10_000), false),
            (&selecting, (5000, 496), true),
            (&selecting, (5000, 494), false),
            (&base.clone().with(|s| (s.topology.consumers, s.clients.window) = (0, 1)), (5000, 0), true),
            // Of 5000 independent arrivals 71 more or fewer are one standard deviation.
            (&poisson, (4760, 4750), true),
            (&poisson, (4720, 4720), false),
        ];
        for (scenario, moved, valid) in cases {
            let found = judge(scenario, &outcome(scenario, moved), Measures::Broker).unwrap().verdict;
            assert_eq!(found.valid, valid, "{moved:?} {found:?}: {scenario:?}");
        }
    }

    /// A broker that forces what no other is asked to keep is slower for it, and no note said so.
    #[test]
    fn who_forces_what_is_not_to_be_kept_is_told_of() {
        let base = Scenario::default().with(|s| s.clients.window = 1);
        // Persistent?, confirmed in five seconds, flushes meanwhile, told?
        for (persistent, confirmed, flushes, told) in [
            (false, 5000, 5000, true),
            (false, 5000, 3000, true),
            (false, 5000, 1000, false),
            (false, 100, 100, false),
            (true, 5000, 5000, false),
        ] {
            let scenario = base.clone().with(|s| {
                s.message.persistent = persistent;
                s.topology.queue = QueueKind::Durable;
            });
            let mut outcome = outcome(&scenario, (confirmed, confirmed));
            (outcome.first.flushes, outcome.last.flushes) = (Some(7), Some(7 + flushes));
            let notes = judge(&scenario, &outcome, Measures::Broker).unwrap().verdict.notes;
            let found = notes.iter().any(|note| note.contains("nothing is to be kept"));
            assert_eq!(found, told, "{persistent} {confirmed} {flushes}: {notes:?}");
        }
    }
}
