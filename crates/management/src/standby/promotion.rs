//! The promotion over HTTP of a node that follows another, and what it is to others.
//!
//! Invariant: nothing is promoted before the caller was told what is lost at most, and has agreed.

use std::sync::Arc;

use auth::shown::extract;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;

use super::entrance::Asker;
use super::{Node, Shared};
use crate::api::{self, Failure};
use crate::change::{AUDIT, WHY};
use crate::native::{ClusterRow, PromotionRow, problem};
use crate::quantity::{seconds, size};
use crate::report::{Promotion, StandbyRow};

/// Most bytes of a request's document.
const LONGEST: usize = 4 << 10;

/// What is lost at most when a node is promoted.
#[must_use]
pub fn lost_at_most(row: &StandbyRow, promotion: Promotion) -> String {
    if promotion == Promotion::Planned {
        return format!("{} stops serving and sends everything; nothing is lost", row.leader);
    }
    let lag = match row.lag_ms {
        Some(ms) => format!("this node has all that {} had flushed {} ago", row.leader, seconds(ms)),
        None => format!("this node has not been up to date with {} since it was started", row.leader),
    };
    format!(
        "{lag}; what that one has taken since is lost: {} entries ({}) were known to be missing when it was heard last, {}",
        row.lag_entries,
        size(row.lag_bytes),
        row.heard_ms.map_or_else(|| "never".to_owned(), |ms| format!("{} ago", seconds(ms)))
    )
}

pub(super) fn routes() -> Router<Arc<Node>> {
    Router::new().route("/hermod/v1/cluster", get(show)).route("/hermod/v1/cluster/promote", post(promote))
}

async fn show(asker: Asker, State(node): Shared) -> Response {
    if let Err(refused) = asker.monitors() {
        return problem(refused.into_response());
    }
    let row = (node.hooks.status)();
    let loss = lost_at_most(&row, Promotion::Now);
    Json(ClusterRow::Follows { row, loss }.shown()).into_response()
}

/// What a request asks for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    #[serde(default)]
    planned: bool,
    #[serde(default)]
    accept_loss: bool,
}

async fn promote(asker: Asker, State(node): Shared, request: Request) -> Response {
    match promoted(&asker, &node, request).await {
        Ok(row) => Json(row.shown()).into_response(),
        Err(refused) => problem(refused.into_response()),
    }
}

async fn promoted(asker: &Asker, node: &Arc<Node>, request: Request) -> Result<PromotionRow, Failure> {
    asker.administers()?;
    let document = api::read(request, LONGEST).await?;
    let wanted: Wanted = match document.as_slice() {
        b"" => Wanted { planned: false, accept_loss: false },
        some => serde_json::from_slice(some)
            .map_err(|error| Failure::bad_request(format!("the document is not understood: {error}")))?,
    };
    let promotion = match wanted {
        Wanted { planned: true, accept_loss: true } => {
            let reason = "planned loses nothing: leave accept_loss out, or planned if the leader is gone";
            return Err(Failure::bad_request(reason));
        }
        Wanted { planned: true, .. } => Promotion::Planned,
        Wanted { accept_loss: true, .. } => Promotion::Now,
        Wanted { .. } => {
            let row = can_be(node)?;
            return Err(conflict(format!(
                "{}. Say \"planned\": true while {} serves, or \"accept_loss\": true to promote this node nevertheless",
                lost_at_most(&row, Promotion::Now),
                row.leader
            )));
        }
    };
    carry_out(asker, node, promotion).await
}

/// The node, if it could serve.
///
/// # Errors
/// If there is nothing that it could serve.
pub(super) fn can_be(node: &Node) -> Result<StandbyRow, Failure> {
    let row = (node.hooks.status)();
    if row.whole {
        return Ok(row);
    }
    Err(conflict("this node has no whole copy yet, so there is nothing that it could serve"))
}

fn conflict(reason: impl Into<String>) -> Failure {
    Failure::new(StatusCode::CONFLICT, "conflict", reason)
}

/// Promotes the node in the name of an administrator, and tells the audit log.
///
/// # Errors
/// Why the node goes on following.
pub(super) async fn carry_out(asker: &Asker, node: &Arc<Node>, promotion: Promotion) -> Result<PromotionRow, Failure> {
    asker.administers()?;
    let row = can_be(node)?;
    let there = Arc::clone(node);
    let made = tokio::task::spawn_blocking(move || (there.hooks.promote)(promotion)).await;
    let made = made.map_err(|_| Failure::failed("the promotion had panicked"))?;
    tell((asker.identity.user(), &asker.from.to_string()), &row.node, promotion, &made);
    let loss = lost_at_most(&row, promotion);
    made.map(|text| PromotionRow { text, loss }).map_err(conflict)
}

/// Tells the audit log of a promotion: who asked for it, and from where.
pub(super) fn tell((who, from): (&str, &str), name: &str, promotion: Promotion, made: &Result<String, String>) {
    let (action, vhost) = ("promote", "");
    let about = match promotion {
        Promotion::Planned => "planned",
        Promotion::Now => "at once",
    };
    match made {
        Ok(_) => {
            let (count, outcome) = (0, "done");
            tracing::info!(target: AUDIT, %who, %from, action, vhost, name, %about, count, outcome, "administrative change");
        }
        Err(why) => {
            let (why, outcome) = (extract(why, WHY), "refused");
            tracing::warn!(target: AUDIT, %who, %from, action, vhost, name, %about, outcome, %why, "administrative change refused");
        }
    }
}
