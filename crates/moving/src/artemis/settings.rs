//! Address settings as policies. Artemis merges those that match an address, from the general to
//! the special; policies do not merge, so that each becomes the whole of what held.

use std::collections::{BTreeMap, BTreeSet};

use roxmltree::Node;
use serde_json::{Map, Value};

use super::Artemis;
use crate::address::{Match, Wildcards, escape};
use crate::definitions::Policy;
use crate::outcome::{Outcome, Verdict};
use crate::source::Refusal;
use crate::units;
use crate::xml::{elements, filled, name, text};

/// More matches than any file has: the work grows with their square.
const MOST: usize = 1000;
/// What Artemis counts if a file says nothing.
const DELIVERIES: i64 = 10;

/// A way of dead letters: to one address, or to a queue of their own for each address.
struct Way {
    /// What the keys of a policy and of Artemis' names begin with.
    kind: &'static str,
    address: &'static str,
    each: &'static str,
    prefix: &'static str,
    suffix: &'static str,
    /// The prefix if a file has none.
    usual_prefix: &'static str,
}

const WAYS: [Way; 2] = [
    Way {
        kind: "dead-letter",
        address: "dead-letter-address",
        each: "auto-create-dead-letter-resources",
        prefix: "dead-letter-queue-prefix",
        suffix: "dead-letter-queue-suffix",
        usual_prefix: "DLQ.",
    },
    Way {
        kind: "expiry",
        address: "expiry-address",
        each: "auto-create-expiry-resources",
        prefix: "expiry-queue-prefix",
        suffix: "expiry-queue-suffix",
        usual_prefix: "EXP.",
    },
];

/// Settings that are read into policies, below.
const IN_POLICIES: [&str; 16] = [
    WAYS[0].address,
    WAYS[0].each,
    WAYS[0].prefix,
    WAYS[0].suffix,
    WAYS[1].address,
    WAYS[1].each,
    WAYS[1].prefix,
    WAYS[1].suffix,
    "max-delivery-attempts",
    "expiry-delay",
    "redelivery-delay",
    "redelivery-delay-multiplier",
    "max-redelivery-delay",
    "page-limit-bytes",
    "default-exclusive-queue",
    "default-exclusive",
];

/// Whose addresses a match is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    /// Those that Artemis is managed by.
    Broker,
    Clients,
}

/// The settings of one match.
struct Settings {
    at: Match,
    text: String,
    values: BTreeMap<String, String>,
}

/// Reads all of them.
pub(super) fn convert(artemis: &Artemis<'_, '_>, node: Node<'_, '_>, outcome: &mut Outcome<'_>) -> Result<(), Refusal> {
    let mut all = Vec::new();
    for setting in elements(node) {
        let line = artemis.xml.line(setting);
        let Some(text) = setting.attribute("match") else {
            outcome.left_out(line, name(setting), "it has no match");
            continue;
        };
        let text = text.strip_prefix("jms.queue.").or_else(|| text.strip_prefix("jms.topic.")).unwrap_or(text);
        let Some(at) = Match::new(text, artemis.wildcards) else {
            outcome.left_out(line, "address-setting", "its match is longer than a name can be");
            continue;
        };
        let of =
            if text.starts_with("activemq.management") || text.starts_with("$sys.") { Of::Broker } else { Of::Clients };
        let values = values(artemis, setting, of, outcome);
        if of == Of::Clients {
            all.push(Settings { at, text: text.to_owned(), values });
        }
    }
    if all.len() > MOST {
        return Err(Refusal::of(artemis.file, format!("it has more than {MOST} address settings")));
    }
    all.sort_by_key(|settings| settings.at.rank());
    let targets = targets(&all);
    let endless = endless(&all, &targets, artemis.wildcards);
    for (priority, settings) in all.iter().enumerate() {
        let whole = merged(&all, &settings.at);
        let definition = definition(&whole, outcome);
        policies(settings, priority * 2, definition, &endless, outcome);
    }
    for target in &targets {
        outcome.definitions.queue(target);
    }
    if !all.is_empty() {
        outcome.definitions.quorum = Some("quorum");
        outcome.warn(
            "queues without a type are quorum queues in this vhost, because these count deliveries; a message is dead after \
             as many as before",
        );
    }
    Ok(())
}

/// The values of one setting, each with its verdict.
fn values(
    artemis: &Artemis<'_, '_>,
    setting: Node<'_, '_>,
    of: Of,
    outcome: &mut Outcome<'_>,
) -> BTreeMap<String, String> {
    let mut values = BTreeMap::new();
    for element in elements(setting) {
        let (line, key) = (artemis.xml.line(element), name(element));
        let Some(value) = filled(&text(element)) else {
            outcome.left_out(line, key, "its value is a placeholder without a default");
            continue;
        };
        if of == Of::Broker {
            outcome.note(line, key, Verdict::Shipped, "of the addresses that the broker was managed by");
            continue;
        }
        if IN_POLICIES.contains(&key) {
            outcome.moved(line, key, "a policy");
        } else {
            judge(line, key, &value, setting, outcome);
        }
        values.insert(key.to_owned(), value);
    }
    values
}

/// What becomes of a setting that is no key of a policy.
fn judge(line: usize, key: &str, value: &str, setting: Node<'_, '_>, outcome: &mut Outcome<'_>) {
    let policy = elements(setting).find(|other| name(*other) == "address-full-policy").map(text).unwrap_or_default();
    match (key, value) {
        ("max-size-bytes" | "max-size-messages", "-1") => outcome.note(line, key, Verdict::Shipped, "without limit"),
        ("max-size-bytes", _) if matches!(policy.as_str(), "PAGE" | "") => {
            outcome.note(line, key, Verdict::Shipped, "what waits lies on disk, within memory.budget");
        }
        ("max-size-bytes", _) if policy == "FAIL" => outcome.moved(line, key, "max-length-bytes of a policy"),
        ("max-size-bytes" | "max-size-messages", _) => {
            outcome.left_out(
                line,
                key,
                "a queue refuses or drops at a limit, and holds no producer back; set max-length",
            );
        }
        ("address-full-policy", "PAGE") => outcome.note(line, key, Verdict::Shipped, "what waits lies on disk"),
        ("address-full-policy", "FAIL") => outcome.moved(line, key, "overflow of a policy"),
        ("address-full-policy", "BLOCK") => {
            outcome.left_out(line, key, "producers are not held back by a queue; overflow = reject-publish refuses");
        }
        ("address-full-policy", _) => {
            outcome.left_out(line, key, "overflow = drop-head drops the oldest, not the newest")
        }
        (
            "auto-create-queues" | "auto-create-addresses" | "auto-create-jms-queues" | "auto-create-jms-topics",
            "false",
        ) => {
            outcome.left_out(line, key, "take away the configure right: without it no queue is made");
            outcome.warn("queues are made by the first client that may (configure), although auto-create was false");
        }
        ("auto-delete-queues" | "auto-delete-jms-queues", "true") => outcome.left_out(
            line,
            key,
            "queues stay; a policy with expires and expires-if-empty removes those that are empty and unused",
        ),
        (key, _) if is_shipped(key) => outcome.note(line, key, Verdict::Shipped, "nothing to set"),
        ("redistribution-delay", _) => outcome.needless(line, key, super::ONE_NODE),
        ("default-last-value-key" | "default-last-value-queue" | "last-value-queue", _) => {
            outcome.left_out(line, key, "declare the queues with x-last-value-key");
        }
        ("send-to-dla-on-no-route", _) => outcome.left_out(line, key, "set an alternate exchange"),
        (key, _) if key.starts_with("slow-consumer-") => outcome.left_out(line, key, "see flow.consumer_timeout"),
        ("retroactive-message-count", _) => outcome.left_out(line, key, "see retained messages"),
        (key, "false" | "-1" | "0") if key.starts_with("default-") => outcome.needless(line, key, "as by default"),
        (key, _) if key.starts_with("default-") || key.starts_with("min-") || key.starts_with("max-") => {
            outcome.left_out(line, key, "policies have no such key");
        }
        ("expiry-prefix" | "no-expiry" | "redelivery-collision-avoidance-factor", _) => {
            outcome.left_out(line, key, "policies have no such key");
        }
        _ => outcome.note(line, key, Verdict::Unknown, "this is no address setting that is known"),
    }
}

/// Settings without a meaning here, whatever their value.
fn is_shipped(key: &str) -> bool {
    const STARTS: [&str; 12] = [
        "message-counter-history",
        "page-",
        "max-read-page-",
        "prefetch-page-",
        "auto-create-",
        "auto-delete-",
        "config-delete-",
        "config-diverts",
        "management-",
        "enable-",
        "queue-prefetch",
        "id-cache-size",
    ];
    STARTS.iter().any(|start| key.starts_with(start)) || key == "initial-queue-buffer-size"
}

/// What holds for an address that matches `at`: the general first, so that the special wins.
fn merged<'a>(all: &'a [Settings], at: &Match) -> BTreeMap<&'a str, &'a str> {
    let mut whole = BTreeMap::new();
    for settings in all.iter().filter(|settings| settings.at.covers(at)) {
        whole.extend(settings.values.iter().map(|(key, value)| (key.as_str(), value.as_str())));
    }
    whole
}

/// Queues that dead letters go to.
fn targets(all: &[Settings]) -> Vec<String> {
    let mut targets: Vec<String> = all
        .iter()
        .flat_map(|settings| WAYS.map(|way| settings.values.get(way.address)))
        .flatten()
        .map(|address| queue_of(address).to_owned())
        .filter(|address| !address.is_empty())
        .collect();
    targets.sort();
    targets.dedup();
    targets
}

/// Those of them whose own dead letters come back to them, at once or by way of others.
fn endless(all: &[Settings], targets: &[String], wildcards: Wildcards) -> Vec<String> {
    let onward = |target: &String| {
        let Some(at) = Match::new(target, wildcards) else { return vec![target.clone()] };
        let whole = merged(all, &at);
        WAYS.iter().filter_map(|way| whole.get(way.address)).map(|address| queue_of(address).to_owned()).collect()
    };
    let onward: BTreeMap<&String, Vec<String>> = targets.iter().map(|target| (target, onward(target))).collect();
    let comes_back = |target: &&String| {
        let (mut seen, mut left) = (BTreeSet::new(), onward[target].iter().collect::<Vec<_>>());
        while let Some(next) = left.pop() {
            if seen.insert(next) {
                left.extend(onward.get(next).into_iter().flatten());
            }
        }
        seen.contains(target)
    };
    targets.iter().filter(comes_back).cloned().collect()
}

fn queue_of(address: &str) -> &str {
    address.strip_prefix("jms.queue.").unwrap_or(address)
}

/// The keys of a policy that mean the same.
fn definition(whole: &BTreeMap<&str, &str>, outcome: &mut Outcome<'_>) -> Map<String, Value> {
    let mut definition = Map::new();
    let number = |key: &str| whole.get(key).and_then(|value| value.parse::<i64>().ok());
    for way in WAYS {
        let Way { kind, .. } = way;
        let Some(address) = whole.get(way.address).filter(|address| !address.is_empty()) else { continue };
        if whole.get(way.each) == Some(&"true") {
            let prefix = whole.get(way.prefix).copied().unwrap_or(way.usual_prefix);
            let suffix = whole.get(way.suffix).copied().unwrap_or_default();
            definition.insert(format!("{kind}-queue"), format!("{prefix}{{queue}}{suffix}").into());
        } else {
            definition.insert(format!("{kind}-exchange"), "".into());
            definition.insert(format!("{kind}-routing-key"), queue_of(address).into());
        }
    }
    let attempts = number("max-delivery-attempts").unwrap_or(DELIVERIES);
    definition.insert("delivery-limit".to_owned(), if attempts < 0 { -1 } else { (attempts - 1).max(0) }.into());
    if let Some(delay @ 0..) = number("expiry-delay") {
        definition.insert("message-ttl".to_owned(), delay.into());
    }
    retry(whole, number("redelivery-delay"), number("max-redelivery-delay"), &mut definition);
    if let Some(bytes) = whole.get("page-limit-bytes").and_then(|value| units::binary(value)) {
        definition.insert("max-length-bytes".to_owned(), bytes.into());
        match whole.get("page-full-policy") {
            Some(&"FAIL") | None => drop(definition.insert("overflow".to_owned(), "reject-publish".into())),
            Some(_) => {
                outcome.warn("page-full-policy DROP: the oldest message is dropped at the limit, not the newest")
            }
        }
    }
    if whole.get("address-full-policy") == Some(&"FAIL")
        && let Some(bytes) = whole.get("max-size-bytes").and_then(|value| units::binary(value))
    {
        definition.insert("max-length-bytes".to_owned(), bytes.into());
        definition.insert("overflow".to_owned(), "reject-publish".into());
    }
    if ["default-exclusive-queue", "default-exclusive"].iter().any(|key| whole.get(key) == Some(&"true")) {
        definition.insert("single-active-consumer".to_owned(), true.into());
    }
    definition
}

/// Delays between deliveries: of one length, or growing by a factor.
fn retry(whole: &BTreeMap<&str, &str>, delay: Option<i64>, most: Option<i64>, definition: &mut Map<String, Value>) {
    let Some(delay @ 1..) = delay else { return };
    let factor = whole.get("redelivery-delay-multiplier").and_then(|text| units::thousandths(text)).unwrap_or(1000);
    let grows = factor > 1000;
    let most = most.filter(|most| *most >= delay).unwrap_or(delay.saturating_mul(10));
    definition.insert("delayed-retry-type".to_owned(), "all".into());
    definition.insert("delayed-retry-min".to_owned(), delay.into());
    definition.insert("delayed-retry-max".to_owned(), if grows { most } else { delay }.into());
    if grows {
        #[expect(clippy::cast_precision_loss, reason = "a factor has few digits")]
        let factor = factor.min(1_000_000) as f64 / 1000.0;
        definition.insert("delayed-retry-multiplier".to_owned(), factor.into());
    }
}

/// The policy of a match. Queues whose dead letters would come back to them get a second one
/// without a way onwards, so that nothing goes round.
fn policies(
    settings: &Settings,
    priority: usize,
    definition: Map<String, Value>,
    endless: &[String],
    outcome: &mut Outcome<'_>,
) {
    let name = settings.text.clone();
    let dead = |key: &String| key.contains("dead-letter") || key.starts_with("expiry-") || key == "delivery-limit";
    let matched =
        !endless.is_empty() && definition.keys().any(|key| key.contains("exchange") || key.ends_with("-queue"));
    if matched {
        let own: Map<String, Value> =
            definition.iter().filter(|(key, _)| !dead(key)).map(|(key, value)| (key.clone(), value.clone())).collect();
        let mut own = own;
        own.insert("delivery-limit".to_owned(), (-1).into());
        let names: Vec<_> = endless.iter().map(|target| escape(target)).collect();
        let pattern = format!("^(?={}$)(?:{})$", settings.at.body(), names.join("|"));
        let name = format!("{name} of dead letters");
        outcome.definitions.policies.push(Policy { name, pattern, priority: priority + 1, definition: own });
    }
    let pattern = if settings.at.is_all() { ".*".to_owned() } else { format!("^{}$", settings.at.body()) };
    outcome.definitions.policies.push(Policy { name, pattern, priority, definition });
}
