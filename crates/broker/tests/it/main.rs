//! The broker's behaviour for its clients: conversations as data, restarts over a real journal, and
//! random operations against a naive model, with and without crashes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic here is a failed test")]

mod administration;
mod admitting;
mod arguments;
mod budgets;
mod catalog;
mod consuming;
mod copying;
mod crashes;
mod crediting;
mod damage;
mod dead_letter_queues;
mod declaring;
mod deduplication;
mod delaying;
mod diagnosing;
mod ending;
mod exactly_once;
mod explaining;
mod following;
mod grouping;
mod history;
mod homes;
mod intake;
mod kept;
mod kept_features;
mod kept_logs;
mod kept_subscriptions;
mod kept_times;
mod last_values;
mod ledger;
mod limits;
mod linked;
mod listening;
mod model;
mod overtaken;
mod paging;
mod policies;
mod pressure;
mod priorities;
mod publishing;
mod random;
mod redriving;
mod restart;
mod retaining;
mod retrying;
mod returning;
mod rights;
mod routing;
mod rules;
mod selecting;
mod settling;
mod shares;
mod spilling;
mod subscribing;
mod tasks;
mod together;
mod tracing;
mod transactions;
mod wills;

use std::ops::Range;

use broker::{BindingSpec, Confirm, DestinationName, Publish, QueueSpec, Table, Unroutable, Value};
use testkit::broker::{Setup, TextDialect};
use testkit::script::Script;
use testkit::sim_disk::SimDisk;

/// Each conversation, over memory, over a simulated disk, and with next to no memory for messages
/// that the disk has too. Neither durability nor the place of messages must show.
fn check(steps: &[(&str, &str)]) {
    Script::memory().check(steps);
    let disk = SimDisk::new(1, 64 << 20);
    Script::stepped(&disk, 8 << 20).check(steps);
    let disk = SimDisk::new(1, 64 << 20);
    let mut setup = Setup::stepped(&disk, 8 << 20);
    setup.settings.memory_budget = 100;
    Script::open(setup, Some(disk)).check(steps);
}

/// The seeds of a random test: one or a range of them (`7`, `300..2000`) from `BROKER_SEED`, or the
/// usual ones.
fn seeds(usual: Range<u64>) -> Range<u64> {
    let Ok(wanted) = std::env::var("BROKER_SEED") else { return usual };
    let number =
        |text: &str| text.parse::<u64>().expect("BROKER_SEED is a number, or a range of them such as 300..2000");
    match wanted.split_once("..") {
        Some((first, end)) => number(first)..number(end),
        None => number(&wanted)..number(&wanted) + 1,
    }
}

/// A persistent message that need not reach a queue.
fn message<'a>(exchange: &'a str, routing_key: &'a str, body: &'a [u8]) -> Publish<'a> {
    Publish {
        exchange,
        routing_key,
        dialect: TextDialect::ID,
        properties: b"",
        persistent: true,
        priority: None,
        expiration: None,
        body: body.into(),
        confirm: Confirm::None,
        unroutable: Unroutable::Drop,
        copies: false,
        instructed: false,
    }
}

/// A durable queue.
fn durable(name: &str) -> QueueSpec {
    QueueSpec { name: name.to_owned(), durable: true, ..QueueSpec::default() }
}

/// The arguments of a queue that sends dead letters to the queue `target`.
fn dead_letters_to(target: &str) -> [(&'static str, Value); 2] {
    [
        ("x-dead-letter-exchange", Value::Text(String::new())),
        ("x-dead-letter-routing-key", Value::Text(target.to_owned())),
    ]
}

/// A durable queue with such arguments.
fn durable_with(name: &str, arguments: &[(&str, Value)]) -> QueueSpec {
    let mut spec = durable(name);
    arguments.iter().for_each(|(name, value)| spec.arguments.set(name, value.clone()));
    spec
}

/// Binds a queue to an exchange by this key.
fn binding(exchange: &str, key: &str, queue: &str) -> BindingSpec {
    BindingSpec {
        source: exchange.to_owned(),
        destination: DestinationName::Queue(queue.to_owned()),
        key: key.to_owned(),
        arguments: Table::default(),
    }
}
