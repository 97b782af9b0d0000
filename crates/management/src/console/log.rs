//! Log and audit: the last lines of the log, and who changed what. For administrators.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use maud::{Markup, html};

use super::figure;
use super::form::Fields;
use super::frame::{Part, View};
use super::parts::{Column, Mood, badge, table};
use super::seen;
use super::trouble::Shown;
use super::visitor::Visitor;
use crate::recent::{AuditEntry, LogLine};
use crate::source::Source;

type Shared = State<Arc<Source>>;

/// Rows of a page, the newest ones: of long lines no more than 60 kB in all, as a rule.
const ROWS: usize = 100;
/// The levels, the gravest first.
const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];

pub(super) fn router() -> Router<Arc<Source>> {
    Router::new().route("/log", get(log)).route("/audit", get(audit))
}

fn refused(visitor: &Visitor, source: &Source, part: Part, title: &str) -> Shown {
    let body = html! { p .hint { (title) " is shown to administrators." } };
    Ok(View::new(part, title, body).show(visitor, source))
}

async fn log(visitor: Visitor, State(source): Shared, query: seen::Query) -> Shown {
    if !visitor.asker.is_administrator() {
        return refused(&visitor, &source, Part::Log, "Log");
    }
    let (text, level, part) = (query.0.name("name"), query.0.text("level"), query.0.text("part"));
    let all = source.facts.recent.lines();
    let mut parts: Vec<&str> = all.iter().map(|line| area(line)).collect();
    parts.sort_unstable();
    parts.dedup();
    let gravest = LEVELS.iter().position(|known| *known == level).unwrap_or(LEVELS.len());
    let filter = text.to_lowercase();
    let has = |line: &&Arc<LogLine>| {
        LEVELS.iter().position(|known| *known == line.level).is_none_or(|its| its <= gravest)
            && (part.is_empty() || area(line) == part)
            && (filter.is_empty() || format!("{} {}", line.text, line.said()).to_lowercase().contains(&filter))
    };
    let found: Vec<_> = all.iter().rev().filter(has).collect();
    let columns = [Column::text("Time"), Column::text("Level"), Column::text("Part"), Column::text("Line")];
    let rows: Vec<Vec<Markup>> = found.iter().take(ROWS).map(|line| line_row(line)).collect();
    let body = html! {
        p .hint {
            "The last lines that " code { "log.level" } " lets through; what the server writes is more. "
            code { "hermod log --follow" } " shows them as they come."
        }
        (filter_form("/log", &query.0, &[("level", "Level", &LEVELS), ("part", "Part", &parts)]))
        div #list data-live {
            (table("log", &columns, &rows, html! { "No line of the last ones is such." }))
            @if found.len() > ROWS { p .hint { "These are the newest " (ROWS) " of " (found.len()) "." } }
        }
    };
    Ok(View::new(Part::Log, "Log", body).show(&visitor, &source))
}

/// The crate that wrote a line, or the name that it has in the log.
fn area(line: &LogLine) -> &str {
    line.part.split("::").next().unwrap_or(&line.part)
}

fn line_row(line: &LogLine) -> Vec<Markup> {
    let mood = match line.level {
        "error" => Mood::Bad,
        "warn" => Mood::Warning,
        _ => Mood::Plain,
    };
    vec![
        figure::time(line.at),
        badge(line.level, mood),
        html! { (area(line)) },
        html! { (line.text) @if !line.fields.is_empty() { br; small { code { (line.said()) } } } },
    ]
}

async fn audit(visitor: Visitor, State(source): Shared, query: seen::Query) -> Shown {
    if !visitor.asker.is_administrator() {
        return refused(&visitor, &source, Part::Audit, "Audit");
    }
    let (text, outcome) = (query.0.name("name").to_lowercase(), query.0.text("outcome"));
    let all = source.facts.recent.audit();
    let found: Vec<_> = all
        .iter()
        .rev()
        .filter(|entry| (outcome.is_empty() || entry.outcome == outcome) && (text.is_empty() || is_about(entry, &text)))
        .collect();
    let columns = [
        Column::text("Time"),
        Column::text("Who"),
        Column::text("Via"),
        Column::text("Action"),
        Column::text("Object"),
        Column::text("Outcome"),
        Column::text("About"),
    ];
    let rows: Vec<Vec<Markup>> = found.iter().take(ROWS).map(|entry| entry_row(entry)).collect();
    let body = html! {
        p .hint { "Who asked for what since the start, and what was refused. The log keeps all of it." }
        (filter_form("/audit", &query.0, &[("outcome", "Outcome", &["done", "refused"])]))
        div #list data-live {
            (table("audit", &columns, &rows, html! { "No entry of the last ones is such." }))
            @if found.len() > ROWS { p .hint { "These are the newest " (ROWS) " of " (found.len()) "." } }
        }
    };
    Ok(View::new(Part::Audit, "Audit", body).show(&visitor, &source))
}

/// Whether one of the names of an entry has this text, which is in lower case.
fn is_about(entry: &AuditEntry, text: &str) -> bool {
    [&entry.who, &entry.from, &entry.action, &entry.vhost, &entry.object, &entry.why, &entry.about]
        .iter()
        .any(|name| name.to_lowercase().contains(text))
}

fn entry_row(entry: &AuditEntry) -> Vec<Markup> {
    let mood = if entry.outcome == "refused" { Mood::Warning } else { Mood::Good };
    vec![
        figure::time(entry.at),
        html! { (entry.who) },
        html! { (entry.via) br; small { (entry.from) } },
        html! { (entry.action) },
        html! { (entry.object) @if !entry.vhost.is_empty() { " in " (entry.vhost) } },
        html! { (badge(entry.outcome, mood)) @if !entry.why.is_empty() { " " small { (entry.why) } } },
        html! { @if !entry.about.is_empty() { small { code { (entry.about) } } } },
    ]
}

/// A filter by text, and by fields with choices: name, label, values.
fn filter_form(path: &str, query: &Fields, choices: &[(&str, &str, &[&str])]) -> Markup {
    html! {
        form .filter method="get" action=(path) role="search" {
            label for="filter" { "Filter" }
            input #filter type="search" name="name" value=(query.name("name")) autocomplete="off"
                placeholder="part of a line" data-filter;
            @for (name, label, values) in choices {
                label for=(name) { (label) }
                select id=(name) name=(name) {
                    option value="" { "all" }
                    @for value in *values { option value=(value) selected[query.text(name) == *value] { (value) } }
                }
            }
            button { "Filter" }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_shows_its_fields_and_never_as_markup() {
        let evil = "<script>alert(1)</script>".to_owned();
        let line = LogLine {
            number: 1,
            at: 0,
            level: "warn",
            part: "net::drive".to_owned(),
            text: evil.clone(),
            fields: vec![("user", evil)],
        };
        let shown: String = line_row(&line).into_iter().map(|cell| cell.0).collect();
        assert!(!shown.contains("<script>") && shown.contains("user=&lt;script"), "{shown}");
        assert!(shown.contains(">net<") || shown.contains("net"), "{shown}");
        assert_eq!(area(&line), "net");
    }
}
