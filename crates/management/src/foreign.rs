//! Detects requests that a page of another site makes in a user's name: a browser sends the user's
//! password along with them.
//!
//! A browser names the origin of a request: in `Origin`, except for a GET, and in `Sec-Fetch-Site`.
//! Programs send neither. So a request that changes something is refused if one of the two headers
//! names another site; programs need no further proof.

use axum::http::{HeaderMap, Method, header};

/// A path that changes something although it is a GET.
const ACTS: &str = "/api/aliveness-test/";

/// Whether a request changes something and comes from a page of another site.
pub(crate) fn acts_for_another_site(method: &Method, path: &str, headers: &HeaderMap) -> bool {
    let is_read = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    if is_read && !path.starts_with(ACTS) {
        return false;
    }
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let is_same = |site: &str| matches!(site, "same-origin" | "none");
    if text("sec-fetch-site").is_some_and(|site| !is_same(site)) {
        return true;
    }
    let Some(origin) = text(header::ORIGIN.as_str()) else { return false };
    let place = origin.split_once("://").map(|(_, place)| place);
    let host = text(header::HOST.as_str());
    !place.zip(host).is_some_and(|(place, host)| place.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_is_refused_where_a_browser_says_it_is_another_sites() {
        let (post, get) = ("POST", "GET");
        for (method, path, headers, foreign) in [
            // Programs: curl, rabbitmqadmin, Ansible.
            (post, "/api/bindings/v/e/s/q/d", &[][..], false),
            ("DELETE", "/api/queues/v/q", &[("content-type", "application/x-www-form-urlencoded")], false),
            (get, "/api/aliveness-test/%2F", &[], false),
            // A console's own pages.
            (
                "PUT",
                "/api/queues/v/q",
                &[("origin", "http://localhost:15672"), ("sec-fetch-site", "same-origin")],
                false,
            ),
            (post, "/api/x", &[("origin", "https://LOCALHOST:15672")], false),
            (get, "/api/aliveness-test/%2F", &[("sec-fetch-site", "none")], false),
            // Pages of others.
            (post, "/api/bindings/v/e/s/q/d", &[("origin", "https://evil.example")], true),
            (post, "/api/bindings/v/e/s/q/d", &[("origin", "null")], true),
            (post, "/api/bindings/v/e/s/q/d", &[("origin", "")], true),
            ("DELETE", "/api/queues/v/q", &[("origin", "http://localhost:8080")], true),
            ("PUT", "/api/queues/v/q", &[("origin", "http://localhost.evil.example:15672")], true),
            (post, "/api/x", &[("sec-fetch-site", "cross-site")], true),
            (post, "/api/x", &[("sec-fetch-site", "same-site"), ("origin", "http://localhost:15672")], true),
            ("PATCH", "/", &[("sec-fetch-site", "cross-site")], true),
            (get, "/api/aliveness-test/%2F", &[("sec-fetch-site", "cross-site")], true),
            ("HEAD", "/api/aliveness-test/%2F", &[("sec-fetch-site", "cross-site")], true),
            // A link to a page that only shows something.
            (get, "/api/overview", &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")], false),
        ] {
            let mut map = HeaderMap::new();
            map.insert(header::HOST, "localhost:15672".parse().unwrap());
            for (name, value) in headers {
                map.insert(*name, value.parse().unwrap());
            }
            let method = method.parse().unwrap();
            assert_eq!(acts_for_another_site(&method, path, &map), foreign, "{method} {path} {headers:?}");
        }
    }
}
