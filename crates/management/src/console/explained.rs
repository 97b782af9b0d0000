//! Explanations on pages: what a user may do, where a message would go, which policies apply to a
//! queue, and what a policy would change.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::get;
use maud::{Markup, html};

use super::form::Fields;
use super::frame::{Part, View};
use super::parts::{Column, Form, Mood, place, table, top_place, verdict};
use super::policies::fields_of;
use super::trouble::{Shown, Trouble};
use super::visitor::Visitor;
use super::{exchanges, seen};
use crate::resources::{Explain, Explanation, explained};
use crate::source::Source;

type Shared = State<Arc<Source>>;

pub(super) fn router() -> Router<Arc<Source>> {
    Router::new()
        .route("/users/{name}/explain", get(access))
        .route("/exchanges/{vhost}/{name}/route", get(route))
        .route("/queues/{vhost}/{name}/policies", get(policies))
        .route("/policies/preview", get(preview))
}

/// An explanation: its verdict, its steps, its advice.
fn whole(found: &Explanation, mood: Mood, columns: [&'static str; 3]) -> Markup {
    let columns = columns.map(Column::text);
    let rows: Vec<Vec<Markup>> = found
        .steps
        .iter()
        .map(|one| vec![html! { (one.subject) }, html! { (one.outcome) }, html! { (one.reason) }])
        .collect();
    html! {
        (verdict(mood, &found.verdict, &found.advice))
        (table("steps", &columns, &rows, html! { "nothing to show" }))
    }
}

async fn access(visitor: Visitor, State(source): Shared, Path(user): Path<String>, query: seen::Query) -> Shown {
    visitor.asker.administers()?;
    let (given, vhosts) = (&query.0, seen::vhosts(&visitor.asker, &source));
    let kind = if given.text("kind") == "exchange" { "exchange" } else { "queue" };
    let vhost = match given.text("vhost") {
        "" => vhosts.first().cloned().unwrap_or_default(),
        vhost => vhost.to_owned(),
    };
    let (key, client) = (given.name("key"), given.name("client"));
    let found = if given.is_ticked("name") {
        let what = Explain::Access {
            user: user.clone(),
            vhost: vhost.clone(),
            kind: kind.to_owned(),
            name: given.name("name").to_owned(),
            key: (!key.is_empty()).then(|| key.to_owned()),
            client: (!client.is_empty()).then(|| client.to_owned()),
        };
        Some(explained(&visitor.asker, &source, what).await?)
    } else {
        None
    };
    let form = Form::of("explain", &Fields::default()).with(&[
        ("vhost", &vhost),
        ("kind", kind),
        ("name", given.name("name")),
        ("key", key),
        ("client", client),
    ]);
    let fields = html! {
        (form.vhosts(&vhosts))
        (form.choice("kind", "Kind", &[("queue", "queue"), ("exchange", "exchange")]))
        (form.field("name", "Name", "text", "of a queue or an exchange; it need not be there"))
        (form.field("key", "Routing key", "text", "for topic permissions, if you want"))
        (form.field("client", "Client", "text", "what it is called, for patterns with {client_id}"))
    };
    let body = html! {
        p .hint { "What '" (user) "' may do with a queue or an exchange, and by which pattern." }
        (asking(fields, "Explain access"))
        @if let Some(found) = &found {
            @let mood = match found.result.len() {
                0 => Mood::Warning,
                granted if granted == found.steps.len() => Mood::Good,
                _ => Mood::Plain,
            };
            (whole(found, mood, ["Right", "Answer", "Because"]))
        }
    };
    let page = View::new(Part::Users, "Explain access", body).below("Users", "/users");
    Ok(page.below(user.clone(), top_place("users", &user)).show(&visitor, &source))
}

/// A form whose answer is a page of its own address.
fn asking(fields: Markup, button: &str) -> Markup {
    html! {
        form .card method="get" {
            div .fields { (fields) }
            p .buttons { button .main { (button) } }
        }
    }
}

async fn route(
    visitor: Visitor,
    State(source): Shared,
    Path((vhost, name)): Path<(String, String)>,
    query: seen::Query,
) -> Shown {
    let given = &query.0;
    let found = if given.is_ticked("routing_key") {
        let what = Explain::Route {
            vhost: vhost.clone(),
            exchange: exchanges::named(&name).to_owned(),
            routing_key: given.text("routing_key").to_owned(),
            headers: given.object("headers", "Headers")?,
        };
        Some(explained(&visitor.asker, &source, what).await?)
    } else {
        visitor.asker.looks_into(&source, &vhost).map_err(|_| Trouble::missing("exchange", &name))?;
        None
    };
    let first = [("routing_key", given.text("routing_key")), ("headers", given.text("headers"))];
    let form = Form::of("route", &Fields::default()).with(&first);
    let fields = html! {
        (form.field("routing_key", "Routing key", "text", ""))
        (form.long("headers", "Headers", "as a JSON object, for a headers exchange"))
    };
    let body = html! {
        p .hint { "Where a message with this routing key would go from here. Nothing is published." }
        (asking(fields, "Try routing key"))
        @if let Some(found) = &found {
            (whole(found, if found.result.is_empty() { Mood::Warning } else { Mood::Good }, ["At", "It goes", "Because"]))
        }
    };
    let page = View::new(Part::Exchanges, "Try a routing key", body).below("Exchanges", "/exchanges");
    Ok(page.below(name.clone(), place("exchanges", &vhost, &name)).show(&visitor, &source))
}

async fn policies(visitor: Visitor, State(source): Shared, Path((vhost, name)): Path<(String, String)>) -> Shown {
    let what = Explain::Policies { vhost: vhost.clone(), queue: name.clone() };
    let found = explained(&visitor.asker, &source, what).await.map_err(|_| Trouble::missing("queue", &name))?;
    let body = whole(&found, Mood::Plain, ["Policy or argument", "Answer", "Because"]);
    let page = View::new(Part::Queues, "Policies and arguments", body).below("Queues", "/queues");
    Ok(page.below(name.clone(), place("queues", &vhost, &name)).show(&visitor, &source))
}

/// What a policy would change, with the button that adds it.
async fn preview(visitor: Visitor, State(source): Shared, query: seen::Query) -> Shown {
    let given = &query.0;
    let operator = given.text("kind") == "operator";
    let policy = fields_of(given)?;
    let found = explained(&visitor.asker, &source, Explain::Preview { operator, policy }).await?;
    let fields = ["vhost", "kind", "name", "pattern", "apply-to", "priority", "definition"];
    let loses = found.steps.iter().any(|one| !one.reason.is_empty());
    let body = html! {
        (whole(&found, if loses { Mood::Warning } else { Mood::Plain }, ["Queue", "Changes", "Now"]))
        form .card method="post" action="/policies" {
            p { "Nothing has changed yet." }
            @for field in fields { input type="hidden" name=(field) value=(given.text(field)); }
            p .buttons {
                button .main { "Add policy" }
                a .button href="/policies" { "Cancel" }
            }
        }
    };
    let title = format!("Preview of policy {}", given.name("name"));
    Ok(View::new(Part::Policies, title, body).below("Policies", "/policies").show(&visitor, &source))
}
