//! What a run is and what came of it, as plain data: scenarios, targets, figures, verdicts. All
//! other parts know this one, and it knows none of them.

pub(crate) mod arrivals;
pub(crate) mod check;
pub(crate) mod command;
pub(crate) mod durability;
pub(crate) mod exchange;
pub(crate) mod failure;
pub(crate) mod integrity;
pub(crate) mod latency;
pub(crate) mod machine;
pub(crate) mod metric;
pub(crate) mod output;
pub(crate) mod over_time;
pub(crate) mod preset;
pub(crate) mod run;
pub(crate) mod scenario;
pub(crate) mod slice;
pub(crate) mod span;
pub(crate) mod statistics;
pub(crate) mod suite;
pub(crate) mod summary;
pub(crate) mod target;
pub(crate) mod totals;
pub(crate) mod usage;
pub(crate) mod verdict;
