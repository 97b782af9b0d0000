//! Definitions: users, vhosts, rights and what is declared, as RabbitMQ's JSON document, written
//! and read.
//!
//! A document is looked at whole before anything changes: one that is refused has changed nothing.
//! What Hermod has no meaning for is named, and refuses the document unless it is to be skipped;
//! then no more than that is left out.

mod document;
mod export;
mod fields;
mod plan;

use auth::shown::extract;
use broker::Broker;
use serde::{Deserialize, Serialize};

use self::fields::{Faults, Lines};
use self::plan::Plan;
use crate::change::{AUDIT, Caller, Refused, WHY, Why};

pub(crate) use self::document::Words;
pub(crate) use self::export::{export, export_vhost};

/// The component of parameters that says how much a vhost may have.
const VHOST_LIMITS: &str = "vhost-limits";
/// The one that RabbitMQ keeps policies of the operator's in.
const OPERATOR_POLICY: &str = "operator_policy";
/// A hash that only Hermod reads.
const HERMOD_HASH: &str = "hermod-password-hash";
/// How a refusal begins.
const NOTHING: &str = "nothing was imported";

/// What an import did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Imported {
    /// How many definitions it took over, or would take over.
    pub taken: u64,
    /// What it skipped, a line for each.
    pub skipped: Vec<String>,
    /// What an operator should know of the others, a line for each.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// How far an import goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// The document is taken over.
    #[default]
    Whole,
    /// It is only said what that would come to.
    DryRun,
}

/// How a document is to be taken over.
#[derive(Debug)]
pub(crate) struct Import<'a> {
    /// Everything in it goes into this vhost.
    pub(crate) vhost: Option<&'a str>,
    /// Leave out what is not supported.
    pub(crate) skip_unsupported: bool,
    /// Whether anything is to change.
    pub(crate) extent: Extent,
    /// Who asked.
    pub(crate) caller: Caller,
}

/// The words of a text with commas.
fn words_of(text: &str) -> Vec<String> {
    text.split(',').map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect()
}

/// Takes over a document: what of it is there already is replaced, or must be the same. Blocks
/// until all of it is durable.
///
/// # Errors
/// Nothing was changed: it is no such document, contradicts itself or what exists, or has things
/// that are not supported while they are not to be skipped. Or something else changed what exists
/// between the look and the end; the text says what.
pub(crate) fn import(broker: &Broker, text: &str, import: &Import<'_>) -> Result<Imported, Refused> {
    let (who, from) = (import.caller.identity.user(), &import.caller.from);
    let imported = look_and_make(broker, text, import);
    match (&imported, import.extent) {
        (Ok(Imported { taken, skipped, .. }), Extent::Whole) => {
            tracing::info!(target: AUDIT, %who, %from, taken, skipped = skipped.len(), "definitions imported");
        }
        (Ok(_), Extent::DryRun) => {}
        (Err(refused), _) => {
            tracing::warn!(target: AUDIT, %who, %from, faults = refused.items.len(), why = %extract(&refused.text, WHY), "import refused");
        }
    }
    imported
}

fn look_and_make(broker: &Broker, text: &str, import: &Import<'_>) -> Result<Imported, Refused> {
    let mut faults = Faults::default();
    let read = document::read(text, &mut faults);
    let document = read.map_err(|text| Refused::new(Why::Invalid, text))?;
    refuse(&mut faults.wrong, NOTHING)?;
    let mut plan = Plan::of(broker, document, import.vhost, faults);
    let Faults { mut wrong, mut unsupported, notes } = std::mem::take(&mut plan.faults);
    refuse(&mut wrong, NOTHING)?;
    if !import.skip_unsupported {
        refuse(&mut unsupported, "nothing was imported; not supported, and skipped only if asked for")?;
    }
    let taken = plan.count();
    if import.extent == Extent::Whole {
        plan.make(&import.caller.from)?;
    }
    Ok(Imported { taken, skipped: unsupported.into_lines(), notes: notes.into_lines() })
}

/// Refuses a document that something stands against.
fn refuse(lines: &mut Lines, text: &str) -> Result<(), Refused> {
    match lines.is_empty() {
        true => Ok(()),
        false => Err(Refused::for_items(Why::Invalid, text, std::mem::take(lines).into_lines())),
    }
}
