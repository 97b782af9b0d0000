//! What operators and their tools see of a running broker: metrics and health over HTTP, and the
//! control socket of the command line.
//!
//! It runs on threads of its own and reads the broker through its reports. So it answers while the
//! data path is busy, and never slows the data path by more than a short lock.

mod api;
mod audit;
mod budget;
mod change;
mod checks;
mod console;
pub mod control;
mod cookies;
mod counters;
mod courier;
mod detailed;
mod diagnosis;
mod door;
mod exposition;
mod facts;
mod features;
mod figures;
mod foreign;
mod front;
mod glance;
mod history;
mod hosts;
mod http;
mod http_listener;
mod journeys;
mod json;
mod listing;
mod manual;
mod memory;
mod messages;
mod metrics;
mod native;
mod pace;
mod per_queue;
mod pieces;
mod pool;
mod prefix;
mod process;
mod quantity;
mod rates;
mod recent;
mod report;
mod resources;
mod sampling;
mod scrape;
mod server;
mod serving;
mod sessions;
mod source;
mod standby;
mod visit;
mod watch;

pub use change::{Refused, Why};
pub use diagnosis::{CauseRow, DiagnosisRow, FiguresRow, HolderRow};
pub use door::Limits;
pub use facts::{Document, Encryption, Facts, Network, ProtocolNames, Setting, ShovelStatus, Socket};
pub use features::feature_flags;
pub use hosts::{Hosts, Names};
pub use http::PerObject;
pub use http_listener::{Configuring, Handshake, HttpListener, Introduce, Introduced, Pages};
pub use listing::{SortKey, at, only};
pub use process::resident_bytes;
pub use recent::{AUDIT, LogLine, RecentLog};
pub use report::{
    BackupRow, ClusterStatus, ConnectionStatus, FollowerRow, ListenerRow, MessageRow, MessageStatus, ObjectStatus,
    Promotion, RedriveRow, RepairRow, ServerStatus, StandbyRow, Status, StorageStatus, SubscriptionRow,
};
pub use resources::{
    BindingChange, BindingFields, Change, ConnectionChange, DestinationType, ExchangeChange, Explain, Explanation,
    Extent, GlobalParameterChange, Imported, LONGEST_DEFINITIONS, LimitChange, Listed, NodeChange, PermissionChange,
    PlannedRow, PolicyChange, PolicyFields, PublishFields, QueueChange, Reason, RetainedChange, Secret, ShovelChange,
    SubscriptionChange, TaskChange, TaskFields, TaskTo, UserChange, VhostChange, WillChange, explain_error,
    percent_encoded,
};
pub use server::{Endpoints, Management};
pub use source::{Encoding, Source};
pub use standby::{StandbyHooks, StandbyServer, lost_at_most};
pub use watch::Watch;
