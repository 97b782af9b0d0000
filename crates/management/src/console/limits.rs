//! Limits: how much of each is used, of the broker, of virtual hosts and of users, the closest to
//! its limit first.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use maud::{Markup, html};

use super::figure;
use super::frame::{Part, View};
use super::parts::{Column, Mood, badge, table};
use super::trouble::Shown;
use super::visitor::Visitor;
use crate::api;
use crate::source::Source;

type Shared = State<Arc<Source>>;

/// Rows of the page.
const ROWS: usize = 200;

pub(super) fn router() -> Router<Arc<Source>> {
    Router::new().route("/limits", get(show))
}

/// A limit, and how much of it is used.
struct Limit {
    what: String,
    used: u64,
    most: u64,
    /// The setting or command that changes it.
    by: String,
    is_bytes: bool,
}

impl Limit {
    fn new(what: impl Into<String>, used: u64, most: u64, by: impl Into<String>) -> Self {
        Self { what: what.into(), used, most, by: by.into(), is_bytes: false }
    }

    fn percent(&self) -> u64 {
        self.used.saturating_mul(100) / self.most.max(1)
    }
}

async fn show(visitor: Visitor, State(source): Shared) -> Shown {
    if !visitor.asker.monitors() {
        let body = html! { p .hint { "Limits are shown to users with the tag monitoring or administrator." } };
        return Ok(View::new(Part::Limits, "Limits", body).show(&visitor, &source));
    }
    let mut limits = api::sum_up(&source, &visitor.asker, collect).await?;
    limits.sort_by_key(|limit| std::cmp::Reverse((limit.percent(), limit.used)));
    let total = limits.len();
    limits.truncate(ROWS);
    let columns = [
        Column::text("Limit"),
        Column::number("Used"),
        Column::number("At most"),
        Column::text("State"),
        Column::text("Changed by"),
    ];
    let rows: Vec<Vec<Markup>> = limits.iter().map(row).collect();
    let body = html! {
        p .hint { "The closest to its limit comes first. What would go past a limit is refused, and the client is told why." }
        div data-live {
            (table("limits", &columns, &rows, html! { "no limits" }))
            @if total > ROWS { p .hint { "These are the first " (ROWS) " of " (total) "." } }
        }
    };
    Ok(View::new(Part::Limits, "Limits", body).show(&visitor, &source))
}

fn row(limit: &Limit) -> Vec<Markup> {
    let mood = match limit.percent() {
        0..80 => Mood::Good,
        80..100 => Mood::Warning,
        _ => Mood::Bad,
    };
    let shown = |number: u64| if limit.is_bytes { figure::bytes(number) } else { figure::count(number) };
    vec![
        html! { (limit.what) },
        shown(limit.used),
        shown(limit.most),
        badge(&format!("{} %", limit.percent()), mood),
        html! { code { (limit.by) } },
    ]
}

fn collect(source: &Source) -> Vec<Limit> {
    let (glance, limits) = (source.histories.glances.look(&source.broker), source.broker.limits());
    let overview = &glance.overview;
    let objects = &overview.objects;
    let vhosts = source.broker.vhosts();
    let mut all = vec![
        Limit::new("Connections", objects.connections, limits.connections, "limits.connections"),
        Limit::new("Queues", objects.queues, limits.queues, "limits.queues"),
        Limit::new("Exchanges", objects.exchanges, limits.exchanges, "limits.exchanges"),
        Limit::new("Bindings", objects.bindings, limits.bindings, "limits.bindings"),
        Limit::new("Virtual hosts", vhosts.len() as u64, limits.vhosts, "limits.vhosts"),
        Limit {
            is_bytes: true,
            ..Limit::new("Memory of messages", overview.memory.used, overview.memory.limit, "memory.limit")
        },
        Limit {
            is_bytes: true,
            ..Limit::new("Log", overview.journal.used_bytes, overview.journal.max_bytes, "journal.max_bytes")
        },
    ];
    if overview.disk.most_stored > 0 {
        all.push(Limit {
            is_bytes: true,
            ..Limit::new("Store on the disk", overview.disk.stored, overview.disk.most_stored, "disk.limit")
        });
    }
    let (mut of_vhosts, mut of_users): (HashMap<String, u64>, HashMap<String, u64>) = Default::default();
    let mut sessions: HashMap<String, u64> = HashMap::new();
    for client in source.broker.attached() {
        *of_vhosts.entry(client.vhost().to_owned()).or_default() += 1;
        *sessions.entry(client.user().to_owned()).or_default() += client.sessions();
        *of_users.entry(client.user().to_owned()).or_default() += 1;
    }
    for vhost in &vhosts {
        let by = format!("hermod vhosts limit {}", vhost.name);
        if let Some(most) = vhost.limits.connections {
            let used = of_vhosts.get(&vhost.name).copied().unwrap_or(0);
            all.push(Limit::new(format!("Connections in virtual host '{}'", vhost.name), used, most, &by));
        }
        if let Some(most) = vhost.limits.queues {
            let used = source.broker.count_queues(&vhost.name) as u64;
            all.push(Limit::new(format!("Queues in virtual host '{}'", vhost.name), used, most, &by));
        }
    }
    for user in source.broker.authority().users() {
        let by = format!("hermod users limit {}", user.name);
        let limits =
            [(user.limits.connections, "Connections", &of_users), (user.limits.sessions, "Sessions", &sessions)];
        for (most, what, used) in limits {
            let Some(most) = most else { continue };
            let used = used.get(&*user.name).copied().unwrap_or(0);
            all.push(Limit::new(format!("{what} of user '{}'", user.name), used, most.into(), &by));
        }
    }
    all
}
