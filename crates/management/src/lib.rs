//! What operators and their tools see of a running broker: metrics and health over HTTP, and the control socket of the
//! command line.
//!
//! It runs on a thread of its own and reads the broker through its reports, so that it answers while the data path is
//! busy and never slows it by more than a short lock.

pub mod control;
mod exposition;
mod http;
mod https;
mod messages;
mod metrics;
mod process;
mod report;
mod server;
mod source;

pub use https::Secure;
pub use report::{
    BackupRow, ConnectionRow, ListenerRow, MessageRow, QueueRow, RedriveRow, RepairRow, SelectorRow, Status,
};
pub use server::{Endpoints, Management};
pub use source::{Facts, Socket, Source};
