//! Everything that RabbitMQ's HTTP API shows and changes, a file for each resource: its rows, its
//! routes, its changes, and who may do what. Here are the tables of all of them.
//!
//! A field whose figure is unknown is left out, never made up.

mod bindings;
mod channels;
mod connections;
mod consumers;
mod definitions;
mod exchanges;
mod explain;
mod global_parameters;
mod health;
mod limits;
mod log;
mod login;
mod losses;
mod nodes;
mod overview;
mod parameters;
mod permissions;
mod policies;
mod queues;
mod retained;
mod shovels;
mod subscriptions;
mod tasks;
mod users;
mod vhosts;
mod wills;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::{any, get};
use broker::{Broker, Error, PolicyKind, Ticket};
use serde::{Deserialize, Serialize};

use crate::api::{Failure, Routes};
use crate::audit::Told;
use crate::change::{Caller, Changes};
use crate::front;
use crate::listing::Collection;
pub(crate) use bindings::each_binding;
pub use bindings::percent_encoded;
pub use bindings::{BindingChange, BindingFields, DestinationType};
pub use connections::ConnectionChange;
pub(crate) use consumers::each_consumer;
pub use definitions::{Extent, Imported, LONGEST_DEFINITIONS};
pub(crate) use definitions::{Import, export, import};
pub use exchanges::{ExchangeChange, PublishFields};
pub use explain::{Explain, Explanation, Reason, error as explain_error};
pub(crate) use explain::{explained, literal};
pub use global_parameters::GlobalParameterChange;
pub use limits::LimitChange;
pub use nodes::NodeChange;
pub use permissions::PermissionChange;
pub use policies::{PolicyChange, PolicyFields};
pub use queues::QueueChange;
pub(crate) use queues::fetched;
pub(crate) use queues::movement;
pub use retained::RetainedChange;
pub use shovels::ShovelChange;
pub use subscriptions::SubscriptionChange;
pub(crate) use tasks::kept::kept_in;
pub(crate) use tasks::plan;
pub use tasks::{PlannedRow, TaskChange, TaskFields, TaskTo};
pub use users::{Secret, UserChange};
pub use vhosts::VhostChange;
pub use wills::WillChange;
pub(crate) use wills::kept as will_kept;

/// Handlers of changes that the native API has too.
pub(crate) mod native {
    pub(crate) use super::exchanges::{put as put_exchange, remove as delete_exchange};
    pub(crate) use super::policies::{native_clear as clear_policy, native_put as put_policy};
    pub(crate) use super::queues::{purge as purge_queue, put as put_queue, remove as delete_queue};
    pub(crate) use super::retained::native_remove as remove_retained;
    pub(crate) use super::subscriptions::native_remove as remove_subscription;
    pub(crate) use super::users::{put as put_user, remove as delete_user};
    pub(crate) use super::vhosts::{put as put_vhost, remove as delete_vhost};
    pub(crate) use super::wills::native_remove as remove_will;
}

/// The kinds of things that can be listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Listed {
    /// Users, with their password hashes.
    Users,
    /// Vhosts.
    Vhosts,
    /// Permissions of users in vhosts.
    Permissions,
    /// Permissions of users on routing keys.
    TopicPermissions,
    /// Limits of vhosts.
    VhostLimits,
    /// Limits of users.
    UserLimits,
    /// Queues.
    Queues,
    /// Exchanges.
    Exchanges,
    /// Bindings, including those of every queue to the default exchange.
    Bindings,
    /// Connections that have authenticated.
    Connections,
    /// Sockets that have not authenticated yet.
    Strangers,
    /// Sessions of connections, which AMQP 0-9-1 calls channels.
    Channels,
    /// Consumers of queues.
    Consumers,
    /// Consumers, those without a queue included.
    AllConsumers,
    /// Policies.
    Policies,
    /// Operator policies.
    OperatorPolicies,
    /// The last messages that were dropped.
    Losses,
    /// Tasks.
    Tasks,
    /// The last lines of the log.
    Log,
    /// The last entries of the audit log.
    Audit,
    /// The last connections that ended.
    Endings,
    /// Retained messages.
    Retained,
    /// Subscriptions, each with its queue.
    Subscriptions,
    /// Shovels, without passwords.
    Shovels,
    /// How shovels are doing.
    ShovelStates,
    /// Wills.
    Wills,
    /// Parameters of the whole broker.
    GlobalParameters,
}

impl Listed {
    /// How the things of this kind are listed.
    pub(crate) fn collection(self) -> &'static dyn Collection {
        match self {
            Self::Users => &users::Users,
            Self::Vhosts => &vhosts::Vhosts,
            Self::Permissions => &permissions::Permissions,
            Self::TopicPermissions => &permissions::TopicPermissions,
            Self::VhostLimits => &limits::OfVhosts,
            Self::UserLimits => &limits::OfUsers,
            Self::Queues => &queues::Queues,
            Self::Exchanges => &exchanges::Exchanges,
            Self::Bindings => &bindings::Bindings,
            Self::Connections => &connections::Connections,
            Self::Strangers => &connections::Strangers,
            Self::Channels => &channels::Channels,
            Self::Consumers => &consumers::Consumers,
            Self::AllConsumers => &consumers::AllConsumers,
            Self::Policies => &policies::Policies(PolicyKind::User),
            Self::OperatorPolicies => &policies::Policies(PolicyKind::Operator),
            Self::Losses => &losses::Losses,
            Self::Tasks => &tasks::Tasks,
            Self::Log => &log::Log,
            Self::Audit => &log::Audit,
            Self::Endings => &log::Endings,
            Self::Retained => &retained::Retained,
            Self::Subscriptions => &subscriptions::Subscriptions,
            Self::Shovels => &shovels::Shovels,
            Self::ShovelStates => &shovels::ShovelStates,
            Self::Wills => &wills::Wills,
            Self::GlobalParameters => &global_parameters::GlobalParameters,
        }
    }
}

/// Everything under `/api`.
pub(crate) fn routes() -> Routes {
    let all = [
        bindings::routes,
        channels::routes,
        connections::routes,
        consumers::routes,
        definitions::routes,
        exchanges::routes,
        explain::routes,
        global_parameters::routes,
        health::routes,
        limits::routes,
        login::routes,
        nodes::routes,
        overview::routes,
        parameters::routes,
        permissions::routes,
        policies::routes,
        queues::routes,
        shovels::routes,
        tasks::routes,
        users::routes,
        vhosts::routes,
    ];
    let routes = all.into_iter().fold(Router::new(), |routes, of| routes.merge(of()));
    routes
        .route("/api", get(async || front::about_api()))
        .route("/api/", get(async || front::about_api()))
        .route("/api/{*rest}", any(async || Failure::not_found()))
        .method_not_allowed_fallback(async || {
            let reason = "this path knows other methods: see the header Allow";
            Failure::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", reason)
        })
}

/// A change of any resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Of users.
    Users(UserChange),
    /// Of the permissions of a user.
    Permissions(PermissionChange),
    /// Of vhosts.
    Vhosts(VhostChange),
    /// Of limits.
    Limits(LimitChange),
    /// Of policies.
    Policies(PolicyChange),
    /// Of queues.
    Queues(QueueChange),
    /// Of exchanges.
    Exchanges(ExchangeChange),
    /// Of bindings.
    Bindings(BindingChange),
    /// Of connections.
    Connections(ConnectionChange),
    /// Of tasks.
    Tasks(TaskChange),
    /// Of retained messages.
    Retained(RetainedChange),
    /// Of shovels.
    Shovels(ShovelChange),
    /// Of wills.
    Wills(WillChange),
    /// Of subscriptions.
    Subscriptions(SubscriptionChange),
    /// Of global parameters, and of the cluster's name.
    GlobalParameters(GlobalParameterChange),
    /// Of the node itself.
    Node(NodeChange),
}

impl Changes for Change {
    fn told(&self) -> Told {
        match self {
            Self::Users(change) => change.told(),
            Self::Permissions(change) => change.told(),
            Self::Vhosts(change) => change.told(),
            Self::Limits(change) => change.told(),
            Self::Policies(change) => change.told(),
            Self::Queues(change) => change.told(),
            Self::Exchanges(change) => change.told(),
            Self::Bindings(change) => change.told(),
            Self::Connections(change) => change.told(),
            Self::Tasks(change) => change.told(),
            Self::Retained(change) => change.told(),
            Self::Shovels(change) => change.told(),
            Self::Wills(change) => change.told(),
            Self::Subscriptions(change) => change.told(),
            Self::GlobalParameters(change) => change.told(),
            Self::Node(change) => change.told(),
        }
    }

    fn apply(self, broker: &Broker, caller: Caller) -> Result<(u64, Ticket), Error> {
        match self {
            Self::Users(change) => change.apply(broker, caller),
            Self::Permissions(change) => change.apply(broker, caller),
            Self::Vhosts(change) => change.apply(broker, caller),
            Self::Limits(change) => change.apply(broker, caller),
            Self::Policies(change) => change.apply(broker, caller),
            Self::Queues(change) => change.apply(broker, caller),
            Self::Exchanges(change) => change.apply(broker, caller),
            Self::Bindings(change) => change.apply(broker, caller),
            Self::Connections(change) => change.apply(broker, caller),
            Self::Tasks(change) => change.apply(broker, caller),
            Self::Retained(change) => change.apply(broker, caller),
            Self::Shovels(change) => change.apply(broker, caller),
            Self::Wills(change) => change.apply(broker, caller),
            Self::Subscriptions(change) => change.apply(broker, caller),
            Self::GlobalParameters(change) => change.apply(broker, caller),
            Self::Node(change) => change.apply(broker, caller),
        }
    }
}
