//! The requests of the command line over HTTP to a node that follows another. Those to one that
//! leads are in `control/remote.rs`. The promotion itself is asked for in `promotion.rs`.
//!
//! Invariant: nothing is changed here, and nothing is said that the page does not say to everybody.
//! So no log-in is needed, also before there are users.

use std::sync::Arc;

use axum::extract::{Request as HttpRequest, State};
use axum::routing::post;
use axum::{Json, Router};

use super::{Node, Shared};
use crate::api;
use crate::control::{Answer, PATH, Request};

/// Most bytes of a request that is for a node that follows.
const LONGEST: usize = 1 << 10;

pub(super) fn routes() -> Router<Arc<Node>> {
    Router::new().route(PATH, post(answer))
}

async fn answer(State(node): Shared, request: HttpRequest) -> Json<Answer> {
    // A longer one, such as an import, is for a broker.
    let asked = api::read(request, LONGEST).await.ok().and_then(|text| serde_json::from_slice(&text).ok());
    Json(match asked {
        Some(Request::Standby) => Answer::Standby(Box::new((node.hooks.status)())),
        _ => Answer::Error(node.hooks.refusal()),
    })
}
