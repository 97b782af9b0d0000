//! AMQP 0-9-1 with RabbitMQ's extensions: codec and client, and with the feature `session` the
//! server.
//!
//! [`codec`] turns bytes into methods and back, without state. [`client`] is one end of a
//! connection without I/O. The server side implements [`wire::Connection`] over the broker's
//! sessions: an AMQP channel is a session.

pub mod client;
pub mod codec;
pub mod limits;

#[cfg(feature = "session")]
mod dialect;
#[cfg(feature = "session")]
mod session;

#[cfg(feature = "session")]
pub use dialect::{Amqp091Dialect, from_neutral};
#[cfg(feature = "session")]
pub use session::encode;
#[cfg(feature = "session")]
pub use session::{Amqp091, Settings};
