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
mod health;
mod limits;
mod losses;
mod nodes;
mod overview;
mod parameters;
mod permissions;
mod policies;
mod queues;
mod users;
mod vhosts;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::{any, get};
use broker::PolicyKind;
use serde::{Deserialize, Serialize};

use crate::api::{Failure, Routes};
use crate::front;
use crate::listing::Collection;
pub use definitions::{Extent, Imported, LONGEST_DEFINITIONS};
pub(crate) use definitions::{Import, export, import};

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
    /// Sessions of connections, which AMQP 0-9-1 calls channels.
    Channels,
    /// Consumers.
    Consumers,
    /// Policies.
    Policies,
    /// Operator policies.
    OperatorPolicies,
    /// The last messages that were dropped.
    Losses,
}

impl Listed {
    /// How the things of this kind are listed.
    pub(crate) fn collection(self) -> &'static dyn Collection {
        match self {
            Self::Users => &users::Users,
            Self::Vhosts => &vhosts::Vhosts,
            Self::Permissions => &permissions::Permissions,
            Self::TopicPermissions => &permissions::TopicPermissions,
            Self::VhostLimits => &limits::VhostLimits,
            Self::UserLimits => &limits::UserLimits,
            Self::Queues => &queues::Queues,
            Self::Exchanges => &exchanges::Exchanges,
            Self::Bindings => &bindings::Bindings,
            Self::Connections => &connections::Connections,
            Self::Channels => &channels::Channels,
            Self::Consumers => &consumers::Consumers,
            Self::Policies => &policies::Policies(PolicyKind::User),
            Self::OperatorPolicies => &policies::Policies(PolicyKind::Operator),
            Self::Losses => &losses::Losses,
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
        health::routes,
        limits::routes,
        nodes::routes,
        overview::routes,
        parameters::routes,
        permissions::routes,
        policies::routes,
        queues::routes,
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
