//! Tasks: the list, starting one from a queue's page after a look at its plan, and cancelling one.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::get;
use broker::{TaskReport, TaskState, TaskTarget};
use maud::{Markup, html};

use super::figure;
use super::form::Fields;
use super::frame::{Notice, Part, View};
use super::parts::{Column, Form, Mood, ask, badge, place, table};
use super::seen;
use super::trouble::{Shown, Trouble};
use super::visitor::Visitor;
use crate::api;
use crate::quantity::{grouped, several};
use crate::resources::{PlannedRow, TaskChange, TaskFields, TaskTo, kept_in, percent_encoded, plan};
use crate::source::Source;

type Shared = State<Arc<Source>>;
type Named = Path<(String, String)>;

/// What a task does, as its form names it.
const KINDS: [(&str, &str); 4] = [
    ("move", "move them to the target"),
    ("copy", "copy them to the target"),
    ("redrive", "send dead letters back to their queues"),
    ("delete", "delete them"),
];

pub(super) fn router() -> Router<Arc<Source>> {
    Router::new()
        .route("/tasks", get(list))
        .route("/tasks/{vhost}/{name}/cancel", get(ask_cancel).post(cancel))
        .route("/tasks/{vhost}/{name}/undo", get(ask_undo).post(undo))
        .route("/queues/{vhost}/{name}/task", get(show_plan).post(start))
}

async fn list(visitor: Visitor, State(source): Shared) -> Shown {
    let asker = visitor.asker.clone();
    let tasks = api::sum_up(&source, &visitor.asker, move |source| {
        let vhosts = seen::vhosts(&asker, source);
        let mut tasks: Vec<_> =
            vhosts.iter().flat_map(|vhost| source.broker.tasks(vhost).unwrap_or_default()).collect();
        tasks.sort_by_key(|task| (task.state != TaskState::Running, std::cmp::Reverse(task.began_at)));
        tasks.into_iter().map(|task| Seen { undo: can_undo(source, &task), task }).collect::<Vec<_>>()
    })
    .await?;
    let body = html! {
        p .hint {
            "A task moves, copies, redrives or deletes the messages of a queue, and goes on after you have logged out. "
            "It starts on the page of its queue. A purge or a deletion that keeps its messages is a task, too, and "
            "can be undone until they expire."
        }
        (tasks_table(&tasks))
    };
    Ok(View::new(Part::Tasks, "Tasks", body).show(&visitor, &source))
}

/// A task, and whether it can be undone.
struct Seen {
    task: TaskReport,
    undo: bool,
}

/// Whether it keeps messages that are still there.
fn can_undo(source: &Source, task: &TaskReport) -> bool {
    task.state != TaskState::Running && kept_in(task).is_some_and(|queue| source.broker.has_queue(&task.vhost, queue))
}

fn tasks_table(tasks: &[Seen]) -> Markup {
    let columns = [
        Column::text("Task"),
        Column::text("State"),
        Column::text("Queue"),
        Column::text("Target"),
        Column::text("Which"),
        Column::number("Taken"),
        Column::number("Stayed"),
        Column::text("Started by"),
        Column::text("Action"),
    ];
    let rows: Vec<Vec<Markup>> = tasks.iter().map(row).collect();
    table("tasks", &columns, &rows, html! { "no tasks" })
}

fn row(seen: &Seen) -> Vec<Markup> {
    let Seen { task, undo } = seen;
    let TaskReport { name, vhost, spec, state, counts, .. } = task;
    let stayed = counts.alive + counts.homeless + counts.refused;
    let state_shown = match state {
        TaskState::Running => badge("running", Mood::Good),
        TaskState::Done => badge("done", Mood::Plain),
        TaskState::Cancelled => badge("cancelled", Mood::Plain),
        TaskState::Stopped(reason) => html! { (badge("stopped", Mood::Warning)) " " small { (reason) } },
    };
    let path = format!("/tasks/{}/{name}", percent_encoded(vhost));
    vec![
        html! { code { (name) } " " (spec.kind.name()) },
        state_shown,
        html! { a href=(place("queues", vhost, &spec.queue)) { (spec.queue) } " in " (vhost) },
        target(spec.target.as_ref()),
        html! {
            @if spec.selector.is_empty() { "all" } @else { code { (spec.selector) } }
            @if let Some(limit) = spec.limit { ", at most " (grouped(limit)) }
            @if let Some(rate) = spec.rate { ", " (rate) "/s" }
        },
        figure::count(counts.taken),
        figure::count(stayed),
        html! { (spec.author) },
        html! {
            @if *state == TaskState::Running {
                a .button.small href={ (path) "/cancel" } aria-label={ "Cancel task " (name) } { "Cancel task…" }
            }
            @if *undo {
                a .button.small href={ (path) "/undo" } aria-label={ "Undo task " (name) } { "Undo…" }
            }
        },
    ]
}

fn target(target: Option<&TaskTarget>) -> Markup {
    html! {
        @match target {
            None => "–",
            Some(TaskTarget::Queue(queue)) => { "queue " (queue) }
            Some(TaskTarget::Exchange { name, routing_key }) => {
                "exchange " (if name.is_empty() { "(default)" } else { name })
                @if let Some(key) = routing_key { ", key " (key) }
            }
        }
    }
}

fn form(path: &str, sent: &Fields) -> Markup {
    let form = Form::of("task", sent);
    html! {
        form .card method="get" action={ (path) "/task" } {
            p .hint {
                "A task takes the messages that are ready when it starts. The plan counts them first, and nothing "
                "moves before you say so."
            }
            div .fields {
                (form.choice("kind", "What becomes of them", &KINDS))
                (form.field("to", "Target queue", "text", "or an exchange"))
                (form.field("exchange", "Target exchange", "text", ""))
                (form.field("routing_key", "Routing key", "text", "their own if it is empty"))
                (form.field("selector", "Selector", "text", "such as customer = 'ACME'; all if it is empty"))
                (form.field("limit", "At most", "number", "all if it is empty"))
                (form.field("rate", "Per second", "number", "as fast as it goes if it is empty"))
            }
            p .buttons { button .main { "Show the plan" } a .button href=(path) { "Cancel" } }
        }
    }
}

/// The task that a form asks for.
fn fields(queue: &str, sent: &Fields) -> Result<TaskFields, Trouble> {
    let given = |name: &str| Some(sent.name(name).to_owned()).filter(|text| !text.is_empty());
    let number = |name: &str, label: &str| -> Result<Option<u64>, Trouble> {
        let parse = |text: String| text.parse().map_err(|_| format!("{label} is a whole number.").into());
        given(name).map(parse).transpose()
    };
    let rate = number("rate", "Per second")?.map(|rate| u32::try_from(rate).unwrap_or(u32::MAX));
    let through = |exchange| TaskTo::Exchange { exchange, routing_key: given("routing_key") };
    Ok(TaskFields {
        kind: sent.text("kind").to_owned(),
        queue: queue.to_owned(),
        target: given("to").map(|queue| TaskTo::Queue { queue }).or_else(|| given("exchange").map(through)),
        selector: sent.text("selector").to_owned(),
        limit: number("limit", "At most")?,
        rate,
        keep_ms: None,
        dry_run: false,
    })
}

/// The form of a task; then, of what it asks for, the plan, and whether to start it.
async fn show_plan(visitor: Visitor, State(source): Shared, Path((vhost, name)): Named, query: seen::Query) -> Shown {
    visitor.asker.enters(&source, &vhost)?;
    let path = place("queues", &vhost, &name);
    if query.0.text("kind").is_empty() {
        let page = View::new(Part::Queues, "Move or copy messages", form(&path, &query.0));
        return Ok(page.below("Queues", "/queues").below(name, path).show(&visitor, &source));
    }
    let task = fields(&name, &query.0)?;
    let (caller, of) = (visitor.asker.caller(), vhost.clone());
    let asked = task.clone();
    let planned = api::sum_up(&source, &visitor.asker, move |source| plan(&source.broker, &of, asked, &caller)).await?;
    let (notice, body) = match planned {
        Ok(planned) => (Notice::None, confirmation(&path, &task, &planned, &query.0)),
        Err(refused) => (Notice::Refused(refused.whole()), form(&path, &query.0)),
    };
    let page = View::new(Part::Queues, "Plan of a task", body).below("Queues", "/queues").below(name, path);
    Ok(page.with(notice).show(&visitor, &source))
}

fn confirmation(path: &str, task: &TaskFields, planned: &PlannedRow, sent: &Fields) -> Markup {
    let PlannedRow { taken, alive, homeless, refused, complete } = *planned;
    let messages = several(taken, "message", "messages");
    let verb = KINDS.iter().find(|(kind, _)| *kind == task.kind).map_or("", |(kind, _)| kind);
    let verb = format!("{}{}", verb[..1].to_uppercase(), &verb[1..]);
    let least = if complete { "" } else { "at least " };
    let to = match &task.target {
        None => String::new(),
        Some(TaskTo::Queue { queue }) => format!(" to queue '{queue}'"),
        Some(TaskTo::Exchange { exchange, .. }) => format!(" through exchange '{exchange}'"),
    };
    let kind = &task.kind;
    let question = format!("The task would {kind} {least}{messages} of queue '{}'{to}. Later ones stay.", task.queue);
    let hidden: Vec<(&str, &str)> = ["kind", "to", "exchange", "routing_key", "selector", "limit", "rate"]
        .map(|name| (name, sent.text(name)))
        .into();
    html! {
        @for (count, why) in [
            (alive, "never died, and a redrive leaves them"),
            (homeless, "have nowhere to go"),
            (refused, "find their target full"),
        ] {
            @if count > 0 { p .hint { (several(count, "message stays", "messages stay")) ": they " (why) "." } }
        }
        (ask(&format!("{path}/task"), &question, &format!("{verb} {messages}"), path, &hidden))
    }
}

async fn start(visitor: Visitor, State(source): Shared, Path((vhost, name)): Named, sent: Fields) -> Shown {
    visitor.asker.enters(&source, &vhost)?;
    let task = fields(&name, &sent)?;
    let id = api::make(&source, &visitor.asker, TaskChange::Start { vhost, task }).await?;
    Ok(visitor.done(&source, format!("Task {} is started.", broker::TaskId(id)), "/tasks"))
}

async fn ask_cancel(visitor: Visitor, State(source): Shared, Path((vhost, name)): Named) -> Shown {
    visitor.asker.enters(&source, &vhost)?;
    let question = format!("Task {name} ends. What it has moved stays moved.");
    let action = format!("/tasks/{}/{}/cancel", percent_encoded(&vhost), percent_encoded(&name));
    let body = ask(&action, &question, "Cancel task", "/tasks", &[]);
    Ok(View::new(Part::Tasks, "Cancel task", body).below("Tasks", "/tasks").show(&visitor, &source))
}

async fn ask_undo(visitor: Visitor, State(source): Shared, Path((vhost, name)): Named) -> Shown {
    visitor.asker.enters(&source, &vhost)?;
    let question = format!(
        "What task {name} has taken comes back behind the messages that came since. A queue that it deleted is \
         declared and bound again."
    );
    let action = format!("/tasks/{}/{}/undo", percent_encoded(&vhost), percent_encoded(&name));
    let body = ask(&action, &question, "Undo task", "/tasks", &[]);
    Ok(View::new(Part::Tasks, "Undo task", body).below("Tasks", "/tasks").show(&visitor, &source))
}

async fn undo(visitor: Visitor, State(source): Shared, Path((vhost, name)): Named) -> Shown {
    visitor.asker.enters(&source, &vhost)?;
    let id = api::make(&source, &visitor.asker, TaskChange::Undo { vhost, name: name.clone() }).await?;
    Ok(visitor.done(&source, format!("Task {name} is being undone by task {}.", broker::TaskId(id)), "/tasks"))
}

async fn cancel(visitor: Visitor, State(source): Shared, Path((vhost, name)): Named) -> Result<Response, Trouble> {
    visitor.asker.enters(&source, &vhost)?;
    let line = format!("Task {name} is cancelled.");
    api::make(&source, &visitor.asker, TaskChange::Cancel { vhost, name }).await?;
    Ok(visitor.done(&source, line, "/tasks"))
}
