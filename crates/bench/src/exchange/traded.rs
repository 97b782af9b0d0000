//! What a run of the stock exchange comes to, beside the figures that every load has.

use serde::{Deserialize, Serialize};

use super::message::{Progressed, Who};
use super::parts::Gated;
use crate::audit::Integrity;
use crate::load::consumer::Damages;
use crate::measure::stamp::Check;

/// The figures of the parts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Traded {
    /// Segments that went to and came from the broker on the connections of gateway and engine, for
    /// each order.
    pub(crate) packets_per_order: Option<f64>,
    /// Orders a second that the engine received, and answers and quotes that it sent.
    pub(crate) engine_orders_per_s: Option<f64>,
    pub(crate) engine_answers_per_s: Option<f64>,
    /// Quotes that the gateway received.
    pub(crate) quotes: u64,
    /// What both said about themselves every 10 000 orders and at the end.
    pub(crate) samples: Vec<Sampled>,
}

/// How far a part was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sampled {
    /// `gateway` or `engine`.
    pub(crate) part: String,
    /// Seconds since it began.
    pub(crate) seconds: f64,
    pub(crate) orders: u64,
    /// Answers and quotes.
    pub(crate) answers: u64,
}

impl Traded {
    /// From what the reporter heard, and the segments that were counted.
    pub(crate) fn new(heard: &[Progressed], gated: &Gated, packets: Option<u64>) -> Self {
        let samples: Vec<Sampled> = heard.iter().map(sampled).collect();
        let last = heard.iter().rev().find(|one| one.who == Who::Engine).filter(|one| one.after_ns > 0);
        let rate = |count: u32, one: &Progressed| f64::from(count) / (one.after_ns as f64 / 1e9);
        Self {
            packets_per_order: packets.filter(|_| gated.sent > 0).map(|count| count as f64 / f64::from(gated.sent)),
            engine_orders_per_s: last.map(|one| rate(one.orders, one)),
            engine_answers_per_s: last.map(|one| rate(one.answers, one)),
            quotes: gated.quotes.into(),
            samples,
        }
    }
}

fn sampled(one: &Progressed) -> Sampled {
    let part = if one.who == Who::Gateway { "gateway" } else { "engine" };
    let (orders, answers) = (one.orders.into(), one.answers.into());
    Sampled { part: part.to_owned(), seconds: one.after_ns as f64 / 1e9, orders, answers }
}

/// Every order was answered once.
pub(crate) fn integrity(gated: &Gated) -> Integrity {
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
