//! Users: their rows, with their password hashes, and their changes.

use std::collections::{HashSet, VecDeque};

use auth::{PasswordHash, Tags, User};
use axum::Router;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use broker::{Broker, Error, Ticket};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::limits::of_user as limits_of;
use crate::api::{
    self, Answer, Asker, Document, Failure, Routes, Shared, Words, created, done, make, select, shown, sum_up,
};
use crate::audit::{Said, Told};
use crate::change::{Caller, Changes, invalid};
use crate::listing::{Collection, Part, Rights};
use crate::source::Source;

/// See the module.
pub(crate) struct Users;

impl Collection for Users {
    fn rights(&self) -> Rights {
        Rights::Administrators
    }

    fn rows(&self, source: &Source, part: Part, _: &mut VecDeque<Part>) -> Vec<Json> {
        part.of_whole(source.broker.authority().users().iter().map(|user| row(&source.broker, user)))
    }
}

pub(super) fn routes() -> Routes {
    Router::new()
        .merge(api::all("users", &Users))
        .route("/api/users/{name}", get(one).put(put).delete(remove))
        .route("/api/users/without-permissions", get(without_permissions))
        .route("/api/users/bulk-delete", post(remove_all))
}

async fn one(asker: Asker, State(source): Shared, Path(name): Path<String>) -> Answer {
    let find = move |source: &Source| {
        let user = source.broker.authority().user(&name)?;
        Some(row(&source.broker, &user))
    };
    api::one(asker, source, Rights::Administrators, find).await
}

async fn without_permissions(asker: Asker, State(source): Shared) -> Answer {
    let users = sum_up(&source, &asker.clone(), move |source| {
        let known = source.broker.authority().users();
        let known: HashSet<&str> =
            known.iter().filter(|user| !user.permissions.is_empty()).map(|user| &*user.name).collect();
        let mut users = select(&asker, source, &Users, None, &[])?;
        users.retain(|user| user["name"].as_str().is_some_and(|name| !known.contains(name)));
        Ok::<_, Failure>(users)
    })
    .await?;
    shown(users?)
}

/// The fields of a user that RabbitMQ knows. Others are ignored.
#[derive(Deserialize)]
pub(crate) struct UserBody {
    password: Option<String>,
    password_hash: Option<String>,
    #[serde(default)]
    hashing_algorithm: String,
    tags: Option<Words>,
    /// Hermod's own; roles that are not said stay as they are.
    roles: Option<Vec<String>>,
}

impl UserBody {
    /// An empty hash means that there is no password.
    fn secret(&self) -> Result<Secret, Failure> {
        match (&self.password, self.password_hash.as_deref()) {
            (Some(_), Some(_)) => Err(Failure::bad_request("both_password_and_password_hash_are_provided")),
            (Some(password), None) if password.is_empty() => {
                Err(Failure::bad_request("a password may not be empty; give none for a user without one"))
            }
            (Some(password), None) => Ok(Secret::Password(password.clone())),
            (None, None | Some("")) => Ok(Secret::None),
            (None, Some(hash)) => {
                let imported = PasswordHash::import(&self.hashing_algorithm, hash);
                let hash = imported.map_err(|error| Failure::bad_request(error.to_string()))?;
                Ok(Secret::Hash(hash.as_str().to_owned()))
            }
        }
    }
}

pub(crate) async fn put(
    asker: Asker,
    State(source): Shared,
    Path(name): Path<String>,
    Document(user): Document<UserBody>,
) -> Answer {
    asker.administers()?;
    let secret = user.secret()?;
    let tags =
        user.tags.ok_or_else(|| Failure::bad_request("tags_not_present: give the user tags, or an empty list"))?;
    let was_there = source.broker.authority().user(&name).is_some();
    make(&source, &asker, UserChange::Put { name: name.clone(), secret, tags: tags.list() }).await?;
    if let Some(roles) = user.roles {
        make(&source, &asker, UserChange::SetRoles { name, roles }).await?;
    }
    if was_there { done() } else { created() }
}

pub(crate) async fn remove(asker: Asker, State(source): Shared, Path(name): Path<String>) -> Answer {
    asker.administers()?;
    make(&source, &asker, UserChange::Delete { name }).await?;
    done()
}

#[derive(Deserialize)]
struct UserNames {
    users: Vec<String>,
}

/// As in RabbitMQ, a user that does not exist counts as deleted.
async fn remove_all(asker: Asker, State(source): Shared, Document(wanted): Document<UserNames>) -> Answer {
    asker.administers()?;
    for name in wanted.users {
        if source.broker.authority().user(&name).is_some() {
            make(&source, &asker, UserChange::Delete { name }).await?;
        }
    }
    done()
}

pub(super) fn row(broker: &Broker, user: &User) -> Json {
    let (algorithm, hash) = user.password.as_ref().map_or(("", ""), PasswordHash::parts);
    json!({
        "name": &*user.name,
        "password_hash": hash,
        "hashing_algorithm": algorithm,
        "tags": user.tags.iter().collect::<Vec<_>>(),
        "limits": limits_of(user),
        "roles": roles_of(user),
        "held_bytes": broker.user_held_bytes(&user.name),
        "declared_bytes": broker.user_declared_bytes(&user.name),
    })
}

/// The names of a user's roles.
pub(crate) fn roles_of(user: &User) -> Vec<&str> {
    user.roles.iter().map(|role| &**role).collect()
}

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

/// A change of users.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum UserChange {
    /// Adds a user.
    Add {
        /// Its name.
        name: String,
        /// How it logs in.
        secret: Secret,
        /// Its tags.
        tags: Vec<String>,
    },
    /// Adds a user. If the user exists, replaces its password and its tags.
    Put {
        /// Its name.
        name: String,
        /// How it logs in.
        secret: Secret,
        /// All its tags.
        tags: Vec<String>,
    },
    /// Deletes a user and closes its connections.
    Delete {
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
    /// Replaces the roles of a user.
    SetRoles {
        /// Its name.
        name: String,
        /// All its roles: users whose permissions it has, too.
        roles: Vec<String>,
    },
}

impl Changes for UserChange {
    fn told(&self) -> Told {
        match self {
            Self::Add { name, tags, .. } => Told::of("add_user", ["", name], format_args!("tags={}", Said(tags))),
            Self::Put { name, tags, .. } => Told::of("put_user", ["", name], format_args!("tags={}", Said(tags))),
            Self::Delete { name } => Told::plain("delete_user", ["", name]),
            Self::ChangePassword { name, .. } => Told::plain("change_password", ["", name]),
            Self::SetTags { name, tags } => Told::of("set_tags", ["", name], format_args!("tags={}", Said(tags))),
            Self::SetRoles { name, roles } => Told::of("set_roles", ["", name], format_args!("roles={}", Said(roles))),
        }
    }

    fn apply(self, broker: &Broker, _: Caller) -> Result<(u64, Ticket), Error> {
        let ticket = match self {
            Self::Add { name, secret, tags } => {
                let mut user = User::new(&name, hash(broker, secret)?);
                user.tags = tags_of(&tags);
                broker.add_user(user)
            }
            Self::Put { name, secret, tags } => {
                let (password, tags) = (hash(broker, secret)?, tags_of(&tags));
                match broker.authority().user(&name) {
                    None => broker.add_user(User { tags, ..User::new(&name, password) }),
                    Some(_) => broker.change_user(&name, |user| {
                        user.password = password;
                        user.tags = tags;
                        Ok(())
                    }),
                }
            }
            Self::Delete { name } => broker.delete_user(&name),
            Self::ChangePassword { name, secret } => {
                // The hash is computed before the user is locked, so that other changes need not
                // wait for it.
                let password = hash(broker, secret)?;
                broker.change_user(&name, |user| {
                    user.password = password;
                    Ok(())
                })
            }
            Self::SetTags { name, tags } => broker.change_user(&name, |user| {
                user.tags = tags_of(&tags);
                Ok(())
            }),
            Self::SetRoles { name, roles } => {
                for role in &roles {
                    if broker.authority().user(role).is_none() {
                        return Err(Error::not_found(format!("there is no user '{role}' to be a role; add it first")));
                    }
                }
                broker.change_user(&name, |user| {
                    user.roles = roles.iter().map(|role| role.as_str().into()).collect();
                    Ok(())
                })
            }
        }?;
        Ok((0, ticket))
    }
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
