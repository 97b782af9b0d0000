//! What every protocol shares with the sockets: bytes in, bytes out, time as an argument.
//!
//! A protocol implements [`Connection`] and never sees a socket; `net` drives any `Connection` and
//! never sees a frame. Everything here is synchronous and deterministic, so a whole conversation is
//! a unit test.

mod connection;
mod network;
mod output;
mod proxy;
mod reader;
mod subnet;
pub mod waiting;

pub use connection::{CloseReason, Connection, Doing, Peer, Protocol, ReadState, Recognition};
pub use network::{InTurn, network};
pub use output::{Output, SHARE_FROM};
pub use proxy::{Forwarded, LONGEST as LONGEST_PROXY_HEADER, ProxyError, ProxyHeader, Taken, seen_through};
pub use reader::{DecodeError, Reader};
pub use subnet::Subnet;
