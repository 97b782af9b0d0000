//! What surrounds every page: head, navigation, the bar with the user, and the headers that say
//! what a browser may do with it.

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};

use super::assets;
use super::visitor::{Theme, Visitor};
use crate::source::{Source, alarms};

/// What a browser may load for a page and where its forms may go: this server alone, and nothing
/// that is written into the page.
pub(super) const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The parts of the console, in the order of the navigation: name, path.
const PARTS: [(Part, &str, &str); 8] = [
    (Part::Overview, "Overview", "/"),
    (Part::Connections, "Connections", "/connections"),
    (Part::Queues, "Queues", "/queues"),
    (Part::Exchanges, "Exchanges", "/exchanges"),
    (Part::Policies, "Policies", "/policies"),
    (Part::Users, "Users", "/users"),
    (Part::Vhosts, "Virtual hosts", "/vhosts"),
    (Part::Tasks, "Tasks", "/tasks"),
];

/// The parts behind *More*.
const MORE: [(Part, &str, &str); 9] = [
    (Part::Sessions, "Sessions", "/sessions"),
    (Part::Consumers, "Consumers", "/consumers"),
    (Part::Shovels, "Shovels", "/shovels"),
    (Part::Subscriptions, "Subscriptions", "/subscriptions"),
    (Part::Limits, "Limits", "/limits"),
    (Part::Log, "Log", "/log"),
    (Part::Audit, "Audit", "/audit"),
    (Part::Node, "Node", "/node"),
    (Part::About, "About", "/about"),
];

/// A part of the console.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Overview,
    Connections,
    Queues,
    Exchanges,
    Policies,
    Users,
    Vhosts,
    Tasks,
    Shovels,
    Sessions,
    Consumers,
    Subscriptions,
    Limits,
    Log,
    Audit,
    Node,
    About,
}

/// What a page tells about the last thing that was done.
#[derive(Debug, Default)]
pub(super) enum Notice {
    #[default]
    None,
    /// It was refused, for this reason.
    Refused(String),
}

/// What a page shows, without its surroundings.
pub(super) struct View {
    pub(super) part: Part,
    pub(super) title: String,
    /// The ways to pages above it: name and path.
    pub(super) above: Vec<(String, String)>,
    pub(super) notice: Notice,
    pub(super) body: Markup,
}

impl View {
    pub(super) fn new(part: Part, title: impl Into<String>, body: Markup) -> Self {
        Self { part, title: title.into(), above: Vec::new(), notice: Notice::None, body }
    }

    pub(super) fn below(mut self, name: impl Into<String>, path: impl Into<String>) -> Self {
        self.above.push((name.into(), path.into()));
        self
    }

    pub(super) fn with(mut self, notice: Notice) -> Self {
        self.notice = notice;
        self
    }

    /// The whole page for a user. A page that tells of a refusal has its status.
    pub(super) fn show(self, visitor: &Visitor, source: &Source) -> Response {
        let status = match self.notice {
            Notice::None => StatusCode::OK,
            Notice::Refused(_) => StatusCode::BAD_REQUEST,
        };
        let said = source.sessions.said(&visitor.token);
        let (alarms, cluster) = (alarms(source.broker.alarms()), source.cluster());
        let inside = html! {
            a .skip href="#main" { "Skip to the content" }
            header .bar {
                a .brand href="/" { img src="/favicon.svg" width="26" height="26" alt=""; "Hermod" }
                span .cluster title="cluster" { (source.broker.cluster_name()) }
                (user(visitor))
            }
            (navigation(self.part))
            @if !alarms.is_empty() {
                p .alarm role="status" {
                    strong { "Low on " (alarms.join(" and ")) ":" } " publishers wait, consumers are served."
                }
            }
            @if let Some(alarm) = cluster.alarm() {
                p .alarm role="status" { strong { (alarm) } }
            }
            main #main {
                (trail(&self.above, &self.title))
                @if let Some(said) = said { p .said.good role="status" { (said) } }
                @if let Notice::Refused(why) = &self.notice { p .said.bad role="alert" { (why) } }
                (self.body)
            }
            footer {
                "Hermod " (source.facts.version) " on " (source.facts.node)
                " · " a href="/docs/" { "Manual" } " · " a href="/api/" { "HTTP API" } " · " a href="/metrics" { "Metrics" }
            }
        };
        (status, document(&self.title, visitor.theme, inside)).into_response()
    }
}

fn navigation(here: Part) -> Markup {
    html! {
        nav aria-label="Parts of the console" {
            @for (part, name, path) in PARTS {
                @let current = (part == here).then_some("page");
                a href=(path) aria-current=[current] { (name) }
            }
            details .more open[MORE.iter().any(|(part, ..)| *part == here)] {
                summary { "More" }
                @for (part, name, path) in MORE {
                    @let current = (part == here).then_some("page");
                    a href=(path) aria-current=[current] { (name) }
                }
            }
        }
    }
}

fn user(visitor: &Visitor) -> Markup {
    html! {
        div .who {
            span title="logged in" { (visitor.asker.user()) }
            form method="post" action="/theme" {
                input type="hidden" name="to" value=(visitor.here);
                button .quiet name="theme" value=(visitor.theme.next().name()) {
                    "Colours: " (visitor.theme.name())
                }
            }
            form method="post" action="/logout" { button .quiet { "Log out" } }
        }
    }
}

fn trail(above: &[(String, String)], title: &str) -> Markup {
    html! {
        @if !above.is_empty() {
            p .trail { @for (name, path) in above { a href=(path) { (name) } " › " } }
        }
        h1 { (title) }
    }
}

/// A page without navigation: the log-in, and what went wrong.
pub(super) fn bare(title: &str, body: Markup) -> Response {
    document(title, Theme::System, html! { main #main .alone { (body) } })
}

/// A page of a node that has no other parts, with what stands in the bar.
pub(super) fn apart(title: &str, bar: Markup, body: Markup) -> Response {
    let inside = html! {
        header .bar {
            a .brand href="/" { img src="/favicon.svg" width="26" height="26" alt=""; "Hermod" }
            div .who { (bar) }
        }
        main #main { (body) }
    };
    document(title, Theme::System, inside)
}

fn document(title: &str, theme: Theme, inside: Markup) -> Response {
    let page = html! {
        (DOCTYPE)
        html lang="en" data-theme=(theme.name()) {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " · Hermod" }
                link rel="icon" href="/favicon.svg";
                link rel="stylesheet" href=(assets::STYLE.path());
                script src=(assets::SCRIPT.path()) defer {}
            }
            body { (inside) }
        }
    };
    let headers: [(HeaderName, HeaderValue); 2] = [
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (header::REFERRER_POLICY, HeaderValue::from_static("same-origin")),
    ];
    (headers, Html(page.into_string())).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_written_into_a_page_is_run() {
        assert!(!POLICY.contains("unsafe") && !POLICY.contains("data:") && POLICY.starts_with("default-src 'none'"));
        let inside = html! { p { ("<script>alert(1)</script>") } a title=("\"><img src=x>") { "x" } };
        let text = inside.into_string();
        assert!(!text.contains("<script") && !text.contains("<img"), "{text}");
    }

    #[test]
    fn each_part_has_a_link_and_one_is_current() {
        let text = navigation(Part::Queues).into_string();
        for (_, name, path) in PARTS.into_iter().chain(MORE) {
            assert!(text.contains(&format!("href=\"{path}\"")) && text.contains(&format!(">{name}</a>")), "{text}");
        }
        assert_eq!(text.matches("aria-current").count(), 1);
        assert!(text.contains("<a href=\"/queues\" aria-current=\"page\">Queues</a>"));
    }
}
