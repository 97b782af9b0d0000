//! The node: its storage, what takes its memory, its listeners, and its settings with their
//! origins.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use broker::{Held, Overview};
use maud::{Markup, html};

use super::figure;
use super::frame::{Part, View};
use super::parts::{Column, facts, table};
use super::trouble::Shown;
use super::visitor::Visitor;
use crate::api;
use crate::memory::Kept;
use crate::process::Process;
use crate::quantity;
use crate::report::{ClusterStatus, FollowerRow};
use crate::source::Source;

type Shared = State<Arc<Source>>;

pub(super) fn router() -> Router<Arc<Source>> {
    Router::new().route("/node", get(show))
}

async fn show(visitor: Visitor, State(source): Shared) -> Shown {
    if !visitor.asker.monitors() {
        let body = html! { p .hint { "The node is shown to users with the tag monitoring or administrator." } };
        return Ok(View::new(Part::Node, "Node", body).show(&visitor, &source));
    }
    let look = |source: &Source| (source.histories.glances.look(&source.broker), Process::look());
    let (glance, process) = api::sum_up(&source, &visitor.asker, look).await?;
    let overview = &glance.overview;
    let is_administrator = visitor.asker.is_administrator();
    let body = html! {
        (identity(&source, process))
        h2 { "Storage" }
        (storage(overview))
        h2 { "Memory" }
        (memory(overview, process, source.kept(&overview.memory)))
        h2 { "Listeners" }
        (listeners(&source))
        h2 { "Cluster" }
        (cluster(&source.cluster()))
        h2 { "Settings" }
        @if is_administrator { (settings(&source)) } @else {
            p .hint { "Settings are shown to administrators." }
        }
    };
    Ok(View::new(Part::Node, "Node", body).show(&visitor, &source))
}

fn identity(source: &Source, process: Process) -> Markup {
    let unknown = || html! { "—" };
    facts(&[
        ("Name", html! { code { (source.facts.node) } }),
        ("Cluster", html! { (source.broker.cluster_name()) }),
        ("Running for", html! { (quantity::span(source.facts.started.elapsed())) }),
        ("Process", html! { (std::process::id()) }),
        ("Open files", process.open_files.map_or_else(unknown, |files| html! { (files) })),
    ])
}

fn storage(overview: &Overview) -> Markup {
    let journal = &overview.journal;
    let files = |count: u32| quantity::several(count.into(), "file", "files");
    html! {
        div data-live {
            (facts(&[
                ("Log", html! { (figure::bytes(journal.used_bytes)) " of " (figure::bytes(journal.max_bytes)) " in " (files(journal.files)) }),
                ("Live in it", figure::bytes(journal.live_bytes)),
                ("Segments", html! { (figure::bytes(journal.segments.bytes)) " in " (files(journal.segments.files)) }),
                ("Damaged segments", figure::count(journal.segments.damaged.into())),
                ("Written since the start", figure::bytes(journal.written_bytes)),
                ("Flushes since the start", figure::count(journal.flushes)),
                ("Free on the disk", figure::bytes(journal.free_bytes)),
            ]))
        }
    }
}

fn memory(overview: &Overview, process: Process, kept: Kept) -> Markup {
    let memory = &overview.memory;
    let mut rows: Vec<Vec<Markup>> = Held::ALL
        .into_iter()
        .zip(memory.held)
        .map(|((_, name, about), bytes)| vec![html! { (name) }, figure::bytes(bytes), html! { (about) }])
        .collect();
    let held: u64 = memory.held.iter().sum();
    let mut part = |name: &str, bytes: u64, about: &str| {
        rows.push(vec![html! { (name) }, figure::bytes(bytes), html! { (about) }]);
    };
    part("queued", memory.used.saturating_sub(memory.arriving + held), "messages in queues");
    part("arriving", memory.arriving, "large messages that arrive or wait for a flush");
    part("uncounted", kept.uncounted(memory), "what else the process has; beyond the limit it counts for the alarm");
    part("declarations", memory.declared, "queues, exchanges, bindings; they raise no alarm");
    part("clients", memory.clients, "connections, sessions, consumers; they raise no alarm");
    part("http", kept.http, "answers and documents under way over HTTP, and the samples of rates and charts");
    part("strangers", kept.strangers, "buffers of connections that have not authenticated");
    if let Some(resident) = process.resident_bytes {
        part("process", resident, "all memory of the process, with what the allocator keeps");
    }
    let columns = [Column::text("Part"), Column::number("Bytes"), Column::text("What it is")];
    html! {
        p .hint {
            (figure::bytes(memory.taken)) " of " (figure::bytes(memory.limit)) " count for the memory alarm."
        }
        (table("memory", &columns, &rows, html! { "nothing" }))
    }
}

fn listeners(source: &Source) -> Markup {
    let columns = [Column::text("Name"), Column::text("Protocol"), Column::text("Address"), Column::text("Terms")];
    let rows: Vec<Vec<Markup>> = source
        .facts
        .listeners
        .iter()
        .map(|one| {
            vec![
                // The others have the name of the setting of their port, which is below.
                html! { @if one.name.starts_with("ports.") { "–" } @else { code { (one.name) } } },
                html! { (one.protocol) },
                html! { code { (one.address) } },
                html! { (one.terms.join(", ")) },
            ]
        })
        .collect();
    table("listeners", &columns, &rows, html! { "no listeners" })
}

/// What this node is to others, and those that follow it.
fn cluster(cluster: &ClusterStatus) -> Markup {
    let confirms = match cluster.confirms.as_str() {
        "replicated" => "rest on a node that follows, too",
        "local" => "rest on this node; none waits for one that follows",
        _ => cluster.alarm().unwrap_or_default(),
    };
    html! {
        div data-live {
            (facts(&[
                ("Role", html! { (cluster.role) " in term " (cluster.term) }),
                ("For other nodes", html! {
                    @if cluster.nodes_address.is_empty() { "it listens for none" } @else { code { (cluster.nodes_address) } }
                }),
                ("Confirms", html! { (confirms) }),
            ]))
            (followers(&cluster.followers))
        }
    }
}

/// The nodes that follow this one.
fn followers(rows: &[FollowerRow]) -> Markup {
    let lag = ["Entries missing", "Bytes missing", "Time behind", "Log kept"].map(Column::number);
    let columns: Vec<_> = ["Node", "From", "State"].map(Column::text).into_iter().chain(lag).collect();
    let row = |one: &FollowerRow| {
        let behind = std::time::Duration::from_millis(one.lag_ms);
        let is_copying = one.state == "copying";
        let (entries, bytes) = (html! { (one.lag_entries) }, figure::bytes(one.lag_bytes));
        let lag = [entries, bytes, html! { (quantity::span(behind)) }];
        let lag = lag.map(|figure| html! { @if is_copying { "–" } @else { (figure) } });
        let kept = figure::bytes(one.kept_bytes);
        let node = [html! { code { (one.name) } }, html! { code { (one.address) } }, html! { (one.state) }];
        node.into_iter().chain(lag).chain([kept]).collect()
    };
    let rows: Vec<Vec<Markup>> = rows.iter().map(row).collect();
    table("followers", &columns, &rows, html! { "No node follows this one." })
}

fn settings(source: &Source) -> Markup {
    let columns = [Column::text("Setting"), Column::text("Value"), Column::text("Origin")];
    let rows: Vec<Vec<Markup>> = source
        .settings()
        .iter()
        .map(|one| vec![html! { code { (one.name) } }, html! { (one.value) }, html! { (one.origin) }])
        .collect();
    html! {
        p .hint { "As they are in force: default, file and line, variable or flag. " code { "hermod config" } " shows the same." }
        (table("settings", &columns, &rows, html! { "no settings" }))
    }
}
