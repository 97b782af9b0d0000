//! What every request over HTTP passes before it is routed, whatever the node does: the name that
//! the server is called by, the site that a page is of, and the paths of its listener. And what
//! every answer tells browsers.

use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{self, HeaderName};
use axum::http::{HeaderValue, Request, Response, StatusCode};

use crate::api::Failure;
use crate::foreign::acts_for_another_site;
use crate::hosts::Hosts;
use crate::http_listener::Pages;
use crate::prefix::Prefix;

/// Headers of all answers that do not set them: browsers may not cache a page, guess its type, run
/// scripts in it or show it in a frame.
const SAID: [(HeaderName, HeaderValue); 3] = [
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
    ),
];

/// What a listener for observation answers.
const OBSERVED: [&str; 2] = ["/metrics", "/health/"];

/// Why a path is not there on this listener.
const OUTSIDE: &str = "the paths of this listener have a prefix: its path_prefix";
const NOT_OBSERVED: &str = "this listener answers /metrics and /health alone";

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Checks {
    hosts: Arc<Hosts>,
    pages: Pages,
    prefix: Prefix,
}

impl Checks {
    /// Of a listener for all paths, without a prefix.
    pub(crate) fn new(hosts: Arc<Hosts>) -> Self {
        Self { hosts, pages: Pages::All, prefix: Prefix::default() }
    }

    /// Of one listener.
    pub(crate) fn at(&self, pages: Pages, prefix: &str) -> Self {
        Self { pages, prefix: Prefix::new(prefix), hosts: Arc::clone(&self.hosts) }
    }

    pub(crate) fn prefix(&self) -> &Prefix {
        &self.prefix
    }

    /// Takes the prefix of the listener from a request. Why the request reaches none of the paths,
    /// if it does not.
    pub(crate) fn refusal<B>(&self, request: &mut Request<B>, peer: IpAddr) -> Option<Failure> {
        let within = self.prefix.within(request.uri());
        let is_below = within.is_some();
        *request.uri_mut() = within.unwrap_or_default();
        let (headers, path) = (request.headers(), request.uri().path());
        if headers.get_all(header::HOST).iter().count() > 1 {
            return Some(Failure::bad_request("there is more than one header Host"));
        }
        let header = headers.get(header::HOST).map(|value| value.to_str().unwrap_or_default());
        let line = request.uri().authority().map(|authority| authority.as_str());
        if let Some(host) = header.into_iter().chain(line).find(|host| !self.hosts.admits(host, peer)) {
            let host: String = host.chars().take(100).collect();
            let reason = format!(
                "'{host}' is no name of this server: call it by its address, as localhost or by the machine's name, or add the name \
                 to http.hosts"
            );
            return Some(Failure::new(StatusCode::MISDIRECTED_REQUEST, "misdirected_request", reason));
        }
        if acts_for_another_site(request.method(), path, headers) {
            let reason =
                "a page of another site may not act here: headers Origin and Sec-Fetch-Site say that it is one";
            return Some(Failure::new(StatusCode::FORBIDDEN, "cross_site_request", reason));
        }
        let is_shown = self.pages == Pages::All || OBSERVED.iter().any(|prefix| path.starts_with(prefix));
        let absent = |reason| Failure::new(StatusCode::NOT_FOUND, "not_found", reason);
        match (is_below, is_shown) {
            (false, _) => Some(absent(OUTSIDE)),
            (true, false) => Some(absent(NOT_OBSERVED)),
            (true, true) => None,
        }
    }
}

/// Tells browsers what they may do with an answer that does not say it.
pub(crate) fn tell_browsers(answer: &mut Response<Body>) {
    for (name, value) in SAID {
        answer.headers_mut().entry(name).or_insert(value);
    }
}
