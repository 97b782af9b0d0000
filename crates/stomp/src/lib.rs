//! STOMP 1.0, 1.1 and 1.2: frames, a small client, and the server side of a connection.
//!
//! Nothing here uses a socket or a clock. `codec` and `client` build alone (without default
//! features). The benchmark links only these, so that it treats Hermod and its peers alike.
//! `docs/mapping/stomp.md` says what each frame means to the broker.

pub mod client;
pub mod codec;
#[cfg(feature = "session")]
mod dialect;
pub mod limits;
#[cfg(feature = "session")]
mod session;

#[cfg(feature = "session")]
pub use dialect::StompDialect;
#[cfg(feature = "session")]
pub use session::{Settings, Stomp};
