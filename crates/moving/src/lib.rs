//! Configurations of other brokers as settings and definitions of Hermod: RabbitMQ's
//! `rabbitmq.conf`, its older Erlang terms and its environment file, Artemis' `broker.xml` and
//! ActiveMQ's `activemq.xml`.
//!
//! Files are text that strangers wrote. They are only read: nothing is evaluated, fetched or
//! expanded, and no variable of this process is looked at. The invariant is that nothing becomes
//! laxer: what the other broker kept closed stays closed, or the report says so first. No value
//! that may be a secret gets into a report.

mod activemq;
mod address;
mod artemis;
mod definitions;
mod doors;
mod kind;
mod limits;
mod outcome;
mod people;
mod rabbitmq;
mod report;
mod rights;
mod source;
mod stores;
mod units;
mod xml;

pub use outcome::{Item, Outcome, Verdict};
pub use report::report;
pub use source::{Kind, MOST_BYTES, Refusal, Source};

/// Whether a setting of Hermod takes a value; the text says why not.
pub type Check<'a> = &'a dyn Fn(&str, &str) -> Result<(), String>;

/// What is converted.
#[derive(Debug, Clone, Copy)]
pub struct Sources<'a> {
    /// Configuration files, told apart by their contents.
    pub files: &'a [Source],
    /// A file of users and passwords, as `artemis-users.properties`.
    pub users: Option<&'a Source>,
    /// A file of roles or groups and their members, as `artemis-roles.properties`.
    pub roles: Option<&'a Source>,
}

/// Converts files of one broker.
///
/// # Errors
/// If a file is none of those that are known, can't be read, or is a template.
pub fn convert<'a>(sources: Sources<'_>, check: Check<'a>) -> Result<Outcome<'a>, Refusal> {
    let mut outcome = Outcome::new(check);
    let people = people::read(sources.users, sources.roles, &mut outcome)?;
    let mut rabbitmq = Vec::new();
    for file in sources.files {
        outcome.now_in(&file.name);
        match kind::of(file)? {
            Kind::RabbitMq => rabbitmq.push((file.name.clone(), rabbitmq::conf(file)?)),
            Kind::Terms => rabbitmq.push((file.name.clone(), rabbitmq::terms(file)?)),
            Kind::Environment => rabbitmq.push((file.name.clone(), rabbitmq::environment(file)?)),
            Kind::Artemis => artemis::convert(file, &people, &mut outcome)?,
            Kind::ActiveMq => activemq::convert(file, &people, &mut outcome)?,
        }
    }
    if !rabbitmq.is_empty() {
        rabbitmq::convert(rabbitmq, &mut outcome);
    }
    Ok(outcome)
}
