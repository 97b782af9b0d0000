//! Limits of vhosts and of users.

use std::collections::VecDeque;

use auth::User;
use axum::Router;
use axum::extract::{Path, State};
use axum::routing::put;
use broker::VhostReport;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::api::{self, Answer, Asker, Document, Failure, Routes, Shared, done, make};
use crate::change::{Change, MAX_CHANNELS, MAX_CONNECTIONS, MAX_QUEUES};
use crate::listing::{Collection, Part, Rights};
use crate::source::Source;

/// Limits of vhosts.
pub(crate) struct VhostLimits;

impl Collection for VhostLimits {
    fn rows(&self, source: &Source, part: Part, _: &mut VecDeque<Part>) -> Vec<Json> {
        part.of_whole(source.broker.vhosts().iter().filter_map(vhost_row))
    }
}

/// Limits of users.
pub(crate) struct UserLimits;

impl Collection for UserLimits {
    fn rights(&self) -> Rights {
        Rights::Administrators
    }

    fn rows(&self, source: &Source, part: Part, _: &mut VecDeque<Part>) -> Vec<Json> {
        part.of_whole(source.broker.authority().users().iter().filter_map(user_row))
    }
}

pub(super) fn routes() -> Routes {
    Router::new()
        .merge(api::all("vhost-limits", &VhostLimits))
        .merge(api::in_vhost("vhost-limits/{vhost}", &VhostLimits))
        .route("/api/vhost-limits/{vhost}/{limit}", put(put_vhost_limit).delete(delete_vhost_limit))
        .merge(api::all("user-limits", &UserLimits))
        .merge(api::of_user("user-limits/{user}", &UserLimits))
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
    make(&source, &asker, Change::SetVhostLimit { vhost, limit, value: body.value()? }).await?;
    done()
}

async fn delete_vhost_limit(
    asker: Asker,
    State(source): Shared,
    Path((vhost, limit)): Path<(String, String)>,
) -> Answer {
    asker.administers()?;
    make(&source, &asker, Change::SetVhostLimit { vhost, limit, value: None }).await?;
    done()
}

async fn put_user_limit(
    asker: Asker,
    State(source): Shared,
    Path((user, limit)): Path<(String, String)>,
    Document(body): Document<LimitBody>,
) -> Answer {
    asker.administers()?;
    make(&source, &asker, Change::SetUserLimit { user, limit, value: body.value()? }).await?;
    done()
}

async fn delete_user_limit(asker: Asker, State(source): Shared, Path((user, limit)): Path<(String, String)>) -> Answer {
    asker.administers()?;
    make(&source, &asker, Change::SetUserLimit { user, limit, value: None }).await?;
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
