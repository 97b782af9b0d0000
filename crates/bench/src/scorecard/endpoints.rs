//! What a broker offers to operators over HTTP: a page to manage it, an interface for programs,
//! metrics, health.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde::Serialize;

/// Who has not answered by then has no such endpoint.
const PATIENCE: Duration = Duration::from_millis(1500);
/// Most bytes of an answer that are looked at.
const LONGEST_ANSWER: u64 = 256 * 1024;

/// What an endpoint is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Purpose {
    /// A page for people.
    Page,
    /// An interface for programs.
    Api,
    Metrics,
    Health,
}

impl std::fmt::Display for Purpose {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Page => "page",
            Self::Api => "API",
            Self::Metrics => "metrics",
            Self::Health => "health",
        })
    }
}

/// Where brokers have such endpoints.
const PATHS: [(Purpose, &str); 13] = [
    (Purpose::Page, "/"),
    (Purpose::Page, "/console/"),
    (Purpose::Page, "/admin/"),
    (Purpose::Api, "/api/overview"),
    (Purpose::Api, "/api/latest/broker"),
    (Purpose::Api, "/console/jolokia/version"),
    (Purpose::Api, "/api/jolokia/version"),
    (Purpose::Api, "/varz"),
    (Purpose::Metrics, "/metrics"),
    (Purpose::Health, "/health"),
    (Purpose::Health, "/healthz"),
    (Purpose::Health, "/health/ready"),
    (Purpose::Health, "/api/health/checks/alarms"),
];

/// An endpoint that answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Endpoint {
    pub(super) purpose: Purpose,
    pub(super) port: u16,
    pub(super) path: &'static str,
    /// The status; 401 and 403 mean that it is there for those who may.
    pub(super) status: u16,
}

/// Asks for every path on `address`; nothing where no HTTP is spoken.
pub(super) fn at(address: SocketAddr) -> Vec<Endpoint> {
    if ask(address, "/").is_none() {
        return Vec::new();
    }
    let answers = PATHS.iter().filter_map(|(purpose, path)| {
        let (status, body) = ask(address, path)?;
        let there = counts(*purpose, status, &body);
        there.then_some(Endpoint { purpose: *purpose, port: address.port(), path, status })
    });
    answers.collect()
}

/// Whether an answer is that of such an endpoint.
fn counts(purpose: Purpose, status: u16, body: &str) -> bool {
    match (purpose, status) {
        (_, 401 | 403) => true,
        (Purpose::Page, 200) => body.to_ascii_lowercase().contains("<html"),
        (Purpose::Metrics, 200) => body.contains("# TYPE") || body.contains("# HELP"),
        (Purpose::Api, 200) => body.trim_start().starts_with(['{', '[']),
        (Purpose::Health, 200 | 503) => true,
        _ => false,
    }
}

/// Status and body; none where the answer is not HTTP.
fn ask(address: SocketAddr, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.set_write_timeout(Some(PATIENCE)).ok()?;
    // HTTP/1.0: the body ends with the connection, without chunks.
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\nAccept: */*\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    // What came before a broken connection may be all there is.
    let _ = stream.take(LONGEST_ANSWER).read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
    Some((status, body.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn an_answer_counts_for_what_it_is() {
        let cases = [
            (Purpose::Page, 200, "<!DOCTYPE html><HTML>", true),
            (Purpose::Page, 200, "hello", false),
            (Purpose::Page, 404, "<html>", false),
            (Purpose::Api, 401, "", true),
            (Purpose::Api, 200, "<html>", false),
            (Purpose::Metrics, 200, "# TYPE a counter\na 1\n", true),
            (Purpose::Metrics, 200, "<html>", false),
            (Purpose::Health, 503, "", true),
            (Purpose::Health, 404, "", false),
        ];
        for (purpose, status, body, expected) in cases {
            assert_eq!(counts(purpose, status, body), expected, "{purpose} {status}");
        }
    }

    #[test]
    fn endpoints_are_found_and_other_servers_are_left_alone() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            for stream in listener.incoming().take(PATHS.len() + 1) {
                let (mut stream, mut request) = (stream.unwrap(), [0; 512]);
                let length = stream.read(&mut request).unwrap();
                let is_metrics = request[..length].starts_with(b"GET /metrics ");
                let answer = if is_metrics { "200 OK\r\n\r\n# TYPE x counter\n" } else { "404 Not Found\r\n\r\n" };
                stream.write_all(format!("HTTP/1.0 {answer}").as_bytes()).unwrap();
            }
        });
        let found = at(address);
        server.join().unwrap();
        assert_eq!(
            found,
            [Endpoint { purpose: Purpose::Metrics, port: address.port(), path: "/metrics", status: 200 }]
        );
    }
}
