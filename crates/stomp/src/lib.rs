//! STOMP 1.0, 1.1 and 1.2: frames, a small client, and the server side of a connection.
//!
//! Nothing here touches a socket or a clock. `codec` and `client` build alone (no default
//! features), which is what the benchmark links, so that it is as honest with a peer as with
//! Hermod. `docs/mapping/stomp.md` says what each frame means to the broker.

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
