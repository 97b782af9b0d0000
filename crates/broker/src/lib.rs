//! The model and the engine of the broker: no sockets, no protocol, no tokio.
//!
//! The life of a message: a protocol hands it to [`Client::publish`], which writes it into one
//! block and routes it (`routing`, `catalog`). [`Client::flush`] ends the turn: bodies go to the
//! journal, then each touched queue is locked once, logs its references and dispatches (`queue`)
//! into consumers' mailboxes (`queue::mailbox`). [`Client::drain`] reports deliveries and
//! confirms to the protocol. [`Client::settle`] brings the outcome back. `docs/flows` follows each
//! path file by file.

mod admin;
mod alarms;
mod arguments;
mod broker;
mod browse;
mod catalog;
mod clock;
mod encoding;
mod engine;
mod error;
mod explain;
mod memory;
mod message;
mod names;
mod queue;
mod redrive;
mod repair;
mod report;
mod routing;
mod session;
mod settings;
mod standby;
mod stats;
mod store;
mod tasks;
mod tracing;
mod value;

pub use crate::memory::ingress::LARGE_BODY;
pub use crate::memory::ledger::{Charge, Held, PublisherRoom};
pub use crate::queue::dropped::{DEAD_LETTERS_DROPPED, Loss, MissingTarget};
pub use admin::{GlobalParameter, PolicyReport, ShovelReport, TaskReport, VhostReport};
pub use alarms::{AlarmsUp, Flow};
pub use arguments::consumer::{ConsumerArguments, InvalidArgument, Mode};
pub use arguments::{ArgumentKind, queue_argument};
pub use broker::{Broker, FirstUser, Parts};
pub use browse::{Browse, Browsed, Browsing};
pub use catalog::declaration::{BindingSpec, DestinationName, ExchangeSpec, QueueSpec};
pub use catalog::listed::QueueNames;
pub use catalog::policies::{ApplyTo, PolicyKind, PolicySpec};
pub use catalog::retained::RetainedCount;
pub use catalog::shovels::ShovelSpec;
pub use catalog::subscriptions::{Sharing, SubscriptionFact, SubscriptionName};
pub use catalog::tasks::{TaskCounts, TaskId, TaskKind, TaskSpec, TaskState, TaskTarget};
pub use catalog::vhost_settings::{VhostLimits, VhostSpec};
pub use catalog::wills::{WillCount, WillKept};
pub use clock::{Clock, LONGEST_SPAN_MS, SPAN_WANTED, SystemClock, TIME_WANTED};
pub use engine::bounds::STORED_BESIDES;
pub use engine::clients::{Login, SessionReport, Terms};
pub use engine::disk_watch::DiskBounds;
pub use engine::open_error::OpenError;
pub use engine::verify::{Verified, VerifiedQueue};
pub use error::{Error, ErrorKind, Fact};
pub use explain::{
    PREVIEWED, PoliciesExplained, PolicyFit, PolicyPreview, PolicyVerdict, QueuePreview, RouteExplained, RouteHop,
};
pub use journal::{Durations, Ticket};
pub use message::annotations::{Annotations, Death, DeathPlace, Reason, SAID_MAX};
pub use message::body::{Body, Gathered, Place};
pub use message::dialect::{Content, Dialect, DialectId, Dialects, Field, IdForm};
pub use message::id::Id;
pub use message::overlay::{Counts, Overlay};
pub use message::properties::Properties;
pub use message::scheduling::is_instruction;
pub use message::{Message, Sent};
pub use queue::ExactlyOnce;
/// A purge that is under way.
pub use queue::Purging;
pub use queue::{Ages, Cause, Causes, Credit, QueueFigures, QueueTotals, Readiness, Rest, SelectorReport, Settling};
pub use redrive::{RedriveMode, Redriven};
pub use repair::{Repair, RepairMode};
pub use report::{
    AppliedPolicies, AttachedClient, BindingPlace, BindingReport, ClientReport, ConsumerReport, ConsumerSource,
    DeclaredQueue, Diagnosis, DirectConsumer, ExchangeReport, FilterReport, Holder, Left, MemoryUse, Messages, Names,
    Objects, Overview, Presence, QueueCounts, QueueReport, RETAINED_BETWEEN, RetainedReport, Share, Standing,
    WILL_BETWEEN, WillReport,
};
/// A property's value for selectors.
pub use selector::Value as Selected;
pub use session::{
    Awaited, Client, Confirm, Consume, Declaration, Declared, DeleteIf, Delivery, DirectSource, Event, Fetch, Handover,
    Outcome, Publish, Refusal, RetainedWanted, Returned, SessionId, Source, Subscribed, SubscriptionFilter,
    SubscriptionSpec, SubscriptionThere, Tags, TransactionId, Unroutable,
};
pub use settings::{
    ConsumerLimits, CountedReturns, DeclarationLimits, DiskLimit, DiskLimits, Limits, NodeNames, ParkingLimits,
    RetainedLimits, Settings, Switch, UnknownArguments,
};
pub use standby::Standby;
pub use stats::{Churn, Counter, Deaths, Deliveries, Publishes, Sizes, Totals};
pub use value::{Table, Value, decimal_text, ms_of_seconds, seconds_of_ms};
