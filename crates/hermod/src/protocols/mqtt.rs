//! MQTT as a row of the table, and its own settings.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::mqtt::codec::QoS;
use ::mqtt::{Host, Mqtt, MqttDialect, Settings as ProtocolSettings, Sys, SysPublisher};
use broker::Broker;
use management::ProtocolNames;
use wire::Protocol;

use super::{Around, OwnSettings, Place, Served, ServedWeb};
use crate::config::{ConfigError, Port, Reader, Settings, declare, value};
use crate::worker::{Rest, Worker};

pub(super) const ROW: Served = Served {
    names: ProtocolNames { name: "mqtt", listed: "MQTT", also: &["mqtt3", "mqtt3.1", "mqtt3.1.1", "mqtt5"] },
    plugin: Some("rabbitmq_mqtt"),
    place: Place::Own {
        port: Port {
            setting: "ports.mqtt",
            default: "1883",
            doc: "Port of MQTT; 0 turns it off. If it is not set and another program has that port, MQTT is not served.",
        },
        secure_port: Port {
            setting: "ports.mqtts",
            default: "8883",
            doc: "Port of MQTT over TLS. It is opened if `tls.certificate` is set; 0 turns it off.",
        },
    },
    web: Some(WEB),
    // IANA has the first; clients made for AWS IoT offer the second.
    alpn: &["mqtt", "x-amzn-mqtt-ca"],
    dialect: || Arc::new(MqttDialect),
    read: |reader| Ok(Arc::new(Own::read(reader)?)),
};

/// The equivalent of RabbitMQ's Web MQTT.
const WEB: ServedWeb = ServedWeb {
    name: "web-mqtt",
    subprotocols: &["mqtt", "mqttv3.1"],
    // [MQTT-6.0.0-1]
    messages: net::WebMessages::Binary,
    plugin: "rabbitmq_web_mqtt",
    usual_port: 15675,
    port: Port {
        setting: "ports.web_mqtt",
        default: "0",
        doc: "Port of MQTT over WebSocket, for pages in browsers. RabbitMQ uses 15675. 0, the default, turns it off.",
    },
    secure_port: Port {
        setting: "ports.web_mqtts",
        default: "0",
        doc: "Port of MQTT over WebSocket and TLS. RabbitMQ uses 15676. It is opened if `tls.certificate` is set; 0, \
              the default, turns it off.",
    },
};

/// The user of clients without a log-in, the bounds of sessions, and the pages that may connect.
struct Own {
    /// User and password of a CONNECT without a user name.
    default_login: Option<(String, String)>,
    /// Seconds.
    session_expiry: u32,
    max_inflight: u16,
    max_qos: QoS,
    /// Between two publications of `$SYS`; zero turns them off.
    sys_interval: Duration,
    sys: Arc<Sys>,
    /// Origins of pages besides those of the broker's own host.
    web_origins: Vec<String>,
}

impl std::fmt::Debug for Own {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mqtt").finish_non_exhaustive()
    }
}

impl Own {
    fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let user = reader.get(
            declare(
                "mqtt.default_user",
                "text",
                "",
                "User of MQTT clients whose CONNECT has no user name. If it is not set, such a client is refused.",
            ),
            value::text,
        )?;
        let password = reader.secret(declare("mqtt.default_pass", "text", "", "Password of `mqtt.default_user`."))?;
        let session_expiry = reader.get(
            declare(
                "mqtt.session_expiry",
                "time",
                "168 h",
                "The longest time that a session outlives its connection. Sessions of MQTT 3 that are not clean live as \
                 long; those of MQTT 5 that ask for more are told.",
            ),
            value::duration,
        )?;
        let max_inflight = reader.get(
            declare(
                "mqtt.max_inflight",
                "1 to 65535",
                "256",
                "The most messages that an MQTT client gets before it acknowledges some. A client of MQTT 5 that says its \
                 receive maximum gets as many as that.",
            ),
            inflight,
        )?;
        let max_qos = reader
            .get(declare("mqtt.max_qos", "1, 2", "2", "The highest quality of service of MQTT."), |text| {
                value::choice(text, &[("1", QoS::AtLeastOnce), ("2", QoS::ExactlyOnce)])
            })?;
        let sys_interval = reader.get(
            declare(
                "mqtt.sys_interval",
                "time",
                "10 s",
                "The time between two publications of the `$SYS` topics, while clients subscribe to them; 0 turns \
                 them off.",
            ),
            sys_interval,
        )?;
        let web_origins = reader.get(
            declare(
                "mqtt.web_origins",
                "names",
                "",
                "Origins of pages that may connect by WebSocket, such as `https://shop.example`, separated by \
                 commas; `*` for all. Pages of the broker's own host may always connect.",
            ),
            value::names,
        )?;
        let default_login = (!user.is_empty()).then_some((user, password));
        let session_expiry = u32::try_from(session_expiry.as_secs()).unwrap_or(u32::MAX);
        let sys = Arc::default();
        Ok(Self { default_login, session_expiry, max_inflight, max_qos, sys_interval, sys, web_origins })
    }
}

impl OwnSettings for Own {
    fn make(&self, broker: &Broker, settings: &Settings) -> Arc<dyn Protocol> {
        let settings = ProtocolSettings {
            handshake: settings.limits.handshake_timeout,
            mechanisms: settings.users.mechanisms.clone(),
            default_login: self.default_login.clone(),
            session_expiry: self.session_expiry,
            max_inflight: self.max_inflight,
            max_qos: self.max_qos,
            ..ProtocolSettings::default()
        };
        Arc::new(Mqtt::new(broker.clone(), settings, self.sys.clone()))
    }

    fn start(&self, Around { broker, registry, facts }: &Around<'_>) -> io::Result<Option<Worker>> {
        if self.sys_interval.is_zero() {
            return Ok(None);
        }
        let host = Host { product: facts.product.clone(), version: facts.version.clone(), node: facts.node.clone() };
        let (broker, registry) = ((*broker).clone(), Arc::clone(registry));
        let (sys, moved, now) = (self.sys.clone(), registry.moved(), Instant::now());
        let mut publisher = SysPublisher::new(sys, host, self.sys_interval, &broker, moved, now);
        let worker = Worker::start("hermod-mqtt-sys", move |waker| {
            let now = Instant::now();
            Rest::For(publisher.step(&broker, || registry.moved(), waker, now).saturating_duration_since(now))
        });
        worker.map(Some)
    }

    fn web_origins(&self) -> &[String] {
        &self.web_origins
    }
}

/// Zero, or a second and more: the figures cost a look at all queues.
fn sys_interval(text: &str) -> Result<Duration, String> {
    match value::duration(text)? {
        interval if interval.is_zero() || interval >= Duration::from_secs(1) => Ok(interval),
        _ => Err(format!("{text} is less than 1 s; write 0 to turn the $SYS topics off")),
    }
}

/// A number of messages that the protocol can name.
fn inflight(text: &str) -> Result<u16, String> {
    let count = u16::try_from(value::count(text)?).ok().filter(|count| *count > 0);
    count.ok_or_else(|| format!("{text} is no number from 1 to 65535"))
}
