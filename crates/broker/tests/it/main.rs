//! The broker's behaviour, as its clients see it: conversations as data, restarts over a real journal, and random
//! operations against a naive model, with and without crashes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic here is a failed test")]

mod consuming;
mod crashes;
mod declaring;
mod history;
mod limits;
mod model;
mod paging;
mod pressure;
mod publishing;
mod random;
mod restart;
mod routing;
mod settling;
mod transactions;

use testkit::broker::Setup;
use testkit::script::Script;
use testkit::sim_disk::SimDisk;

/// Each conversation, over memory, over a simulated disk, and with next to no memory for what the disk has too: durability
/// must not show, nor where messages wait.
fn check(steps: &[(&str, &str)]) {
    Script::memory().check(steps);
    let disk = SimDisk::new(1, 64 << 20);
    Script::stepped(&disk, 8 << 20).check(steps);
    let disk = SimDisk::new(1, 64 << 20);
    let mut setup = Setup::stepped(&disk, 8 << 20);
    setup.settings.memory_budget = 100;
    Script::open(setup, Some(disk)).check(steps);
}
