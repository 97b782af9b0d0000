//! One queue: whether it moves and why not, its consumers, bindings, messages and settings, and
//! what can be done to it.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::{get, post};
use broker::{BindingReport, Diagnosis, QueueReport};
use maud::{Markup, html};

use super::chart::{Line, Unit, chart, spans};
use super::figure;
use super::form::Fields;
use super::frame::{Notice, Part, View};
use super::parts::{Form, Mood, ask, facts, figures, place, verdict};
use super::queues::{Rates, kind, mood};
use super::trouble::{Shown, Trouble};
use super::visitor::Visitor;
use super::{bindings, consumers, keeping, messages, policies};
use crate::api;
use crate::counters::{LENGTHS, OF_QUEUES};
use crate::diagnosis::DiagnosisRow;
use crate::history::Span;
use crate::json::object;
use crate::quantity::several;
use crate::resources::{BindingChange, BindingFields, DestinationType, QueueChange};
use crate::sampling;
use crate::source::Source;

type Shared = State<Arc<Source>>;
type Named = Path<(String, String)>;

pub(super) fn router() -> Router<Arc<Source>> {
    Router::new()
        .route("/queues/{vhost}/{name}", get(show))
        .route("/queues/{vhost}/{name}/history", get(history))
        .route("/queues/{vhost}/{name}/bind", post(bind))
        .route("/queues/{vhost}/{name}/publish", post(publish))
        .route("/queues/{vhost}/{name}/messages", get(browse))
        .route("/queues/{vhost}/{name}/purge", get(ask_purge).post(purge))
        .route("/queues/{vhost}/{name}/delete", get(ask_delete).post(delete))
}

/// A queue and what belongs to it.
struct Whole {
    found: Diagnosis,
    rates: Rates,
    bindings: Vec<BindingReport>,
    /// The priority of a policy for it alone, if the user may set one.
    priority: Option<i64>,
}

impl Whole {
    fn path(&self) -> String {
        place("queues", &self.found.queue.vhost, &self.found.queue.name)
    }
}

/// Looks a queue up.
async fn find(visitor: &Visitor, source: &Arc<Source>, vhost: &str, name: &str) -> Result<Whole, Trouble> {
    let (asker, vhost, name) = (visitor.asker.clone(), vhost.to_owned(), name.to_owned());
    let whole = api::look(source, &visitor.asker, move |source| {
        let missing = || Trouble::missing("queue", &name);
        asker.looks_into(source, &vhost).map_err(|_| missing())?;
        let found = source.broker.diagnose(&vhost, &name).ok_or_else(missing)?;
        let may_set = asker.sets_policies(source, &vhost).is_ok();
        Ok::<_, Trouble>(Whole {
            priority: may_set.then(|| policies::first_priority(source, &vhost, &policies::name_for(&name))),
            rates: Rates::of(source, &found.queue),
            bindings: source.broker.bindings_to_queue(&vhost, &name),
            found,
        })
    });
    whole.await?
}

async fn show(visitor: Visitor, State(source): Shared, Path((vhost, name)): Named) -> Shown {
    page(&visitor, &source, (&vhost, &name), &Fields::default(), Notice::None).await
}

async fn page(
    visitor: &Visitor,
    source: &Arc<Source>,
    (vhost, name): (&str, &str),
    sent: &Fields,
    notice: Notice,
) -> Shown {
    let whole = find(visitor, source, vhost, name).await?;
    let queue = &whole.found.queue;
    let body = html! {
        (why(&whole.found))
        (now(queue, whole.rates))
        (movement(source, queue, Span::Hour))
        p .buttons { a .button href={ (whole.path()) "/history" } { "History of 24 hours" } }
        h2 { "Consumers" }
        (consumers::of_queue(&whole.found.consumers))
        h2 { "Messages" }
        (messages::browsing(&whole.path()))
        (messages::publishing(&whole.path(), sent))
        h2 { "Bindings" }
        (bindings::bindings(&whole.bindings, &whole.path()))
        (binding(&whole.path(), sent))
        h2 { "Settings" }
        (settings(queue))
        @if let Some(priority) = whole.priority { (policies::for_queue(queue, priority)) }
        p .buttons {
            a .button href={ (whole.path()) "/task" } { "Move or copy messages…" }
            a .button href={ (whole.path()) "/policies" } { "Explain policies" }
            a .button href={ (whole.path()) "/purge" } { "Purge…" }
            a .button href={ (whole.path()) "/delete" } { "Delete queue…" }
        }
    };
    let page = View::new(Part::Queues, name, body).below("Queues", "/queues");
    Ok(page
        .below(vhost, format!("/queues?vhost={}", crate::resources::percent_encoded(vhost)))
        .with(notice)
        .show(visitor, source))
}

/// Why a queue moves or does not: the first cause at once, the others below it.
fn why(found: &Diagnosis) -> Markup {
    let row = DiagnosisRow::of(found);
    let mood = mood(found.standing(), found.causes().next());
    html! {
        div data-live {
            (verdict(mood, &row.sentence, html! { (row.evidence) " " (row.advice) }))
            @for cause in row.others() {
                (verdict(Mood::Plain, &format!("Also: {}", cause.sentence), html! { (cause.evidence) " " (cause.advice) }))
            }
        }
    }
}

fn now(queue: &QueueReport, rates: Rates) -> Markup {
    let none = || html! {};
    let bytes = queue.figures.ready_bytes.or_else(|| queue.figures.bytes_of(queue.ready));
    let mut shown = vec![
        ("Ready", figure::count(queue.ready), html! { @if let Some(bytes) = bytes { (figure::bytes(bytes)) } }),
        ("Unacknowledged", figure::count(queue.unacked), none()),
        ("In", figure::rate(rates.published), none()),
        ("Out", figure::rate(rates.delivered), none()),
        ("Acknowledged", figure::rate(rates.acknowledged), none()),
        ("Consumers", figure::count(queue.consumers), none()),
        ("Memory", figure::bytes(queue.bytes), none()),
    ];
    let targetless = queue.figures.totals.targetless;
    if targetless > 0 {
        shown.push(("Dead letters lost", figure::count(targetless), html! { "their exchange or queue is missing" }));
    }
    figures(&shown)
}

/// How a queue moved since it was first looked at.
fn movement(source: &Source, queue: &QueueReport, span: Span) -> Markup {
    let place = (queue.vhost.clone(), queue.name.clone());
    source.histories.look_at_queue(sampling::now(), place, |history| {
        let rate = |name, field| Line { name, points: history.traffic.rates(&OF_QUEUES, field, span) };
        let length = |name, field| Line { name, points: history.lengths.lengths(&LENGTHS, field, span) };
        let rates = [rate("in", "publish"), rate("out", "deliver_get"), rate("acknowledged", "ack")];
        let lengths = [length("ready", "messages_ready"), length("unacknowledged", "messages_unacknowledged")];
        html! {
            div .charts data-live {
                (chart("Messages per second", Unit::Rate, &rates))
                (chart("Messages in the queue", Unit::Count, &lengths))
            }
        }
    })
}

/// How a queue moved within the last hour and the last day.
async fn history(visitor: Visitor, State(source): Shared, Path((vhost, name)): Named) -> Shown {
    let whole = find(&visitor, &source, &vhost, &name).await?;
    let body = html! {
        p .hint {
            "A queue is sampled from its first look on, and until a day after the last one. "
            "The tables below the charts have their figures."
        }
        (spans(|span| movement(&source, &whole.found.queue, span)))
    };
    let page = View::new(Part::Queues, "History", body).below("Queues", "/queues").below(name, whole.path());
    Ok(page.show(&visitor, &source))
}

fn settings(queue: &QueueReport) -> Markup {
    let policy = |name: &Option<String>| html! { @if let Some(name) = name { (name) } @else { "none" } };
    let arguments = object(&queue.declared.arguments);
    let effective = object(&queue.policies.definition);
    html! {
        (facts(&[
            ("Type", html! { (kind(queue)) }),
            ("Arguments", bindings::arguments(&arguments)),
            ("Without effect", html! { (if queue.declared.idle_arguments.is_empty() { "none".to_owned() } else { queue.declared.idle_arguments.join(", ") }) }),
            ("Policy", policy(&queue.policies.user)),
            ("Operator policy", policy(&queue.policies.operator)),
            ("What the policies set", bindings::arguments(&effective)),
        ]))
    }
}

fn binding(path: &str, sent: &Fields) -> Markup {
    let form = Form::of("bind", sent);
    let fields = html! {
        (form.field("source", "Exchange", "text", ""))
        (form.field("routing_key", "Routing key", "text", "or a pattern, for a topic exchange"))
        (form.long("arguments", "Arguments", "as a JSON object, for a headers exchange"))
    };
    form.folded("Bind it to an exchange", &format!("{path}/bind"), fields, "Bind")
}

async fn bind(visitor: Visitor, State(source): Shared, Path((vhost, name)): Named, fields: Fields) -> Shown {
    let bound = async {
        visitor.asker.enters(&source, &vhost)?;
        let binding = BindingFields {
            source: fields.needed("source", "Exchange")?.to_owned(),
            destination: name.clone(),
            destination_type: DestinationType::Queue,
            routing_key: fields.text("routing_key").to_owned(),
            arguments: fields.object("arguments", "Arguments")?,
        };
        let change = BindingChange::Bind { vhost: vhost.clone(), binding };
        api::make(&source, &visitor.asker, change).await?;
        let line = format!("Queue '{name}' is bound to '{}'.", fields.name("source"));
        Ok::<Response, Trouble>(visitor.done(&source, line, &place("queues", &vhost, &name)))
    };
    match bound.await {
        Ok(done) => Ok(done),
        Err(trouble) => page(&visitor, &source, (&vhost, &name), &fields, Notice::Refused(trouble.text)).await,
    }
}

async fn publish(visitor: Visitor, State(source): Shared, Path((vhost, name)): Named, fields: Fields) -> Shown {
    let address = messages::Address { vhost: &vhost, exchange: "", routing_key: &name };
    match messages::publish(&visitor, &source, address, &fields).await {
        Ok(line) => Ok(visitor.done(&source, line, &place("queues", &vhost, &name))),
        Err(trouble) => page(&visitor, &source, (&vhost, &name), &fields, Notice::Refused(trouble.text)).await,
    }
}

/// Shows messages to a user that may read from the queue, and takes none.
async fn browse(
    visitor: Visitor,
    State(source): Shared,
    Path((vhost, name)): Named,
    query: super::seen::Query,
) -> Shown {
    let whole = find(&visitor, &source, &vhost, &name).await?;
    let body = messages::browsed(&visitor, &source, (&vhost, &name), &whole.path(), &query.0).await?;
    let page = View::new(Part::Queues, "Messages", body).below("Queues", "/queues").below(name, whole.path());
    Ok(page.show(&visitor, &source))
}

async fn ask_purge(visitor: Visitor, State(source): Shared, Path((vhost, name)): Named) -> Shown {
    let whole = find(&visitor, &source, &vhost, &name).await?;
    let ready = several(whole.found.queue.ready, "ready message", "ready messages");
    let question =
        format!("Purge drops {ready} of queue '{name}' in virtual host '{vhost}'. What consumers hold stays.");
    let path = whole.path();
    let (action, button) = (format!("{path}/purge"), format!("Purge {ready}"));
    let body = match whole.found.queue.declared.exclusive {
        true => ask_at_once(&action, &question, &button, &path),
        false => keeping::ask(&action, &question, &button, &path, &source),
    };
    let page = View::new(Part::Queues, "Purge", body).below("Queues", "/queues").below(name, path);
    Ok(page.show(&visitor, &source))
}

async fn purge(visitor: Visitor, State(source): Shared, Path((vhost, name)): Named, sent: Fields) -> Shown {
    visitor.asker.enters(&source, &vhost)?;
    if let Some(keep) = keeping::asked(&sent)? {
        let count = keeping::keep(&visitor, &source, ("purge", &vhost, &name), keep).await?;
        let line = format!("Purged {} of queue '{name}'. {}", several(count, "message", "messages"), keep.said());
        return Ok(visitor.done(&source, line, &place("queues", &vhost, &name)));
    }
    let change = QueueChange::Purge { vhost: vhost.clone(), name: name.clone() };
    let count = api::make(&source, &visitor.asker, change).await?;
    let line = format!("Purged {} of queue '{name}'.", several(count, "message", "messages"));
    Ok(visitor.done(&source, line, &place("queues", &vhost, &name)))
}

/// Asks before messages are dropped of which none can be kept: those of a queue that goes with its
/// connection, and of a subscription, which no task brings back.
fn ask_at_once(action: &str, question: &str, button: &str, back: &str) -> Markup {
    ask(action, &format!("{question} They can't be brought back."), button, back, &[])
}

async fn ask_delete(visitor: Visitor, State(source): Shared, Path((vhost, name)): Named) -> Shown {
    let whole = find(&visitor, &source, &vhost, &name).await?;
    let queue = &whole.found.queue;
    let question = format!(
        "Queue '{name}' in virtual host '{vhost}' goes with {}, its bindings and {}.",
        several(queue.ready + queue.unacked, "message", "messages"),
        several(queue.consumers, "consumer", "consumers"),
    );
    let path = whole.path();
    let action = format!("{path}/delete");
    let body = match queue.declared.exclusive || queue.declared.subscription.is_some() {
        true => ask_at_once(&action, &question, "Delete queue", &path),
        false => keeping::ask(&action, &question, "Delete queue", &path, &source),
    };
    let page = View::new(Part::Queues, "Delete queue", body).below("Queues", "/queues").below(name, path);
    Ok(page.show(&visitor, &source))
}

async fn delete(visitor: Visitor, State(source): Shared, Path((vhost, name)): Named, sent: Fields) -> Shown {
    visitor.asker.enters(&source, &vhost)?;
    if let Some(keep) = keeping::asked(&sent)? {
        let count = keeping::keep(&visitor, &source, ("delete-queue", &vhost, &name), keep).await?;
        let line =
            format!("Queue '{name}' is deleted, with {}. {}", several(count, "message", "messages"), keep.said());
        return Ok(visitor.done(&source, line, "/queues"));
    }
    let change = QueueChange::Delete { vhost, name: name.clone(), if_unused: false, if_empty: false };
    let count = api::make(&source, &visitor.asker, change).await?;
    let line = format!("Queue '{name}' is deleted, with {}.", several(count, "message", "messages"));
    Ok(visitor.done(&source, line, "/queues"))
}
