//! STOMP as a row of the table, and its own settings.

use std::sync::Arc;

use ::stomp::codec::Trailer;
use ::stomp::{Settings as ProtocolSettings, Stomp, StompDialect};
use auth::sasl::Mechanism;
use broker::Broker;
use management::ProtocolNames;
use wire::Protocol;

use super::{OwnSettings, Place, Served, ServedWeb};
use crate::config::{ConfigError, Port, Reader, Settings, declare, value};

pub(super) const ROW: Served = Served {
    names: ProtocolNames { name: "stomp", listed: "STOMP", also: &["stomp1.0", "stomp1.1", "stomp1.2"] },
    plugin: Some("rabbitmq_stomp"),
    place: Place::Own {
        port: Port { setting: "ports.stomp", default: "61613", doc: "Port of STOMP; 0 turns it off." },
        secure_port: Port {
            setting: "ports.stomps",
            default: "61614",
            doc: "Port of STOMP over TLS. It is opened if `tls.certificate` is set; 0 turns it off.",
        },
    },
    web: Some(WEB),
    alpn: &["stomp"],
    dialect: || Arc::new(StompDialect),
    read: |reader| Ok(Arc::new(Own::read(reader)?)),
};

/// The equivalent of RabbitMQ's Web STOMP.
const WEB: ServedWeb = ServedWeb {
    name: "web-stomp",
    subprotocols: &["v12.stomp", "v11.stomp", "v10.stomp"],
    // Some clients read text alone.
    messages: net::WebMessages::TextIfPossible,
    plugin: "rabbitmq_web_stomp",
    usual_port: 15674,
    port: Port {
        setting: "ports.web_stomp",
        default: "0",
        doc: "Port of STOMP over WebSocket, for pages in browsers. RabbitMQ uses 15674. 0, the default, turns it off.",
    },
    secure_port: Port {
        setting: "ports.web_stomps",
        default: "0",
        doc: "Port of STOMP over WebSocket and TLS. RabbitMQ uses 15673. It is opened if `tls.certificate` is set; 0, \
              the default, turns it off.",
    },
};

/// The user of clients without a log-in, the pages that may connect, and the end of frames.
struct Own {
    /// User and password of a CONNECT without `login`.
    default_login: Option<(String, String)>,
    /// Origins of pages besides those of the broker's own host.
    web_origins: Vec<String>,
    /// Follows each frame that is sent.
    trailer: Trailer,
}

impl std::fmt::Debug for Own {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stomp").finish_non_exhaustive()
    }
}

impl Own {
    fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let user = reader.get(
            declare(
                "stomp.default_user",
                "text",
                "",
                "User of STOMP clients whose CONNECT has no `login`. If it is not set, such a client is refused.",
            ),
            value::text,
        )?;
        let password = reader.secret(declare("stomp.default_pass", "text", "", "Password of `stomp.default_user`."))?;
        let web_origins = reader.get(
            declare(
                "stomp.web_origins",
                "names",
                "",
                "Origins of pages that may connect by WebSocket, such as `https://shop.example`, separated by \
                 commas; `*` for all. Pages of the broker's own host may always connect.",
            ),
            value::names,
        )?;
        let trailing_lf = reader.get(
            declare(
                "stomp.trailing_lf",
                "true, false",
                "true",
                "Sends a line feed after each STOMP frame, as RabbitMQ does. Some clients read one byte more than a \
                 frame has.",
            ),
            value::flag,
        )?;
        let default_login = (!user.is_empty()).then_some((user, password));
        let trailer = if trailing_lf { Trailer::LineFeed } else { Trailer::None };
        Ok(Self { default_login, web_origins, trailer })
    }
}

impl OwnSettings for Own {
    fn make(&self, broker: &Broker, settings: &Settings) -> Arc<dyn Protocol> {
        let settings = ProtocolSettings {
            handshake: settings.limits.handshake_timeout,
            certificate_login: settings.users.mechanisms.contains(&Mechanism::External),
            default_login: self.default_login.clone(),
            server: format!("{}/{}", settings.compat.product, settings.compat.version),
            trailer: self.trailer,
            ..ProtocolSettings::default()
        };
        Arc::new(Stomp::new(broker.clone(), settings))
    }

    fn web_origins(&self) -> &[String] {
        &self.web_origins
    }
}
