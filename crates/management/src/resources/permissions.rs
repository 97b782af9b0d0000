//! Permissions of users: in vhosts, and on the routing keys of topic exchanges.

use std::collections::VecDeque;
use std::sync::Arc;

use auth::{Permission, TopicPermission, User};
use axum::Router;
use axum::extract::{Path, State};
use axum::routing::{delete, get};
use broker::{Broker, Error, Ticket};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::api::{self, Answer, Asker, Document, Failure, Routes, Shared, created, done, look, make, select, shown};
use crate::audit::{Said, Told};
use crate::change::{Caller, Changes, invalid};
use crate::listing::{Collection, Part, Rights};
use crate::source::Source;

/// Permissions of users in vhosts.
pub(crate) struct Permissions;

impl Collection for Permissions {
    fn rights(&self) -> Rights {
        Rights::Administrators
    }

    fn rows(&self, source: &Source, part: Part, _: &mut VecDeque<Part>) -> Vec<Json> {
        part.of_whole(source.broker.authority().users().iter().flat_map(rows))
    }
}

/// Permissions of users on routing keys.
pub(crate) struct TopicPermissions;

impl Collection for TopicPermissions {
    fn rights(&self) -> Rights {
        Rights::Administrators
    }

    fn rows(&self, source: &Source, part: Part, _: &mut VecDeque<Part>) -> Vec<Json> {
        part.of_whole(source.broker.authority().users().iter().flat_map(topic_rows))
    }
}

pub(super) fn routes() -> Routes {
    Router::new()
        .merge(api::all("permissions", &Permissions))
        .merge(api::in_vhost("vhosts/{vhost}/permissions", &Permissions))
        .merge(api::of_user("users/{user}/permissions", &Permissions))
        .route("/api/permissions/{vhost}/{user}", get(one).put(put).delete(clear))
        .merge(api::all("topic-permissions", &TopicPermissions))
        .merge(api::in_vhost("vhosts/{vhost}/topic-permissions", &TopicPermissions))
        .merge(api::of_user("users/{user}/topic-permissions", &TopicPermissions))
        .route("/api/topic-permissions/{vhost}/{user}", get(topics).put(put_topic).delete(clear_all_topics))
        .route("/api/topic-permissions/{vhost}/{user}/{exchange}", delete(clear_topic))
}

async fn one(asker: Asker, State(source): Shared, Path((vhost, user)): Path<(String, String)>) -> Answer {
    let rows = look(&source, &asker.clone(), move |source| {
        select(&asker, source, &Permissions, Some(&vhost), &[("user", &user)])
    })
    .await?;
    rows?.into_iter().next().map_or_else(|| Err(Failure::not_found()), shown)
}

/// One row for each exchange.
async fn topics(asker: Asker, State(source): Shared, Path((vhost, user)): Path<(String, String)>) -> Answer {
    let rows = look(&source, &asker.clone(), move |source| {
        select(&asker, source, &TopicPermissions, Some(&vhost), &[("user", &user)])
    })
    .await??;
    if rows.is_empty() { Err(Failure::not_found()) } else { shown(rows) }
}

#[derive(Deserialize)]
struct PermissionBody {
    configure: String,
    write: String,
    read: String,
}

async fn put(
    asker: Asker,
    State(source): Shared,
    Path((vhost, user)): Path<(String, String)>,
    Document(rights): Document<PermissionBody>,
) -> Answer {
    asker.administers()?;
    let was_there = rights_of(&source, &user, &vhost, |user| user.permissions.contains_key(vhost.as_str()))?;
    let PermissionBody { configure, write, read } = rights;
    make(&source, &asker, PermissionChange::Set { user, vhost, configure, write, read }).await?;
    if was_there { done() } else { created() }
}

/// Whether `has` is true of a user's permissions in a vhost. A missing user or vhost is a fault of
/// the document, not of the path.
fn rights_of(source: &Source, name: &str, vhost: &str, has: impl Fn(&auth::User) -> bool) -> Result<bool, Failure> {
    let user = source.broker.authority().user(name).filter(|_| source.broker.has_vhost(vhost));
    let missing = || Failure::bad_request(format!("vhost_or_user_not_found: vhost '{vhost}', user '{name}'"));
    user.map(|user| has(&user)).ok_or_else(missing)
}

async fn clear(asker: Asker, State(source): Shared, Path((vhost, user)): Path<(String, String)>) -> Answer {
    asker.administers()?;
    if !rights_of(&source, &user, &vhost, |user| user.permissions.contains_key(vhost.as_str())).unwrap_or(false) {
        return Err(Failure::not_found());
    }
    make(&source, &asker, PermissionChange::Clear { user, vhost }).await?;
    done()
}

#[derive(Deserialize)]
struct TopicPermissionBody {
    exchange: String,
    write: String,
    read: String,
}

async fn put_topic(
    asker: Asker,
    State(source): Shared,
    Path((vhost, user)): Path<(String, String)>,
    Document(rights): Document<TopicPermissionBody>,
) -> Answer {
    asker.administers()?;
    let TopicPermissionBody { exchange, write, read } = rights;
    let key = (vhost.as_str().into(), exchange.as_str().into());
    let was_there = rights_of(&source, &user, &vhost, |user| user.topic_permissions.contains_key(&key))?;
    make(&source, &asker, PermissionChange::SetTopic { user, vhost, exchange, write, read }).await?;
    if was_there { done() } else { created() }
}

async fn clear_all_topics(asker: Asker, State(source): Shared, Path((vhost, user)): Path<(String, String)>) -> Answer {
    clear_topics(asker, source, vhost, user, None).await
}

async fn clear_topic(
    asker: Asker,
    State(source): Shared,
    Path((vhost, user, exchange)): Path<(String, String, String)>,
) -> Answer {
    clear_topics(asker, source, vhost, user, Some(exchange)).await
}

async fn clear_topics(
    asker: Asker,
    source: Arc<Source>,
    vhost: String,
    user: String,
    exchange: Option<String>,
) -> Answer {
    asker.administers()?;
    let is_meant = |place: &str, name: &str| place == vhost && exchange.as_ref().is_none_or(|only| name == only);
    let has = |user: &auth::User| user.topic_permissions.keys().any(|(place, name)| is_meant(place, name));
    if !rights_of(&source, &user, &vhost, has).unwrap_or(false) {
        return Err(Failure::not_found());
    }
    make(&source, &asker, PermissionChange::ClearTopic { user, vhost, exchange }).await?;
    done()
}

fn rows(user: &User) -> Vec<Json> {
    let rows = user.permissions.iter().map(|(vhost, permission)| {
        json!({
            "user": &*user.name,
            "vhost": &**vhost,
            "configure": permission.configure.as_str(),
            "write": permission.write.as_str(),
            "read": permission.read.as_str(),
        })
    });
    rows.collect()
}

fn topic_rows(user: &User) -> Vec<Json> {
    let rows = user.topic_permissions.iter().map(|((vhost, exchange), permission)| {
        json!({
            "user": &*user.name,
            "vhost": &**vhost,
            "exchange": &**exchange,
            "write": permission.write.as_str(),
            "read": permission.read.as_str(),
        })
    });
    rows.collect()
}

/// A change of the permissions of a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum PermissionChange {
    /// Sets the permissions of a user in a vhost, in place of those it has there.
    Set {
        /// Its name.
        user: String,
        /// The vhost.
        vhost: String,
        /// Pattern of names that the user may declare and delete.
        configure: String,
        /// Pattern of names that the user may write messages to.
        write: String,
        /// Pattern of names that the user may read messages from.
        read: String,
    },
    /// Clears all permissions of a user in a vhost.
    Clear {
        /// Its name.
        user: String,
        /// The vhost.
        vhost: String,
    },
    /// Sets which routing keys of a topic exchange a user may use.
    SetTopic {
        /// Its name.
        user: String,
        /// The vhost.
        vhost: String,
        /// The exchange.
        exchange: String,
        /// Pattern of keys that the user may publish with.
        write: String,
        /// Pattern of keys that the user may bind with.
        read: String,
    },
    /// Clears the topic permissions of a user, for one exchange or for all.
    ClearTopic {
        /// Its name.
        user: String,
        /// The vhost.
        vhost: String,
        /// The exchange; `None` for all of them.
        exchange: Option<String>,
    },
}

impl Changes for PermissionChange {
    fn told(&self) -> Told {
        match self {
            Self::Set { user, vhost, configure, write, read } => {
                let rights = format_args!("configure={} write={} read={}", Said(configure), Said(write), Said(read));
                Told::of("set_permission", [vhost, user], rights)
            }
            Self::Clear { user, vhost } => Told::plain("clear_permission", [vhost, user]),
            Self::SetTopic { user, vhost, exchange, write, read } => {
                let rights = format_args!("exchange={} write={} read={}", Said(exchange), Said(write), Said(read));
                Told::of("set_topic_permission", [vhost, user], rights)
            }
            Self::ClearTopic { user, vhost, exchange } => {
                Told::of("clear_topic_permission", [vhost, user], format_args!("exchange={}", Said(exchange)))
            }
        }
    }

    fn apply(self, broker: &Broker, _: Caller) -> Result<(u64, Ticket), Error> {
        let in_vhost = |vhost: &str| {
            let known = broker.has_vhost(vhost);
            known.then_some(()).ok_or_else(|| Error::not_found(format!("vhost '{vhost}' does not exist")))
        };
        let ticket = match self {
            Self::Set { user, vhost, configure, write, read } => {
                let permission = Permission::new(&configure, &write, &read).map_err(invalid)?;
                broker.change_user(&user, |user| {
                    in_vhost(&vhost)?;
                    user.permissions.insert(vhost.as_str().into(), permission);
                    Ok(())
                })
            }
            Self::Clear { user, vhost } => broker.change_user(&user, |user| {
                in_vhost(&vhost)?;
                user.permissions.remove(vhost.as_str());
                Ok(())
            }),
            Self::SetTopic { user, vhost, exchange, write, read } => {
                let permission = TopicPermission::new(&user, &vhost, &write, &read).map_err(invalid)?;
                broker.change_user(&user, |user| {
                    in_vhost(&vhost)?;
                    user.topic_permissions.insert((vhost.as_str().into(), exchange.as_str().into()), permission);
                    Ok(())
                })
            }
            Self::ClearTopic { user, vhost, exchange } => broker.change_user(&user, |user| {
                in_vhost(&vhost)?;
                user.topic_permissions.retain(|(place, name), _| {
                    **place != *vhost || exchange.as_ref().is_some_and(|exchange| **name != **exchange)
                });
                Ok(())
            }),
        }?;
        Ok((0, ticket))
    }
}
