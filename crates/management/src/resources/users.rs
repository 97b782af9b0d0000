//! Users: their rows, with their password hashes, and their changes.

use std::collections::{HashSet, VecDeque};

use auth::{PasswordHash, User};
use axum::Router;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use broker::Broker;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::limits::of_user as limits_of;
use crate::api::{
    self, Answer, Asker, Document, Failure, Routes, Shared, Words, created, done, make, select, shown, sum_up,
};
use crate::change::{Change, Secret};
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
struct UserBody {
    password: Option<String>,
    password_hash: Option<String>,
    #[serde(default)]
    hashing_algorithm: String,
    tags: Option<Words>,
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

async fn put(
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
    make(&source, &asker, Change::PutUser { name, secret, tags: tags.list() }).await?;
    if was_there { done() } else { created() }
}

async fn remove(asker: Asker, State(source): Shared, Path(name): Path<String>) -> Answer {
    asker.administers()?;
    make(&source, &asker, Change::DeleteUser { name }).await?;
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
            make(&source, &asker, Change::DeleteUser { name }).await?;
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
        "held_bytes": broker.user_held_bytes(&user.name),
    })
}
