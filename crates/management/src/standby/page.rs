//! The page of a node that follows another: how it follows, for everybody, and its promotion, for
//! administrators that have logged in.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{Extension, Query, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};

use super::entrance::{Asker, Peer};
use super::promotion::{can_be, carry_out, lost_at_most};
use super::{Node, Shared};
use crate::api::{self, Failure};
use crate::console::standby::{self, Viewer};
use crate::cookies;
use crate::report::Promotion;
use crate::sessions::{LONGEST, Token};

/// Most bytes of a form.
const LONGEST_FORM: usize = 8 << 10;

type Pairs = Vec<(String, String)>;

pub(super) fn routes() -> Router<Arc<Node>> {
    Router::new()
        .route("/", get(show))
        .route("/login", get(ask_who).post(log_in))
        .route("/logout", post(log_out))
        .route("/promote", get(ask).post(promote))
        .merge(crate::console::assets())
}

async fn show(State(node): Shared, Extension(peer): Extension<Peer>, headers: HeaderMap) -> Response {
    let session = node.session(peer, &headers);
    let viewer = match &session {
        None => Viewer::Stranger,
        Some((asker, _)) if asker.is_administrator() => Viewer::Administrator(asker.identity.user()),
        Some((asker, _)) => Viewer::User(asker.identity.user()),
    };
    standby::page(&(node.hooks.status)(), viewer)
}

async fn ask_who(State(node): Shared) -> Response {
    standby::log_in(&(node.hooks.status)(), "", None)
}

async fn log_in(State(node): Shared, Extension(peer): Extension<Peer>, request: Request) -> Response {
    let form = match form(request).await {
        Ok(form) => form,
        Err(failure) => return trouble(failure),
    };
    let (user, password) = (text(&form, "user"), text(&form, "password"));
    let refused =
        |why| (StatusCode::FORBIDDEN, standby::log_in(&(node.hooks.status)(), user, Some(why))).into_response();
    let asker = match node.log_in(user, password.as_bytes(), peer.address).await {
        Ok(Some(asker)) => asker,
        Ok(None) => return refused("User or password is wrong."),
        Err(failure) => return trouble(failure),
    };
    if asker.monitors().is_err() {
        return refused("This user may not look after a node: it needs the tag monitoring or administrator.");
    }
    let Ok(token) = node.sessions.begin(asker.identity, Instant::now()) else {
        return trouble(Failure::failed("the system gives no random bytes"));
    };
    to_with_cookie("/", &cookies::set(peer.transport, token.as_str(), LONGEST.as_secs()))
}

async fn log_out(State(node): Shared, Extension(peer): Extension<Peer>, headers: HeaderMap) -> Response {
    if let Some(token) = cookies::find(&headers, cookies::name(peer.transport)) {
        node.sessions.end(&Token::of(token));
    }
    to_with_cookie("/", &cookies::set(peer.transport, "", 0))
}

fn to_with_cookie(place: &str, cookie: &str) -> Response {
    (StatusCode::SEE_OTHER, [(header::LOCATION, place), (header::SET_COOKIE, cookie)]).into_response()
}

/// Says what would be lost, and asks.
async fn ask(
    State(node): Shared,
    Extension(peer): Extension<Peer>,
    Query(query): Query<Pairs>,
    headers: HeaderMap,
) -> Response {
    match administrator(&node, peer, &headers) {
        Err(answer) => *answer,
        Ok(_) => question(&node, wanted(&query), None),
    }
}

fn question(node: &Node, promotion: Promotion, refused: Option<&str>) -> Response {
    let row = match can_be(node) {
        Ok(row) => row,
        Err(failure) => return trouble(failure),
    };
    let page = standby::ask(&row, (promotion, &lost_at_most(&row, promotion)), refused);
    let status = if refused.is_some() { StatusCode::BAD_REQUEST } else { StatusCode::OK };
    (status, page).into_response()
}

async fn promote(
    State(node): Shared,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    request: Request,
) -> Response {
    let asker = match administrator(&node, peer, &headers) {
        Ok(asker) => asker,
        Err(answer) => return *answer,
    };
    let form = match form(request).await {
        Ok(form) => form,
        Err(failure) => return trouble(failure),
    };
    let promotion = wanted(&form);
    if promotion == Promotion::Now && text(&form, "name").trim() != (node.hooks.status)().node {
        return question(&node, promotion, Some("That is not the name of this node, so nothing was done."));
    }
    match carry_out(&asker, &node, promotion).await {
        Ok(row) => standby::promoted(&row.text),
        Err(failure) => trouble(failure),
    }
}

/// How a node is to be promoted: at once, if nothing else is said.
fn wanted(form: &Pairs) -> Promotion {
    if text(form, "how") == "planned" { Promotion::Planned } else { Promotion::Now }
}

/// The administrator whose session this is; if it is none's, the answer.
fn administrator(node: &Node, peer: Peer, headers: &HeaderMap) -> Result<Asker, Box<Response>> {
    let (asker, _) = node.session(peer, headers).ok_or_else(|| Box::new(Redirect::to("/login").into_response()))?;
    asker.administers().map(|()| asker).map_err(|refused| Box::new(trouble(refused)))
}

fn trouble(failure: Failure) -> Response {
    let (status, reason) = failure.parts();
    // A browser that is told 401 asks for a password of its own.
    let status = if status == StatusCode::UNAUTHORIZED { StatusCode::FORBIDDEN } else { status };
    (status, standby::trouble(&reason)).into_response()
}

async fn form(request: Request) -> Result<Pairs, Failure> {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.split(';').next().is_none_or(|kind| kind.trim() != "application/x-www-form-urlencoded") {
        let reason = "this page takes forms; programs use /hermod/v1/cluster/promote";
        return Err(Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", reason));
    }
    let bytes = api::read(request, LONGEST_FORM).await?;
    Ok(form_urlencoded::parse(&bytes).into_owned().collect())
}

/// A field of a form; empty if it has none.
fn text<'a>(form: &'a Pairs, name: &str) -> &'a str {
    form.iter().find(|(its, _)| its == name).map_or("", |(_, value)| value)
}
