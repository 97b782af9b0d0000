//! Logging in on the pages of a server elsewhere (OpenID Connect), and coming back with a code.
//!
//! What comes back is anybody's text. It counts only with the cookie of the browser that went, once
//! and within ten minutes; and the token that the code is taken for goes through the same
//! authority, with the same limits, as one that is typed in.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{Extension, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use maud::html;

use super::visitor::{to_with_cookie, way_back};
use super::{frame, login};
use crate::api::{Asker, LogIn};
use crate::cookies;
use crate::journeys::LONGEST;
use crate::prefix::Prefix;
use crate::sessions;
use crate::source::Source;
use crate::visit::{Transport, Visit};

/// Where people come back.
const BACK: &str = "/login/back";

/// Why there is no page to go to.
const NOT_SET: &str = "This server has no issuer to log in at: its setting auth_oauth2.client_id is empty.";

type Shared = State<Arc<Source>>;
type Pairs = Query<Vec<(String, String)>>;

pub(super) fn router() -> Router<Arc<Source>> {
    Router::new().route("/login/elsewhere", get(go)).route(BACK, get(back))
}

/// Leads a person to the server's page.
async fn go(
    State(source): Shared,
    Extension(visit): Extension<Visit>,
    Extension(prefix): Extension<Prefix>,
    headers: HeaderMap,
    Query(query): Pairs,
) -> Response {
    let refused = |why: &str| refused(&source, why);
    let Some(sign_on) = source.sessions.journeys.sign_on() else {
        return refused(NOT_SET);
    };
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let back = sign_on.back().map_or_else(|| back_of(visit.transport(), host, &prefix), str::to_owned);
    let Ok(journey) = source.sessions.journeys.begin(back, way_back(of(&query, "to")), Instant::now()) else {
        return refused("The system has no random bytes.");
    };
    let state = journey.state.clone();
    match ask(&source, move || sign_on.page(&journey)).await {
        Ok(page) => {
            let cookie = cookies::set_journey(visit.transport(), &state, LONGEST.as_secs());
            to_with_cookie(&page, &cookie)
        }
        Err(why) => refused(why),
    }
}

/// Takes one who comes back in.
async fn back(
    State(source): Shared,
    Extension(visit): Extension<Visit>,
    headers: HeaderMap,
    Query(query): Pairs,
) -> Response {
    let refused = |why: &str| refused(&source, why);
    let transport = visit.transport();
    let Some(sign_on) = source.sessions.journeys.sign_on() else {
        return refused(NOT_SET);
    };
    let state = of(&query, "state");
    let is_its_browser = cookies::find(&headers, cookies::journey(transport)) == Some(state);
    let away =
        Some(state).filter(|_| is_its_browser).and_then(|state| source.sessions.journeys.end(state, Instant::now()));
    let Some(away) = away else { return refused("This log-in has ended, or was not begun in this browser.") };
    let code = of(&query, "code").to_owned();
    if code.is_empty() {
        return refused(&format!("{} did not let you in{}.", sign_on.label(), reason(of(&query, "error"))));
    }
    let journey = away.journey;
    let token = match ask(&source, move || sign_on.token(&code, &journey)).await {
        Ok(token) => token,
        Err(why) => return refused(why),
    };
    let asker = match Asker::log_in(&source, "", token.as_bytes(), visit).await {
        Ok(asker) => asker,
        Err(LogIn::Tags(_)) => return refused(login::NO_TAG),
        Err(LogIn::Refused) => return refused("What the server elsewhere says of you is refused here; see the log."),
    };
    match source.sessions.begin(asker.identity().clone(), Instant::now()) {
        Ok(token) => arrived(&away.to, transport, token.as_str()),
        Err(_) => refused("The system has no random bytes."),
    }
}

/// A page of this server that goes on by itself. The cookie of a session goes with no request that
/// another site began, and a redirect would be such a one.
fn arrived(to: &str, transport: Transport, token: &str) -> Response {
    let body = html! { p { "You are logged in. " a href=(to) { "Go on" } "." } };
    let mut page = frame::bare("Logged in", body);
    let cookies = [cookies::set(transport, token, sessions::LONGEST.as_secs()), cookies::set_journey(transport, "", 0)];
    for cookie in cookies.iter().filter_map(|cookie| cookie.parse().ok()) {
        page.headers_mut().append(header::SET_COOKIE, cookie);
    }
    if let Ok(refresh) = format!("0; url={to}").parse() {
        page.headers_mut().insert(header::REFRESH, refresh);
    }
    page
}

fn refused(source: &Source, why: &str) -> Response {
    (StatusCode::FORBIDDEN, login::page(source, "/", "", Some(why))).into_response()
}

/// Asks the server, away from the loop. A person is told less than the log.
async fn ask(
    source: &Source,
    question: impl FnOnce() -> Result<String, String> + Send + 'static,
) -> Result<String, &'static str> {
    let Some(_leave) = source.sessions.journeys.question() else {
        return Err("Too many people are logging in at this moment; try again.");
    };
    let answer = tokio::task::spawn_blocking(question).await.unwrap_or_else(|_| Err("it failed".to_owned()));
    answer.map_err(|problem| {
        tracing::warn!(target: crate::change::AUDIT, %problem, stranger = tracing::field::Empty, "log-in elsewhere failed");
        "The server that logs people in cannot be asked, or refused; see the log."
    })
}

/// The address of [`BACK`] as the browser knows it.
fn back_of(transport: Transport, host: &str, prefix: &Prefix) -> String {
    let scheme = match transport {
        Transport::Tls => "https",
        Transport::Plain => "http",
    };
    format!("{scheme}://{host}{}{BACK}", prefix.as_str())
}

fn of<'a>(query: &'a [(String, String)], name: &str) -> &'a str {
    query.iter().find(|(its, _)| its == name).map_or("", |(_, value)| value)
}

/// The reason that the server gave, if it is one of the words that it may give.
fn reason(error: &str) -> String {
    let is_word = error.len() <= 40 && error.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    if is_word && !error.is_empty() { format!(": {error}") } else { String::new() }
}
