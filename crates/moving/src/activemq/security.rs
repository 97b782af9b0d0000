//! Plugins of the broker: who may log in, and what each may do.

use std::collections::BTreeSet;

use roxmltree::Node;

use crate::address::{ACTIVEMQ, Match};
use crate::definitions::{Rights, User};
use crate::outcome::{Outcome, Verdict};
use crate::people::People;
use crate::rights::{self, Granted, Right, Together};
use crate::source::{Refusal, Source};
use crate::xml::{Xml, elements, name};

/// More entries than any file has.
const MOST: usize = 1000;

/// What the plugins say.
#[derive(Default)]
pub(super) struct Plugins {
    /// Whether clients are asked who they are.
    pub(super) authenticates: bool,
    /// Rights by queue and by topic, if something gives them.
    queues: Vec<Granted>,
    topics: Vec<Granted>,
    authorizes: bool,
    /// Whether dead messages are thrown away.
    pub(super) discards_dead: bool,
}

/// Reads all plugins.
pub(super) fn read(
    xml: &Xml<'_>,
    plugins: Node<'_, '_>,
    people: &mut People,
    found: &mut Plugins,
    outcome: &mut Outcome<'_>,
) {
    for plugin in elements(plugins) {
        let (line, key) = (xml.line(plugin), name(plugin));
        match key {
            "simpleAuthenticationPlugin" => {
                found.authenticates = true;
                simple(xml, plugin, people, outcome);
            }
            "jaasAuthenticationPlugin" | "jaasDualAuthenticationPlugin" => {
                found.authenticates = true;
                if people.users.is_empty() {
                    outcome.left_out(
                        line,
                        key,
                        "convert again with --users users.properties --roles groups.properties",
                    );
                } else {
                    outcome.moved(line, key, "users and roles in the definitions");
                }
            }
            "jaasCertificateAuthenticationPlugin" => {
                found.authenticates = true;
                outcome.set(line, key, "auth_mechanisms", "EXTERNAL");
                outcome.warn("clients log in by certificates, whose whole subject is the user's name (tls.login_from)");
            }
            "authorizationPlugin" => {
                found.authorizes = true;
                authorization(xml, plugin, found, outcome);
            }
            "statisticsBrokerPlugin"
            | "loggingBrokerPlugin"
            | "runtimeConfigurationPlugin"
            | "destinationDotFilePlugin"
            | "connectionDotFilePlugin"
            | "traceBrokerPathPlugin"
            | "udpTraceBrokerPlugin" => {
                outcome.needless(line, key, "metrics, the log and the API show what happens");
            }
            "timeStampingBrokerPlugin" => {
                let text = "an operator policy bounds the time: hermod policies set ceiling '' '{\"message-ttl\": MS}' --operator";
                outcome.left_out(line, key, text);
            }
            "discardingDLQBrokerPlugin" if plugin.attribute("dropAll") == Some("true") => {
                found.discards_dead = true;
                outcome.moved(line, key, "policies without dead letters");
            }
            "redeliveryPlugin" => {
                outcome.left_out(
                    line,
                    key,
                    "a policy with delayed-retry-type, -min, -max and -multiplier retries later",
                );
            }
            "forcePersistencyModeBrokerPlugin" => {
                outcome.left_out(line, key, "publishers say whether a message is persistent")
            }
            other => own_code(line, other, outcome),
        }
    }
}

/// A plugin of one's own often guards the door.
fn own_code(line: usize, key: &str, outcome: &mut Outcome<'_>) {
    outcome.left_out(line, key, super::OWN_CODE);
    outcome.warn(format!(
        "line {line}: {key} runs code that is not loaded here; if it kept clients out, it no longer does"
    ));
}

fn simple(xml: &Xml<'_>, plugin: Node<'_, '_>, people: &mut People, outcome: &mut Outcome<'_>) {
    if plugin.attribute("anonymousAccessAllowed") == Some("true") {
        let text = "name a user for those without log-in: anonymous_user, stomp.default_user, mqtt.default_user";
        outcome.left_out(xml.line(plugin), "anonymousAccessAllowed", text);
    }
    for user in plugin.descendants().filter(|node| node.is_element() && name(*node) == "authenticationUser") {
        let line = xml.line(user);
        let Some(called) = user.attribute("username").filter(|called| !called.contains("${")) else {
            outcome.left_out(line, "authenticationUser", "its name is a placeholder; add the user by hand");
            continue;
        };
        let password = user.attribute("password").filter(|password| !password.is_empty());
        let hidden = password.is_some_and(|password| password.contains("${") || password.starts_with("ENC("));
        if hidden {
            outcome.left_out(line, called, "its password is encrypted or a placeholder; give it one by hand");
        } else {
            outcome.note(line, called, Verdict::Moved, "a user in the definitions");
        }
        people.users.insert(called.to_owned(), password.filter(|_| !hidden).map(str::to_owned));
        for group in groups(user.attribute("groups")) {
            people.roles.entry(group).or_default().insert(called.to_owned());
        }
    }
}

/// Names of groups, separated by commas.
fn groups(text: Option<&str>) -> BTreeSet<String> {
    text.unwrap_or_default().split(',').map(str::trim).filter(|group| !group.is_empty()).map(str::to_owned).collect()
}

fn authorization(xml: &Xml<'_>, plugin: Node<'_, '_>, found: &mut Plugins, outcome: &mut Outcome<'_>) {
    for entry in plugin.descendants().filter(Node::is_element) {
        let line = xml.line(entry);
        match name(entry) {
            "authorizationEntry" => one(line, entry, found, outcome),
            "tempDestinationAuthorizationEntry" => {
                outcome.needless(line, name(entry), "temporary queues are exclusive to who declares them");
            }
            "map"
            | "authorizationMap"
            | "authorizationEntries"
            | "authorizationPlugin"
            | "tempDestinationAuthorizationEntries" => {}
            "defaultEntry" => {}
            other => {
                outcome.left_out(line, other, "rights from elsewhere are not read; see auth_ldap.groups");
                outcome.warn(format!("line {line}: rights that come from elsewhere are not here; no one has them"));
            }
        }
    }
}

fn one(line: usize, entry: Node<'_, '_>, found: &mut Plugins, outcome: &mut Outcome<'_>) {
    let mut roles = BTreeSet::new();
    for (attribute, right) in [("admin", Right::Configure), ("write", Right::Write), ("read", Right::Read)] {
        roles.extend(groups(entry.attribute(attribute)).into_iter().map(|group| (right, group)));
    }
    let (place, kind) = match (entry.attribute("queue"), entry.attribute("topic")) {
        (Some(queue), _) => (queue, &mut found.queues),
        (None, Some(topic)) if topic.starts_with("ActiveMQ.Advisory") => {
            return outcome.note(line, "authorizationEntry", Verdict::Shipped, "there are no advisories");
        }
        (None, Some(topic)) => (topic, &mut found.topics),
        (None, None) => return outcome.left_out(line, "authorizationEntry", "it names no queue and no topic"),
    };
    match Match::new(place, ACTIVEMQ) {
        Some(at) => {
            kind.push(Granted { at, roles });
            outcome.moved(line, "authorizationEntry", "rights of roles in the definitions");
        }
        None => outcome.left_out(line, "authorizationEntry", "its name is longer than a name can be"),
    }
}

/// Declares users and rights.
pub(super) fn declare(
    people: &People,
    plugins: Plugins,
    file: &Source,
    outcome: &mut Outcome<'_>,
) -> Result<(), Refusal> {
    if plugins.queues.len() + plugins.topics.len() > MOST {
        return Err(Refusal::of(file, format!("it has more than {MOST} authorization entries")));
    }
    if !plugins.authenticates {
        outcome.warn("anyone could connect without log-in; here clients log in, or are anonymous_user");
    }
    if plugins.authorizes {
        rights::declare(&plugins.queues, Together::Sum, people, outcome);
        topics(&plugins, people, outcome);
        return Ok(());
    }
    for (user, password) in &people.users {
        let entry = User { password: password.clone(), ..User::default() };
        outcome.definitions.users.insert(user.clone(), entry);
        let all = || ".*".to_owned();
        outcome.definitions.permissions.insert(user.clone(), Rights { configure: all(), write: all(), read: all() });
    }
    Ok(())
}

/// Topics are keys of `amq.topic`: roles with rights to some may use that exchange, by these keys.
fn topics(plugins: &Plugins, people: &People, outcome: &mut Outcome<'_>) {
    let roles: BTreeSet<_> = plugins
        .queues
        .iter()
        .chain(&plugins.topics)
        .flat_map(|here| &here.roles)
        .map(|(_, role)| role.clone())
        .collect();
    for role in roles {
        let keys = |right| rights::pattern(&plugins.topics, &role, right, Together::Sum);
        let (write, read) = (keys(Right::Write), keys(Right::Read));
        let called = if people.users.contains_key(&role) { format!("role.{role}") } else { role };
        let rights = outcome.definitions.permissions.entry(called.clone()).or_default();
        outcome.definitions.users.entry(called.clone()).or_default();
        for (pattern, keys) in [(&mut rights.write, &write), (&mut rights.read, &read)] {
            if !keys.is_empty() && pattern != ".*" {
                *pattern =
                    if pattern.is_empty() { r"^amq\.topic$".to_owned() } else { format!(r"{pattern}|^amq\.topic$") };
            }
        }
        outcome.definitions.topics.insert(called, (write, read));
    }
}
