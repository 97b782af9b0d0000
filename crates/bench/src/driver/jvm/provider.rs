//! The JMS clients that are known by a scheme, and those that a target names itself: the class of
//! the connection factory, the properties that say how a send waits and how much is fetched ahead,
//! and where the jars come from.

use std::collections::BTreeMap;

use serde::Serialize;

use bench_record::failure::Failure;
use bench_record::scenario::Scenario;
use bench_record::target::Target;

/// The oldest Java that the worker itself runs on.
const WORKER: u32 = 17;

/// How a session acknowledges, by the numbers of JMS.
pub(crate) const AUTO_ACKNOWLEDGE: u32 = 1;
pub(crate) const CLIENT_ACKNOWLEDGE: u32 = 2;
pub(crate) const DUPS_OK_ACKNOWLEDGE: u32 = 3;
/// Artemis' own: the broker takes a message for acknowledged before it sends it.
const PRE_ACKNOWLEDGE: u32 = 100;
/// OpenMQ's own: the broker waits for no acknowledgement.
const NO_ACKNOWLEDGE: u32 = 0x8000;

/// The name of the package that a client implements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    /// `jakarta.jms`, JMS 3.
    Jakarta,
    /// `javax.jms`, JMS 1.1 and 2.0.
    Javax,
}

/// Where the jars of a client come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Jars {
    /// An artefact of Maven, `group:artefact:version`, with all that it needs.
    Artefact(&'static str),
    /// A jar inside an archive of Maven, which has no artefact of its own.
    Inside {
        /// `group:artefact:version:type`.
        archive: &'static str,
        /// The jar's path in it.
        path: &'static str,
    },
    /// A class path of the user's.
    Given(String),
}

/// How the worker gets its connection factory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Factory {
    /// The factory's class, or that of the initial context.
    pub(crate) class_name: String,
    /// The only argument of the constructor; none: it has none.
    pub(crate) argument: Option<String>,
    /// The factory's name in a naming service; none: it is made from its class.
    pub(crate) lookup: Option<String>,
    /// Properties of the factory, or of the initial context.
    pub(crate) properties: BTreeMap<String, String>,
}

/// A client, set up for one scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Provider {
    pub(crate) api: Api,
    /// The oldest Java that its classes run on.
    pub(crate) java: u32,
    pub(crate) jars: Jars,
    pub(crate) factory: Factory,
    /// The mode of sessions that are to acknowledge as little as this client can.
    pub(crate) least_acks: u32,
    /// The property that, set to a stream on a received message, has this client write the body
    /// into it; none: there is none.
    pub(crate) body_stream: Option<&'static str>,
}

/// How a client's send returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Send {
    /// At once; what became of it is not told.
    Unconfirmed,
    /// When the broker has answered.
    Waits,
    /// At once; the client tells later what became of it.
    ConfirmedLater,
}

impl Provider {
    /// The client for a target; none where its scheme is not one of [`JMS_SCHEMES`].
    pub(crate) fn of(target: &Target, scenario: &Scenario) -> Result<Option<Self>, Failure> {
        let provider = match target.scheme.as_str() {
            "qpid-jms" => qpid(target, scenario),
            "openwire" => activemq(target, scenario, Api::Jakarta, "org.apache.activemq:activemq-client:6.1.7"),
            "openwire5" => activemq(target, scenario, Api::Javax, "org.apache.activemq:activemq-client:5.18.7"),
            "artemis" => artemis(target, scenario),
            "openmq" => openmq(target, scenario),
            "jms" | "jndi" => other(target)?,
            _ => return Ok(None),
        };
        Ok(Some(provider))
    }
}

impl Send {
    fn of(scenario: &Scenario) -> Self {
        match scenario.clients.window {
            0 => Self::Unconfirmed,
            1 => Self::Waits,
            _ => Self::ConfirmedLater,
        }
    }
}

/// Qpid JMS, for AMQP 1.0.
fn qpid(target: &Target, scenario: &Scenario) -> Provider {
    let mut options = vec![
        // Heartbeats would be traffic that no scenario asked for, and so would questions whether
        // there is a message.
        ("amqp.idleTimeout", "0".to_owned()),
        ("jms.receiveNoWaitLocalOnly", "true".to_owned()),
    ];
    match Send::of(scenario) {
        Send::Unconfirmed => options.push(("jms.forceAsyncSend", "true".to_owned())),
        Send::Waits => options.push(("jms.forceSyncSend", "true".to_owned())),
        Send::ConfirmedLater => {}
    }
    // What bystanders are sent is to stay in the queue.
    if scenario.acks_nothing() && !scenario.clients.bystander {
        // The broker settles what it sends.
        options.push(("jms.presettlePolicy.presettleConsumers", "true".to_owned()));
    }
    if scenario.clients.prefetch > 0 {
        options.push(("jms.prefetchPolicy.all", scenario.clients.prefetch.to_string()));
    }
    if target.vhost != "/" {
        options.push(("amqp.vhost", target.vhost.clone()));
    }
    let class = "org.apache.qpid.jms.JmsConnectionFactory";
    let jars = Jars::Artefact("org.apache.qpid:qpid-jms-client:2.6.1");
    by_uri(Api::Jakarta, jars, class, uri("amqp", target, &options))
}

/// The client of ActiveMQ Classic, for OpenWire.
fn activemq(target: &Target, scenario: &Scenario, api: Api, artefact: &'static str) -> Provider {
    let mut options = vec![
        ("wireFormat.maxInactivityDuration", "0".to_owned()),
        // A subscription to advisories is one more consumer.
        ("jms.watchTopicAdvisories", "false".to_owned()),
    ];
    match Send::of(scenario) {
        Send::Unconfirmed => options.push(("jms.useAsyncSend", "true".to_owned())),
        Send::Waits => options.push(("jms.alwaysSyncSend", "true".to_owned())),
        Send::ConfirmedLater => {}
    }
    if scenario.clients.prefetch > 0 {
        options.push(("jms.prefetchPolicy.all", scenario.clients.prefetch.to_string()));
    }
    let class = "org.apache.activemq.ActiveMQConnectionFactory";
    // What it has beyond the modes of JMS (`optimizeAcknowledge`) lets a queue that is drained come
    // to a standstill.
    by_uri(api, Jars::Artefact(artefact), class, uri("tcp", target, &options))
}

/// The core client of Artemis.
fn artemis(target: &Target, scenario: &Scenario) -> Provider {
    let (send, bytes_ahead) = (Send::of(scenario), in_bytes(u64::from(scenario.clients.prefetch), scenario));
    let waits = (send != Send::Unconfirmed).to_string();
    let mut options = vec![
        ("blockOnDurableSend", waits.clone()),
        ("blockOnNonDurableSend", waits),
        ("connectionTTL", "-1".to_owned()),
        ("clientFailureCheckPeriod", "-1".to_owned()),
    ];
    if send == Send::ConfirmedLater {
        // Answers to asynchronous sends come only where there is such a window, which counts bytes.
        options.push(("confirmationWindowSize", (10 << 20).to_string()));
    }
    if bytes_ahead > 0 {
        options.push(("consumerWindowSize", bytes_ahead.to_string()));
    }
    // What a producer sends ahead is counted in bytes, too; by default it would wait before each
    // body of 64 KiB.
    if send == Send::ConfirmedLater {
        options.push(("producerWindowSize", in_bytes(scenario.clients.window, scenario).max(64 << 10).to_string()));
    }
    let class = "org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory";
    let jars = Jars::Artefact("org.apache.activemq:artemis-jakarta-client:2.44.0");
    Provider {
        least_acks: PRE_ACKNOWLEDGE,
        // A body of 100 KiB and more it reads byte by byte otherwise, with a check for each, which
        // takes a whole core.
        body_stream: Some("JMS_AMQ_SaveStream"),
        ..by_uri(Api::Jakarta, jars, class, uri("tcp", target, &options))
    }
}

/// Artemis counts what is sent or fetched ahead in bytes, with what it adds to each message.
fn in_bytes(messages: u64, scenario: &Scenario) -> u64 {
    const ADDED: u64 = 200;
    messages.saturating_mul(scenario.message.size as u64 + ADDED).min(i32::MAX as u64)
}

/// The client of OpenMQ.
fn openmq(target: &Target, scenario: &Scenario) -> Provider {
    let mut properties = BTreeMap::from([
        ("imqAddressList".to_owned(), format!("mq://{}/jms", target.address)),
        ("imqAckOnProduce".to_owned(), (Send::of(scenario) != Send::Unconfirmed).to_string()),
        // Nor do the clients of ActiveMQ and Artemis wait for an answer to each acknowledgement.
        ("imqAckOnAcknowledge".to_owned(), "false".to_owned()),
    ]);
    if scenario.clients.prefetch > 0 {
        properties.insert("imqConsumerFlowLimit".to_owned(), scenario.clients.prefetch.to_string());
    }
    properties.extend(target.properties.iter().cloned());
    let class_name = "com.sun.messaging.ConnectionFactory".to_owned();
    Provider {
        api: Api::Jakarta,
        java: 21,
        jars: Jars::Inside { archive: "org.glassfish.mq:mq-distribution:6.6.0:zip", path: "mq/lib/imq.jar" },
        factory: Factory { class_name, argument: None, lookup: None, properties },
        least_acks: NO_ACKNOWLEDGE,
        body_stream: None,
    }
}

/// Any other client, by the class of its factory or through a naming service. How much it fetches
/// ahead is one of its own properties.
fn other(target: &Target) -> Result<Provider, Failure> {
    let refuse = |text: String| Err(Failure::new(text));
    let Some(class_path) = target.class_path.clone() else {
        return refuse(format!(
            "{}: whose jars? Say where they are: --jms-classpath PATH, or ,classpath=PATH behind the target",
            target.name
        ));
    };
    let mut properties: BTreeMap<String, String> = target.properties.iter().cloned().collect();
    let api = match properties.remove("api").as_deref() {
        None | Some("jakarta") => Api::Jakarta,
        Some("javax") => Api::Javax,
        Some(unknown) => return refuse(format!("{}: api={unknown} is neither jakarta nor javax", target.name)),
    };
    let mut lookup = None;
    if target.scheme == "jndi" {
        lookup = Some(properties.remove("cf").ok_or_else(|| {
            Failure::new(format!("{}: cf=NAME must say what the connection factory is called there", target.name))
        })?);
        if let Some(url) = properties.remove("url") {
            properties.insert("java.naming.provider.url".to_owned(), url);
        }
    }
    let argument = properties.remove("argument");
    let factory = Factory { class_name: target.address.clone(), argument, lookup, properties };
    let least_acks = DUPS_OK_ACKNOWLEDGE;
    Ok(Provider { api, java: WORKER, jars: Jars::Given(class_path), factory, least_acks, body_stream: None })
}

fn by_uri(api: Api, jars: Jars, class: &str, argument: String) -> Provider {
    let (class_name, argument) = (class.to_owned(), Some(argument));
    Provider {
        api,
        java: WORKER,
        jars,
        factory: Factory { class_name, argument, lookup: None, properties: BTreeMap::new() },
        least_acks: DUPS_OK_ACKNOWLEDGE,
        body_stream: None,
    }
}

/// `SCHEME://ADDRESS?OPTIONS`; an option of the target's own replaces ours of the same name.
fn uri(scheme: &str, target: &Target, options: &[(&str, String)]) -> String {
    let mut all: BTreeMap<&str, &str> = options.iter().map(|(key, value)| (*key, value.as_str())).collect();
    all.extend(target.properties.iter().map(|(key, value)| (key.as_str(), value.as_str())));
    let text: Vec<String> = all.iter().map(|(key, value)| format!("{key}={value}")).collect();
    format!("{scheme}://{}?{}", target.address, text.join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Change = fn(&mut Scenario);

    fn provider(target: &str, change: Change) -> Result<Option<Provider>, Failure> {
        let mut scenario = Scenario::default();
        change(&mut scenario);
        Provider::of(&target.parse().unwrap(), &scenario)
    }

    /// Target, scenario, and what the argument or the properties of the factory must contain.
    type Case = (&'static str, Change, &'static [&'static str]);

    #[test]
    fn each_client_is_told_how_to_send_and_to_fetch() {
        let cases: &[Case] = &[
            ("qpid-jms://h", |s| s.clients.window = 0, &["amqp://h:5672?", "jms.forceAsyncSend=true"]),
            (
                "qpid-jms://h/v",
                |s| (s.clients.window, s.clients.prefetch) = (1, 7),
                &["forceSyncSend=true", "all=7", "amqp.vhost=v"],
            ),
            ("openwire://h", |s| s.clients.window = 0, &["tcp://h:61616?", "useAsyncSend=true"]),
            (
                "openwire5://h:1?jms.watchTopicAdvisories=true",
                |s| s.clients.window = 1,
                &["alwaysSyncSend=true", "watchTopicAdvisories=true"],
            ),
            ("artemis://h", |s| s.clients.window = 0, &["blockOnDurableSend=false", "blockOnNonDurableSend=false"]),
            (
                "artemis://h",
                |s| (s.clients.window, s.clients.prefetch, s.message.size) = (9, 10, 800),
                &[
                    "blockOnDurableSend=true",
                    "confirmationWindowSize=10485760",
                    "consumerWindowSize=10000",
                    "producerWindowSize=65536",
                ],
            ),
            ("artemis://h", |s| (s.clients.window, s.message.size) = (1000, 65_336), &["producerWindowSize=65536000"]),
            ("qpid-jms://h", |s| s.clients.ack_every = 0, &["presettleConsumers=true", "least_acks: 3"]),
            ("openwire://h", |s| s.clients.ack_every = 0, &["least_acks: 3"]),
            (
                "artemis://h",
                |s| s.clients.ack_every = 0,
                &["least_acks: 100", "body_stream: Some(\"JMS_AMQ_SaveStream\")"],
            ),
            ("openmq://h", |s| s.clients.ack_every = 0, &["least_acks: 32768"]),
            ("jms:a.B,classpath=/c", |s| s.clients.ack_every = 0, &["least_acks: 3"]),
            (
                "openmq://h",
                |s| s.clients.window = 0,
                &["mq://h:7676/jms", "\"imqAckOnProduce\": \"false\"", "\"imqAckOnAcknowledge\": \"false\""],
            ),
            ("jms:a.B?host=x&argument=y,classpath=/c", |_| {}, &["\"a.B\"", "Some(\"y\")", "\"host\": \"x\""]),
            ("jndi:a.C?url=u&cf=f&queue.q=q,classpath=/c", |_| {}, &["Some(\"f\")", "provider.url\": \"u\""]),
        ];
        for (target, change, parts) in cases {
            let text = format!("{:?}", provider(target, *change).unwrap().unwrap());
            for part in *parts {
                assert!(text.contains(part), "{target}: {part} in {text}");
            }
        }
        assert_eq!(provider("openwire5://h", |_| {}).unwrap().unwrap().api, Api::Javax);
        let acknowledged: [Change; 2] =
            [|s| s.clients.ack_every = 1, |s| (s.topology.consumers, s.clients.bystander) = (0, true)];
        for change in acknowledged {
            let text = format!("{:?}", provider("qpid-jms://h", change));
            assert!(!text.contains("presettle"), "{text}");
        }
        assert_eq!(provider("amqp://h", |_| {}).unwrap(), None);
    }

    #[test]
    fn what_a_target_must_say_is_asked_for() {
        let cases: [(&str, Change, &str); 3] = [
            ("jms:a.B", |_| {}, "--jms-classpath"),
            ("jms:a.B?api=j2ee,classpath=c", |_| {}, "neither jakarta nor javax"),
            ("jndi:a.B?url=u,classpath=c", |_| {}, "cf=NAME"),
        ];
        for (target, change, part) in cases {
            let failure = provider(target, change).unwrap_err().to_string();
            assert!(failure.contains(part), "{failure}");
        }
    }
}
