//! The table of protocols: the name of each, its ports, and how to make it. One entry per protocol.

use std::sync::Arc;

use amqp091::{Amqp091, Amqp091Dialect};
use auth::sasl::Mechanism;
use broker::{Broker, Dialects};
use stomp::codec::Trailer;
use stomp::{Stomp, StompDialect};
use wire::Protocol;

use crate::config::Settings;

/// A protocol that can be served.
pub(crate) struct Served {
    /// Its port before `port_offset`; 0 turns it off.
    pub(crate) port: fn(&Settings) -> u16,
    /// Its port over TLS.
    pub(crate) secure_port: fn(&Settings) -> u16,
    /// Makes the server side of the protocol.
    pub(crate) make: fn(&Broker, &Settings) -> Arc<dyn Protocol>,
    /// How pages in browsers can use it; `None` if they can't.
    pub(crate) web: Option<ServedWeb>,
}

/// A protocol over WebSockets.
pub(crate) struct ServedWeb {
    /// The name of its listeners.
    pub(crate) name: &'static str,
    /// The subprotocols of its handshake, the best first.
    pub(crate) subprotocols: &'static [&'static str],
    /// Its port before `port_offset`; 0 turns it off.
    pub(crate) port: fn(&Settings) -> u16,
    /// Its port over TLS.
    pub(crate) secure_port: fn(&Settings) -> u16,
}

/// The equivalent of RabbitMQ's Web STOMP.
const WEB_STOMP: ServedWeb = ServedWeb {
    name: "web-stomp",
    subprotocols: &["v12.stomp", "v11.stomp", "v10.stomp"],
    port: |settings| settings.ports.web_stomp,
    secure_port: |settings| settings.ports.web_stomps,
};

/// All protocols.
pub(crate) const SERVED: [Served; 2] = [
    Served {
        port: |settings| settings.ports.amqp,
        secure_port: |settings| settings.ports.amqps,
        make: amqp091,
        web: None,
    },
    Served {
        port: |settings| settings.ports.stomp,
        secure_port: |settings| settings.ports.stomps,
        make: stomp,
        web: Some(WEB_STOMP),
    },
];

/// The encodings of all protocols, including those that are turned off: stored messages may have
/// any.
pub(crate) fn dialects() -> Dialects {
    Dialects::new(vec![Arc::new(Amqp091Dialect), Arc::new(StompDialect)])
}

fn amqp091(broker: &Broker, settings: &Settings) -> Arc<dyn Protocol> {
    let defaults = amqp091::Settings::default();
    let settings = amqp091::Settings {
        // The ranges are checked where the settings are declared.
        frame_max: u32::try_from(settings.limits.frame_max).unwrap_or(defaults.frame_max),
        heartbeat: u16::try_from(settings.limits.heartbeat.as_secs()).unwrap_or(defaults.heartbeat),
        handshake_timeout: settings.limits.handshake_timeout,
        product: settings.compat.product.clone(),
        version: settings.compat.version.clone(),
        mechanisms: settings.users.mechanisms.clone(),
        anonymous_user: settings.users.anonymous.clone(),
        cluster_name: crate::serve::cluster_name(settings),
    };
    Arc::new(Amqp091::new(broker.clone(), settings))
}

fn stomp(broker: &Broker, settings: &Settings) -> Arc<dyn Protocol> {
    let settings = stomp::Settings {
        handshake: settings.limits.handshake_timeout,
        certificate_login: settings.users.mechanisms.contains(&Mechanism::External),
        default_login: settings.stomp.default_login.clone(),
        server: format!("{}/{}", settings.compat.product, settings.compat.version),
        trailer: if settings.stomp.trailing_lf { Trailer::LineFeed } else { Trailer::None },
        ..stomp::Settings::default()
    };
    Arc::new(Stomp::new(broker.clone(), settings))
}
