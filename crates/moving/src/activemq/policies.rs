//! Destination policies. Only the most specific entry of a destination counts. An entry without a
//! strategy sends what is dead to `ActiveMQ.DLQ`, and so does a file without any.

use std::collections::{BTreeMap, BTreeSet};

use roxmltree::Node;
use serde_json::{Map, Value};

use super::security::Plugins;
use crate::address::{ACTIVEMQ, Match, escape};
use crate::definitions::Policy;
use crate::outcome::{Outcome, Verdict};
use crate::source::{Refusal, Source};
use crate::xml::{Xml, child, elements, name};

/// The queue of dead letters, if a file names none.
const DEAD: &str = "ActiveMQ.DLQ";
/// What the queues of individual dead letters begin with, if a file does not say.
const EACH: &str = "ActiveMQ.DLQ.Queue.";
/// More entries than any file has.
const MOST: usize = 1000;

/// The keys of policies that say where dead letters go.
const SHARED: &str = "dead-letter-routing-key";
const RULE: &str = "dead-letter-queue";

/// Where dead letters go.
enum Dead {
    /// To a queue of all.
    Shared(String),
    /// To a queue for each, by this rule.
    Each(String),
}

/// An entry for queues.
struct Entry {
    at: Match,
    text: String,
    definition: Map<String, Value>,
}

/// A file without entries.
pub(super) fn by_default(plugins: &Plugins, outcome: &mut Outcome<'_>) {
    if !plugins.discards_dead {
        write(Vec::new(), outcome);
    }
}

/// Reads all entries.
pub(super) fn convert(
    xml: &Xml<'_>,
    policy: Node<'_, '_>,
    plugins: &Plugins,
    file: &Source,
    outcome: &mut Outcome<'_>,
) -> Result<(), Refusal> {
    let mut entries = Vec::new();
    for node in policy.descendants().filter(|node| node.is_element() && name(*node) == "policyEntry") {
        let line = xml.line(node);
        let text = node.attribute("queue").or_else(|| node.attribute("topic")).unwrap_or(">");
        let Some(at) = Match::new(text, ACTIVEMQ) else {
            outcome.left_out(line, "policyEntry", "its name is longer than a name can be");
            continue;
        };
        let mut definition = Map::new();
        attributes(line, node, &mut definition, outcome);
        let dead = parts(xml, node, outcome).filter(|_| !plugins.discards_dead);
        // Subscriptions of topics are queues of other names.
        if node.attribute("topic").is_some() && node.attribute("queue").is_none() {
            continue;
        }
        if dead.is_some() && child(node, "deadLetterStrategy").is_some_and(drops_expired) {
            definition.insert("expiry-queue".to_owned(), "".into());
        }
        match dead {
            None => {}
            Some(Dead::Shared(queue)) => {
                definition.insert("dead-letter-exchange".to_owned(), "".into());
                definition.insert(SHARED.to_owned(), queue.into());
            }
            Some(Dead::Each(rule)) => drop(definition.insert(RULE.to_owned(), rule.into())),
        }
        entries.push(Entry { at, text: text.to_owned(), definition });
    }
    if entries.len() > MOST {
        return Err(Refusal::of(file, format!("it has more than {MOST} policy entries")));
    }
    match entries.is_empty() {
        true => by_default(plugins, outcome),
        false => write(entries, outcome),
    }
    Ok(())
}

/// What is said by attributes.
fn attributes(line: usize, entry: Node<'_, '_>, definition: &mut Map<String, Value>, outcome: &mut Outcome<'_>) {
    let timeout =
        ["inactiveTimoutBeforeGC", "inactiveTimeoutBeforeGC"].into_iter().find_map(|key| entry.attribute(key));
    let timeout = timeout.and_then(|time| time.parse::<u64>().ok()).unwrap_or(60_000);
    for attribute in entry.attributes() {
        let (key, value) = (attribute.name(), attribute.value());
        let label = format!("policyEntry {key}");
        match (key, value) {
            ("queue" | "topic" | "tempQueue" | "tempTopic", _) => {}
            ("gcInactiveDestinations", "true") if !is_purged(entry) => {
                let text = "nothing was purged: the broker has no schedulePeriodForDestinationPurge";
                outcome.needless(line, &label, text);
            }
            ("gcInactiveDestinations", "true") if timeout > 0 => {
                definition.insert("expires".to_owned(), timeout.into());
                definition.insert("expires-if-empty".to_owned(), true.into());
                outcome.moved(line, &label, "a policy: queues that are empty and unused go");
            }
            ("inactiveTimoutBeforeGC" | "inactiveTimeoutBeforeGC", _) => {
                let is_on = is_purged(entry) && entry.attribute("gcInactiveDestinations") == Some("true");
                match is_on {
                    true => outcome.moved(line, &label, "expires of a policy"),
                    false => outcome.needless(line, &label, "nothing was purged"),
                }
            }
            ("prioritizedMessages", "true") => {
                definition.insert("max-priority".to_owned(), 9.into());
                outcome.moved(line, &label, "a policy");
            }
            ("allConsumersExclusiveByDefault", "true") => {
                definition.insert("single-active-consumer".to_owned(), true.into());
                outcome.moved(line, &label, "a policy");
            }
            (known, _) if is_tuning(known) => {
                outcome.note(line, &label, Verdict::Shipped, "Hermod tunes this by itself")
            }
            (_, "false") => outcome.needless(line, &label, "it is off"),
            ("alwaysRetroactive", _) => outcome.left_out(line, &label, "see retained messages"),
            (advice, _) if advice.starts_with("advisory") || advice.starts_with("sendAdvisory") => {
                outcome.left_out(line, &label, "there are no advisories; see metrics and the log");
            }
            _ => outcome.note(line, &label, Verdict::Unknown, "this is no attribute of a policy that is known"),
        }
    }
}

/// Whether the broker looks for inactive destinations at all: by default it does not.
fn is_purged(entry: Node<'_, '_>) -> bool {
    let broker = entry.ancestors().find(|node| name(*node) == "broker");
    let period = broker.and_then(|broker| broker.attribute("schedulePeriodForDestinationPurge"));
    // A placeholder may be any number.
    period.is_some_and(|period| period.parse::<u64>() != Ok(0))
}

/// Attributes that need nothing, whatever their value.
fn is_tuning(key: &str) -> bool {
    const STARTS: [&str; 22] = [
        "producerFlowControl",
        "memoryLimit",
        "optimizedDispatch",
        "optimizeMessageStore",
        "cursorMemory",
        "queuePrefetch",
        "topicPrefetch",
        "durableTopicPrefetch",
        "queueBrowserPrefetch",
        "maxPageSize",
        "maxBrowsePageSize",
        "maxExpirePageSize",
        "maxQueueAuditDepth",
        "maxProducersToAudit",
        "maxAuditDepth",
        "enableAudit",
        "expireMessagesPeriod",
        "useCache",
        "lazyDispatch",
        "useConsumerPriority",
        "strictOrderDispatch",
        "blockedProducerWarningInterval",
    ];
    const WORDS: [&str; 13] = [
        "reduceMemoryFootprint",
        "usePrefetchExtension",
        "minimumMessageSize",
        "storeUsageHighWaterMark",
        "timeBeforeDispatchStarts",
        "consumersBeforeDispatchStarts",
        "doOptimzeMessageStorage",
        "maxDestinations",
        "includeBodyForAdvisory",
        "optimizeMessageStoreInFlightLimit",
        "messageGroupMapFactoryType",
        "persistJMSRedelivered",
        "priority",
    ];
    STARTS.iter().any(|start| key.starts_with(start)) || WORDS.contains(&key)
}

/// What is said by elements. Returns where dead letters go.
fn parts(xml: &Xml<'_>, entry: Node<'_, '_>, outcome: &mut Outcome<'_>) -> Option<Dead> {
    let mut dead = Some(Dead::Shared(DEAD.to_owned()));
    for part in elements(entry) {
        let line = xml.line(part);
        match name(part) {
            "deadLetterStrategy" => dead = strategy(xml, part, outcome),
            "pendingMessageLimitStrategy" => {
                let shipped = child(part, "constantPendingMessageLimitStrategy")
                    .is_some_and(|limit| limit.attribute("limit") == Some("1000"));
                if shipped {
                    outcome.note(
                        line,
                        name(part),
                        Verdict::Shipped,
                        "the shipped value; slow subscribers wait on disk",
                    );
                } else {
                    let text = "a policy with max-length and overflow = drop-head bounds the queues of subscriptions";
                    outcome.left_out(line, name(part), text);
                }
            }
            "pendingQueuePolicy"
            | "pendingSubscriberPolicy"
            | "pendingDurableSubscriberPolicy"
            | "dispatchPolicy"
            | "messageEvictionStrategy"
            | "messageGroupMapFactory"
            | "dispatchPolicyAdapter" => {
                outcome.note(line, name(part), Verdict::Shipped, "Hermod tunes this by itself");
            }
            "subscriptionRecoveryPolicy" => {
                outcome.left_out(line, name(part), "retained messages are what late subscribers get")
            }
            "networkBridgeFilterFactory" => outcome.needless(line, name(part), super::NETWORK),
            "slowConsumerStrategy" => {
                outcome.left_out(line, name(part), "see flow.consumer_timeout and tcp.write_timeout")
            }
            _ => outcome.note(line, name(part), Verdict::Unknown, "this is no part of a policy that is known"),
        }
    }
    dead
}

fn strategy(xml: &Xml<'_>, strategy: Node<'_, '_>, outcome: &mut Outcome<'_>) -> Option<Dead> {
    let by_default = || Some(Dead::Shared(DEAD.to_owned()));
    let Some(kind) = elements(strategy).next() else { return by_default() };
    let line = xml.line(kind);
    if drops_expired(strategy) {
        outcome.moved(line, "processExpired", "expiry-queue of a policy, empty: what expires is dropped");
    }
    match name(kind) {
        "discarding" => {
            outcome.moved(line, "discarding", "a policy without dead letters");
            None
        }
        "sharedDeadLetterStrategy" => {
            let queue = kind.descendants().find_map(|node| node.attribute("physicalName"));
            let queue = kind.attribute("deadLetterQueue").or(queue).unwrap_or(DEAD);
            outcome.moved(line, "sharedDeadLetterStrategy", "a policy");
            Some(Dead::Shared(queue.strip_prefix("queue://").unwrap_or(queue).to_owned()))
        }
        "individualDeadLetterStrategy" if kind.attribute("useQueueForQueueMessages") == Some("false") => {
            outcome.left_out(line, "individualDeadLetterStrategy", "dead letters go to queues, not to topics");
            by_default()
        }
        "individualDeadLetterStrategy" => {
            let (prefix, suffix) = (kind.attribute("queuePrefix"), kind.attribute("queueSuffix"));
            outcome.moved(line, "individualDeadLetterStrategy", "dead-letter-queue of a policy");
            Some(Dead::Each(format!("{}{{queue}}{}", prefix.unwrap_or(EACH), suffix.unwrap_or_default())))
        }
        other => {
            outcome.left_out(line, other, "code of one's own is not loaded");
            by_default()
        }
    }
}

/// Whether what expires is no dead letter.
fn drops_expired(strategy: Node<'_, '_>) -> bool {
    elements(strategy).next().is_some_and(|kind| kind.attribute("processExpired") == Some("false"))
}

/// Those queues of dead letters whose own dead letters come back to them, at once or by way of
/// others. The entries are in the order of their ranks.
fn endless<'a>(entries: &[Entry], dead: &'a [String]) -> Vec<&'a String> {
    let onward = |queue: &String| {
        let at = Match::new(queue, ACTIVEMQ)?;
        let definition = &entries.iter().rev().find(|entry| entry.at.covers(&at))?.definition;
        // A queue for each would be one more for each time.
        let next = if definition.contains_key(RULE) { queue } else { definition.get(SHARED)?.as_str()? };
        Some(next.to_owned())
    };
    let onward: BTreeMap<&String, String> = dead.iter().filter_map(|queue| Some((queue, onward(queue)?))).collect();
    let comes_back = |queue: &&String| {
        let mut seen = BTreeSet::new();
        let mut next = onward.get(queue);
        while let Some(here) = next.filter(|here| seen.insert(*here)) {
            next = onward.get(here);
        }
        seen.contains(queue)
    };
    dead.iter().filter(comes_back).collect()
}

/// The most specific entry gets the highest priority. What has no entry has the default.
fn write(mut entries: Vec<Entry>, outcome: &mut Outcome<'_>) {
    if !entries.iter().any(|entry| entry.at.is_all())
        && let Some(at) = Match::new(">", ACTIVEMQ)
    {
        let mut definition = Map::new();
        definition.insert("dead-letter-exchange".to_owned(), "".into());
        definition.insert(SHARED.to_owned(), DEAD.into());
        entries.push(Entry { at, text: ">".to_owned(), definition });
    }
    entries.sort_by_key(|entry| entry.at.rank());
    let mut dead: Vec<String> = entries
        .iter()
        .filter_map(|entry| entry.definition.get(SHARED))
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    dead.sort();
    dead.dedup();
    let escaped: Vec<_> = endless(&entries, &dead).into_iter().map(|queue| escape(queue)).collect();
    for (priority, entry) in entries.into_iter().enumerate() {
        let all = if entry.at.is_all() { ".*".to_owned() } else { entry.at.body() };
        // A dead letter that is rejected again must not go round.
        let moves = [SHARED, RULE].iter().any(|key| entry.definition.contains_key(*key)) && !escaped.is_empty();
        let except = if moves { format!("(?!(?:{})$)", escaped.join("|")) } else { String::new() };
        let pattern = format!("^{except}{all}$");
        if !entry.definition.is_empty() {
            outcome.definitions.policies.push(Policy {
                name: entry.text,
                pattern,
                priority,
                definition: entry.definition,
            });
        }
    }
    for queue in dead {
        outcome.definitions.queue(&queue);
    }
}
