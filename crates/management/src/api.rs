//! `/api`: RabbitMQ's HTTP API, as far as Hermod has what it describes.
//!
//! Every request is authenticated first. The exceptions are four health checks, which load
//! balancers ask without a password. Changes go through the same code as on the command line, and
//! to the same audit log.

mod about;
mod answer;
mod asker;
mod document;
mod health;
mod list;
mod objects;
mod page;
mod read;
mod traffic;
mod write;

use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::{any, get};

use crate::change::{self, Change, Refused};
use crate::front;
use crate::pool::Work;
use crate::source::Source;
pub(crate) use answer::Failure;
pub(crate) use asker::Asker;

/// Everything under `/api`.
pub(crate) fn router() -> Router<Arc<Source>> {
    Router::new()
        .route("/api", get(async || front::about_api()))
        .route("/api/", get(async || front::about_api()))
        .route("/api/{*rest}", any(async || Failure::not_found()))
        .merge(about::router())
        .merge(health::router())
        .merge(read::router())
        .merge(write::router())
        .merge(objects::router())
        .merge(traffic::router())
        .method_not_allowed_fallback(async || {
            let reason = "this path knows other methods: see the header Allow";
            Failure::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", reason)
        })
}

/// Makes a change on a thread that may block. Returns the number of messages or connections that
/// the change deleted or closed.
async fn make(source: &Arc<Source>, asker: &Asker, change: Change) -> Result<u64, Failure> {
    let caller = asker.caller();
    blocking(source, asker, move |source| change::make(&source.broker, change, caller)).await
}

/// Runs work that waits for the disk or computes a hash, in the places for such work.
async fn blocking<T: Send + 'static>(
    source: &Arc<Source>,
    asker: &Asker,
    work: impl FnOnce(&Source) -> Result<T, Refused> + Send + 'static,
) -> Result<T, Failure> {
    Ok(off_the_loop(source, asker, Work::Change, work).await??)
}

/// Looks up a single thing by its name, or a few things.
async fn look<T: Send + 'static>(
    source: &Arc<Source>,
    asker: &Asker,
    work: impl FnOnce(&Source) -> T + Send + 'static,
) -> Result<T, Failure> {
    off_the_loop(source, asker, Work::Look, work).await
}

/// Builds an answer whose size grows with the number of objects.
async fn sum_up<T: Send + 'static>(
    source: &Arc<Source>,
    asker: &Asker,
    work: impl FnOnce(&Source) -> T + Send + 'static,
) -> Result<T, Failure> {
    off_the_loop(source, asker, Work::List, work).await
}

async fn off_the_loop<T: Send + 'static>(
    source: &Arc<Source>,
    asker: &Asker,
    kind: Work,
    work: impl FnOnce(&Source) -> T + Send + 'static,
) -> Result<T, Failure> {
    let there = Arc::clone(source);
    source.pool.run(kind, asker.user(), move || work(&there)).await.map_err(Failure::failed)
}
