//! The requests of the command line over HTTP, for administrators that work on other machines.
//!
//! Request and answer are the lines of the control socket. A change has the rights of the user who
//! asks, as everywhere under `/api`. Work on the files of the server is refused here.

use std::sync::atomic::AtomicBool;

use axum::Router;
use axum::extract::{Request as HttpRequest, State};
use axum::routing::post;

use super::{Answer, LONGEST_REQUEST, Request};
use crate::api::{self, Answer as HttpAnswer, Asker, Failure, Routes, Shared, blocking, shown};

/// The path of these requests.
pub const PATH: &str = "/hermod/v1/control";

pub(crate) fn routes() -> Routes {
    Router::new().route(PATH, post(answer))
}

/// Only an administrator's request is read.
async fn answer(asker: Asker, State(source): Shared, request: HttpRequest) -> HttpAnswer {
    asker.administers()?;
    let longest = usize::try_from(LONGEST_REQUEST).unwrap_or(usize::MAX);
    let text = api::read(request, longest).await?;
    let request: Request = serde_json::from_slice(&text)
        .map_err(|error| Failure::bad_request(format!("the request is not understood: {error}")))?;
    if let Request::Backup { .. } | Request::Repair { .. } = request {
        let reason = "a backup and a repair are asked for on the server's machine, over its control socket";
        return Err(Failure::bad_request(reason));
    }
    let caller = asker.caller();
    let work = move |source: &crate::Source| Ok(source.answer(&request, caller, &AtomicBool::new(false)));
    let answer: Answer = blocking(&source, &asker, work).await?;
    shown(answer)
}
