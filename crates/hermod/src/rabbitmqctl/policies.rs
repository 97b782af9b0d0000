//! The verbs of `rabbitmqctl` that set and clear policies.

use broker::PolicyKind;
use management::{Change, PolicyChange, PolicyFields};

use super::call::Call;
use super::{DATA, Output, Refusal, done, words};
use crate::cli::Server;

pub(super) fn set(call: &Call, server: &Server) -> Result<(String, Output), Refusal> {
    put(call, server, PolicyKind::User)
}

pub(super) fn set_operator(call: &Call, server: &Server) -> Result<(String, Output), Refusal> {
    put(call, server, PolicyKind::Operator)
}

pub(super) fn clear(call: &Call, server: &Server) -> Result<(String, Output), Refusal> {
    remove(call, server, PolicyKind::User)
}

pub(super) fn clear_operator(call: &Call, server: &Server) -> Result<(String, Output), Refusal> {
    remove(call, server, PolicyKind::Operator)
}

fn shown(kind: PolicyKind) -> &'static str {
    match kind {
        PolicyKind::User => "policy",
        PolicyKind::Operator => "operator policy override",
    }
}

fn put(call: &Call, server: &Server, kind: PolicyKind) -> Result<(String, Output), Refusal> {
    let [name, pattern, definition] = words(call)?;
    let (priority, vhost) = (call.option("priority").unwrap_or("0"), call.vhost());
    let banner = format!(
        "Setting {} \"{name}\" for pattern \"{pattern}\" to \"{definition}\" with priority \"{priority}\" for vhost \
         \"{vhost}\" ...",
        shown(kind)
    );
    let policy = PolicyFields {
        vhost: vhost.to_owned(),
        name: name.to_owned(),
        pattern: pattern.to_owned(),
        apply_to: call.option("apply-to").unwrap_or("all").to_owned(),
        priority: priority
            .parse()
            .map_err(|_| Refusal::new(DATA, format!("\"{priority}\" priority must be a number")))?,
        definition: serde_json::from_str(definition)
            .map_err(|error| Refusal::new(DATA, format!("Could not parse JSON document: {error}")))?,
    };
    done(server, banner, Change::Policies(PolicyChange::Set { kind, policy }))
}

fn remove(call: &Call, server: &Server, kind: PolicyKind) -> Result<(String, Output), Refusal> {
    let [name] = words(call)?;
    let vhost = call.vhost();
    let banner = format!("Clearing {} \"{name}\" on vhost \"{vhost}\" ...", shown(kind));
    done(server, banner, Change::Policies(PolicyChange::Clear { kind, vhost: vhost.to_owned(), name: name.to_owned() }))
}
