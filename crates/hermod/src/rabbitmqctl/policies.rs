//! The verbs of `rabbitmqctl` that set and clear policies.

use management::{Change, PolicyChange};

use super::call::Call;
use super::verbs::{done, words};
use super::{DATA, Output, Refusal};
use crate::config::Settings;

pub(super) fn set(call: &Call, settings: &Settings) -> Result<(String, Output), Refusal> {
    put(call, settings, false)
}

pub(super) fn set_operator(call: &Call, settings: &Settings) -> Result<(String, Output), Refusal> {
    put(call, settings, true)
}

pub(super) fn clear(call: &Call, settings: &Settings) -> Result<(String, Output), Refusal> {
    remove(call, settings, false)
}

pub(super) fn clear_operator(call: &Call, settings: &Settings) -> Result<(String, Output), Refusal> {
    remove(call, settings, true)
}

fn kind(operator: bool) -> &'static str {
    if operator { "operator policy override" } else { "policy" }
}

fn put(call: &Call, settings: &Settings, operator: bool) -> Result<(String, Output), Refusal> {
    let [name, pattern, definition] = words(call)?;
    let (priority, vhost) = (call.option("priority").unwrap_or("0"), call.vhost());
    let banner = format!(
        "Setting {} \"{name}\" for pattern \"{pattern}\" to \"{definition}\" with priority \"{priority}\" for vhost \
         \"{vhost}\" ...",
        kind(operator)
    );
    let policy = PolicyChange {
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
    done(settings, banner, Change::SetPolicy { operator, policy })
}

fn remove(call: &Call, settings: &Settings, operator: bool) -> Result<(String, Output), Refusal> {
    let [name] = words(call)?;
    let vhost = call.vhost();
    let banner = format!("Clearing {} \"{name}\" on vhost \"{vhost}\" ...", kind(operator));
    done(settings, banner, Change::ClearPolicy { operator, vhost: vhost.to_owned(), name: name.to_owned() })
}
