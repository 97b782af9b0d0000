//! Logging in and out, and the choice of colours.
//!
//! A log-in goes through the same authority as a client's, with the same limits on guesses. It
//! always begins a session of its own. So a token that was planted in a browser is worth nothing.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{Extension, Query, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use maud::{Markup, html};

use super::form::Fields;
use super::trouble::{Shown, Trouble};
use super::visitor::{THEME, Visitor, to_with_cookie, way_back};
use super::{frame, reading};
use crate::api::{Asker, LogIn};
use crate::cookies;
use crate::resources::percent_encoded;
use crate::sessions::LONGEST;
use crate::source::{Source, alarms};
use crate::visit::Visit;

/// Most bytes of a stranger's form.
const LONGEST_FORM: usize = 8 << 10;
/// How long a browser keeps the choice of colours, in seconds.
const YEAR: u32 = 365 * 24 * 3600;

/// Why a user is not let in whose password is right.
pub(super) const NO_TAG: &str = "This user may not use the console: it needs one of the tags management, policymaker, \
    monitoring or administrator.";

type Shared = State<Arc<Source>>;
type Pairs = Vec<(String, String)>;

pub(super) fn router() -> Router<Arc<Source>> {
    Router::new()
        .route("/login", get(ask).post(log_in))
        .route("/logout", post(log_out))
        .route("/theme", post(change_theme))
}

async fn ask(State(source): Shared, Query(query): Query<Pairs>) -> Response {
    let to = query.iter().find(|(name, _)| name == "to").map_or("/", |(_, to)| to);
    page(&source, way_back(to), "", None)
}

/// The first thing that anybody sees. It says what the server offers without a log-in, too.
pub(super) fn page(source: &Source, to: &str, user: &str, refused: Option<&str>) -> Response {
    frame::bare(
        "Log in",
        html! {
            header .door {
                img src="/favicon.svg" width="52" height="52" alt="";
                div { h1 { "Hermod" } p { (source.facts.version) " on " (source.facts.node) } }
            }
            (condition(source))
            @if let Some(why) = refused { p .said.bad role="alert" { (why) } }
            form .card.login method="post" action="/login" {
                input type="hidden" name="to" value=(to);
                label for="user" { "User" }
                input #user name="user" value=(user) autocomplete="username" autocapitalize="none"
                    spellcheck="false" required autofocus[user.is_empty()];
                label for="password" { "Password" }
                input #password name="password" type="password" autocomplete="current-password"
                    required autofocus[!user.is_empty()];
                button .main { "Log in" }
            }
            @if let Some(sign_on) = source.sessions.journeys.sign_on() {
                p { a .button href=(elsewhere(to)) { "Log in with " (sign_on.label()) } }
            }
            p .quiet {
                "For programs: " a href="/api/" { "HTTP API" } " · " a href="/metrics" { "metrics" }
                " · health " a href="/health/live" { "live" } ", " a href="/health/ready" { "ready" } ", "
                a href="/health/writable" { "writable" } ". On the command line: " code { "hermod status" } "."
            }
        },
    )
}

/// Where the way to the server elsewhere begins.
fn elsewhere(to: &str) -> String {
    match to {
        "/" => "/login/elsewhere".to_owned(),
        to => format!("/login/elsewhere?to={}", percent_encoded(to)),
    }
}

/// The state of the server, in one line.
fn condition(source: &Source) -> Markup {
    let alarms = alarms(source.broker.alarms());
    html! {
        @if !source.is_ready() { p .said.bad { "Starting or stopping." } }
        @else if alarms.is_empty() { p .said.good { "Ready: clients are served." } }
        @else { p .said.bad { "Low on " (alarms.join(" and ")) ": publishers wait, consumers are served." } }
    }
}

async fn log_in(State(source): Shared, Extension(visit): Extension<Visit>, request: Request) -> Shown {
    let fields = reading::read(request, LONGEST_FORM).await?;
    let (user, password, to) = (fields.text("user"), fields.text("password"), way_back(fields.text("to")));
    let transport = visit.transport();
    let refused = |status, why: &str| Ok((status, page(&source, to, user, Some(why))).into_response());
    let asker = match Asker::log_in(&source, user, password.as_bytes(), visit).await {
        Ok(asker) => asker,
        Err(LogIn::Tags(_)) => return refused(StatusCode::FORBIDDEN, NO_TAG),
        Err(LogIn::Refused) => return refused(StatusCode::FORBIDDEN, "User or password is wrong."),
    };
    let no_random = |error| Trouble::new(StatusCode::INTERNAL_SERVER_ERROR, format!("No random bytes: {error}."));
    let token = source.sessions.begin(asker.identity().clone(), Instant::now()).map_err(no_random)?;
    Ok(to_with_cookie(to, &cookies::set(transport, token.as_str(), LONGEST.as_secs())))
}

async fn log_out(State(source): Shared, Extension(visit): Extension<Visit>, visitor: Visitor) -> Response {
    source.sessions.end(&visitor.token);
    to_with_cookie("/login", &cookies::set(visit.transport(), "", 0))
}

async fn change_theme(_: Visitor, fields: Fields) -> Response {
    let theme = match fields.text("theme") {
        theme @ ("light" | "dark") => theme,
        _ => "system",
    };
    let to = way_back(fields.text("to"));
    to_with_cookie(to, &format!("{THEME}={theme}; Path=/; SameSite=Strict; Max-Age={YEAR}"))
}
