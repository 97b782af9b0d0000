//! What a run of the stock exchange comes to, beside the figures that every load has.

use serde::{Deserialize, Serialize};

/// The figures of the parts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ExchangeFigures {
    /// Segments that went to and came from the broker on the connections of gateway and engine, for
    /// each order.
    pub packets_per_order: Option<f64>,
    /// Orders a second that the engine received, and answers and quotes that it sent.
    pub engine_orders_per_s: Option<f64>,
    /// Answers and quotes a second that the engine sent.
    pub engine_answers_per_s: Option<f64>,
    /// Quotes that the gateway received.
    pub quotes: u64,
    /// What both said about themselves every 10 000 orders and at the end.
    pub samples: Vec<PartSample>,
}

/// How far a part was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartSample {
    /// `gateway` or `engine`.
    pub part: String,
    /// Seconds since it began.
    pub seconds: f64,
    /// Orders until then.
    pub orders: u64,
    /// Answers and quotes.
    pub answers: u64,
}
