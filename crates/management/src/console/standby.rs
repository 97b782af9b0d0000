//! The pages of a node that follows another, which has no other part of the console: how it
//! follows, its log-in, and the question before it is promoted.

use axum::response::Response;
use maud::{Markup, html};

use super::figure;
use super::frame;
use super::parts::{Mood, facts, verdict};
use crate::quantity::{self, seconds};
use crate::report::{Promotion, StandbyRow};

/// The reader of a page.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Viewer<'a> {
    /// No user has logged in.
    Stranger,
    /// A user that may look only.
    User(&'a str),
    /// One that may promote the node.
    Administrator(&'a str),
}

/// How the node follows, and for an administrator the ways to have it serve.
pub(crate) fn page(row: &StandbyRow, viewer: Viewer<'_>) -> Response {
    let body = html! {
        h1 { (row.node) }
        div data-live { (state(row)) (figures(row)) }
        @match viewer {
            Viewer::Administrator(_) => (promotions(row)),
            Viewer::User(_) => p .hint { "An administrator can promote this node." },
            Viewer::Stranger => p .buttons { a .button href="/login" { "Log in to promote this node" } },
        }
        p .quiet {
            "For programs: " code { "/hermod/v1/cluster" } " · " a href="/metrics" { "metrics" }
            ". On the command line: " code { "hermod cluster status" } ", " code { "hermod promote" } "."
        }
    };
    frame::apart(&row.node, user(viewer), body)
}

fn user(viewer: Viewer<'_>) -> Markup {
    html! {
        @match viewer {
            Viewer::Stranger => a href="/login" { "Log in" },
            Viewer::User(name) | Viewer::Administrator(name) => {
                span title="logged in" { (name) }
                form method="post" action="/logout" { button .quiet { "Log out" } }
            }
        }
    }
}

/// What the node does, in one sentence.
fn state(row: &StandbyRow) -> Markup {
    let StandbyRow { leader, trouble, .. } = row;
    match row.state.as_str() {
        "following" => {
            verdict(Mood::Good, "It follows its leader.", html! { "It serves no clients; " code { (leader) } " does." })
        }
        "copying" => {
            let so_far = html! {
                (figure::bytes(row.copied_bytes)) " of " (figure::bytes(row.copy_bytes)) " have come from " code { (leader) } "."
            };
            verdict(Mood::Warning, "It takes a copy of its leader.", so_far)
        }
        "promoting" => verdict(Mood::Plain, "It is being promoted.", html! { "It serves clients soon." }),
        state => {
            let why =
                html! { @if trouble.is_empty() { "It is " (state) " to " code { (leader) } "." } @else { (trouble) } };
            verdict(Mood::Bad, "It does not follow.", why)
        }
    }
}

fn figures(row: &StandbyRow) -> Markup {
    let ago = |ms: Option<u64>| html! { @if let Some(ms) = ms { (seconds(ms)) " ago" } @else { "never" } };
    facts(&[
        ("Role", html! { "standby: it serves no clients" }),
        ("Leader", html! { code { (row.leader) } }),
        ("Term", html! { (row.term) }),
        ("Can be promoted", html! { @if row.whole { "yes" } @else { "no: there is no whole copy yet" } }),
        ("Up to date as of", ago(row.lag_ms)),
        ("Entries missing then", html! { (quantity::grouped(row.lag_entries)) }),
        ("Bytes missing then", figure::bytes(row.lag_bytes)),
        ("Leader heard", ago(row.heard_ms)),
        ("Entries taken", html! { (quantity::grouped(row.entries)) }),
        ("Damaged segments", html! { (quantity::grouped(row.damaged_segments)) }),
    ])
}

fn promotions(row: &StandbyRow) -> Markup {
    html! {
        h2 { "Promote" }
        @if row.whole {
            p .buttons {
                a .button href="/promote?how=planned" { "Switch over without a loss…" }
                a .button.danger href="/promote?how=now" { "Promote at once…" }
            }
            p .hint {
                "Switch over while the leader serves: it stops and sends everything. "
                "Promote at once if it is gone. First see to it that it can't serve again."
            }
        } @else {
            p .hint { "There is no whole copy yet, so there is nothing that this node could serve." }
        }
    }
}

/// Says what is lost at most, and asks. A promotion that may lose something needs the node's name.
pub(crate) fn ask(row: &StandbyRow, (promotion, loss): (Promotion, &str), refused: Option<&str>) -> Response {
    let how = match promotion {
        Promotion::Planned => "planned",
        Promotion::Now => "now",
    };
    let body = html! {
        h1 { "Promote " (row.node) }
        @if let Some(why) = refused { p .said.bad role="alert" { (why) } }
        form .card.danger method="post" action="/promote" {
            p { "This node serves clients from then on, in a new term; " code { (row.leader) } " does not. " }
            p { strong { (capital(loss)) "." } }
            input type="hidden" name="how" value=(how);
            @if promotion == Promotion::Now {
                label for="name" { "To agree, type the name of this node: " code { (row.node) } }
                input #name name="name" autocomplete="off" autocapitalize="none" spellcheck="false" required;
            }
            p .buttons {
                button .danger { "Promote" }
                a .button href="/" { "Cancel" }
            }
        }
    };
    frame::bare(&format!("Promote {}", row.node), body)
}

fn capital(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// The log-in of a node that follows.
pub(crate) fn log_in(row: &StandbyRow, user: &str, refused: Option<&str>) -> Response {
    let body = html! {
        header .door {
            img src="/favicon.svg" width="52" height="52" alt="";
            div { h1 { "Hermod" } p { (row.node) } }
        }
        p .said.bad { "This node follows " code { (row.leader) } " and serves no clients." }
        @if let Some(why) = refused { p .said.bad role="alert" { (why) } }
        form .card.login method="post" action="/login" {
            label for="user" { "User" }
            input #user name="user" value=(user) autocomplete="username" autocapitalize="none" spellcheck="false" required;
            label for="password" { "Password" }
            input #password name="password" type="password" autocomplete="current-password" required;
            button .main { "Log in" }
        }
        p .hint { "Users and passwords are those of the leader." }
        p { a href="/" { "How this node follows" } }
    };
    frame::bare("Log in", body)
}

/// The node is promoted.
pub(crate) fn promoted(text: &str) -> Response {
    let body = html! {
        h1 { "Promoted" }
        p .said.good role="status" { "Done: " (text) "." }
        p { "Send clients here now. " a href="/" { "To the console" } " – log in again." }
    };
    frame::bare("Promoted", body)
}

/// What was not done, and why.
pub(crate) fn trouble(reason: &str) -> Response {
    let body = html! {
        h1 { "That did not work" }
        p .said.bad role="alert" { (reason) }
        p { a href="/" { "How this node follows" } }
    };
    frame::bare("That did not work", body)
}
