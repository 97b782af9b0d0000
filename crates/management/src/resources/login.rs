//! Log-in by a form, as RabbitMQ's pages do it: `/api` then takes the cookie of the session in
//! place of a password.

use std::time::Instant;

use axum::Router;
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, header};
use axum::response::IntoResponse;
use axum::routing::post;

use crate::api::{self, Answer, Asker, Failure, LogIn, Routes, Shared};
use crate::cookies;
use crate::sessions::{LONGEST, Token};
use crate::visit::Visit;

/// Most bytes of the form.
const LONGEST_FORM: usize = 64 << 10;

pub(super) fn routes() -> Routes {
    Router::new().route("/api/login", post(log_in).delete(log_out))
}

async fn log_in(State(source): Shared, Extension(visit): Extension<Visit>, request: Request) -> Answer {
    let form = api::read(request, LONGEST_FORM).await?;
    let field = |name: &str| form_urlencoded::parse(&form).find(|(its, _)| its == name).map(|(_, value)| value);
    let (Some(user), Some(password)) = (field("username"), field("password")) else {
        return Err(Failure::bad_request("a log-in is a form with username and password"));
    };
    let transport = visit.transport();
    let asker = match Asker::log_in(&source, &user, password.as_bytes(), visit).await {
        Ok(asker) => asker,
        Err(LogIn::Refused) => return Err(Failure::not_authorized("Login failed")),
        Err(LogIn::Tags(failure)) => return Err(failure),
    };
    let token = source.sessions.begin(asker.identity().clone(), Instant::now());
    let token = token.map_err(|error| Failure::failed(format!("the system gives no random bytes: {error}")))?;
    let cookie = cookies::set(transport, token.as_str(), LONGEST.as_secs());
    Ok(([(header::SET_COOKIE, cookie)], axum::Json("ok")).into_response())
}

async fn log_out(State(source): Shared, Extension(visit): Extension<Visit>, headers: HeaderMap) -> Answer {
    if let Some(token) = cookies::find(&headers, cookies::name(visit.transport())) {
        source.sessions.end(&Token::of(token));
    }
    let cookie = cookies::set(visit.transport(), "", 0);
    Ok(([(header::SET_COOKIE, cookie)], axum::Json("ok")).into_response())
}
