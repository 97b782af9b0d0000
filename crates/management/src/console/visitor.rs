//! The logged-in user of a page. Without a session, a page leads to the log-in and back.

use std::sync::Arc;

use axum::extract::{Extension, FromRequestParts};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};

use crate::api::{self, Asker};
use crate::cookies;
use crate::resources::percent_encoded;
use crate::sessions::Token;
use crate::source::Source;
use crate::visit::Visit;

/// The cookie that holds the choice of colours.
pub(super) const THEME: &str = "theme";

/// The colours that a user chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Theme {
    /// As the system has them.
    System,
    Light,
    Dark,
}

impl Theme {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        match cookies::find(headers, THEME) {
            Some("light") => Self::Light,
            Some("dark") => Self::Dark,
            _ => Self::System,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }

    /// What the button changes to.
    pub(super) fn next(self) -> Self {
        match self {
            Self::System => Self::Light,
            Self::Light => Self::Dark,
            Self::Dark => Self::System,
        }
    }
}

/// See the module.
pub(super) struct Visitor {
    pub(super) asker: Asker,
    pub(super) token: Token,
    pub(super) theme: Theme,
    /// Path and query of the page.
    pub(super) here: String,
}

impl Visitor {
    /// Leads to a page, which says what was done.
    pub(super) fn done(&self, source: &Source, line: String, place: &str) -> Response {
        source.sessions.say(&self.token, line);
        Redirect::to(place).into_response()
    }
}

impl FromRequestParts<Arc<Source>> for Visitor {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, source: &Arc<Source>) -> Result<Self, Response> {
        let visit = Extension::<Visit>::from_request_parts(parts, source).await.map_err(IntoResponse::into_response)?;
        let Extension(visit) = visit;
        let here = parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let Some((identity, token)) = api::session(source, &visit, &parts.headers) else {
            let back = if parts.method == Method::GET { here.as_str() } else { "/" };
            return Err(to_login(back));
        };
        let asker = Asker::of(identity, visit).map_err(IntoResponse::into_response)?;
        Ok(Self { asker, token, theme: Theme::of(&parts.headers), here })
    }
}

/// Leads to the log-in, and from there to `back`.
fn to_login(back: &str) -> Response {
    match back {
        "/" => Redirect::to("/login").into_response(),
        back => Redirect::to(&format!("/login?to={}", percent_encoded(back))).into_response(),
    }
}

/// A path of this server that a page may lead back to; anything else leads to the first page.
pub(super) fn way_back(wanted: &str) -> &str {
    // A second slash, or a backslash that browsers take for one, would name another host.
    let is_path = wanted.starts_with('/') && !wanted[1..].starts_with(['/', '\\']);
    let is_plain = wanted.bytes().all(|byte| byte.is_ascii_graphic());
    if is_path && is_plain && !wanted.starts_with("/login") { wanted } else { "/" }
}

/// 303 to a page, with a cookie set.
pub(super) fn to_with_cookie(place: &str, cookie: &str) -> Response {
    (StatusCode::SEE_OTHER, [(header::LOCATION, place.to_owned()), (header::SET_COOKIE, cookie.to_owned())])
        .into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_back_stays_on_this_server() {
        for (wanted, back) in [
            ("/", "/"),
            ("/queues?name=a&page=2", "/queues?name=a&page=2"),
            ("/queues/%2F/a%2Fb", "/queues/%2F/a%2Fb"),
            ("//evil.example", "/"),
            ("/\\evil.example", "/"),
            ("https://evil.example", "/"),
            ("queues", "/"),
            ("", "/"),
            ("/a\r\nset-cookie: x=y", "/"),
            ("/login?to=/login", "/"),
        ] {
            assert_eq!(way_back(wanted), back, "{wanted:?}");
        }
    }
}
