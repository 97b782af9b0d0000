//! The parts of a stock exchange as a load: a gateway, a matching engine and a reporter of
//! statistics around one direct exchange with three queues.

mod book;
mod figures;
pub(crate) mod message;
mod parts;

pub(crate) use figures::{figures, integrity};
pub(crate) use parts::{GatewayResult, Lines, engine, gateway, reporter};

use crate::driver::{Driver, Line, Part};
use crate::measure::schedule::Schedule;
use bench_record::failure::Failure;
use bench_record::scenario::{Rate, Scenario};

/// The number of the queue of statistics.
const STATISTICS: usize = 2;

/// The connections of the gateway, the near end, or of the engine, the far one.
pub(crate) fn lines(driver: &mut dyn Driver, end: Part) -> Result<Lines, Failure> {
    let main = driver.open(end)?;
    Ok(Lines { main, statistics: driver.open(Part::Produce(STATISTICS))? })
}

/// The connection of the reporter.
pub(crate) fn reporting(driver: &mut dyn Driver) -> Result<Line, Failure> {
    driver.open(Part::Consume(STATISTICS))
}

/// When the orders of `scenario` are meant to leave.
pub(crate) fn schedule(scenario: &Scenario, begin: u64, seed: u64) -> Result<Schedule, Failure> {
    let Rate::Fixed(rate) = scenario.pace.rate else { return Err(Failure::new("orders need a rate")) };
    Ok(Schedule::new(scenario.pace.arrivals, rate, begin, 0.0, seed))
}
