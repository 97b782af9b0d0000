//! AMQP 1.0 as a row of the table. It shares the ports of AMQP 0-9-1.

use std::sync::Arc;

use ::amqp10::{Amqp10, Amqp10Dialect, Settings as ProtocolSettings};
use broker::Broker;
use management::ProtocolNames;
use wire::Protocol;

use super::{OwnSettings, Place, Served, ServedWeb};
use crate::config::{ConfigError, Port, Reader, Settings, declare, value};

pub(super) const ROW: Served = Served {
    names: ProtocolNames { name: "amqp10", listed: "AMQP 1-0", also: &["amqp1.0", "amqp1-0"] },
    plugin: Some("rabbitmq_amqp1_0"),
    place: Place::Of("amqp"),
    web: Some(WEB),
    alpn: &["amqp"],
    dialect: || Arc::new(Amqp10Dialect),
    read: |reader| Ok(Arc::new(Own::read(reader)?)),
};

/// The equivalent of RabbitMQ's plugin for AMQP 1.0 over WebSocket. The subprotocol is that of the
/// binding (OASIS, AMQP WebSocket Binding 1.0, §2.1).
const WEB: ServedWeb = ServedWeb {
    name: "web-amqp",
    subprotocols: &["amqp"],
    messages: net::WebMessages::Binary,
    plugin: "rabbitmq_web_amqp",
    usual_port: 15678,
    port: Port {
        setting: "ports.web_amqp",
        default: "0",
        doc: "Port of AMQP 1.0 over WebSocket, for pages in browsers. RabbitMQ uses 15678. 0, the default, turns it off.",
    },
    secure_port: Port {
        setting: "ports.web_amqps",
        default: "0",
        doc: "Port of AMQP 1.0 over WebSocket and TLS. RabbitMQ uses 15677. It is opened if `tls.certificate` is set; \
              0, the default, turns it off.",
    },
};

/// The pages that may connect.
#[derive(Debug)]
struct Own {
    /// Origins of pages besides those of the broker's own host.
    web_origins: Vec<String>,
}

impl Own {
    fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let web_origins = reader.get(
            declare(
                "amqp10.web_origins",
                "names",
                "",
                "Origins of pages that may connect by WebSocket to AMQP 1.0, such as `https://shop.example`, \
                 separated by commas; `*` for all. Pages of the broker's own host may always connect.",
            ),
            value::names,
        )?;
        Ok(Self { web_origins })
    }
}

impl OwnSettings for Own {
    fn make(&self, broker: &Broker, settings: &Settings) -> Arc<dyn Protocol> {
        let defaults = ProtocolSettings::default();
        let settings = ProtocolSettings {
            // The ranges are checked where the settings are declared.
            frame_max: u32::try_from(settings.limits.frame_max).unwrap_or(defaults.frame_max),
            idle: settings.limits.heartbeat,
            handshake_timeout: settings.limits.handshake_timeout,
            product: settings.compat.product.clone(),
            version: settings.compat.version.clone(),
            mechanisms: settings.users.mechanisms.clone(),
            anonymous_user: settings.users.anonymous.clone(),
            node: settings.cluster_name(),
        };
        Arc::new(Amqp10::new(broker.clone(), settings))
    }

    fn web_origins(&self) -> &[String] {
        &self.web_origins
    }
}
