//! The native API below `/hermod/v1`: what there is, as lists with filters and cursors, and changes
//! that may depend on what was read.
//!
//! One table has all operations. Routes and the OpenAPI document are made from it, and from the
//! tables of fields that rows are made from. So the document says what is answered.

mod cluster;
mod export;
mod field;
mod guard;
mod list;
mod openapi;
mod operations;
mod resource;
mod rows;

use std::sync::Arc;

use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::routing::{any, get};

use crate::api::{Failure, Routes, shown};
use crate::source::Source;
use operations::OPERATIONS;

pub(crate) use cluster::{ClusterRow, PromotionRow};
pub(crate) use guard::problem;

/// Where all paths of this API begin.
const PREFIX: &str = "/hermod/v1";

/// All routes.
pub(crate) fn routes(source: &Arc<Source>) -> Routes {
    let add = |routes: Routes, operation: &operations::Operation| {
        routes.route(&format!("{PREFIX}{}", operation.path), (operation.route)())
    };
    OPERATIONS
        .iter()
        .fold(Routes::new(), add)
        .route(&format!("{PREFIX}/openapi.json"), get(async || shown(openapi::document())))
        .route("/hermod/{*rest}", any(async || Failure::not_found()))
        .method_not_allowed_fallback(async || {
            Failure::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "see the header Allow")
        })
        .route_layer(from_fn_with_state(Arc::clone(source), guard::guard))
}
