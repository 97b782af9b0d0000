//! The prefix of a listener's paths, as `/hermod`: taken from requests before they are routed, and
//! put before the paths of answers.
//!
//! Pages, redirects and cookies are written as if there were none. Pages escape quotes in all that
//! they show, so ` href="/` is an address of a page wherever it is.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::http::uri::{PathAndQuery, Uri};
use axum::http::{HeaderMap, Response};

/// The attributes of pages that have paths.
const ATTRIBUTES: [&str; 4] = ["href", "src", "action", "formaction"];

/// Empty, or a path without a final slash.
#[derive(Debug, Clone, Default)]
pub(crate) struct Prefix(Arc<str>);

impl Prefix {
    pub(crate) fn new(prefix: &str) -> Self {
        Self(prefix.into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The address without the prefix; `None` if it does not begin with it.
    pub(crate) fn within(&self, uri: &Uri) -> Option<Uri> {
        if self.0.is_empty() {
            return Some(uri.clone());
        }
        let rest = uri.path().strip_prefix(&*self.0)?;
        let path = match rest {
            "" => "/",
            rest if rest.starts_with('/') => rest,
            _ => return None,
        };
        let path = match uri.query() {
            Some(query) => format!("{path}?{query}"),
            None => path.to_owned(),
        };
        let mut parts = uri.clone().into_parts();
        parts.path_and_query = Some(PathAndQuery::try_from(path).ok()?);
        Uri::from_parts(parts).ok()
    }

    /// The answer with the prefix before its paths.
    pub(crate) async fn before(&self, mut answer: Response<Body>) -> Response<Body> {
        if self.0.is_empty() {
            return answer;
        }
        self.edit(answer.headers_mut(), header::LOCATION, |value| {
            value.starts_with('/').then(|| format!("{}{value}", self.0))
        });
        self.edit(answer.headers_mut(), header::SET_COOKIE, |value| {
            value.contains("; Path=/;").then(|| value.replace("; Path=/;", &format!("; Path={}/;", self.0)))
        });
        self.edit(answer.headers_mut(), header::REFRESH, |value| {
            let (pause, path) = value.split_once("; url=")?;
            path.starts_with('/').then(|| format!("{pause}; url={}{path}", self.0))
        });
        let is_page =
            answer.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
        // A packed page is one of the manual, whose addresses are relative.
        if !is_page || answer.headers().contains_key(header::CONTENT_ENCODING) {
            return answer;
        }
        let (mut head, body) = answer.into_parts();
        // A page is made whole before it is sent, so this waits for nothing.
        let page = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
        let page = self.page(&String::from_utf8_lossy(&page));
        head.headers.remove(header::CONTENT_LENGTH);
        Response::from_parts(head, Body::from(page))
    }

    fn page(&self, page: &str) -> String {
        ATTRIBUTES.iter().fold(page.to_owned(), |page, name| {
            page.replace(&format!(" {name}=\"/"), &format!(" {name}=\"{}/", self.0))
        })
    }

    /// Edits every value of a header.
    fn edit(&self, headers: &mut HeaderMap, name: HeaderName, edit: impl Fn(&str) -> Option<String>) {
        let values: Vec<HeaderValue> = headers.get_all(&name).iter().cloned().collect();
        headers.remove(&name);
        for value in values {
            let edited = value.to_str().ok().and_then(&edit).and_then(|text| HeaderValue::try_from(text).ok());
            headers.append(name.clone(), edited.unwrap_or(value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lie_below_the_prefix() {
        let prefix = Prefix::new("/mq");
        for (asked, within) in [
            ("/mq/api/queues?page=1", Some("/api/queues?page=1")),
            ("/mq", Some("/")),
            ("/mq/", Some("/")),
            ("/mq?x=1", Some("/?x=1")),
            ("/mqx/api", None),
            ("/api", None),
            ("/", None),
        ] {
            let found = prefix.within(&asked.parse().unwrap()).map(|uri| uri.to_string());
            assert_eq!(found.as_deref(), within, "{asked}");
        }
        let all = Prefix::default();
        assert_eq!(all.within(&"/api?x".parse().unwrap()).unwrap(), "/api?x");
    }

    #[tokio::test]
    async fn answers_name_paths_below_it() {
        let answer = Response::builder()
            .header("location", "/queues")
            .header("refresh", "0; url=/queues?name=a")
            .header("set-cookie", "a=1; Path=/; HttpOnly")
            .header("set-cookie", "b=1; Path=/; HttpOnly")
            .header("content-type", "text/html; charset=utf-8")
            .header("content-length", "3")
            .body(Body::from("<a href=\"/queues\"></a><form action=\"/x\"> href=&quot;/ <a href=\"https://e\">"))
            .unwrap();
        let answer = Prefix::new("/mq").before(answer).await;
        let headers = answer.headers().clone();
        assert_eq!(headers["location"], "/mq/queues");
        assert_eq!(headers["refresh"], "0; url=/mq/queues?name=a");
        let cookies: Vec<_> = headers.get_all("set-cookie").iter().collect();
        assert_eq!(cookies, ["a=1; Path=/mq/; HttpOnly", "b=1; Path=/mq/; HttpOnly"]);
        assert!(!headers.contains_key("content-length"));
        let page = axum::body::to_bytes(answer.into_body(), 1000).await.unwrap();
        let expected = "<a href=\"/mq/queues\"></a><form action=\"/mq/x\"> href=&quot;/ <a href=\"https://e\">";
        assert_eq!(page, expected);
    }
}
