//! Policies and operator policies: the list, adding one, and deleting it.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use broker::{PolicyKind, PolicyReport, QueueReport};
use maud::{Markup, html};

use super::form::Fields;
use super::frame::{Notice, Part, View};
use super::parts::{Column, Form, ask, table};
use super::trouble::{Shown, Trouble};
use super::visitor::Visitor;
use super::{bindings, seen};
use crate::api;
use crate::json::object;
use crate::resources::{PolicyChange, PolicyFields, literal, percent_encoded};
use crate::source::Source;

type Shared = State<Arc<Source>>;

const OPERATOR: &str = "operator";
/// What a policy can apply to.
const APPLY_TO: [(&str, &str); 5] = [
    ("all", "queues and exchanges"),
    ("queues", "queues"),
    ("classic_queues", "classic queues"),
    ("quorum_queues", "quorum queues"),
    ("exchanges", "exchanges"),
];

pub(super) fn router() -> Router<Arc<Source>> {
    Router::new().route("/policies", get(list).post(add)).route("/policies/delete", get(ask_delete).post(delete))
}

async fn list(visitor: Visitor, State(source): Shared) -> Shown {
    page(&visitor, &source, &Fields::default(), Notice::None).await
}

async fn page(visitor: &Visitor, source: &Arc<Source>, sent: &Fields, notice: Notice) -> Shown {
    let asker = visitor.asker.clone();
    let (vhosts, [own, of_operators]) = api::sum_up(source, &visitor.asker, move |source| {
        let vhosts = seen::vhosts(&asker, source);
        let seen = |kind| {
            let mut policies = source.broker.policies(kind);
            policies.retain(|policy| vhosts.contains(&policy.vhost));
            policies.sort_by(|one, other| (&one.vhost, -one.spec.priority).cmp(&(&other.vhost, -other.spec.priority)));
            policies
        };
        let both = [seen(PolicyKind::User), seen(PolicyKind::Operator)];
        (vhosts, both)
    })
    .await?;
    let body = html! {
        p .hint {
            "A policy sets arguments of the queues and exchanges whose names its pattern finds. Of several that match, "
            "the one with the highest priority applies. Operator policies apply on top: of two limits the lower holds."
        }
        h2 { "Policies" }
        (policies("policies", &own, "no policies", ""))
        h2 { "Operator policies" }
        (policies("operator-policies", &of_operators, "no operator policies", OPERATOR))
        (addition(visitor, &vhosts, sent))
    };
    Ok(View::new(Part::Policies, "Policies", body).with(notice).show(visitor, source))
}

fn policies(id: &str, policies: &[PolicyReport], empty: &str, kind: &str) -> Markup {
    let columns = [
        Column::text("Name"),
        Column::text("Virtual host"),
        Column::text("Pattern"),
        Column::text("Applies to"),
        Column::text("Definition"),
        Column::number("Priority"),
        Column::text("Action"),
    ];
    let rows: Vec<Vec<Markup>> = policies.iter().map(|policy| row(policy, kind)).collect();
    table(id, &columns, &rows, html! { (empty) })
}

fn row(policy: &PolicyReport, kind: &str) -> Vec<Markup> {
    let place = |name: &str| percent_encoded(name);
    let delete = format!("/policies/delete?vhost={}&name={}&kind={kind}", place(&policy.vhost), place(&policy.name));
    vec![
        html! { (policy.name) },
        html! { (policy.vhost) },
        html! { code { (policy.spec.pattern) } },
        html! { (policy.spec.apply_to.name()) },
        bindings::arguments(&object(&policy.spec.definition)),
        html! { (policy.spec.priority) },
        html! { a .button.small href=(delete) aria-label={ "Delete policy " (policy.name) } { "Delete…" } },
    ]
}

fn addition(visitor: &Visitor, vhosts: &[String], sent: &Fields) -> Markup {
    let kinds: &[(&str, &str)] = match visitor.asker.is_administrator() {
        true => &[("", "policy"), (OPERATOR, "operator policy")],
        false => &[("", "policy")],
    };
    let form = Form::of("add", sent);
    let fields = html! {
        (form.vhosts(vhosts))
        (form.choice("kind", "Kind", kinds))
        (form.field("name", "Name", "text", ""))
        (form.field("pattern", "Pattern", "text", "a regular expression that is looked for in names"))
        (form.choice("apply-to", "Apply to", &APPLY_TO))
        (form.field("priority", "Priority", "number", "0 if it is empty"))
        (form.long("definition", "Definition", "as a JSON object: {\"message-ttl\": 60000, \"max-length\": 1000}"))
    };
    let preview = html! { button formaction="/policies/preview" formmethod="get" { "Preview" } };
    form.folded_with("Add a policy", "/policies", fields, html! { button .main { "Add policy" } " " (preview) })
}

/// The priority of a policy for one queue alone: it comes before all others of the vhost. `own` is
/// its name, since it may be there already.
pub(super) fn first_priority(source: &Source, vhost: &str, own: &str) -> i64 {
    let others = source.broker.policies(PolicyKind::User).into_iter();
    let others = others.filter(|policy| policy.vhost == vhost && policy.name != own);
    others.map(|policy| policy.spec.priority).max().map_or(0, |highest| highest.saturating_add(1))
}

/// The name of a policy for one queue alone.
pub(super) fn name_for(queue: &str) -> String {
    format!("only {queue}")
}

/// A form that shows what other settings would do to a queue, by a policy for it alone. It begins
/// with those that policies give it now, since only one policy of a kind applies.
pub(super) fn for_queue(queue: &QueueReport, priority: i64) -> Markup {
    let now = serde_json::Value::Object(object(&queue.policies.definition)).to_string();
    let form = Form::of("effect", &Fields::default()).with(&[("definition", &now)]);
    let hidden = [
        ("vhost", queue.vhost.clone()),
        ("name", name_for(&queue.name)),
        ("pattern", format!("^{}$", literal(&queue.name))),
        ("apply-to", "queues".to_owned()),
        ("priority", priority.to_string()),
    ];
    html! {
        details .card {
            summary { "Change settings by a policy" }
            form method="get" action="/policies/preview" {
                @for (name, value) in &hidden { input type="hidden" name=(name) value=(value); }
                div .fields {
                    (form.long("definition", "Settings", "as a JSON object: {\"message-ttl\": 60000, \"max-length\": 1000}"))
                }
                p .buttons { button .main { "Preview effect" } }
            }
        }
    }
}

async fn add(visitor: Visitor, State(source): Shared, fields: Fields) -> Shown {
    match added(&visitor, &source, &fields).await {
        Ok(done) => Ok(done),
        Err(trouble) => page(&visitor, &source, &fields, Notice::Refused(trouble.text)).await,
    }
}

async fn added(visitor: &Visitor, source: &Arc<Source>, fields: &Fields) -> Result<Response, Trouble> {
    let vhost = fields.text("vhost").to_owned();
    let kind = may_set(visitor, source, &vhost, fields.text("kind"))?;
    let policy = fields_of(fields)?;
    let name = policy.name.clone();
    api::make(source, &visitor.asker, PolicyChange::Set { kind, policy }).await?;
    Ok(visitor.done(source, format!("Policy '{name}' is set."), "/policies"))
}

/// The policy that a form describes.
pub(super) fn fields_of(fields: &Fields) -> Result<PolicyFields, String> {
    let priority = fields.name("priority");
    let priority = if priority.is_empty() { Ok(0) } else { priority.parse() };
    Ok(PolicyFields {
        vhost: fields.text("vhost").to_owned(),
        name: fields.needed("name", "Name")?.to_owned(),
        pattern: fields.text("pattern").to_owned(),
        apply_to: fields.text("apply-to").to_owned(),
        priority: priority.map_err(|_| "Priority is a whole number.".to_owned())?,
        definition: fields.object("definition", "Definition")?,
    })
}

/// The kind of policy that a form means.
///
/// # Errors
/// If the user may not set such a policy.
fn may_set(visitor: &Visitor, source: &Source, vhost: &str, kind: &str) -> Result<PolicyKind, Trouble> {
    if kind == OPERATOR {
        visitor.asker.administers()?;
        return Ok(PolicyKind::Operator);
    }
    visitor.asker.sets_policies(source, vhost)?;
    Ok(PolicyKind::User)
}

async fn ask_delete(visitor: Visitor, State(source): Shared, query: seen::Query) -> Shown {
    let query = query.0;
    let [vhost, name, kind] = ["vhost", "name", "kind"].map(|field| query.text(field));
    may_set(&visitor, &source, vhost, kind)?;
    let question = format!("Policy '{name}' in virtual host '{vhost}' no longer applies, at once, to what it matches.");
    let hidden = [("vhost", vhost), ("name", name), ("kind", kind)];
    let body = ask("/policies/delete", &question, "Delete policy", "/policies", &hidden);
    let page = View::new(Part::Policies, "Delete policy", body).below("Policies", "/policies");
    Ok(page.show(&visitor, &source))
}

async fn delete(visitor: Visitor, State(source): Shared, fields: Fields) -> Shown {
    let [vhost, name] = ["vhost", "name"].map(|field| fields.text(field).to_owned());
    let kind = may_set(&visitor, &source, &vhost, fields.text("kind"))?;
    let line = format!("Policy '{name}' is deleted.");
    api::make(&source, &visitor.asker, PolicyChange::Clear { kind, vhost, name }).await?;
    Ok(visitor.done(&source, line, "/policies"))
}
