//! What a run of the stock exchange comes to, beside the figures that every load has.

use serde::{Deserialize, Serialize};

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
