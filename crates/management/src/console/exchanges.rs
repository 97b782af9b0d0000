//! Exchanges: the list, declaring one, and one exchange with its bindings and a form that
//! publishes through it.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::{get, post};
use broker::{BindingReport, Broker, ExchangeReport};
use maud::{Markup, html};
use serde_json::json;

use super::bindings::{DEFAULT, arguments, bindings, path, shown};
use super::form::Fields;
use super::frame::{Notice, Part, View};
use super::parts::{Column, Form, Listing, ask, facts, place, table};
use super::trouble::{Shown, Trouble};
use super::visitor::Visitor;
use super::{messages, seen};
use crate::api;
use crate::json::object;
use crate::quantity;
use crate::resources::{BindingChange, BindingFields, DestinationType, ExchangeChange, percent_encoded};
use crate::source::Source;

type Shared = State<Arc<Source>>;
type Named = Path<(String, String)>;

/// Bindings that a page shows.
const MOST: usize = 500;

pub(super) fn router() -> Router<Arc<Source>> {
    Router::new()
        .route("/exchanges", get(list).post(declare))
        .route("/exchanges/{vhost}/{name}", get(show))
        .route("/exchanges/{vhost}/{name}/bind", post(bind))
        .route("/exchanges/{vhost}/{name}/publish", post(publish))
        .route("/exchanges/{vhost}/{name}/delete", get(ask_delete).post(delete))
        .route("/bindings/delete", post(unbind))
}

async fn list(visitor: Visitor, State(source): Shared, query: seen::Query) -> Shown {
    page(&visitor, &source, &query.0, &Fields::default(), Notice::None).await
}

async fn page(visitor: &Visitor, source: &Arc<Source>, query: &Fields, sent: &Fields, notice: Notice) -> Shown {
    let list = Listing::of("/exchanges", query);
    let (wanted, asker) = (list.clone(), visitor.asker.clone());
    let (vhosts, rows, total) = api::sum_up(source, &visitor.asker, move |source| {
        let vhosts = seen::vhosts(&asker, source);
        let (rows, total) = find(source, &wanted, &vhosts);
        (vhosts, rows, total)
    })
    .await?;
    let columns = [
        Column::text("Name").sorted_by("name", &list),
        Column::text("Virtual host"),
        Column::text("Type"),
        Column::text("Features"),
    ];
    let rows: Vec<Vec<Markup>> = rows.iter().map(row).collect();
    let body = html! {
        (list.filter(&vhosts))
        div #list data-live {
            (table("exchanges", &columns, &rows, html! { "No exchange's name contains '" (list.filter) "'." }))
            (list.pager(total))
        }
        (declaration(&vhosts, sent))
    };
    Ok(View::new(Part::Exchanges, "Exchanges", body).with(notice).show(visitor, source))
}

fn find(source: &Source, list: &Listing, vhosts: &[String]) -> (Vec<ExchangeReport>, usize) {
    let finds = list.finds();
    let mut names: Vec<(Arc<str>, &String)> = Vec::new();
    for vhost in vhosts.iter().filter(|vhost| list.vhost.is_empty() || **vhost == list.vhost) {
        let of_vhost = source.broker.exchange_names(vhost).into_iter();
        names.extend(of_vhost.filter(|name| finds(shown(name))).map(|name| (name, vhost)));
    }
    let total = names.len();
    let here = list.pick(names, Ord::cmp);
    (here.iter().flat_map(|(name, vhost)| source.broker.some_exchanges(vhost, &[Arc::clone(name)])).collect(), total)
}

/// The name of an exchange in a path.
pub(super) fn named(name: &str) -> &str {
    if name == DEFAULT { "" } else { name }
}

fn row(exchange: &ExchangeReport) -> Vec<Markup> {
    vec![
        html! { a href=(path(&exchange.vhost, &exchange.name)) { (shown(&exchange.name)) } },
        html! { (exchange.vhost) },
        html! { (exchange.kind) },
        html! { (features(exchange)) },
    ]
}

fn features(exchange: &ExchangeReport) -> String {
    let marks = [
        (exchange.durable, "durable"),
        (!exchange.durable, "transient"),
        (exchange.internal, "internal"),
        (exchange.auto_delete, "auto-delete"),
    ];
    marks.iter().filter(|(is_so, _)| *is_so).map(|(_, mark)| *mark).collect::<Vec<_>>().join(", ")
}

fn declaration(vhosts: &[String], sent: &Fields) -> Markup {
    let kinds: Vec<(&str, &str)> = Broker::exchange_types().map(|kind| (kind, kind)).collect();
    let durable = [("true", "durable"), ("false", "transient")];
    let yes = [("", "no"), ("true", "yes")];
    let form = Form::of("declare", sent);
    let fields = html! {
        (form.vhosts(vhosts))
        (form.field("name", "Name", "text", ""))
        (form.choice("type", "Type", &kinds))
        (form.choice("durable", "Durability", &durable))
        (form.choice("auto_delete", "Auto-delete", &yes))
        (form.choice("internal", "Internal", &yes))
        (form.field("alternate-exchange", "Alternate exchange", "text", "where messages go that match no binding"))
        (form.long("arguments", "Arguments", "others, as a JSON object"))
    };
    form.folded("Declare an exchange", "/exchanges", fields, "Declare exchange")
}

async fn declare(visitor: Visitor, State(source): Shared, fields: Fields) -> Shown {
    match declared(&visitor, &source, &fields).await {
        Ok(done) => Ok(done),
        Err(trouble) => page(&visitor, &source, &Fields::default(), &fields, Notice::Refused(trouble.text)).await,
    }
}

async fn declared(visitor: &Visitor, source: &Arc<Source>, fields: &Fields) -> Result<Response, Trouble> {
    let (vhost, name) = (fields.text("vhost").to_owned(), fields.needed("name", "Name")?.to_owned());
    visitor.asker.enters(source, &vhost)?;
    let mut arguments = fields.object("arguments", "Arguments")?;
    let alternate = fields.name("alternate-exchange");
    if !alternate.is_empty() {
        arguments.insert("alternate-exchange".to_owned(), json!(alternate));
    }
    let change = ExchangeChange::Declare {
        vhost: vhost.clone(),
        name: name.clone(),
        kind: fields.text("type").to_owned(),
        durable: fields.text("durable") != "false",
        auto_delete: fields.text("auto_delete") == "true",
        internal: fields.text("internal") == "true",
        arguments,
    };
    api::make(source, &visitor.asker, change).await?;
    Ok(visitor.done(source, format!("Exchange '{name}' is declared."), &path(&vhost, &name)))
}

/// Looks an exchange up, and its bindings to others.
async fn look(
    visitor: &Visitor,
    source: &Arc<Source>,
    vhost: &str,
    name: &str,
) -> Result<(ExchangeReport, Vec<BindingReport>), Trouble> {
    let (asker, vhost, name) = (visitor.asker.clone(), vhost.to_owned(), name.to_owned());
    let found = api::look(source, &visitor.asker, move |source| {
        let missing = || Trouble::missing("exchange", shown(&name));
        asker.looks_into(source, &vhost).map_err(|_| missing())?;
        let exchange = source.broker.some_exchanges(&vhost, &[name.as_str().into()]).pop().ok_or_else(missing)?;
        let (bindings, _) = source.broker.bindings_of(&vhost, &name, None, MOST);
        Ok::<_, Trouble>((exchange, bindings))
    });
    found.await?
}

async fn show(visitor: Visitor, State(source): Shared, Path((vhost, name)): Named) -> Shown {
    one(&visitor, &source, (&vhost, &name), &Fields::default(), Notice::None).await
}

async fn one(
    visitor: &Visitor,
    source: &Arc<Source>,
    (vhost, name): (&str, &str),
    sent: &Fields,
    notice: Notice,
) -> Shown {
    let (exchange, of_it) = look(visitor, source, vhost, named(name)).await?;
    let here = path(vhost, &exchange.name);
    let is_default = exchange.name.is_empty();
    let body = html! {
        (facts(&[
            ("Type", html! { (exchange.kind) }),
            ("Features", html! { (features(&exchange)) }),
            ("Arguments", arguments(&object(&exchange.arguments))),
        ]))
        h2 { "Bindings from it" }
        @if is_default {
            p .hint { "Every queue is bound to the default exchange by its own name." }
        } @else {
            (bindings(&of_it, &here))
            @if of_it.len() == MOST { p .hint { "These are the first " (MOST) "; the API has all." } }
            (binding(&here, sent))
        }
        h2 { "Messages" }
        (messages::publishing_with_key(&here, sent))
        p .buttons {
            a .button href={ (here) "/route" } { "Try a routing key…" }
            @if !is_default { a .button href={ (here) "/delete" } { "Delete exchange…" } }
        }
    };
    let above = format!("/exchanges?vhost={}", percent_encoded(vhost));
    let page =
        View::new(Part::Exchanges, shown(&exchange.name), body).below("Exchanges", "/exchanges").below(vhost, above);
    Ok(page.with(notice).show(visitor, source))
}

fn binding(path: &str, sent: &Fields) -> Markup {
    let form = Form::of("bind", sent);
    let fields = html! {
        (form.choice("destination_type", "To", &[("queue", "queue"), ("exchange", "exchange")]))
        (form.field("destination", "Name", "text", "of the queue or exchange"))
        (form.field("routing_key", "Routing key", "text", "or a pattern, for a topic exchange"))
        (form.long("arguments", "Arguments", "as a JSON object, for a headers exchange"))
    };
    form.folded("Bind a queue or an exchange to it", &format!("{path}/bind"), fields, "Bind")
}

async fn bind(visitor: Visitor, State(source): Shared, Path((vhost, name)): Named, fields: Fields) -> Shown {
    let bound = async {
        visitor.asker.enters(&source, &vhost)?;
        let change = BindingChange::Bind { vhost: vhost.clone(), binding: of_fields(&fields, named(&name))? };
        api::make(&source, &visitor.asker, change).await?;
        let line = format!("'{}' is bound to exchange '{name}'.", fields.name("destination"));
        Ok::<Response, Trouble>(visitor.done(&source, line, &place("exchanges", &vhost, &name)))
    };
    match bound.await {
        Ok(done) => Ok(done),
        Err(trouble) => one(&visitor, &source, (&vhost, &name), &fields, Notice::Refused(trouble.text)).await,
    }
}

/// The binding that a form describes.
fn of_fields(fields: &Fields, source: &str) -> Result<BindingFields, String> {
    let kind = match fields.text("destination_type") {
        "exchange" => DestinationType::Exchange,
        _ => DestinationType::Queue,
    };
    Ok(BindingFields {
        source: source.to_owned(),
        destination: fields.needed("destination", "Name")?.to_owned(),
        destination_type: kind,
        routing_key: fields.text("routing_key").to_owned(),
        arguments: fields.object("arguments", "Arguments")?,
    })
}

async fn unbind(visitor: Visitor, State(source): Shared, fields: Fields) -> Shown {
    let vhost = fields.text("vhost").to_owned();
    visitor.asker.enters(&source, &vhost)?;
    let change = BindingChange::Unbind { vhost, binding: of_fields(&fields, fields.text("source"))? };
    api::make(&source, &visitor.asker, change).await?;
    let line = format!("'{}' is no longer bound to '{}'.", fields.text("destination"), fields.text("source"));
    Ok(visitor.done(&source, line, super::visitor::way_back(fields.text("back"))))
}

async fn publish(visitor: Visitor, State(source): Shared, Path((vhost, name)): Named, fields: Fields) -> Shown {
    let address = messages::Address { vhost: &vhost, exchange: named(&name), routing_key: fields.text("routing_key") };
    match messages::publish(&visitor, &source, address, &fields).await {
        Ok(line) => Ok(visitor.done(&source, line, &place("exchanges", &vhost, &name))),
        Err(trouble) => one(&visitor, &source, (&vhost, &name), &fields, Notice::Refused(trouble.text)).await,
    }
}

async fn ask_delete(visitor: Visitor, State(source): Shared, Path((vhost, name)): Named) -> Shown {
    let (exchange, of_it) = look(&visitor, &source, &vhost, named(&name)).await?;
    let here = path(&vhost, &exchange.name);
    let many = if of_it.len() == MOST {
        format!("{MOST} bindings or more")
    } else {
        quantity::several(of_it.len() as u64, "binding", "bindings")
    };
    let question = format!("Exchange '{name}' in virtual host '{vhost}' goes with {many}. They can't be brought back.");
    let body = ask(&format!("{here}/delete"), &question, "Delete exchange", &here, &[]);
    let page = View::new(Part::Exchanges, "Delete exchange", body).below("Exchanges", "/exchanges").below(name, here);
    Ok(page.show(&visitor, &source))
}

async fn delete(visitor: Visitor, State(source): Shared, Path((vhost, name)): Named) -> Shown {
    visitor.asker.enters(&source, &vhost)?;
    let change = ExchangeChange::Delete { vhost, name: name.clone(), if_unused: false };
    api::make(&source, &visitor.asker, change).await?;
    Ok(visitor.done(&source, format!("Exchange '{name}' is deleted."), "/exchanges"))
}
