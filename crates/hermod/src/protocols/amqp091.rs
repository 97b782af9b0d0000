//! AMQP 0-9-1 as a row of the table.

use std::sync::Arc;

use ::amqp091::{Amqp091, Amqp091Dialect, Settings as ProtocolSettings};
use broker::Broker;
use management::ProtocolNames;
use wire::Protocol;

use super::{OwnSettings, Place, Served};
use crate::config::{Port, Settings};

/// Messages that come over HTTP are stored in this encoding, because the HTTP API names properties
/// as AMQP 0-9-1 does.
pub(crate) use ::amqp091::encode;

pub(super) const ROW: Served = Served {
    names: ProtocolNames { name: "amqp", listed: "AMQP 0-9-1", also: &["amqp091", "amqp0-9-1", "amqp0.9.1"] },
    plugin: None,
    place: Place::Own {
        port: Port {
            setting: "ports.amqp",
            default: "5672",
            doc: "Port of AMQP, of both 0-9-1 and 1.0; 0 turns it off.",
        },
        secure_port: Port {
            setting: "ports.amqps",
            default: "5671",
            doc: "Port of AMQP over TLS. It is opened if `tls.certificate` is set; 0 turns it off.",
        },
    },
    web: None,
    alpn: &["amqp"],
    dialect: || Arc::new(Amqp091Dialect),
    read: |_| Ok(Arc::new(NoneOfItsOwn)),
};

/// All its settings are older than the table, and stand among those of the whole broker.
#[derive(Debug)]
struct NoneOfItsOwn;

impl OwnSettings for NoneOfItsOwn {
    fn make(&self, broker: &Broker, settings: &Settings) -> Arc<dyn Protocol> {
        let defaults = ProtocolSettings::default();
        let settings = ProtocolSettings {
            // The ranges are checked where the settings are declared.
            frame_max: u32::try_from(settings.limits.frame_max).unwrap_or(defaults.frame_max),
            heartbeat: u16::try_from(settings.limits.heartbeat.as_secs()).unwrap_or(defaults.heartbeat),
            handshake_timeout: settings.limits.handshake_timeout,
            product: settings.compat.product.clone(),
            version: settings.compat.version.clone(),
            mechanisms: settings.users.mechanisms.clone(),
            anonymous_user: settings.users.anonymous.clone(),
        };
        Arc::new(Amqp091::new(broker.clone(), settings))
    }
}
