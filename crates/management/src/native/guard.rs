//! What every request of the native API passes: a change that names the state that it was made for
//! (`If-Match`) is refused if there is another by now, and every refusal has one shape.

use std::sync::Arc;

use axum::extract::{FromRequestParts, RawPathParams, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::PREFIX;
use super::operations::tag_at;
use crate::api::{Asker, Failure, Refusal};
use crate::source::Source;

/// The type of a refusal's document (RFC 9457).
const PROBLEM: &str = "application/problem+json";

/// See the module.
pub(super) async fn guard(State(source): State<Arc<Source>>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    if parts.headers.contains_key(header::IF_MATCH) && !parts.method.is_safe() {
        let asker = match Asker::from_request_parts(&mut parts, &source).await {
            Ok(asker) => asker,
            Err(refused) => return problem(refused),
        };
        let names = RawPathParams::from_request_parts(&mut parts, &source).await.ok();
        let names = names.iter().flatten().map(|(_, name)| name.to_owned()).collect::<Vec<_>>();
        let path = parts.uri.path().strip_prefix(PREFIX).unwrap_or_default();
        let tag = tag_at(path, &source, &asker, &names);
        let wanted = parts.headers.get(header::IF_MATCH).and_then(|wanted| wanted.to_str().ok()).unwrap_or_default();
        let is_that = |tag: &str| wanted == "*" || wanted.split(',').any(|one| one.trim() == tag);
        if !tag.as_deref().is_some_and(is_that) {
            let reason = "it is not there, or it was changed since it was read: read it again";
            let failure = Failure::new(StatusCode::PRECONDITION_FAILED, "precondition_failed", reason);
            return problem(failure.into_response());
        }
    }
    problem(next.run(Request::from_parts(parts, body)).await)
}

/// A refusal as RFC 9457 has it; any other answer stays.
pub(crate) fn problem(mut answer: Response) -> Response {
    let Some(Refusal { error, reason }) = answer.extensions_mut().remove::<Refusal>() else { return answer };
    let is_challenge = answer.headers().contains_key(header::WWW_AUTHENTICATE);
    let status = match answer.status() {
        // RabbitMQ's API says the same whether the user is unknown or may not.
        StatusCode::UNAUTHORIZED if !is_challenge => StatusCode::FORBIDDEN,
        status => status,
    };
    let document = json!({ "type": "about:blank", "title": error, "status": status.as_u16(), "detail": reason });
    let mut told = (status, [(header::CONTENT_TYPE, PROBLEM)], document.to_string()).into_response();
    for name in [header::WWW_AUTHENTICATE, header::RETRY_AFTER, header::ALLOW] {
        if let Some(value) = answer.headers_mut().remove(&name) {
            told.headers_mut().insert(name, value);
        }
    }
    told
}
