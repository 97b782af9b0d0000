//! What a run of the stock exchange comes to, beside the figures that every load has.

use super::message::{Progressed, Who};
use super::parts::GatewayResult;
use bench_record::check::Check;
use bench_record::exchange::{ExchangeFigures, PartSample};
use bench_record::integrity::{Damages, Integrity};

/// From what the reporter heard, and the segments that were counted.
pub(crate) fn figures(heard: &[Progressed], gated: &GatewayResult, packets: Option<u64>) -> ExchangeFigures {
    let samples: Vec<PartSample> = heard.iter().map(sampled).collect();
    let last = heard.iter().rev().find(|one| one.who == Who::Engine).filter(|one| one.after_ns > 0);
    let rate = |count: u32, one: &Progressed| f64::from(count) / (one.after_ns as f64 / 1e9);
    ExchangeFigures {
        packets_per_order: packets.filter(|_| gated.sent > 0).map(|count| count as f64 / f64::from(gated.sent)),
        engine_orders_per_s: last.map(|one| rate(one.orders, one)),
        engine_answers_per_s: last.map(|one| rate(one.answers, one)),
        quotes: gated.quotes.into(),
        samples,
    }
}

fn sampled(one: &Progressed) -> PartSample {
    let part = if one.who == Who::Gateway { "gateway" } else { "engine" };
    let (orders, answers) = (one.orders.into(), one.answers.into());
    PartSample { part: part.to_owned(), seconds: one.after_ns as f64 / 1e9, orders, answers }
}

/// Every order was answered once.
pub(crate) fn integrity(gated: &GatewayResult) -> Integrity {
    Integrity {
        check: Check::Numbered,
        lost: gated.sent.saturating_sub(gated.answered).into(),
        duplicated: gated.unknown.into(),
        unselected: 0,
        reordered: 0,
        corrupted: 0,
        damages: Damages::default(),
        refused: 0,
        unsettled: 0,
        returned: 0,
        unknown_confirms: 0,
        redelivered: 0,
    }
}
