//! Definitions: users, vhosts, permissions and declarations, written and read as RabbitMQ's JSON
//! document.
//!
//! The whole document is checked before anything changes, so a refused document has changed
//! nothing. Things that Hermod does not support are named, and refuse the document. If the caller
//! asks to skip them, only they are left out.

mod document;
mod export;
mod fields;
mod plan;

use std::sync::Arc;

use auth::shown::extract;
use axum::Router;
use axum::extract::{Path, Request, State};
use axum::routing::get;
use broker::Broker;
use serde::{Deserialize, Serialize};

use self::fields::{Faults, Lines};
use self::plan::Plan;
use crate::api::{self, Answer, Asker, Failure, Parameters, Routes, Shared, blocking, done, shown, shown_text, sum_up};
use crate::change::{AUDIT, Caller, Refused, WHY, Why};
use crate::source::{Source, operator};

pub(crate) use self::export::export;

/// Most bytes of a document of definitions.
pub const LONGEST_DEFINITIONS: u64 = 32 << 20;
/// The component of parameters that holds the limits of a vhost.
const VHOST_LIMITS: &str = "vhost-limits";
/// The component of parameters in which RabbitMQ keeps operator policies.
const OPERATOR_POLICY: &str = "operator_policy";
/// The field of a hash that only Hermod reads.
const HERMOD_HASH: &str = "hermod-password-hash";
/// The field of a user's roles, which only Hermod reads.
const HERMOD_ROLES: &str = "hermod-roles";
/// The field of a queue with its subscription, which only Hermod reads.
const HERMOD_SUBSCRIPTION: &str = "hermod-subscription";
/// How a refusal begins.
const NOTHING: &str = "nothing was imported";

/// What an import did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Imported {
    /// How many definitions it imported, or would import.
    pub taken: u64,
    /// What it skipped, one line for each.
    pub skipped: Vec<String>,
    /// What an operator should know about the imported definitions, one line for each.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Whether an import changes anything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// The document is imported.
    #[default]
    Whole,
    /// The document is only checked, and the outcome reported.
    DryRun,
}

/// How to import a document.
#[derive(Debug)]
pub(crate) struct Import<'a> {
    /// The vhost for everything in the document.
    pub(crate) vhost: Option<&'a str>,
    /// Leave out what is not supported.
    pub(crate) skip_unsupported: bool,
    /// Whether to make the changes, or only to check them.
    pub(crate) extent: Extent,
    /// Who asked.
    pub(crate) caller: Caller,
}

/// Imports a document. Objects that exist are replaced, or must be the same. Blocks until
/// everything is durable.
///
/// # Errors
/// If the document can't be read, contradicts itself or what exists, or has unsupported things that
/// are not to be skipped. Then nothing was changed. Or if something else changed what exists while
/// the import ran; then a part may be imported, and the text says so.
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
        plan.make(&import.caller)?;
    }
    Ok(Imported { taken, skipped: unsupported.into_lines(), notes: notes.into_lines() })
}

/// Refuses a document that has faults.
fn refuse(lines: &mut Lines, text: &str) -> Result<(), Refused> {
    match lines.is_empty() {
        true => Ok(()),
        false => Err(Refused::for_items(Why::Invalid, text, std::mem::take(lines).into_lines())),
    }
}

pub(super) fn routes() -> Routes {
    Router::new()
        .route("/api/definitions", get(export_all).post(import_all))
        .route("/api/all-configuration", get(export_all).post(import_all))
        .route("/api/definitions/{vhost}", get(export_vhost).post(import_vhost))
}

async fn export_all(asker: Asker, State(source): Shared) -> Answer {
    asker.administers()?;
    shown_text(sum_up(&source, &asker, |source| export::export(source).to_string()).await?)
}

async fn export_vhost(asker: Asker, State(source): Shared, Path(vhost): Path<String>) -> Answer {
    asker.administers()?;
    if !source.broker.has_vhost(&vhost) {
        return Err(Failure::not_found());
    }
    shown_text(sum_up(&source, &asker, move |source| export::export_vhost(source, &vhost).to_string()).await?)
}

/// The parameters of an import.
#[derive(Deserialize)]
struct Importing {
    #[serde(default, rename = "skip-unsupported")]
    skip_unsupported: bool,
    #[serde(default, rename = "dry-run")]
    dry_run: bool,
}

async fn import_all(
    asker: Asker,
    State(source): Shared,
    Parameters(how): Parameters<Importing>,
    request: Request,
) -> Answer {
    take_over(asker, source, None, how, request).await
}

async fn import_vhost(
    asker: Asker,
    State(source): Shared,
    Path(vhost): Path<String>,
    Parameters(how): Parameters<Importing>,
    request: Request,
) -> Answer {
    asker.administers()?;
    if !source.broker.has_vhost(&vhost) {
        return Err(Failure::not_found());
    }
    take_over(asker, source, Some(vhost), how, request).await
}

/// Only an administrator's document is read.
async fn take_over(
    asker: Asker,
    source: Arc<Source>,
    vhost: Option<String>,
    how: Importing,
    request: Request,
) -> Answer {
    asker.administers()?;
    let longest = usize::try_from(LONGEST_DEFINITIONS).unwrap_or(usize::MAX);
    let bytes = api::read(request, longest).await?;
    let text = String::from_utf8(bytes).map_err(|_| Failure::bad_request("the document is not UTF-8"))?;
    let caller = asker.caller();
    let extent = if how.dry_run { Extent::DryRun } else { Extent::Whole };
    let work = move |source: &Source| {
        let how = Import { vhost: vhost.as_deref(), skip_unsupported: how.skip_unsupported, extent, caller };
        import(&source.broker, &text, &how)
    };
    let imported = blocking(&source, &asker, work).await?;
    match extent {
        Extent::Whole => done(),
        Extent::DryRun => shown(imported),
    }
}

impl Source {
    /// Imports the document that the server's settings name; `from` names the settings. Blocks
    /// until everything is durable.
    ///
    /// # Errors
    /// Why it was refused.
    pub fn define(&self, document: &str, from: &str) -> Result<Imported, Refused> {
        let (extent, caller) = (Extent::Whole, operator(from));
        import(&self.broker, document, &Import { vhost: None, skip_unsupported: false, extent, caller })
    }
}
