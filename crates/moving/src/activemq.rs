//! ActiveMQ's `activemq.xml`.

mod connectors;
mod policies;
mod security;

use roxmltree::Node;

use crate::artemis::diverts::{SELECTOR, TO};
use crate::outcome::{Outcome, Verdict};
use crate::people::People;
use crate::rights;
use crate::source::{Refusal, Source};
use crate::units;
use crate::xml::{Xml, child, elements, name};

const STORE: &str = "the store is files under data_dir, and tunes itself";
const NETWORK: &str = "messages are not forwarded to other brokers";
const OWN_CODE: &str = "code of one's own is not loaded; if it guards the door, that guard is gone";

/// Attributes of the broker that need nothing.
const ATTRIBUTES: &[&str] = &[
    "brokerName",
    "dataDirectory",
    "tmpDataDirectory",
    "useJmx",
    "start",
    "restartAllowed",
    "schedulerSupport",
    "advisorySupport",
    "useShutdownHook",
    "schedulePeriodForDestinationPurge",
    "networkConnectorStartAsync",
    "populateJMSXUserID",
    "useAuthenticatedPrincipalForJMSXUserID",
    "useLoggingForShutdownErrors",
    "enableStatistics",
    "splitSystemUsageForProducersConsumers",
    "dedicatedTaskRunner",
    "offlineDurableSubscriberTimeout",
    "offlineDurableSubscriberTaskSchedule",
    "maxPurgedDestinationsPerSweep",
    "useVirtualTopics",
    "useVirtualDestSubs",
    "useMirroredQueues",
    "monitorConnectionSplits",
    "keepDurableSubsActive",
    "startAsync",
    "consumerSystemUsagePortion",
    "producerSystemUsagePortion",
    "cacheTempDestinations",
    "timeBeforePurgeTempDestinations",
    "taskRunnerPriority",
    "persistenceThreadPriority",
    "waitForSlave",
    "shutdownOnMasterFailure",
    "shutdownOnSlaveFailure",
    "brokerId",
    "id",
    "deleteAllMessagesOnStartup",
    "persistent",
    "schedulerDirectory",
    "useTempMirroredQueues",
    "supportFailOver",
    "allowTempAutoCreationOnSend",
    "rejectDurableConsumers",
    "rollbackOnlyOnAsyncException",
    "adjustUsageLimits",
    "systemExitOnShutdown",
    "storeOpenWireVersion",
    "messageAuthorizationPolicy",
    "depends-on",
    "schemaLocation",
    "destroyApplicationContextOnStop",
    "destroyApplicationContextOnShutdown",
];

/// Converts a file.
pub(crate) fn convert(file: &Source, people: &People, outcome: &mut Outcome<'_>) -> Result<(), Refusal> {
    let xml = Xml::read(file)?;
    let root = xml.root();
    let brokers: Vec<_> = root.descendants().filter(|node| node.is_element() && name(*node) == "broker").collect();
    let Some(broker) = brokers.first().copied() else { return Err(Refusal::of(file, "there is no broker in it")) };
    for other in &brokers[1..] {
        outcome.left_out(xml.line(*other), "broker", "a file with several brokers: the first one is read");
    }
    if name(root) != "broker" {
        for element in elements(root).filter(|node| name(*node) != "broker") {
            beside(&xml, element, outcome);
        }
    }
    attributes(&xml, broker, outcome);
    let mut people = people.clone();
    let mut plugins = security::Plugins::default();
    for element in elements(broker).filter(|element| name(*element) == "plugins") {
        security::read(&xml, element, &mut people, &mut plugins, outcome);
    }
    for element in elements(broker).filter(|element| name(*element) != "plugins") {
        part(&xml, element, &plugins, file, outcome)?;
    }
    if child(broker, "destinationPolicy").is_none() {
        policies::by_default(&plugins, outcome);
    }
    if child(broker, "transportConnectors").is_none() {
        outcome.warn("there is no connector in this file; Hermod's own ports are open on this machine");
    }
    let before = if plugins.authenticates { rights::Before::Closed } else { rights::Before::Open };
    security::declare(&people, plugins, file, outcome)?;
    rights::remain(before, outcome);
    Ok(())
}

/// What stands beside the broker in a file of Spring.
fn beside(xml: &Xml<'_>, element: Node<'_, '_>, outcome: &mut Outcome<'_>) {
    const HARMLESS: [&str; 7] = [
        "PropertyPlaceholder",
        "LogQuery",
        "plist",
        "DataSource",
        "PooledConnection",
        "ConnectionFactory",
        "MethodInvoking",
    ];
    let line = xml.line(element);
    match name(element) {
        "import" => outcome.note(line, "import", Verdict::Shipped, "the console is built in"),
        "bean" => {
            let class = element.attribute("class").unwrap_or_default();
            if HARMLESS.iter().any(|part| class.contains(part)) {
                outcome.note(line, "bean", Verdict::Shipped, "of the program around the broker");
            } else {
                outcome.left_out(line, "bean", "code of one's own is not loaded");
            }
        }
        "camelContext" => outcome.left_out(line, "camelContext", "run Camel in a program of its own"),
        "property-placeholder" | "description" | "annotation-config" => {
            outcome.note(line, name(element), Verdict::Shipped, "of the program around the broker");
        }
        other => outcome.left_out(line, other, "it is no part of the broker"),
    }
}

fn attributes(xml: &Xml<'_>, broker: Node<'_, '_>, outcome: &mut Outcome<'_>) {
    let line = xml.line(broker);
    for attribute in broker.attributes() {
        let name = format!("broker {}", attribute.name());
        match (attribute.name(), attribute.value()) {
            ("persistent", "false") => outcome.set(line, &name, "durability", "memory"),
            ("deleteAllMessagesOnStartup", "true") => {
                outcome.left_out(line, &name, "messages are not deleted at a start; delete data_dir before it");
            }
            ("useMirroredQueues", "true") => {
                outcome.left_out(line, &name, "publish to an exchange that both queues are bound to, or with CC");
            }
            ("messageAuthorizationPolicy", _) => {
                outcome.left_out(line, &name, OWN_CODE);
                outcome.warn(format!("line {line}: a policy decided about each message; here only permissions do"));
            }
            (known, _) if ATTRIBUTES.contains(&known) => outcome.note(line, &name, Verdict::Shipped, STORE),
            _ => outcome.note(line, &name, Verdict::Unknown, "this is no attribute of the broker that is known"),
        }
    }
}

/// One part of the broker.
fn part(
    xml: &Xml<'_>,
    element: Node<'_, '_>,
    plugins: &security::Plugins,
    file: &Source,
    outcome: &mut Outcome<'_>,
) -> Result<(), Refusal> {
    let (line, key) = (xml.line(element), name(element));
    match key {
        "transportConnectors" => {
            let ssl = element.parent().and_then(|broker| child(broker, "sslContext"));
            connectors::convert(xml, element, ssl, outcome);
        }
        "destinationPolicy" => policies::convert(xml, element, plugins, file, outcome)?,
        "systemUsage" => usage(xml, element, outcome),
        "destinations" => destinations(xml, element, outcome),
        "destinationInterceptors" => interceptors(xml, element, outcome),
        // Read with the connectors.
        "sslContext" => {}
        "networkConnectors" if elements(element).next().is_none() => outcome.needless(line, key, "it is empty"),
        "networkConnectors" => {
            for connector in elements(element) {
                outcome.not_built(xml.line(connector), name(connector), NETWORK);
            }
        }
        "proxyConnectors" | "jmsBridgeConnectors" => outcome.not_built(line, key, NETWORK),
        "persistenceAdapter" | "persistenceFactory" | "tempDataStore" | "jobSchedulerStore" => {
            outcome.note(line, key, Verdict::Shipped, STORE);
        }
        "managementContext" | "shutdownHooks" | "ioExceptionHandler" | "taskRunnerFactory" => {
            outcome.note(line, key, Verdict::Shipped, "of the program around the broker");
        }
        "services" => outcome.left_out(line, key, "code of one's own is not loaded"),
        "property" => outcome.left_out(line, key, "see the settings of Hermod"),
        "adminView" | "regionBroker" => outcome.needless(line, key, STORE),
        _ => outcome.note(line, key, Verdict::Unknown, "this is no part of the broker that is known"),
    }
    Ok(())
}

/// Bounds on memory and disk.
fn usage(xml: &Xml<'_>, usage: Node<'_, '_>, outcome: &mut Outcome<'_>) {
    for bound in usage.descendants().filter(|node| node.is_element() && node.attributes().next().is_some()) {
        let (line, key) = (xml.line(bound), name(bound));
        for attribute in bound.attributes() {
            let (label, value) = (format!("{key} {}", attribute.name()), attribute.value());
            match (key, attribute.name(), value) {
                ("memoryUsage", "percentOfJvmHeap", "70")
                | ("storeUsage", "limit", "100 gb")
                | ("tempUsage", "limit", "50 gb") => {
                    outcome.note(
                        line,
                        &label,
                        Verdict::Shipped,
                        "the shipped value; memory.limit and disk.limit are automatic",
                    );
                }
                ("memoryUsage", "percentOfJvmHeap", share) if share.parse::<u8>().is_ok() => {
                    outcome.set(line, &label, "memory.limit", format!("{share} %"));
                    outcome.warn("memory.limit is a share of the machine's memory, and not of a heap");
                }
                ("memoryUsage", "limit", size) => sized(line, &label, "memory.limit", size, outcome),
                ("storeUsage", "limit", size) => sized(line, &label, "disk.limit", size, outcome),
                ("storeUsage", "percentLimit", share) if share.parse::<u8>().is_ok() => {
                    outcome.set(line, &label, "disk.limit", format!("{share} %"));
                }
                ("tempUsage" | "jobSchedulerUsage", ..) => {
                    outcome.needless(line, &label, "what leaves memory counts for disk.limit");
                }
                ("systemUsage", ..) => {
                    outcome.needless(line, &label, "a publish waits for flow.park_timeout, and is then refused");
                }
                (_, "percentUsageMinDelta" | "store" | "name" | "total" | "usagePortion", _) => {
                    outcome.needless(line, &label, STORE);
                }
                _ => outcome.left_out(line, &label, "set memory.limit or disk.limit"),
            }
        }
    }
}

fn sized(line: usize, label: &str, setting: &'static str, value: &str, outcome: &mut Outcome<'_>) {
    match units::binary(value) {
        Some(bytes) => outcome.set(line, label, setting, bytes.to_string()),
        None => outcome.left_out(line, label, format!("its value is no size; set {setting}")),
    }
}

fn destinations(xml: &Xml<'_>, destinations: Node<'_, '_>, outcome: &mut Outcome<'_>) {
    for destination in elements(destinations) {
        let line = xml.line(destination);
        match (name(destination), destination.attribute("physicalName")) {
            ("queue", Some(called)) => {
                outcome.definitions.queue(called);
                outcome.moved(line, called, "a queue in the definitions");
            }
            ("topic", Some(called)) => outcome.needless(line, called, "a topic needs no declaration"),
            (other, _) => outcome.left_out(line, other, "only queues and topics with a physicalName are read here"),
        }
    }
}

fn interceptors(xml: &Xml<'_>, interceptors: Node<'_, '_>, outcome: &mut Outcome<'_>) {
    let wrappers = ["virtualDestinationInterceptor", "virtualDestinations"];
    let found: Vec<_> = interceptors
        .descendants()
        .filter(|node| {
            let parent = node.parent().map_or("", |parent| name(parent));
            node.is_element() && (parent == "destinationInterceptors" || wrappers.contains(&parent))
        })
        .filter(|node| !wrappers.contains(&name(*node)))
        .collect();
    for virtual_one in found {
        let line = xml.line(virtual_one);
        match (name(virtual_one), virtual_one.attribute("name")) {
            ("compositeTopic", Some(topic)) => composite(xml, topic, virtual_one, outcome),
            ("virtualTopic", _) => outcome.left_out(
                line,
                "virtualTopic",
                "consumers of one name share a durable subscription, in place of a queue Consumer.NAME",
            ),
            ("compositeQueue", Some(queue)) => composite_queue(line, queue, virtual_one, outcome),
            ("compositeQueue" | "mirroredQueue", _) => {
                outcome.left_out(
                    line,
                    name(virtual_one),
                    "publish to an exchange that these queues are bound to, or with CC",
                );
            }
            (other, _) => outcome.left_out(line, other, "code of one's own is not loaded"),
        }
    }
}

/// A queue that forwards what it gets, and may keep it.
fn composite_queue(line: usize, queue: &str, node: Node<'_, '_>, outcome: &mut Outcome<'_>) {
    let targets: Vec<_> = child(node, "forwardTo").into_iter().flat_map(elements).collect();
    let refuse = |why: &str, outcome: &mut Outcome<'_>| outcome.left_out(line, "compositeQueue", why);
    let [target] = targets.as_slice() else {
        return refuse("publish to an exchange that these queues are bound to, or with CC", outcome);
    };
    if node.attribute("forwardOnly") != Some("false") {
        return refuse(
            "it keeps nothing itself: publish to the other queue, or to an exchange it is bound to",
            outcome,
        );
    }
    let (to, selector) = match name(*target) {
        "queue" => (target.attribute("physicalName"), None),
        "filteredDestination" => (target.attribute("queue"), target.attribute("selector")),
        _ => (None, None),
    };
    let Some(to) = to.filter(|to| *to != queue) else {
        return refuse("a queue is copied to another queue only; for a topic, bind to an exchange", outcome);
    };
    outcome.definitions.queue(to);
    let arguments = outcome.definitions.queues.entry(queue.to_owned()).or_default();
    arguments.insert(TO.to_owned(), to.into());
    selector.map(|selector| arguments.insert(SELECTOR.to_owned(), selector.into()));
    outcome.moved(line, "compositeQueue", "x-copy-to of the queue in the definitions");
}

/// Queues get what is published to a topic.
fn composite(xml: &Xml<'_>, topic: &str, node: Node<'_, '_>, outcome: &mut Outcome<'_>) {
    for target in child(node, "forwardTo").into_iter().flat_map(elements) {
        let line = xml.line(target);
        match (name(target), target.attribute("physicalName")) {
            ("queue", Some(queue)) => {
                outcome.definitions.queue(queue);
                outcome.definitions.bind(topic, queue);
                outcome.moved(line, "compositeTopic", "a binding in the definitions");
            }
            _ => outcome.left_out(line, "compositeTopic", "a topic is forwarded to queues only, and without a filter"),
        }
    }
}
