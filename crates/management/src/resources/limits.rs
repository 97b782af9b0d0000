//! Limits of vhosts and of users.

use std::collections::VecDeque;

use auth::{User, UserLimits};
use axum::Router;
use axum::extract::{Path, State};
use axum::routing::put;
use broker::{Broker, Error, Ticket, VhostLimits, VhostReport};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::api::{self, Answer, Asker, Document, Failure, Routes, Shared, done, make};
use crate::audit::{Said, Told};
use crate::change::{Caller, Changes};
use crate::listing::{Collection, Part, Rights};
use crate::source::Source;

/// Names of limits in RabbitMQ.
pub(super) const MAX_CONNECTIONS: &str = "max-connections";
pub(super) const MAX_QUEUES: &str = "max-queues";
pub(super) const MAX_CHANNELS: &str = "max-channels";

/// Limits of vhosts.
pub(crate) struct OfVhosts;

impl Collection for OfVhosts {
    fn rows(&self, source: &Source, part: Part, _: &mut VecDeque<Part>) -> Vec<Json> {
        part.of_whole(source.broker.vhosts().iter().filter_map(vhost_row))
    }
}

/// Limits of users.
pub(crate) struct OfUsers;

impl Collection for OfUsers {
    fn rights(&self) -> Rights {
        Rights::Administrators
    }

    fn rows(&self, source: &Source, part: Part, _: &mut VecDeque<Part>) -> Vec<Json> {
        part.of_whole(source.broker.authority().users().iter().filter_map(user_row))
    }
}

pub(super) fn routes() -> Routes {
    Router::new()
        .merge(api::all("vhost-limits", &OfVhosts))
        .merge(api::in_vhost("vhost-limits/{vhost}", &OfVhosts))
        .route("/api/vhost-limits/{vhost}/{limit}", put(put_vhost_limit).delete(delete_vhost_limit))
        .merge(api::all("user-limits", &OfUsers))
        .merge(api::of_user("user-limits/{user}", &OfUsers))
        .route("/api/user-limits/{user}/{limit}", put(put_user_limit).delete(delete_user_limit))
}

#[derive(Deserialize)]
struct LimitBody {
    value: i64,
}

impl LimitBody {
    /// A number below 0 means no limit.
    fn value<N: TryFrom<i64>>(&self) -> Result<Option<N>, Failure> {
        if self.value < 0 {
            return Ok(None);
        }
        let value = N::try_from(self.value);
        value
            .map(Some)
            .map_err(|_| Failure::bad_request(format!("a limit of {} is beyond what can be had", self.value)))
    }
}

async fn put_vhost_limit(
    asker: Asker,
    State(source): Shared,
    Path((vhost, limit)): Path<(String, String)>,
    Document(body): Document<LimitBody>,
) -> Answer {
    asker.administers()?;
    make(&source, &asker, LimitChange::SetOfVhost { vhost, limit, value: body.value()? }).await?;
    done()
}

async fn delete_vhost_limit(
    asker: Asker,
    State(source): Shared,
    Path((vhost, limit)): Path<(String, String)>,
) -> Answer {
    asker.administers()?;
    make(&source, &asker, LimitChange::SetOfVhost { vhost, limit, value: None }).await?;
    done()
}

async fn put_user_limit(
    asker: Asker,
    State(source): Shared,
    Path((user, limit)): Path<(String, String)>,
    Document(body): Document<LimitBody>,
) -> Answer {
    asker.administers()?;
    make(&source, &asker, LimitChange::SetOfUser { user, limit, value: body.value()? }).await?;
    done()
}

async fn delete_user_limit(asker: Asker, State(source): Shared, Path((user, limit)): Path<(String, String)>) -> Answer {
    asker.administers()?;
    make(&source, &asker, LimitChange::SetOfUser { user, limit, value: None }).await?;
    done()
}

fn set<N: Copy + Into<u64>>(limits: &[(&str, Option<N>)]) -> Json {
    let set = limits.iter().filter_map(|(name, limit)| Some(((*name).to_owned(), json!((*limit)?.into()))));
    Json::Object(set.collect())
}

/// The limits that a user has.
pub(super) fn of_user(user: &User) -> Json {
    set(&[(MAX_CONNECTIONS, user.limits.connections), (MAX_CHANNELS, user.limits.sessions)])
}

fn user_row(user: &User) -> Option<Json> {
    let value = of_user(user);
    (value != json!({})).then(|| json!({ "user": &*user.name, "value": value }))
}

fn vhost_row(vhost: &VhostReport) -> Option<Json> {
    let value = set(&[(MAX_CONNECTIONS, vhost.limits.connections), (MAX_QUEUES, vhost.limits.queues)]);
    (value != json!({})).then(|| json!({ "vhost": vhost.name, "value": value }))
}

/// A change of limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum LimitChange {
    /// Sets the limits of a user.
    OfUser {
        /// Its name.
        name: String,
        /// Connections at the same time.
        connections: Option<u32>,
        /// Sessions of all its connections together.
        sessions: Option<u32>,
    },
    /// Sets the limits of a vhost.
    OfVhost {
        /// Its name.
        name: String,
        /// Connections at the same time.
        connections: Option<u64>,
        /// Queues.
        queues: Option<u64>,
    },
    /// Sets one limit of a user and keeps the others.
    SetOfUser {
        /// The user.
        user: String,
        /// `max-connections` or `max-channels`.
        limit: String,
        /// The limit; `None` for the broker's own limit only.
        value: Option<u32>,
    },
    /// Sets one limit of a vhost and keeps the others.
    SetOfVhost {
        /// The vhost.
        vhost: String,
        /// `max-connections` or `max-queues`.
        limit: String,
        /// The limit; `None` for the broker's own limit only.
        value: Option<u64>,
    },
}

impl Changes for LimitChange {
    fn told(&self) -> Told {
        match self {
            Self::OfUser { name, connections, sessions } => {
                let limits = format_args!("connections={} sessions={}", Said(connections), Said(sessions));
                Told::of("limit_user", ["", name], limits)
            }
            Self::OfVhost { name, connections, queues } => {
                let limits = format_args!("connections={} queues={}", Said(connections), Said(queues));
                Told::of("limit_vhost", [name, ""], limits)
            }
            Self::SetOfUser { user, limit, value } => {
                Told::of("set_user_limit", ["", user], format_args!("{limit}={}", Said(value)))
            }
            Self::SetOfVhost { vhost, limit, value } => {
                Told::of("set_vhost_limit", [vhost, ""], format_args!("{limit}={}", Said(value)))
            }
        }
    }

    fn apply(self, broker: &Broker, _: Caller) -> Result<(u64, Ticket), Error> {
        let ticket = match self {
            Self::OfUser { name, connections, sessions } => broker.change_user(&name, |user| {
                user.limits = UserLimits { connections, sessions };
                Ok(())
            }),
            Self::OfVhost { name, connections, queues } => {
                broker.limit_vhost(&name, VhostLimits { connections, queues })
            }
            Self::SetOfUser { user, limit, value } => broker.change_user(&user, |user| {
                match limit.as_str() {
                    MAX_CONNECTIONS => user.limits.connections = value,
                    MAX_CHANNELS => user.limits.sessions = value,
                    other => return Err(no_limit("user", other, [MAX_CONNECTIONS, MAX_CHANNELS])),
                }
                Ok(())
            }),
            Self::SetOfVhost { vhost, limit, value } => broker.change_vhost_limits(&vhost, |limits| {
                match limit.as_str() {
                    MAX_CONNECTIONS => limits.connections = value,
                    MAX_QUEUES => limits.queues = value,
                    other => return Err(no_limit("vhost", other, [MAX_CONNECTIONS, MAX_QUEUES])),
                }
                Ok(())
            }),
        }?;
        Ok((0, ticket))
    }
}

fn no_limit(of: &str, name: &str, known: [&str; 2]) -> Error {
    Error::precondition(format!("a {of} has no limit '{name}', but {} and {}", known[0], known[1]))
}
