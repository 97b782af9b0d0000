//! The first page, and the answers to unknown paths: both say what the server offers, and where.
//!
//! The page is complete in itself: it has no script and loads nothing. Its policy lets a browser
//! use the page's own style and no other.

use std::sync::OnceLock;

use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::IntoResponse;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::facts::Facts;

/// Where rabbitmqadmin can be downloaded.
const RABBITMQADMIN: &str = "https://github.com/rabbitmq/rabbitmqadmin-ng/releases";

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1d2430;--dim:#5b6676;--line:#d9dee6;--page:#f7f8fa;--card:#fff;--link:#1f5fae;--good:#1c7c45;--bad:#b3261e}
@media(prefers-color-scheme:dark){:root{--ink:#e4e8ee;--dim:#9aa6b6;--line:#2d3541;--page:#12161c;--card:#1a2028;--link:#84b6f4;--good:#6fce95;--bad:#f2938c}}
*{box-sizing:border-box}
body{margin:0;padding:8vh 1.25rem 3rem;background:var(--page);color:var(--ink);font:1rem/1.5 system-ui,sans-serif}
main{max-width:38rem;margin:0 auto}
header{display:flex;align-items:center;gap:1rem;margin-bottom:1.5rem}
h1{margin:0;font-size:1.9rem;line-height:1.15;letter-spacing:-.02em}
header p{margin:.1rem 0 0;color:var(--dim);overflow-wrap:anywhere}
.state{margin:0 0 1.5rem;padding:.8rem 1rem;border:1px solid var(--line);border-left:4px solid var(--good);border-radius:6px;background:var(--card)}
.state.bad{border-left-color:var(--bad)}
dl{margin:0;border:1px solid var(--line);border-radius:6px;background:var(--card)}
dl div{padding:.7rem 1rem;border-top:1px solid var(--line)}
dl div:first-child{border:0}
dt{font-weight:600}
dd{margin:0;color:var(--dim)}
a{color:var(--link);text-decoration:none}
a:hover{text-decoration:underline}
code{font:.92em ui-monospace,monospace;color:var(--ink)}
footer{margin-top:1.5rem;color:var(--dim);font-size:.93rem}
";

const PAGE: &str = "<!doctype html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width\">
<title>Hermod</title>
<link rel=\"icon\" href=\"/favicon.svg\">
<style>{style}</style>
</head>
<body>
<main>
<header>
<img src=\"/favicon.svg\" width=\"52\" height=\"52\" alt=\"\">
<div><h1>Hermod</h1><p>{version} on {node}</p></div>
</header>
<p class=\"{class}\">{condition}</p>
<dl>
<div><dt><a href=\"/api/overview\">/api/overview</a></dt><dd>Sums over everything, after a log-in; the rest of RabbitMQ's HTTP API is under <a href=\"/api/\">/api</a></dd></div>
<div><dt><a href=\"/metrics\">/metrics</a></dt><dd>Figures for Prometheus; of each queue, after a log-in, at <a href=\"/metrics/per-object\">/metrics/per-object</a></dd></div>
<div><dt><a href=\"/health/live\">/health/live</a> · <a href=\"/health/ready\">ready</a> · <a href=\"/health/writable\">writable</a></dt><dd>For balancers and probes: 200, or 503 and why</dd></div>
<div><dt><code>hermod status</code></dt><dd>On the command line; <code>hermod help</code> lists the rest</dd></div>
</dl>
<footer>There is no web console yet. The manual is in <code>docs/manual</code> of the source.</footer>
</main>
</body>
</html>
";

/// The rune for H.
const ICON: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 32 32\"><rect width=\"32\" height=\"32\" rx=\"7\" \
    fill=\"#1f5fae\"/><path d=\"M10 6v20M22 6v20M10 11.5l12 9\" fill=\"none\" stroke=\"#fff\" stroke-width=\"3\" \
    stroke-linecap=\"round\"/></svg>";

/// The state of the server, in one line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Condition {
    text: String,
    is_good: bool,
}

impl Condition {
    pub(crate) fn starting_or_stopping() -> Self {
        Self { text: "Starting or stopping.".to_owned(), is_good: false }
    }

    pub(crate) fn ready(alarms: &[String]) -> Self {
        let text = if alarms.is_empty() {
            "Ready: clients are served.".to_owned()
        } else {
            format!("Low on {}: publishers wait, consumers are served.", alarms.join(" and "))
        };
        Self { text, is_good: alarms.is_empty() }
    }
}

/// The first page.
pub(crate) fn page(facts: &Facts, condition: Condition) -> impl IntoResponse {
    let class = if condition.is_good { "state" } else { "state bad" };
    // The style comes last: texts from outside must not be taken for its placeholder.
    let page = PAGE
        .replace("{class}", class)
        .replace("{style}", STYLE)
        .replace("{condition}", &condition.text)
        .replace("{version}", &escaped(&facts.version))
        .replace("{node}", &escaped(&facts.node));
    let headers: [(HeaderName, &str); 3] = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, policy()),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    (headers, page).into_response()
}

/// What a browser may load for the page: the style within it, and the icon.
fn policy() -> &'static str {
    static POLICY: OnceLock<String> = OnceLock::new();
    POLICY.get_or_init(|| {
        let digest = STANDARD.encode(Sha256::digest(STYLE));
        format!(
            "default-src 'none'; style-src 'sha256-{digest}'; img-src 'self'; base-uri 'none'; form-action 'none'; \
             frame-ancestors 'none'"
        )
    })
}

/// Escapes a text for a page.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The icon of the page's tab.
pub(crate) fn icon() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "image/svg+xml"), (header::CACHE_CONTROL, "max-age=86400")], ICON)
}

/// The answer at `/api` itself.
pub(crate) fn about_api() -> impl IntoResponse {
    "Here is RabbitMQ's HTTP API. Every request needs a user with one of the tags management, policymaker,\n\
     monitoring, administrator, and its password.\n\n\
     curl -u guest:guest http://localhost:15672/api/overview\n\n\
     docs/manual/http-api.md has every path.\n"
}

/// 404, and a list of the paths that exist.
pub(crate) fn nothing(path: &str, headers: &HeaderMap) -> impl IntoResponse {
    let text = if path == "/cli" || path.starts_with("/cli/") {
        format!("rabbitmqadmin is RabbitMQ's and not handed out here: get it from {RABBITMQADMIN}.\n")
    } else {
        "Nothing is here. There are / (the first page), /api/overview, /metrics, /health/live, /health/ready and\n\
         /health/writable. There is no web console yet.\n"
            .to_owned()
    };
    let accepts = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accepts.starts_with("application/json") {
        let document = serde_json::json!({ "error": "Object Not Found", "reason": text.trim_end() });
        return (StatusCode::NOT_FOUND, axum::Json(document)).into_response();
    }
    (StatusCode::NOT_FOUND, text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_fills_all_its_places_and_allows_its_style_alone() {
        for place in ["{style}", "{class}", "{version}", "{node}", "{condition}"] {
            assert_eq!(PAGE.matches(place).count(), 1, "{place}");
        }
        assert!(PAGE.len() + STYLE.len() < 5000, "it is {} bytes", PAGE.len() + STYLE.len());
        assert!(policy().contains("default-src 'none'") && !policy().contains("unsafe"));
        assert_eq!(escaped("<a b=\"c\">&"), "&lt;a b=&quot;c&quot;&gt;&amp;");
        // A browser hashes the text between the tags.
        assert!(PAGE.contains("<style>{style}</style>") && !PAGE.contains("<script"));
    }

    #[test]
    fn the_condition_is_told_in_a_line() {
        let alarms = ["memory".to_owned(), "disk".to_owned()];
        for (condition, text, is_good) in [
            (Condition::ready(&[]), "Ready: clients are served.", true),
            (Condition::ready(&alarms), "Low on memory and disk: publishers wait, consumers are served.", false),
            (Condition::starting_or_stopping(), "Starting or stopping.", false),
        ] {
            assert_eq!(condition, Condition { text: text.to_owned(), is_good });
        }
    }
}
