//! MQTT 3.1, 3.1.1 and 5.0: packets, and the server side of a connection.
//!
//! Nothing here uses a socket or a clock. `codec` builds alone (without default features).
//! `docs/mapping/mqtt.md` says what each packet means to the broker.

#[cfg(feature = "session")]
mod address;
pub mod codec;
#[cfg(feature = "session")]
mod dialect;
pub mod limits;
#[cfg(feature = "session")]
mod session;

#[cfg(feature = "session")]
pub use dialect::MqttDialect;
#[cfg(feature = "session")]
pub use session::{Host, Mqtt, Settings, Sys, SysPublisher};
