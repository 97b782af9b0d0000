//! The broker's behaviour, as its clients see it: conversations as data, restarts over a real journal, and random
//! operations against a naive model, with and without crashes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic here is a failed test")]

mod consuming;
mod crashes;
mod declaring;
mod history;
mod limits;
mod model;
mod pressure;
mod publishing;
mod random;
mod restart;
mod routing;
mod settling;
mod transactions;

use testkit::script::Script;

/// Each conversation, over memory and over a simulated disk: durability must not show.
fn check(steps: &[(&str, &str)]) {
    Script::memory().check(steps);
    let disk = testkit::sim_disk::SimDisk::new(1, 64 << 20);
    Script::stepped(&disk, 8 << 20).check(steps);
}
