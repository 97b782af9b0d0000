//! What can be changed through management: one list for the command line, `rabbitmqctl` and HTTP.
//!
//! A change is answered when it is durable, and each is told to the audit log: who asked, from
//! where, and what came of it.

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

/// Bytes of a refusal that the audit log has.
pub(crate) const WHY: usize = 512;

/// Limits by their names in RabbitMQ.
pub(crate) const MAX_CONNECTIONS: &str = "max-connections";
pub(crate) const MAX_QUEUES: &str = "max-queues";
pub(crate) const MAX_CHANNELS: &str = "max-channels";

/// A password, or what is known of one. It shows itself to nobody.
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
    /// Adds a user, or gives the one of that name another password and other tags.
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
    /// Gives a user other tags.
    SetTags {
        /// Its name.
        name: String,
        /// All its tags.
        tags: Vec<String>,
    },
    /// Says how much a user may have.
    LimitUser {
        /// Its name.
        name: String,
        /// Connections at a time.
        connections: Option<u32>,
        /// Sessions of all of them.
        sessions: Option<u32>,
    },
    /// Gives a user rights in a vhost, in place of those it has there.
    SetPermission {
        /// Its name.
        user: String,
        /// The vhost.
        vhost: String,
        /// Pattern of names that it may declare and delete.
        configure: String,
        /// Pattern of names that it may put messages into.
        write: String,
        /// Pattern of names that it may take messages from.
        read: String,
    },
    /// Takes all rights in a vhost from a user.
    ClearPermission {
        /// Its name.
        user: String,
        /// The vhost.
        vhost: String,
    },
    /// Says which routing keys of a topic exchange a user may use.
    SetTopicPermission {
        /// Its name.
        user: String,
        /// The vhost.
        vhost: String,
        /// The exchange.
        exchange: String,
        /// Pattern of keys to publish with.
        write: String,
        /// Pattern of keys to bind by.
        read: String,
    },
    /// Lets a user use any routing key again, of one exchange or of all.
    ClearTopicPermission {
        /// Its name.
        user: String,
        /// The vhost.
        vhost: String,
        /// The exchange; `None` for every one.
        exchange: Option<String>,
    },
    /// Adds a vhost, or changes what of it is given.
    PutVhost {
        /// Its name.
        name: String,
        /// What it is for.
        description: Option<String>,
        /// Words to find it by.
        tags: Option<Vec<String>>,
        /// The type of queues that name none; the empty text for the broker's default.
        default_queue_type: Option<String>,
    },
    /// Deletes a vhost with all that is in it.
    DeleteVhost {
        /// Its name.
        name: String,
    },
    /// Says how much a vhost may have.
    LimitVhost {
        /// Its name.
        name: String,
        /// Connections at a time.
        connections: Option<u64>,
        /// Queues.
        queues: Option<u64>,
    },
    /// Sets one limit of a vhost and leaves the others.
    SetVhostLimit {
        /// The vhost.
        vhost: String,
        /// `max-connections` or `max-queues`.
        limit: String,
        /// How many; `None` for as many as the broker may.
        value: Option<u64>,
    },
    /// Sets one limit of a user and leaves the others.
    SetUserLimit {
        /// The user.
        user: String,
        /// `max-connections` or `max-channels`.
        limit: String,
        /// How many; `None` for as many as the broker lets anybody.
        value: Option<u32>,
    },
    /// Copies what is published and delivered in a vhost to `amq.rabbitmq.trace` until the next
    /// start, or not any more.
    Trace {
        /// The vhost.
        vhost: String,
        /// Whether it is copied from now on.
        on: bool,
    },
    /// Closes connections: all that fit what is given.
    CloseConnections {
        /// Of this number.
        id: Option<u64>,
        /// Of this name, which is both their ends.
        name: Option<String>,
        /// In this vhost.
        vhost: Option<String>,
        /// Of this user.
        user: Option<String>,
        /// What their clients are told.
        reason: String,
    },
    /// Raises an alarm by hand, which stays up until it is cleared, or clears it.
    Alarm {
        /// `memory` or `disk`.
        resource: String,
        /// Whether it is up.
        up: bool,
    },
    /// Sets the bytes of queued messages in memory at which the memory alarm rises, until the next
    /// start.
    MemoryLimit {
        /// Those bytes; at 0 the alarm is up.
        bytes: u64,
    },
    /// Sets a policy, in place of the one with its name.
    SetPolicy {
        /// It is the operator's.
        operator: bool,
        /// What it says.
        policy: PolicyChange,
    },
    /// Clears a policy.
    ClearPolicy {
        /// It is the operator's.
        operator: bool,
        /// Its vhost.
        vhost: String,
        /// Its name.
        name: String,
    },
    /// Declares or deletes in a vhost.
    Objects {
        /// The vhost.
        vhost: String,
        /// What.
        change: ObjectChange,
    },
}

/// Why a change was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// What it is about does not exist.
    NotFound,
    /// Whoever asked may not.
    Denied,
    /// It makes no sense, or what exists stands against it.
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
    /// What of a document stands against it, a line for each.
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

    /// All of it as one line.
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

/// Who asks for a change, and from where.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// Whose rights count.
    pub(crate) identity: Identity,
    /// Where it asks from, for the audit log.
    pub(crate) from: String,
}

/// Makes a change, waits until it is durable, and tells the audit log. Blocks meanwhile. The number
/// is that of the messages or connections that it cost.
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

/// What wakes this thread from `park`.
pub(crate) fn unpark() -> Waker {
    Waker::from(Arc::new(Unpark(std::thread::current())))
}

/// Wakes a thread that waits for the broker.
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
            broker.force_alarm(&resource, up)?;
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
        Change::Trace { vhost, on } => broker.trace(&vhost, on)?,
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
            // Not while a user is being changed: others would wait for the hash.
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

/// Takes some hundredths or tenths of a second for a password.
fn hash(broker: &Broker, secret: Secret) -> Result<Option<PasswordHash>, Error> {
    match secret {
        Secret::None => Ok(None),
        Secret::Hash(text) => PasswordHash::parse(&text).map(Some).map_err(invalid),
        Secret::Password(password) => hash_password(broker, &password).map(Some),
    }
}

/// Hashes a password as those of log-ins are hashed.
pub(crate) fn hash_password(broker: &Broker, password: &str) -> Result<PasswordHash, Error> {
    let mut salt = [0; 16];
    getrandom::fill(&mut salt)
        .map_err(|error| Error::internal(format!("the operating system gives no random bytes: {error}")))?;
    broker.authority().hash_password(password.as_bytes(), salt).map_err(invalid)
}
