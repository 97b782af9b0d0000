//! Brokers through their own JMS clients. A worker in a Java machine beside this program makes the load with threads of its
//! own; this program builds it, starts it, steers it over its standard input and output, measures, and judges what it saw.
//!
//! No message crosses the pipes. `provider` knows the clients, `install` where their jars come from, `protocol` the lines,
//! and `worker` the process.

pub(crate) mod install;
pub(crate) mod protocol;
pub(crate) mod provider;
pub(crate) mod worker;

use crate::failure::Failure;
use crate::scenario::Scenario;
use crate::target::Target;
use protocol::Spec;
use provider::Provider;
use worker::Worker;

/// Starts the worker of a target, and says what to ask of it; none where this program speaks the protocol itself.
/// `run` tells the messages and destinations of this run from all others.
pub(crate) fn open(target: &Target, scenario: &Scenario, run: u32) -> Result<Option<(Worker, Spec)>, Failure> {
    let Some(provider) = Provider::of(target, scenario)? else { return Ok(None) };
    let spec = Spec::new(provider.factory, target, scenario, run)?;
    let worker = Worker::start(&install::class_path(provider.api, &provider.jars)?, provider.java)?;
    Ok(Some((worker, spec)))
}
