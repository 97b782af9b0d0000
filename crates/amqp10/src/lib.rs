//! AMQP 1.0 (OASIS Standard, 29 October 2012; ISO/IEC 19464): the codec, and with the feature
//! `session` the dialect of its messages and the server side.
//!
//! [`codec`] turns bytes into values, frames and sections of messages, and back, without state.
//! [`delivery`] cuts messages into transfers, and puts them together. [`client`] is the client
//! side, for benchmarks and tests. The dialect is how the broker stores messages of this protocol,
//! and how other protocols and this one see each other's. The session is the server's side of a
//! connection.

pub mod client;
pub mod codec;
pub mod delivery;
pub mod limits;

#[cfg(feature = "session")]
pub mod dialect;
#[cfg(feature = "session")]
mod session;

#[cfg(feature = "session")]
pub use dialect::Amqp10Dialect;
#[cfg(feature = "session")]
pub use session::{Amqp10, Settings};
