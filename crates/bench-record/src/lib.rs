//! What a run is and what came of it, as plain data: scenarios, targets, figures, verdicts. All
//! other parts know this one, and it knows none of them.

pub mod arrivals;
pub mod check;
pub mod command;
pub mod durability;
pub mod exchange;
pub mod failure;
pub mod integrity;
pub mod latency;
pub mod machine;
pub mod metric;
pub mod output;
pub mod over_time;
pub mod preset;
pub mod rules;
pub mod run;
pub mod scenario;
pub mod slice;
pub mod span;
pub mod statistics;
pub mod suite;
pub mod summary;
pub mod target;
pub mod totals;
pub mod usage;
pub mod verdict;
