//! Virtual hosts: the list, creating one, and deleting it with everything in it.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::get;
use broker::VhostReport;
use maud::{Markup, html};

use super::form::Fields;
use super::frame::{Notice, Part, View};
use super::parts::{Column, Form, ask, table, top_place};
use super::trouble::{Shown, Trouble};
use super::visitor::Visitor;
use super::{figure, seen};
use crate::api;
use crate::quantity;
use crate::resources::{PermissionChange, VhostChange, percent_encoded};
use crate::source::Source;

type Shared = State<Arc<Source>>;

pub(super) fn router() -> Router<Arc<Source>> {
    Router::new().route("/vhosts", get(list).post(create)).route("/vhosts/{name}/delete", get(ask_delete).post(delete))
}

async fn list(visitor: Visitor, State(source): Shared) -> Shown {
    page(&visitor, &source, &Fields::default(), Notice::None).await
}

async fn page(visitor: &Visitor, source: &Arc<Source>, sent: &Fields, notice: Notice) -> Shown {
    let asker = visitor.asker.clone();
    let rows = api::sum_up(source, &visitor.asker, move |source| {
        let seen = seen::vhosts(&asker, source);
        let mut vhosts = source.broker.vhosts();
        vhosts.retain(|vhost| seen.contains(&vhost.name));
        vhosts.sort_by(|one, other| one.name.cmp(&other.name));
        vhosts.iter().map(|vhost| row(source, vhost)).collect::<Vec<_>>()
    })
    .await?;
    let columns = [
        Column::text("Name"),
        Column::text("Description"),
        Column::text("Tags"),
        Column::number("Queues"),
        Column::number("Most queues"),
        Column::number("Most connections"),
        Column::text("Action"),
    ];
    let body = html! {
        p .hint { "A virtual host is a world of its own: queues, exchanges and permissions in it are apart from those of others." }
        (table("vhosts", &columns, &rows, html! { "no virtual hosts that you may enter" }))
        @if visitor.asker.is_administrator() { (creation(sent)) }
    };
    Ok(View::new(Part::Vhosts, "Virtual hosts", body).with(notice).show(visitor, source))
}

fn row(source: &Source, vhost: &VhostReport) -> Vec<Markup> {
    let limit = |limit: Option<u64>| html! { @if let Some(limit) = limit { (figure::count(limit)) } @else { "none" } };
    let delete = format!("{}/delete", top_place("vhosts", &vhost.name));
    vec![
        html! { a href={ "/queues?vhost=" (percent_encoded(&vhost.name)) } { (vhost.name) } },
        html! { (vhost.spec.description) },
        html! { (vhost.spec.tags.join(", ")) },
        figure::count(source.broker.count_queues(&vhost.name) as u64),
        limit(vhost.limits.queues),
        limit(vhost.limits.connections),
        html! { a .button.small href=(delete) aria-label={ "Delete virtual host " (vhost.name) } { "Delete…" } },
    ]
}

fn creation(sent: &Fields) -> Markup {
    let form = Form::of("create", sent);
    let fields = html! {
        (form.field("name", "Name", "text", ""))
        (form.field("description", "Description", "text", ""))
        (form.field("tags", "Tags", "text", "separated by commas"))
        (form.choice("default_queue_type", "Default queue type", &[("", "classic"), ("quorum", "quorum")]))
    };
    form.folded("Create a virtual host", "/vhosts", fields, "Create virtual host")
}

async fn create(visitor: Visitor, State(source): Shared, fields: Fields) -> Shown {
    visitor.asker.administers()?;
    match created(&visitor, &source, &fields).await {
        Ok(done) => Ok(done),
        Err(trouble) => page(&visitor, &source, &fields, Notice::Refused(trouble.text)).await,
    }
}

/// As over HTTP, the user that creates a vhost gets all permissions in it.
async fn created(visitor: &Visitor, source: &Arc<Source>, fields: &Fields) -> Result<Response, Trouble> {
    let name = fields.needed("name", "Name")?.to_owned();
    if source.broker.has_vhost(&name) {
        return Err(format!("There is a virtual host '{name}' already.").into());
    }
    let tags = fields.text("tags").split(',').map(str::trim).filter(|tag| !tag.is_empty());
    let change = VhostChange::Put {
        name: name.clone(),
        description: Some(fields.text("description").to_owned()),
        tags: Some(tags.map(str::to_owned).collect()),
        default_queue_type: Some(fields.text("default_queue_type").to_owned()),
    };
    api::make(source, &visitor.asker, change).await?;
    let [configure, write, read] = [".*"; 3].map(str::to_owned);
    let user = visitor.asker.user().to_owned();
    let rights = PermissionChange::Set { user: user.clone(), vhost: name.clone(), configure, write, read };
    api::make(source, &visitor.asker, rights).await?;
    let line = format!("Virtual host '{name}' is created, and '{user}' has all permissions in it.");
    Ok(visitor.done(source, line, "/vhosts"))
}

async fn ask_delete(visitor: Visitor, State(source): Shared, Path(name): Path<String>) -> Shown {
    visitor.asker.administers()?;
    if !source.broker.has_vhost(&name) {
        return Err(Trouble::missing("virtual host", &name));
    }
    let queues = quantity::several(source.broker.count_queues(&name) as u64, "queue", "queues");
    let question = format!(
        "Virtual host '{name}' goes with {queues} and all messages in them, its exchanges, policies and permissions. \
         Clients in it are disconnected. Nothing of it can be brought back."
    );
    let path = format!("{}/delete", top_place("vhosts", &name));
    let body = ask(&path, &question, "Delete virtual host", "/vhosts", &[]);
    let page = View::new(Part::Vhosts, "Delete virtual host", body).below("Virtual hosts", "/vhosts");
    Ok(page.show(&visitor, &source))
}

async fn delete(visitor: Visitor, State(source): Shared, Path(name): Path<String>) -> Shown {
    visitor.asker.administers()?;
    let line = format!("Virtual host '{name}' is deleted.");
    api::make(&source, &visitor.asker, VhostChange::Delete { name }).await?;
    Ok(visitor.done(&source, line, "/vhosts"))
}
