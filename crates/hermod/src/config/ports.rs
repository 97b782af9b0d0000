//! The settings of ports: those of each protocol's row, and those of HTTP.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use super::reader::{Described, Origin, Reader, declare};
use super::{ConfigError, value};
use crate::protocols::{SERVED, Served, ServedWeb};

/// The setting of a port. The port is that before `port_offset`; 0 turns it off.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) setting: &'static str,
    pub(crate) default: &'static str,
    pub(crate) doc: &'static str,
}

/// Everything but HTTP.
pub(crate) static ANY: Port = Port {
    setting: "ports.any",
    default: "0",
    doc: "A port for every protocol, also those whose own port is 0: AMQP, STOMP and MQTT, with TLS if \
          `tls.certificate` is set or without, by WebSocket or without. First bytes tell them apart. 0, the default, \
          turns it off.",
};
/// Management API, metrics and health.
pub(crate) static HTTP: Port = Port {
    setting: "ports.http",
    default: "15672",
    doc: "Port of HTTP: management API, metrics and health; 0 turns it off.",
};
/// The same over TLS.
pub(crate) static HTTPS: Port = Port {
    setting: "ports.https",
    default: "15671",
    doc: "Port of HTTP over TLS. It is opened if `tls.certificate` is set; 0 turns it off.",
};

/// The settings of all ports over TLS, as prose.
pub(super) static SECURE: LazyLock<String> = LazyLock::new(|| {
    let names: Vec<_> = secure().map(|port| format!("`{}`", port.setting)).collect();
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => names.concat(),
    }
});

fn web() -> impl Iterator<Item = &'static ServedWeb> {
    SERVED.iter().filter_map(|served| served.web.as_ref())
}

/// The ports of protocols, each plain and over TLS. Several protocols may share one.
fn of_protocols() -> impl Iterator<Item = (&'static Port, &'static Port)> {
    SERVED.iter().filter_map(Served::own_ports)
}

fn plain() -> impl Iterator<Item = &'static Port> {
    of_protocols().map(|(plain, _)| plain).chain([&HTTP]).chain(web().map(|web| &web.port)).chain([&ANY])
}

fn secure() -> impl Iterator<Item = &'static Port> {
    let protocols = of_protocols().map(|(_, secure)| secure);
    protocols.chain([&HTTPS]).chain(web().map(|web| &web.secure_port))
}

/// All ports in the order of listings: those of WebSockets are the last.
fn listed() -> impl Iterator<Item = &'static Port> {
    let protocols = of_protocols().map(|(plain, _)| plain).chain([&HTTP]);
    let over_tls = of_protocols().map(|(_, secure)| secure).chain([&HTTPS]);
    protocols.chain(over_tls).chain(web().flat_map(|web| [&web.port, &web.secure_port])).chain([&ANY])
}

/// The ports as they are set.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ports(BTreeMap<&'static str, u16>);

impl Ports {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let mut ports = Self::default();
        for port in listed() {
            let number = reader.get(declare(port.setting, "port", port.default, port.doc), value::port)?;
            ports.0.insert(port.setting, number);
        }
        Ok(ports)
    }

    /// The number of this port; 0 if it is off.
    pub(crate) fn of(&self, port: &Port) -> u16 {
        self.0.get(port.setting).copied().unwrap_or_default()
    }

    /// Checks that the open ports differ, and that none is above the highest with `offset`.
    pub(super) fn check(&self, offset: u16, certificate: Option<&Path>) -> Result<(), ConfigError> {
        let mut taken = BTreeMap::new();
        for port in plain().chain(secure().filter(|_| certificate.is_some())) {
            let (name, port) = (port.setting, self.of(port));
            if port == 0 {
                continue;
            }
            let Some(shifted) = port.checked_add(offset) else {
                let most = u16::MAX - port;
                return Err(ConfigError::new(format!(
                    "port_offset: {name} {port} + {offset} is above 65535; use an offset of at most {most}, set {name} \
                     to a lower port, or to 0 to turn its listener off"
                )));
            };
            if let Some(other) = taken.insert(shifted, name) {
                return Err(ConfigError::new(format!("{name}: port {port} is that of {other} already")));
            }
        }
        Ok(())
    }

    /// A port for TLS that was set, without a certificate, is an error: it would stay closed
    /// silently.
    pub(super) fn check_secure(&self, certificate: Option<&Path>, described: &[Described]) -> Result<(), ConfigError> {
        for port in secure().filter(|port| self.of(port) != 0 && certificate.is_none()) {
            let name = port.setting;
            let asked = described.iter().find(|setting| setting.name == name && setting.origin != Origin::Default);
            if let Some(setting) = asked {
                let what = "there is no TLS without a certificate; set tls.certificate and tls.key, too";
                return Err(ConfigError::value(name, &setting.origin, what));
            }
        }
        Ok(())
    }
}
