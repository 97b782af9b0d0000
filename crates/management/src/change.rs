//! Everything that management can change: one list for the command line, `rabbitmqctl` and HTTP.
//!
//! A change is answered when it is durable. The audit log is told of each: who asked, from where,
//! and the outcome.

use std::sync::Arc;
use std::task::{Wake, Waker};

use auth::shown::extract;
use auth::{Identity, PasswordHash, Permission, Tags, TopicPermission, User, UserLimits};
use broker::{Broker, ClientReport, Error, ErrorKind, Ticket, VhostLimits, VhostSpec};
use serde::{Deserialize, Serialize};

use crate::audit::Told;
use crate::objects::{self, ObjectChange};
use crate::policies::{self, PolicyChange};

/// Target of the audit log's events.
pub const AUDIT: &str = "audit";

/// Bytes of a refusal's text in the audit log.
pub(crate) const WHY: usize = 512;

/// Names of limits in RabbitMQ.
pub(crate) const MAX_CONNECTIONS: &str = "max-connections";
pub(crate) const MAX_QUEUES: &str = "max-queues";
pub(crate) const MAX_CHANNELS: &str = "max-channels";

/// A password, or its hash. Its `Debug` output never shows either.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Secret {
    /// No login by password.
    None,
    /// The password itself.
    Password(String),
    /// Its hash, as [`PasswordHash::as_str`] shows it.
    Hash(String),
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

/// A change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Change {
    /// Adds a user.
    AddUser {
        /// Its name.
        name: String,
        /// How it logs in.
        secret: Secret,
        /// Its tags.
        tags: Vec<String>,
    },
    /// Adds a user. If the user exists, replaces its password and its tags.
    PutUser {
        /// Its name.
        name: String,
        /// How it logs in.
        secret: Secret,
        /// All its tags.
        tags: Vec<String>,
    },
    /// Deletes a user and closes its connections.
    DeleteUser {
        /// Its name.
        name: String,
    },
    /// Changes how a user logs in.
    ChangePassword {
        /// Its name.
        name: String,
        /// How it logs in from now on.
        secret: Secret,
    },
    /// Replaces the tags of a user.
    SetTags {
        /// Its name.
        name: String,
        /// All its tags.
        tags: Vec<String>,
    },
    /// Sets the limits of a user.
    LimitUser {
        /// Its name.
        name: String,
        /// Connections at the same time.
        connections: Option<u32>,
        /// Sessions of all its connections together.
        sessions: Option<u32>,
    },
    /// Sets the permissions of a user in a vhost, in place of those it has there.
    SetPermission {
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
    ClearPermission {
        /// Its name.
        user: String,
        /// The vhost.
        vhost: String,
    },
    /// Sets which routing keys of a topic exchange a user may use.
    SetTopicPermission {
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
    ClearTopicPermission {
        /// Its name.
        user: String,
        /// The vhost.
        vhost: String,
        /// The exchange; `None` for all of them.
        exchange: Option<String>,
    },
    /// Adds a vhost, or changes the given fields of one.
    PutVhost {
        /// Its name.
        name: String,
        /// Its description.
        description: Option<String>,
        /// Its tags.
        tags: Option<Vec<String>>,
        /// The type of queues that are declared without one; empty for the broker's default.
        default_queue_type: Option<String>,
    },
    /// Deletes a vhost with everything in it.
    DeleteVhost {
        /// Its name.
        name: String,
    },
    /// Sets the limits of a vhost.
    LimitVhost {
        /// Its name.
        name: String,
        /// Connections at the same time.
        connections: Option<u64>,
        /// Queues.
        queues: Option<u64>,
    },
    /// Sets one limit of a vhost and keeps the others.
    SetVhostLimit {
        /// The vhost.
        vhost: String,
        /// `max-connections` or `max-queues`.
        limit: String,
        /// The limit; `None` for the broker's own limit only.
        value: Option<u64>,
    },
    /// Sets one limit of a user and keeps the others.
    SetUserLimit {
        /// The user.
        user: String,
        /// `max-connections` or `max-channels`.
        limit: String,
        /// The limit; `None` for the broker's own limit only.
        value: Option<u32>,
    },
    /// Starts or stops the tracing of a vhost: copies of published and delivered messages go to
    /// `amq.rabbitmq.trace`, until the next start.
    Trace {
        /// The vhost.
        vhost: String,
        /// Whether tracing is on from now on.
        on: bool,
    },
    /// Closes all connections that match every given field.
    CloseConnections {
        /// The number of the connection.
        id: Option<u64>,
        /// The name of the connection, which is both its addresses.
        name: Option<String>,
        /// The vhost of the connection.
        vhost: Option<String>,
        /// The user of the connection.
        user: Option<String>,
        /// The reason that the clients are given.
        reason: String,
    },
    /// Raises an alarm by hand, until it is cleared, or clears it.
    Alarm {
        /// `memory` or `disk`.
        resource: String,
        /// Whether the alarm is active from now on.
        up: bool,
    },
    /// Sets the limit of queued messages in memory until the next start. At the limit the memory
    /// alarm rises.
    MemoryLimit {
        /// The limit in bytes; at 0 the alarm is always active.
        bytes: u64,
    },
    /// Sets a policy. It replaces the policy of the same name.
    SetPolicy {
        /// Whether it is an operator policy.
        operator: bool,
        /// The policy.
        policy: PolicyChange,
    },
    /// Clears a policy.
    ClearPolicy {
        /// Whether it is an operator policy.
        operator: bool,
        /// Its vhost.
        vhost: String,
        /// Its name.
        name: String,
    },
    /// Declares or deletes something in a vhost.
    Objects {
        /// The vhost.
        vhost: String,
        /// The declaration or deletion.
        change: ObjectChange,
    },
}

/// Why a change was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The object does not exist.
    NotFound,
    /// The user has no right to do it.
    Denied,
    /// The change is wrong in itself, or contradicts what exists.
    Invalid,
    /// The broker failed.
    Failed,
}

/// A refused change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// Why.
    pub why: Why,
    /// One line about it.
    pub text: String,
    /// The faults of a document, one line for each.
    #[serde(default)]
    pub items: Vec<String>,
}

impl Refused {
    pub(crate) fn new(why: Why, text: impl Into<String>) -> Self {
        Self { why, text: text.into(), items: Vec::new() }
    }

    pub(crate) fn for_items(why: Why, text: impl Into<String>, items: Vec<String>) -> Self {
        Self { why, text: text.into(), items }
    }

    /// The refusal and its items as one line.
    pub fn whole(&self) -> String {
        match self.items.is_empty() {
            true => self.text.clone(),
            false => format!("{}: {}", self.text, self.items.join("; ")),
        }
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        let why = match error.kind {
            ErrorKind::NotFound => Why::NotFound,
            ErrorKind::AccessRefused | ErrorKind::NotAllowed => Why::Denied,
            ErrorKind::Internal => Why::Failed,
            _ => Why::Invalid,
        };
        Self::new(why, error.text)
    }
}

/// The user that asks for a change, and its origin.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// The identity whose permissions apply.
    pub(crate) identity: Identity,
    /// The origin, for the audit log.
    pub(crate) from: String,
}

/// Makes a change, waits until it is durable, and tells the audit log. Blocks meanwhile. Returns
/// the number of messages or connections that the change deleted or closed.
pub(crate) fn make(broker: &Broker, change: Change, caller: Caller) -> Result<u64, Refused> {
    let (who, from) = (caller.identity.user().to_owned(), caller.from.clone());
    let Told { action, vhost, name, about } = Told::of(&change);
    let made = apply(broker, change, caller).map_err(Refused::from).map(|(count, ticket)| {
        wait(broker, ticket);
        count
    });
    match &made {
        Ok(count) => {
            tracing::info!(target: AUDIT, %who, %from, action, vhost, name, %about, count, "administrative change");
        }
        Err(refused) => {
            let why = extract(&refused.text, WHY);
            tracing::warn!(target: AUDIT, %who, %from, action, vhost, name, %why, "administrative change refused");
        }
    }
    made
}

/// Blocks until `ticket` is durable.
pub(crate) fn wait(broker: &Broker, ticket: Ticket) {
    let waker = unpark();
    while !broker.is_durable(ticket, &waker) {
        std::thread::park();
    }
}

/// A waker that unparks this thread.
pub(crate) fn unpark() -> Waker {
    Waker::from(Arc::new(Unpark(std::thread::current())))
}

/// Unparks a thread that waits for the broker.
struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

pub(crate) fn apply(broker: &Broker, change: Change, caller: Caller) -> Result<(u64, Ticket), Error> {
    let ticket = match change {
        Change::Objects { vhost, change } => return objects::apply(broker, &vhost, change, caller),
        Change::CloseConnections { id, name, vhost, user, reason } => {
            let fits = |client: &ClientReport| {
                id.is_none_or(|id| id == client.number)
                    && name.as_ref().is_none_or(|name| *name == client.peer)
                    && vhost.as_ref().is_none_or(|vhost| *vhost == client.vhost)
                    && user.as_ref().is_none_or(|user| *user == client.user)
            };
            let clients = broker.clients();
            let closed =
                clients.iter().filter(|client| fits(client)).filter(|client| broker.kick(client.number, &reason));
            return Ok((closed.count() as u64, Ticket::NONE));
        }
        Change::Alarm { resource, up } => {
            broker.force_alarm(&resource, up.into())?;
            Ticket::NONE
        }
        Change::MemoryLimit { bytes } => {
            broker.set_memory_limit(bytes);
            Ticket::NONE
        }
        Change::PutVhost { name, description, tags, default_queue_type } => {
            let known = broker.vhosts().into_iter().find(|vhost| vhost.name == name);
            let mut spec = known.map_or_else(VhostSpec::default, |vhost| vhost.spec);
            spec.description = description.unwrap_or(spec.description);
            spec.tags = tags.unwrap_or(spec.tags);
            if let Some(kind) = default_queue_type {
                spec.default_queue_type = Some(kind).filter(|kind| !kind.is_empty());
            }
            broker.put_vhost(&name, &spec)?
        }
        Change::DeleteVhost { name } => broker.delete_vhost(&name)?,
        Change::Trace { vhost, on } => broker.trace(&vhost, on.into())?,
        Change::SetPolicy { operator, policy } => policies::set(broker, operator, policy, &caller.identity)?,
        Change::ClearPolicy { operator, vhost, name } => {
            broker.clear_policy(&vhost, policies::kind(operator), &name)?
        }
        Change::LimitVhost { name, connections, queues } => {
            broker.limit_vhost(&name, VhostLimits { connections, queues })?
        }
        Change::SetVhostLimit { vhost, limit, value } => broker.change_vhost_limits(&vhost, |limits| {
            match limit.as_str() {
                MAX_CONNECTIONS => limits.connections = value,
                MAX_QUEUES => limits.queues = value,
                other => return Err(no_limit("vhost", other, [MAX_CONNECTIONS, MAX_QUEUES])),
            }
            Ok(())
        })?,
        about_users => apply_to_users(broker, about_users)?,
    };
    Ok((0, ticket))
}

fn apply_to_users(broker: &Broker, change: Change) -> Result<Ticket, Error> {
    match change {
        Change::AddUser { name, secret, tags } => {
            let mut user = User::new(&name, hash(broker, secret)?);
            user.tags = tags_of(&tags);
            broker.add_user(user)
        }
        Change::PutUser { name, secret, tags } => {
            let (password, tags) = (hash(broker, secret)?, tags_of(&tags));
            if broker.authority().user(&name).is_none() {
                let user = User { tags, ..User::new(&name, password) };
                return broker.add_user(user);
            }
            broker.change_user(&name, |user| {
                user.password = password;
                user.tags = tags;
                Ok(())
            })
        }
        Change::DeleteUser { name } => broker.delete_user(&name),
        Change::ChangePassword { name, secret } => {
            // The hash is computed before the user is locked, so that other changes do not wait for
            // it.
            let password = hash(broker, secret)?;
            broker.change_user(&name, |user| {
                user.password = password;
                Ok(())
            })
        }
        Change::SetTags { name, tags } => broker.change_user(&name, |user| {
            user.tags = tags_of(&tags);
            Ok(())
        }),
        Change::LimitUser { name, connections, sessions } => broker.change_user(&name, |user| {
            user.limits = UserLimits { connections, sessions };
            Ok(())
        }),
        Change::SetUserLimit { user, limit, value } => broker.change_user(&user, |user| {
            match limit.as_str() {
                MAX_CONNECTIONS => user.limits.connections = value,
                MAX_CHANNELS => user.limits.sessions = value,
                other => return Err(no_limit("user", other, [MAX_CONNECTIONS, MAX_CHANNELS])),
            }
            Ok(())
        }),
        rights => apply_to_rights(broker, rights),
    }
}

fn apply_to_rights(broker: &Broker, change: Change) -> Result<Ticket, Error> {
    let in_vhost = |vhost: &str| {
        let known = broker.has_vhost(vhost);
        known.then_some(()).ok_or_else(|| Error::not_found(format!("vhost '{vhost}' does not exist")))
    };
    match change {
        Change::SetPermission { user, vhost, configure, write, read } => {
            let permission = Permission::new(&configure, &write, &read).map_err(invalid)?;
            broker.change_user(&user, |user| {
                in_vhost(&vhost)?;
                user.permissions.insert(vhost.as_str().into(), permission);
                Ok(())
            })
        }
        Change::ClearPermission { user, vhost } => broker.change_user(&user, |user| {
            in_vhost(&vhost)?;
            user.permissions.remove(vhost.as_str());
            Ok(())
        }),
        Change::SetTopicPermission { user, vhost, exchange, write, read } => {
            let permission = TopicPermission::new(&user, &vhost, &write, &read).map_err(invalid)?;
            broker.change_user(&user, |user| {
                in_vhost(&vhost)?;
                user.topic_permissions.insert((vhost.as_str().into(), exchange.as_str().into()), permission);
                Ok(())
            })
        }
        Change::ClearTopicPermission { user, vhost, exchange } => broker.change_user(&user, |user| {
            in_vhost(&vhost)?;
            user.topic_permissions.retain(|(place, name), _| {
                **place != *vhost || exchange.as_ref().is_some_and(|exchange| **name != **exchange)
            });
            Ok(())
        }),
        other => Err(Error::internal(format!("{other:?} is not about users"))),
    }
}

fn no_limit(of: &str, name: &str, known: [&str; 2]) -> Error {
    Error::precondition(format!("a {of} has no limit '{name}', but {} and {}", known[0], known[1]))
}

fn invalid(error: impl std::fmt::Display) -> Error {
    Error::precondition(error.to_string())
}

fn tags_of(tags: &[String]) -> Tags {
    Tags::new(tags.iter().map(String::as_str))
}

/// Hashing a password takes some hundredths or tenths of a second.
fn hash(broker: &Broker, secret: Secret) -> Result<Option<PasswordHash>, Error> {
    match secret {
        Secret::None => Ok(None),
        Secret::Hash(text) => PasswordHash::parse(&text).map(Some).map_err(invalid),
        Secret::Password(password) => hash_password(broker, &password).map(Some),
    }
}

/// Hashes a password with the parameters of all stored passwords.
pub(crate) fn hash_password(broker: &Broker, password: &str) -> Result<PasswordHash, Error> {
    let mut salt = [0; 16];
    getrandom::fill(&mut salt)
        .map_err(|error| Error::internal(format!("the operating system gives no random bytes: {error}")))?;
    broker.authority().hash_password(password.as_bytes(), salt).map_err(invalid)
}
