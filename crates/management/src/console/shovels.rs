//! Shovels: how each is doing, setting one, and clearing it.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use maud::{Markup, html};
use serde_json::Value as Json;

use super::form::Fields;
use super::frame::{Notice, Part, View};
use super::parts::{Column, Form, ask, table};
use super::seen;
use super::trouble::{Shown, Trouble};
use super::visitor::Visitor;
use crate::api;
use crate::listing;
use crate::resources::{Listed, ShovelChange, percent_encoded};
use crate::source::Source;

type Shared = State<Arc<Source>>;

pub(super) fn router() -> Router<Arc<Source>> {
    Router::new().route("/shovels", get(list).post(add)).route("/shovels/clear", get(ask_clear).post(clear))
}

async fn list(visitor: Visitor, State(source): Shared) -> Shown {
    page(&visitor, &source, &Fields::default(), Notice::None).await
}

async fn page(visitor: &Visitor, source: &Arc<Source>, sent: &Fields, notice: Notice) -> Shown {
    let asker = visitor.asker.clone();
    let (vhosts, shovels) = api::sum_up(source, &visitor.asker, move |source| {
        let vhosts = seen::vhosts(&asker, source);
        let mut shovels = listing::all(source, Listed::ShovelStates.collection(), None);
        shovels.retain(|row| row["vhost"].as_str().is_some_and(|of| vhosts.iter().any(|vhost| vhost == of)));
        (vhosts, shovels)
    })
    .await?;
    let body = html! {
        p .hint {
            "A shovel takes messages from a queue of one broker and gives them to another one, or to the same. It "
            "acknowledges those that have arrived, so none is lost, and acts with the rights of its user."
        }
        (shovels_table(&shovels))
        (addition(&vhosts, sent))
    };
    Ok(View::new(Part::Shovels, "Shovels", body).with(notice).show(visitor, source))
}

fn shovels_table(shovels: &[Json]) -> Markup {
    let columns = [
        Column::text("Name"),
        Column::text("Virtual host"),
        Column::text("State"),
        Column::text("From"),
        Column::text("To"),
        Column::number("Left there"),
        Column::number("On its way"),
        Column::number("Moved"),
        Column::text("User"),
        Column::text("Action"),
    ];
    let rows: Vec<Vec<Markup>> = shovels.iter().map(row).collect();
    table("shovels", &columns, &rows, html! { "no shovels" })
}

fn row(shovel: &Json) -> Vec<Markup> {
    let text = |field: &str| shovel[field].as_str().unwrap_or_default();
    let count = |field: &str| shovel[field].as_u64().map_or_else(|| "—".to_owned(), |count| count.to_string());
    let end = |uri: &str, places: [&str; 3]| {
        let place = places.iter().map(|place| text(place)).find(|place| !place.is_empty()).unwrap_or_default();
        html! { (text(uri)) " " code { (place) } }
    };
    let clear =
        format!("/shovels/clear?vhost={}&name={}", percent_encoded(text("vhost")), percent_encoded(text("name")));
    vec![
        html! { (text("name")) },
        html! { (text("vhost")) },
        html! {
            (text("phase"))
            @if text("phase") == "waiting" || text("phase") == "terminated" { p .hint { (text("reason")) } }
        },
        end("src_uri", ["src_queue", "src_exchange", "src_address"]),
        end("dest_uri", ["dest_queue", "dest_exchange", "dest_address"]),
        html! { (count("left")) },
        html! { (count("pending")) },
        html! { (count("forwarded")) },
        html! { @if text("author").is_empty() { "the operator" } @else { (text("author")) } },
        html! { a .button.small href=(clear) aria-label={ "Clear shovel " (text("name")) } { "Clear…" } },
    ]
}

fn addition(vhosts: &[String], sent: &Fields) -> Markup {
    let form = Form::of("add", sent);
    let fields = html! {
        (form.vhosts(vhosts))
        (form.field("name", "Name", "text", "an earlier one of this name is replaced"))
        (form.long(
            "definition",
            "Definition",
            "as a JSON object: {\"src-uri\": \"amqp://user:password@host\", \"src-queue\": \"orders\", \"dest-uri\": \
             \"amqp://\", \"dest-queue\": \"orders\"}",
        ))
    };
    form.folded_with("Set a shovel", "/shovels", fields, html! { button .main { "Set shovel" } })
}

async fn add(visitor: Visitor, State(source): Shared, fields: Fields) -> Shown {
    match added(&visitor, &source, &fields).await {
        Ok(done) => Ok(done),
        Err(trouble) => page(&visitor, &source, &fields, Notice::Refused(trouble.text)).await,
    }
}

async fn added(visitor: &Visitor, source: &Arc<Source>, fields: &Fields) -> Result<Response, Trouble> {
    let vhost = fields.text("vhost").to_owned();
    visitor.asker.sets_policies(source, &vhost)?;
    let name = fields.needed("name", "Name")?.to_owned();
    let definition = fields.object("definition", "Definition")?;
    api::make(source, &visitor.asker, ShovelChange::Set { vhost, name: name.clone(), definition }).await?;
    Ok(visitor.done(source, format!("Shovel '{name}' is set."), "/shovels"))
}

async fn ask_clear(visitor: Visitor, State(source): Shared, query: seen::Query) -> Shown {
    let query = query.0;
    let [vhost, name] = ["vhost", "name"].map(|field| query.text(field));
    visitor.asker.sets_policies(&source, vhost)?;
    let question = format!(
        "Shovel '{name}' in virtual host '{vhost}' ends. What it has on its way arrives, or stays where it was."
    );
    let body = ask("/shovels/clear", &question, "Clear shovel", "/shovels", &[("vhost", vhost), ("name", name)]);
    Ok(View::new(Part::Shovels, "Clear shovel", body).below("Shovels", "/shovels").show(&visitor, &source))
}

async fn clear(visitor: Visitor, State(source): Shared, fields: Fields) -> Shown {
    let [vhost, name] = ["vhost", "name"].map(|field| fields.text(field).to_owned());
    visitor.asker.sets_policies(&source, &vhost)?;
    let line = format!("Shovel '{name}' is cleared.");
    api::make(&source, &visitor.asker, ShovelChange::Clear { vhost, name }).await?;
    Ok(visitor.done(&source, line, "/shovels"))
}
