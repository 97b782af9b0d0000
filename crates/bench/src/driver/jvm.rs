//! Brokers through their own JMS clients. A worker in a Java machine beside this program makes the
//! load with threads of its own; this program builds it, starts it, steers it over its standard
//! input and output, measures, and judges what it saw.
//!
//! No message crosses the pipes. `provider` knows the clients, `install` where their jars come
//! from, `protocol` the lines, `worker` the process, and `workers` those that sleep until their
//! target's next slice.

pub(crate) mod install;
pub(crate) mod protocol;
pub(crate) mod provider;
pub(crate) mod worker;
pub(crate) mod workers;

use bench_record::failure::Failure;
use bench_record::scenario::Scenario;
use bench_record::target::Target;
use protocol::Spec;
use provider::Provider;
use worker::Worker;
use workers::{Owner, Workers};

/// What loads a target in a slice.
pub(crate) struct Loader {
    pub(crate) owner: Owner,
    pub(crate) worker: Worker,
    /// What to ask of it.
    pub(crate) spec: Spec,
}

/// Wakes the worker of a target, or starts it; none where this program speaks the protocol itself.
/// `run` tells the messages and destinations of this run from all others.
pub(crate) fn open(
    target: &Target,
    scenario: &Scenario,
    run: u32,
    workers: &Workers,
) -> Result<Option<Loader>, Failure> {
    let Some(provider) = Provider::of(target, scenario)? else { return Ok(None) };
    let spec = Spec::new(&provider, target, scenario, run)?;
    let class_path = install::class_path(provider.api, &provider.jars)?;
    let owner = Owner { target: target.name.clone(), class_path, java: provider.java };
    let worker = workers.wake(&owner, || Worker::start(&owner.class_path, owner.java))?;
    Ok(Some(Loader { owner, worker, spec }))
}
