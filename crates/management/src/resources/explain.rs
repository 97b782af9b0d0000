//! Explanations: who may do what and by which rule, where a message would go, which policies apply
//! to a queue, what another policy would change, and what an error means.
//!
//! All have one form, for the API, the command line and the console: a verdict, the steps that led
//! to it, and advice. Each step comes from the function that decides.

use std::collections::HashMap;

use auth::{Actor, Authority, Identity, Resource, Right, Ruling, Spelling, waiting};
use axum::Router;
use axum::extract::{Query, State};
use axum::routing::get;
use broker::{BindingReport, Error, PolicyFit, PolicyKind, RouteHop, Table};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::policies::{self, PolicyFields};
use crate::api::{Answer, Asker, Failure, Routes, Shared, Wanted, look, shown};
use crate::change::Refused;
use crate::json::{json, object, table};
use crate::quantity::{grouped, several};
use crate::source::Source;

/// The page of errors, where each text has its remedy.
const ERRORS: &str = include_str!("../../../../docs/manual/errors.md");
/// Errors that an explanation names.
const ERRORS_MAX: usize = 5;
/// The longest text of an error that is looked for.
const TEXT_MAX: usize = 4096;

/// The subject of an explanation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Explain {
    /// What a user may do with a queue, an exchange or a vhost.
    Access {
        /// The user.
        user: String,
        /// The vhost.
        vhost: String,
        /// `queue`, `exchange` or `vhost`.
        kind: String,
        /// The name of the queue or the exchange.
        name: String,
        /// A routing key, for a topic exchange.
        key: Option<String>,
        /// What the client is called, for patterns that name it.
        #[serde(default)]
        client: Option<String>,
    },
    /// Where a message would go.
    Route {
        /// The vhost.
        vhost: String,
        /// The exchange; empty for the default exchange.
        exchange: String,
        /// The routing key.
        routing_key: String,
        /// Its headers.
        headers: Map<String, Json>,
    },
    /// Which policies apply to a queue.
    Policies {
        /// The vhost.
        vhost: String,
        /// The queue.
        queue: String,
    },
    /// What a policy would change.
    Preview {
        /// It is an operator policy.
        operator: bool,
        /// The policy.
        policy: PolicyFields,
    },
    /// What an error means, by its text or its code.
    Error {
        /// The text.
        text: String,
    },
}

/// An explanation.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Explanation {
    /// The answer in a sentence.
    pub verdict: String,
    /// What led to it, in order.
    pub steps: Vec<Reason>,
    /// What to do; empty for nothing.
    pub advice: String,
    /// Names that it comes to: rights that are granted, queues that are reached or changed.
    pub result: Vec<String>,
}

/// One step of an explanation.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Reason {
    /// What was asked.
    pub subject: String,
    /// What came out.
    pub outcome: String,
    /// The rule by which it did.
    pub reason: String,
}

fn step(subject: impl Into<String>, outcome: impl Into<String>, reason: impl Into<String>) -> Reason {
    Reason { subject: subject.into(), outcome: outcome.into(), reason: reason.into() }
}

impl Explain {
    /// The explanation.
    ///
    /// # Errors
    /// `NotFound` without the thing that it is about, `Precondition` for a request without meaning.
    pub(crate) fn of(&self, source: &Source) -> Result<Explanation, Error> {
        match self {
            Self::Access { user, vhost, kind, name, key, client } => {
                let actor = Actor::new(user, client.as_deref());
                access(source, actor, vhost, (kind, name), key.as_deref())
            }
            Self::Route { vhost, exchange, routing_key, headers } => {
                let headers = table(headers).map_err(Error::precondition)?;
                route(source, vhost, exchange, routing_key, &headers)
            }
            Self::Policies { vhost, queue } => policies_of(source, vhost, queue),
            Self::Preview { operator, policy } => {
                let kind = if *operator { PolicyKind::Operator } else { PolicyKind::User };
                preview(source, kind, policy)
            }
            Self::Error { text } => Ok(error(text)),
        }
    }

    /// Fails unless the user may see what is explained.
    fn is_for(&self, asker: &Asker, source: &Source) -> Result<(), Failure> {
        match self {
            Self::Access { user, .. } if user == asker.user() => Ok(()),
            Self::Access { .. } => asker.administers(),
            Self::Route { vhost, .. } | Self::Policies { vhost, .. } => asker.looks_into(source, vhost),
            Self::Preview { operator: true, .. } => asker.administers(),
            Self::Preview { policy, .. } => asker.sets_policies(source, &policy.vhost),
            Self::Error { .. } => Ok(()),
        }
    }
}

/// The explanation, for a user of the API or the console.
pub(crate) async fn explained(
    asker: &Asker,
    source: &std::sync::Arc<Source>,
    what: Explain,
) -> Result<Explanation, Failure> {
    what.is_for(asker, source)?;
    let found = look(source, asker, move |source| what.of(source)).await?;
    Ok(found.map_err(Refused::from)?)
}

pub(super) fn routes() -> Routes {
    Router::new()
        .route("/api/explain/access", get(answer_access))
        .route("/api/explain/route", get(answer_route))
        .route("/api/explain/policies", get(answer_policies))
        .route("/api/explain/policy-preview", get(answer_preview))
        .route("/api/explain/error", get(answer_error))
}

type Given = HashMap<String, String>;

fn text(given: &Given, name: &str) -> String {
    given.get(name).cloned().unwrap_or_default()
}

fn document(given: &Given, name: &str) -> Result<Map<String, Json>, Failure> {
    match given.get(name).map_or("", |text| text.trim()) {
        "" => Ok(Map::new()),
        text => serde_json::from_str(text).map_err(|error| Failure::bad_request(format!("{name}: {error}"))),
    }
}

async fn answer_access(asker: Asker, State(source): Shared, Query(given): Wanted) -> Answer {
    let [user, vhost, kind, name] = ["user", "vhost", "kind", "name"].map(|field| text(&given, field));
    let what = Explain::Access {
        user,
        vhost,
        kind,
        name,
        key: given.get("key").cloned(),
        client: given.get("client").cloned(),
    };
    shown(explained(&asker, &source, what).await?)
}

async fn answer_route(asker: Asker, State(source): Shared, Query(given): Wanted) -> Answer {
    let [vhost, exchange, routing_key] = ["vhost", "exchange", "routing_key"].map(|field| text(&given, field));
    let what = Explain::Route { vhost, exchange, routing_key, headers: document(&given, "headers")? };
    shown(explained(&asker, &source, what).await?)
}

async fn answer_policies(asker: Asker, State(source): Shared, Query(given): Wanted) -> Answer {
    let what = Explain::Policies { vhost: text(&given, "vhost"), queue: text(&given, "queue") };
    shown(explained(&asker, &source, what).await?)
}

async fn answer_preview(asker: Asker, State(source): Shared, Query(given): Wanted) -> Answer {
    let apply_to = given.get("apply-to").cloned().unwrap_or_else(policies::to_all);
    let priority = given.get("priority").map_or(Ok(0), |text| text.parse());
    let policy = PolicyFields {
        vhost: text(&given, "vhost"),
        name: text(&given, "name"),
        pattern: text(&given, "pattern"),
        apply_to,
        priority: priority.map_err(|_| Failure::bad_request("priority is a whole number"))?,
        definition: document(&given, "definition")?,
    };
    let what = Explain::Preview { operator: text(&given, "kind") == "operator", policy };
    shown(explained(&asker, &source, what).await?)
}

async fn answer_error(asker: Asker, State(source): Shared, Query(given): Wanted) -> Answer {
    shown(explained(&asker, &source, Explain::Error { text: text(&given, "text") }).await?)
}

/// What a user may do, by the patterns of its permissions.
fn access(
    source: &Source,
    actor: Actor<'_>,
    vhost: &str,
    (kind, name): (&str, &str),
    key: Option<&str>,
) -> Result<Explanation, Error> {
    let user = actor.user;
    let asked = Asked::of(source, actor);
    let resource = match kind {
        "queue" => Resource::queue(name),
        "exchange" => Resource::exchange(name),
        "vhost" => return Ok(entry(source, user, vhost)),
        other => return Err(Error::precondition(format!("'{other}' is no queue, exchange or vhost"))),
    };
    let mut found = Explanation::default();
    for (right, needed) in
        [(Right::Configure, needs(kind, 0)), (Right::Write, needs(kind, 1)), (Right::Read, needs(kind, 2))]
    {
        let ruling = asked.ruling(vhost, resource, right);
        found.steps.push(step(format!("{right}: {needed}"), outcome(&ruling), because(&ruling, user, vhost)));
        if ruling.allows() {
            found.result.push(right.to_string());
        }
    }
    for (right, verb) in [(Right::Write, "publish"), (Right::Read, "bind")] {
        let Some(key) = key.filter(|_| kind == "exchange") else { continue };
        let subject = format!("{verb} with routing key '{key}', if its type is topic");
        let (outcome, reason) = asked.of_key(vhost, name, key, right);
        found.steps.push(step(subject, outcome, reason));
    }
    let thing = format!("{kind} '{}' in virtual host '{vhost}'", if name.is_empty() { "amq.default" } else { name });
    found.verdict = match found.result.as_slice() {
        [] => format!("User '{user}' may do nothing with {thing}."),
        rights if rights.len() == 3 => format!("User '{user}' may do everything with {thing}."),
        rights => format!("User '{user}' may {} {thing}, and nothing else.", rights.join(" and ")),
    };
    if found.result.len() < 3 && source.broker.authority().user(user).is_some() {
        found.advice = smallest_grant(source, user, vhost, resource);
    }
    Ok(found)
}

/// Whose rights are explained: a user of this broker, or one that is connected and whose rights
/// come from elsewhere.
struct Asked<'a> {
    authority: &'a Authority,
    user: &'a str,
    /// What its client is called.
    client: Option<&'a str>,
    guest: Option<Identity>,
}

impl<'a> Asked<'a> {
    fn of(source: &'a Source, Actor { user, client, .. }: Actor<'a>) -> Self {
        let authority = source.broker.authority();
        let guest = if authority.user(user).is_none() { source.broker.guest(user) } else { None };
        Self { authority, user, client, guest: guest.map(|guest| guest.named(client)) }
    }

    fn ruling(&self, vhost: &str, resource: Resource<'_>, right: Right) -> Ruling {
        match &self.guest {
            Some(guest) => waiting::allowed(|| self.authority.explain_identity(guest, vhost, resource, right)),
            None => self.authority.explain(self.user, vhost, resource, right),
        }
    }

    /// The outcome for a routing key of an exchange, and the reason.
    fn of_key(&self, vhost: &str, exchange: &str, key: &str, right: Right) -> (&'static str, String) {
        let Some(guest) = &self.guest else {
            let actor = Actor::new(self.user, self.client);
            let ruling = self.authority.explain_topic(actor, vhost, exchange, key, right);
            let topics = Actor { spelling: Spelling::Word, ..actor };
            let by_topics = self.authority.explain_topic(topics, vhost, exchange, key, right);
            let otherwise = match by_topics.allows() {
                as_before if as_before == ruling.allows() => "",
                true => "; over MQTT, where the name is one level of a topic, it is allowed",
                false => "; over MQTT, where the name is one level of a topic, it is refused",
            };
            return (outcome(&ruling), because(&ruling, self.user, vhost) + self.unnamed(&ruling) + otherwise);
        };
        let decided = waiting::allowed(|| self.authority.authorize_topic(guest, vhost, exchange, key, right));
        if guest.is_decided_elsewhere() {
            let ruling = Ruling::Elsewhere { allows: decided.is_ok() };
            return (outcome(&ruling), because(&ruling, self.user, vhost));
        }
        match decided {
            Ok(()) => ("allowed", "a scope or a role that it was given allows this key".to_owned()),
            Err(_) => ("refused", "none of its scopes and roles allows this key".to_owned()),
        }
    }

    /// Said of a pattern that depends on the client, if it was not said which one that is.
    fn unnamed(&self, ruling: &Ruling) -> &'static str {
        match ruling {
            Ruling::Refused { pattern, .. } if self.client.is_none() && pattern.contains("{client_id}") => {
                "; {client_id} is the name of the client, and none was given (--client)"
            }
            _ => "",
        }
    }

    fn enters(&self, vhost: &str) -> bool {
        match &self.guest {
            Some(guest) => waiting::allowed(|| self.authority.enter(guest, vhost)).is_ok(),
            None => self.authority.may_enter(self.user, vhost),
        }
    }
}

/// What each right is needed for: configure, write, read.
fn needs(kind: &str, right: usize) -> &'static str {
    let of_queue = ["declare, delete", "bind it", "consume, fetch, purge, browse"];
    let of_exchange = ["declare, delete", "publish, bind it to another exchange", "bind from it"];
    if kind == "queue" { of_queue[right] } else { of_exchange[right] }
}

fn entry(source: &Source, user: &str, vhost: &str) -> Explanation {
    let asked = Asked::of(source, Actor::new(user, None));
    let is_known = asked.guest.is_some() || asked.authority.user(user).is_some();
    let may = asked.enters(vhost);
    let reason = match (is_known, may) {
        (false, _) => format!("there is no user '{user}'"),
        (_, true) => "it has permissions there".to_owned(),
        (_, false) => "it has no permissions there, not even empty ones".to_owned(),
    };
    let advice = match (may, &asked.guest) {
        (true, _) => String::new(),
        (false, None) => format!("hermod permissions set {user} '' '' '' --vhost {vhost}"),
        (false, Some(_)) => "Give it a scope or a role there, where it comes from.".to_owned(),
    };
    Explanation {
        verdict: format!("User '{user}' may {}enter virtual host '{vhost}'.", if may { "" } else { "not " }),
        steps: vec![step("enter", if may { "allowed" } else { "refused" }, reason)],
        advice,
        result: if may { vec!["enter".to_owned()] } else { Vec::new() },
    }
}

fn outcome(ruling: &Ruling) -> &'static str {
    if ruling.allows() { "allowed" } else { "refused" }
}

fn because(ruling: &Ruling, user: &str, vhost: &str) -> String {
    match ruling {
        Ruling::NoUser => format!("there is no user '{user}'"),
        Ruling::NoPermissions => format!("it has no permissions in virtual host '{vhost}'"),
        Ruling::Scope(scope) => format!("the scope '{scope}' that it was given elsewhere is about it"),
        Ruling::Elsewhere { allows: true } => "the web service that the user comes from allows it".to_owned(),
        Ruling::Elsewhere { allows: false } => {
            "the web service that the user comes from denies it, or can't be asked (see the log)".to_owned()
        }
        Ruling::Free => "no topic permission of the user is about this exchange".to_owned(),
        Ruling::Granted { pattern, role } => format!("the pattern '{pattern}'{} is found in it", of_role(role)),
        Ruling::Refused { pattern, role } if pattern.is_empty() => {
            format!("the pattern{} is empty, which matches nothing", of_role(role))
        }
        Ruling::Refused { pattern, role } => format!("the pattern '{pattern}'{} is not found in it", of_role(role)),
    }
}

fn of_role(role: &Option<String>) -> String {
    role.as_ref().map(|role| format!(" of role '{role}'")).unwrap_or_default()
}

/// The command that gives every right on this one thing and takes none.
fn smallest_grant(source: &Source, user: &str, vhost: &str, resource: Resource<'_>) -> String {
    let exact = format!("^{}$", literal(if resource.name.is_empty() { "amq.default" } else { resource.name }));
    let patterns = [Right::Configure, Right::Write, Right::Read].map(|right| {
        match source.broker.authority().explain(user, vhost, resource, right) {
            Ruling::Granted { pattern, .. } => pattern,
            Ruling::Refused { pattern, role: None } if !pattern.is_empty() => format!("{pattern}|{exact}"),
            _ => exact.clone(),
        }
    });
    let [configure, write, read] = patterns;
    format!(
        "To allow all of it: hermod permissions set {user} '{configure}' '{write}' '{read}' --vhost {vhost}. Leave out \
         what it need not do."
    )
}

/// A pattern that only this text matches.
pub(crate) fn literal(text: &str) -> String {
    text.chars().flat_map(|letter| letter.is_ascii_punctuation().then_some('\\').into_iter().chain([letter])).collect()
}

fn route(source: &Source, vhost: &str, exchange: &str, key: &str, headers: &Table) -> Result<Explanation, Error> {
    let found = source.broker.explain_route(vhost, exchange, key, headers);
    let found = found.ok_or_else(|| Error::not_found(format!("no vhost '{vhost}'")))?;
    let verdict = match (&found.refused, found.queues.len()) {
        (Some(why), _) => format!("It is refused: {why}."),
        (None, 0) => "It is unroutable: no queue takes it.".to_owned(),
        (None, count) => format!("It reaches {}: {}.", several(count as u64, "queue", "queues"), few(&found.queues)),
    };
    let advice = match (&found.refused, found.queues.is_empty()) {
        (None, true) => {
            "A publisher that sets mandatory gets it back; otherwise it is dropped and counted. Bind a \
                         queue, or give the exchange an alternate exchange."
        }
        _ => "",
    };
    let mut steps: Vec<Reason> = found.hops.iter().flat_map(hop).collect();
    if exchange.is_empty() {
        steps = vec![match found.queues.first() {
            Some(queue) => step("default exchange", format!("to queue '{queue}'"), "its name is the routing key"),
            None => step("default exchange", "to nothing", format!("no queue is named '{key}'")),
        }];
    }
    Ok(Explanation { verdict, steps, advice: advice.to_owned(), result: found.queues })
}

/// The first few of a list of names.
fn few(names: &[String]) -> String {
    let shown = names.iter().take(10).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > 10 { format!("{shown} and {} more", grouped(names.len() as u64 - 10)) } else { shown }
}

fn hop(hop: &RouteHop) -> Vec<Reason> {
    let subject = format!("exchange '{}' ({})", hop.exchange, hop.kind);
    let mut steps: Vec<Reason> = hop.bindings.iter().map(|binding| followed(&subject, binding)).collect();
    if let Some(alternate) = &hop.alternate {
        steps.push(step(
            &subject,
            format!("to exchange '{alternate}'"),
            "no binding matches; it is the alternate exchange",
        ));
    }
    if steps.is_empty() {
        steps.push(step(subject, "to nothing", "no binding matches, and it has no alternate exchange"));
    }
    steps
}

fn followed(subject: &str, binding: &BindingReport) -> Reason {
    let kind = if binding.to_queue { "queue" } else { "exchange" };
    let mut reason = format!("bound by '{}'", binding.key);
    if !binding.arguments.0.is_empty() {
        reason.push_str(&format!(" {}", Json::Object(object(&binding.arguments))));
    }
    step(subject, format!("to {kind} '{}'", binding.destination), reason)
}

fn policies_of(source: &Source, vhost: &str, queue: &str) -> Result<Explanation, Error> {
    let found = source.broker.explain_policies(vhost, queue);
    let found = found.ok_or_else(|| Error::not_found(format!("no queue '{queue}' in vhost '{vhost}'")))?;
    let mut explanation = Explanation::default();
    for verdict in &found.verdicts {
        let subject = format!("{} '{}' (priority {})", verdict.kind.name(), verdict.name, verdict.priority);
        let reason = match &verdict.fit {
            PolicyFit::Applies => "its pattern is found in the name, and none comes before it".to_owned(),
            PolicyFit::Behind(first) => format!("'{first}' comes before it: a higher priority, or the first by name"),
            PolicyFit::OtherType => "it is for things of other types".to_owned(),
            PolicyFit::ForeignSetting(setting) => format!("a queue of this type has no {setting}"),
            PolicyFit::OtherName => "its pattern is not found in the name".to_owned(),
        };
        let applies = verdict.fit == PolicyFit::Applies;
        if applies {
            explanation.result.push(verdict.name.clone());
        }
        explanation.steps.push(step(subject, if applies { "applies" } else { "does not apply" }, reason));
    }
    for (name, value) in &found.arguments.0 {
        let from = if found.declared.get(name) == Some(value) { "as it was declared" } else { "by its policies" };
        explanation.steps.push(step(format!("argument {name}"), json(value).to_string(), from));
    }
    explanation.verdict = match explanation.result.as_slice() {
        [] => format!("No policy applies to queue '{queue}'."),
        names => format!("To queue '{queue}' applies {}.", names.join(" and ")),
    };
    Ok(explanation)
}

fn preview(source: &Source, kind: PolicyKind, policy: &PolicyFields) -> Result<Explanation, Error> {
    let (vhost, name) = (policy.vhost.clone(), policy.name.clone());
    let spec = policies::spec(policy.clone())?;
    let found = source.broker.preview_policy(&vhost, kind, &name, Some(spec))?;
    let value =
        |value: &Option<broker::Value>| value.as_ref().map_or("none".to_owned(), |value| json(value).to_string());
    let mut explanation = Explanation::default();
    for queue in &found.queues {
        let changes =
            queue.changes.iter().map(|(name, before, after)| format!("{name}: {} → {}", value(before), value(after)));
        let reason = match (queue.dropped, queue.expires) {
            (0, false) => String::new(),
            (0, true) => "its oldest message expires at once".to_owned(),
            (dropped, _) => format!("drops {} at once", several(dropped, "message", "messages")),
        };
        explanation.steps.push(step(
            format!("queue '{}'", queue.queue),
            changes.collect::<Vec<_>>().join(", "),
            reason,
        ));
        explanation.result.push(queue.queue.clone());
    }
    explanation.verdict = match found.total {
        0 => "It changes no queue.".to_owned(),
        total => format!("It changes {}.", several(total, "queue", "queues")),
    };
    if found.dropped > 0 {
        let dropped = several(found.dropped, "message is", "messages are");
        explanation.verdict.push_str(&format!(" {dropped} dropped at once."));
    }
    if found.total > found.queues.len() as u64 {
        explanation.advice = format!("These are the first {} queues.", found.queues.len());
    }
    Ok(explanation)
}

/// The rows of the page of errors that a text or a code fits, the closest first.
pub fn error(text: &str) -> Explanation {
    let text = text.trim().get(..text.trim().len().min(TEXT_MAX)).unwrap_or_default();
    let mut found: Vec<(usize, [&str; 3])> = Vec::new();
    for line in ERRORS.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [shape, code, .., remedy] = cells.as_slice() else { continue };
        let shape = shape.trim_matches('`');
        let weight = if code.split(',').next() == Some(text) { Some(1) } else { fits(shape, text) };
        found.extend(weight.map(|weight| (weight, [shape, *code, *remedy])));
    }
    found.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
    let rows = found.iter().take(ERRORS_MAX).map(|(_, [shape, code, remedy])| step(*shape, *code, *remedy)).collect();
    let verdict = match found.first() {
        None => "No error of the manual reads so. docs/manual/errors.md has all of them.".to_owned(),
        Some((_, [shape, _, ""])) => format!("{shape}."),
        Some((_, [_, _, remedy])) => format!("{remedy}."),
    };
    Explanation { verdict, steps: rows, advice: String::new(), result: Vec::new() }
}

/// How many letters of a text are those of a shape, whose `…` stand for anything. `None` if it does
/// not have all parts of the shape, in their order.
fn fits(shape: &str, text: &str) -> Option<usize> {
    let (mut left, mut letters) = (text, 0);
    for part in shape.split('…').filter(|part| !part.is_empty()) {
        let at = left.find(part)?;
        left = &left[at + part.len()..];
        letters += part.chars().filter(|letter| letter.is_alphanumeric()).count();
    }
    // A shape of a word or two says nothing.
    (letters >= 8).then_some(letters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_found_by_its_text_and_by_its_code() {
        let found = error("NOT_FOUND - no queue 'orders' in vhost '/'");
        assert!(found.verdict.starts_with("declare the queue first"), "{found:?}");
        assert_eq!(found.steps[0].outcome, "404");
        let found =
            error("inequivalent arg 'durable' for queue 'q' in vhost '/': received 'true' but current is 'false'");
        assert!(found.steps[0].subject.starts_with("inequivalent arg"), "{found:?}");
        assert!(error("405").steps.iter().all(|row| row.outcome.starts_with("405")) && !error("405").steps.is_empty());
        assert!(error("the cat is on the table").steps.is_empty());
        assert!(error("").steps.is_empty() && error("é").steps.is_empty());
    }

    #[test]
    fn a_literal_pattern_matches_its_text_alone() {
        for name in ["a.b", "^x$", "a|b", "q (1)", "ä-ö", "a\\d"] {
            let pattern = auth::Pattern::new(&format!("^{}$", literal(name))).unwrap();
            assert!(pattern.matches(name), "{name}");
            assert!(!pattern.matches("axb") && !pattern.matches(&format!("{name}x")), "{name}");
        }
    }
}
