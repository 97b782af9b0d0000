//! The server side: from received frames to the broker, and from the broker's events to frames.
//!
//! Each group of commands has one file. Any failure ends the connection with one ERROR frame, as
//! the specification demands. A RECEIPT is written only when its change is durable.

mod ack;
mod connect;
mod connection;
mod declare;
mod deliver;
mod destination;
mod durable;
mod error;
mod heart_beat;
mod open;
mod protocol;
mod receipt;
mod send;
mod subscribe;
mod temporary;
mod transaction;

pub use protocol::{Settings, Stomp};

#[cfg(test)]
mod tests;
