//! Artemis' `broker.xml`.

mod acceptors;
mod addresses;
pub(crate) mod diverts;
mod security;
mod settings;

use roxmltree::Node;

use crate::address::{ARTEMIS, Wildcards};
use crate::outcome::{Outcome, Verdict};
use crate::people::People;
use crate::rights::{self, Before};
use crate::source::{Refusal, Source};
use crate::units;
use crate::xml::{self, Xml, child, elements, filled, name, text};

const ONE_NODE: &str = "of a cluster; Hermod has one node so far";
const TUNING: &str = "one directory, data_dir, and a journal that tunes itself";

/// How the names of elements that need nothing begin.
const SHIPPED: [&str; 24] = [
    "journal-",
    "page-",
    "paging-",
    "bindings-",
    "large-message",
    "critical-analyzer",
    "message-counter",
    "network-check-",
    "name",
    "disk-scan-period",
    "max-redelivery-records",
    "jmx-",
    "thread-pool-",
    "scheduled-thread-pool-",
    "global-max-messages",
    "create-",
    "node-manager-",
    "configuration-file-refresh-period",
    "resolve-protocols",
    "run-sync-speed-test",
    "read-whole-page",
    "log-journal-write-rate",
    "perf-blast-pages",
    "memory-",
];

/// Elements that are left out or need nothing, and why.
const OTHERS: &[(&str, Verdict, &str)] = &[
    ("connectors", Verdict::Needless, ONE_NODE),
    ("cluster-user", Verdict::Needless, ONE_NODE),
    ("cluster-password", Verdict::Needless, ONE_NODE),
    ("cluster-connections", Verdict::NotBuilt, ONE_NODE),
    ("broadcast-groups", Verdict::NotBuilt, ONE_NODE),
    ("discovery-groups", Verdict::NotBuilt, ONE_NODE),
    ("ha-policy", Verdict::NotBuilt, ONE_NODE),
    ("grouping-handler", Verdict::NotBuilt, ONE_NODE),
    ("failover-on-server-shutdown", Verdict::Needless, ONE_NODE),
    ("bridges", Verdict::LeftOut, "a shovel takes the place of each: hermod shovels set"),
    ("broker-connections", Verdict::NotBuilt, "messages are not forwarded to other brokers"),
    ("federations", Verdict::NotBuilt, "messages are not taken from other brokers"),
    ("amqp-connections", Verdict::NotBuilt, "messages are not forwarded to other brokers"),
    ("broker-plugins", Verdict::LeftOut, "code of one's own is not loaded; if it guards the door, that guard is gone"),
    (
        "remoting-incoming-interceptors",
        Verdict::LeftOut,
        "code of one's own is not loaded; if it guards the door, that guard is gone",
    ),
    ("remoting-outgoing-interceptors", Verdict::LeftOut, "code of one's own is not loaded"),
    (
        "remoting-interceptors",
        Verdict::LeftOut,
        "code of one's own is not loaded; if it guards the door, that guard is gone",
    ),
    ("metrics", Verdict::Needless, "metrics are at /metrics of ports.http"),
    ("metrics-plugin", Verdict::Needless, "metrics are at /metrics of ports.http"),
    ("store", Verdict::LeftOut, "messages are in files under data_dir, not in a database"),
    ("password-codec", Verdict::LeftOut, "masked passwords can't be read; write them by hand"),
    ("mask-password", Verdict::LeftOut, "masked passwords can't be read; write them by hand"),
    ("resource-limit-settings", Verdict::LeftOut, "limit users by hermod users limit"),
    ("connector-services", Verdict::LeftOut, "code of one's own is not loaded"),
    ("management-address", Verdict::Needless, "the broker is managed over HTTP"),
    ("management-notification-address", Verdict::Needless, "the audit log has what happens"),
    ("wildcard-addresses", Verdict::Needless, "the patterns here are made of them"),
    ("wildcard-routing-enabled", Verdict::Needless, "topics have wildcards"),
    ("wild-card-routing-enabled", Verdict::Needless, "topics have wildcards"),
    ("security-invalidation-interval", Verdict::Needless, "a change of rights holds at once"),
    ("authentication-cache-size", Verdict::Needless, "a change of rights holds at once"),
    ("authorization-cache-size", Verdict::Needless, "a change of rights holds at once"),
    ("populate-validated-user", Verdict::Needless, "a user-id that a publisher writes must be its own"),
    ("reject-empty-validated-user", Verdict::LeftOut, "a message may come without a user-id"),
    ("transaction-timeout", Verdict::Needless, "a transaction ends with its connection"),
    ("transaction-timeout-scan-period", Verdict::Needless, "a transaction ends with its connection"),
    ("message-expiry-scan-period", Verdict::Needless, "messages expire when they are due"),
    ("message-expiry-thread-priority", Verdict::Needless, "messages expire when they are due"),
    ("address-queue-scan-period", Verdict::Needless, "queues expire when they are due"),
    ("id-cache-size", Verdict::Needless, "see x-message-deduplication"),
    ("persist-id-cache", Verdict::Needless, "ids of duplicates survive crashes"),
    ("persist-delivery-count-before-delivery", Verdict::Needless, "delivery counts are durable"),
    ("async-connection-execution-enabled", Verdict::Needless, TUNING),
    ("connection-ttl-check-interval", Verdict::Needless, TUNING),
    ("server-dump-interval", Verdict::Needless, TUNING),
    ("server-name", Verdict::Needless, TUNING),
    ("system-property-prefix", Verdict::LeftOut, "settings come from variables that begin with HERMOD_"),
    ("suppress-session-notifications", Verdict::Needless, "the audit log has what happens"),
    ("mqtt-session-scan-interval", Verdict::Needless, "sessions expire when they are due"),
    ("internal-naming-prefix", Verdict::Needless, TUNING),
    ("amqp-use-core-subscription-naming", Verdict::Needless, "AMQP's subscriptions have names of their own"),
];

/// Converts a file.
pub(crate) fn convert(file: &Source, people: &People, outcome: &mut Outcome<'_>) -> Result<(), Refusal> {
    let xml = Xml::read(file)?;
    let root = xml.root();
    let core = if name(root) == "core" { Some(root) } else { child(root, "core") };
    if let Some(jms) = child(root, "jms") {
        addresses::of_jms(&xml, jms, outcome);
    }
    for other in elements(root).filter(|node| name(root) != "core" && !matches!(name(*node), "core" | "jms")) {
        let text = "only the part core is read; this is the application server's";
        outcome.left_out(xml.line(other), name(other), text);
    }
    let Some(core) = core else { return Ok(()) };
    let artemis = Artemis { xml: &xml, wildcards: wildcards(core), file };
    let mut durability = None;
    for element in elements(core) {
        artemis.element(element, people, &mut durability, outcome)?;
    }
    if let Some(diverts) = child(core, "diverts") {
        diverts::convert(&artemis, diverts, outcome);
    }
    if let Some(durability) = durability {
        outcome.put("durability", durability);
    }
    if child(core, "acceptors").is_none() {
        outcome.warn("there is no acceptor in this file; Hermod's own ports are open on this machine");
    }
    let is_open = child(core, "security-enabled").is_some_and(|node| text(node) == "false");
    let before = if is_open || child(core, "security-settings").is_none() { Before::Open } else { Before::Closed };
    rights::remain(before, outcome);
    Ok(())
}

/// A file while it is read.
struct Artemis<'a, 'input> {
    xml: &'a Xml<'input>,
    wildcards: Wildcards,
    file: &'a Source,
}

impl Artemis<'_, '_> {
    fn element(
        &self,
        element: Node<'_, '_>,
        people: &People,
        durability: &mut Option<&'static str>,
        outcome: &mut Outcome<'_>,
    ) -> Result<(), Refusal> {
        let (line, key) = (self.xml.line(element), name(element));
        match key {
            "acceptors" => acceptors::convert(self.xml, element, outcome),
            // After all queues.
            "diverts" => {}
            "addresses" => addresses::convert(self.xml, element, outcome),
            "queues" => addresses::of_core(self.xml, element, outcome),
            "address-settings" => settings::convert(self, element, outcome)?,
            "security-settings" => security::convert(self, element, people, outcome)?,
            "security-enabled" => security::enabled(line, &text(element), outcome),
            "persistence-enabled"
            | "journal-datasync"
            | "journal-sync-transactional"
            | "journal-sync-non-transactional" => {
                sync(line, key, &text(element), durability, outcome);
            }
            _ => self.number(element, line, key, outcome),
        }
        Ok(())
    }

    /// Elements with one value.
    fn number(&self, element: Node<'_, '_>, line: usize, key: &str, outcome: &mut Outcome<'_>) {
        let value = filled(&text(element)).unwrap_or_else(|| text(element));
        let milliseconds = value.parse::<u64>();
        match (key, milliseconds) {
            ("global-max-size" | "connection-ttl-override" | "global-max-messages", _) if value == "-1" => {
                outcome.note(line, key, Verdict::Shipped, "without limit of its own, as by default");
            }
            ("global-max-size", _) => match units::binary(&value) {
                Some(bytes) => outcome.set(line, key, "memory.limit", bytes.to_string()),
                None => outcome.left_out(line, key, "its value is no size; set memory.limit"),
            },
            ("max-disk-usage", Ok(used @ 1..=99)) => {
                outcome.set(line, key, "disk.free_limit", format!("{} %", 100 - used));
            }
            ("max-disk-usage", _) => {
                outcome.needless(line, key, "the disk may be full; the room of the journal is kept")
            }
            ("graceful-shutdown-timeout", Ok(time)) => {
                outcome.set(line, key, "shutdown_timeout", format!("{time} ms"));
            }
            ("graceful-shutdown-timeout", _) => outcome.needless(line, key, "the default is 10 s"),
            ("connection-ttl-override", Ok(time)) => {
                outcome.set(line, key, "limits.heartbeat", format!("{} s", (time / 2000).max(1)));
            }
            ("graceful-shutdown-enabled", _) => outcome.needless(line, key, "it always is"),
            _ => self.other(element, line, key, outcome),
        }
    }

    fn other(&self, element: Node<'_, '_>, line: usize, key: &str, outcome: &mut Outcome<'_>) {
        if let Some((_, verdict, why)) = OTHERS.iter().find(|(name, ..)| *name == key) {
            let empty = matches!(verdict, Verdict::LeftOut | Verdict::NotBuilt)
                && element.has_children()
                && elements(element).next().is_none();
            let only_logs = key == "broker-plugins" && elements(element).all(|plugin| is_logging(plugin));
            let verdict = if empty && text(element).is_empty() || only_logs { Verdict::Needless } else { *verdict };
            outcome.note(line, key, verdict, if only_logs { "the log has what happens" } else { *why });
            if verdict == Verdict::LeftOut && why.contains("guard") {
                outcome.warn(format!(
                    "line {line}: {key} run code that is not loaded here; if it kept clients out, it no longer does"
                ));
            }
        } else if SHIPPED.iter().any(|start| key.starts_with(start)) {
            outcome.note(line, key, Verdict::Shipped, TUNING);
        } else {
            outcome.note(line, key, Verdict::Unknown, "this is no element of Artemis that is known");
        }
    }
}

/// A plugin that only writes to the log.
fn is_logging(plugin: Node<'_, '_>) -> bool {
    plugin.attribute("class-name").is_some_and(|class| class.ends_with(".LoggingActiveMQServerPlugin"))
}

/// What is confirmed when. The laxest of all elements counts, and nothing laxer than these.
fn sync(line: usize, key: &str, value: &str, durability: &mut Option<&'static str>, outcome: &mut Outcome<'_>) {
    match (key, value) {
        (_, "true") => outcome.note(line, key, Verdict::Shipped, "what is confirmed is on disk, as by default"),
        ("persistence-enabled", "false") => {
            *durability = Some("memory");
            outcome.moved(line, key, "durability");
        }
        (_, "false") => {
            *durability = durability.or(Some("os"));
            outcome.moved(line, key, "durability");
        }
        _ => outcome.left_out(line, key, "its value is neither true nor false; what is confirmed is on disk"),
    }
}

/// The wildcards of a file.
fn wildcards(core: Node<'_, '_>) -> Wildcards {
    let Some(own) = child(core, "wildcard-addresses") else { return ARTEMIS };
    let letter = |key, default| child(own, key).and_then(|node| xml::text(node).chars().next()).unwrap_or(default);
    Wildcards {
        delimiter: letter("delimiter", ARTEMIS.delimiter),
        one: letter("single-word", ARTEMIS.one),
        any: letter("any-words", ARTEMIS.any),
    }
}
