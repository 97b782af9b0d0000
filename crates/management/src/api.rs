//! How RabbitMQ's HTTP API is asked and answers, whatever it is about: the user, the document, the
//! part of a list, and the answer.
//!
//! Every request is authenticated first. The exceptions are four health checks, which load
//! balancers ask without a password. Changes go through the same code as on the command line, and
//! to the same audit log.

mod answer;
mod asker;
mod document;
mod list;
mod page;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::routing::get;
use serde_json::Value as Json;

use crate::change::{self, Changes, Refused};
use crate::listing::{self, Collection, Rights};
use crate::pool::Work;
use crate::source::Source;
pub(crate) use answer::{Answer, Failure, Refusal, created, done, shown, shown_text};
pub(crate) use asker::{Asker, LogIn, credentials, identify, session};
pub(crate) use document::{Document, Parameters, Words, number, read, truth, words_of};
pub(crate) use page::{Shape, Wanted, rows};

/// Routes of a resource.
pub(crate) type Routes = Router<Arc<Source>>;
/// What every route gets.
pub(crate) type Shared = State<Arc<Source>>;

/// A list of everything of a kind.
pub(crate) fn all(path: &str, collection: &'static dyn Collection) -> Routes {
    both(
        path,
        get(async move |asker: Asker, State(source): Shared, Query(wanted): Wanted| {
            list::answer(asker, source, collection, None, Vec::new(), Shape::parse(&wanted)?).await
        }),
    )
}

/// The part of a list that is in the vhost of a path.
pub(crate) fn in_vhost(path: &str, collection: &'static dyn Collection) -> Routes {
    both(
        path,
        get(async move |asker: Asker, State(source): Shared, Path(vhost): Path<String>, Query(wanted): Wanted| {
            asker.may_list(collection.rights())?;
            asker.looks_into(&source, &vhost)?;
            list::answer(asker, source, collection, Some(vhost), Vec::new(), Shape::parse(&wanted)?).await
        }),
    )
}

/// The part of a list that belongs to the user of a path.
pub(crate) fn of_user(path: &str, collection: &'static dyn Collection) -> Routes {
    both(
        path,
        get(async move |asker: Asker, State(source): Shared, Path(user): Path<String>, Query(wanted): Wanted| {
            asker.may_list(collection.rights())?;
            if !asker.monitors() && asker.user() != user {
                return Err(Failure::forbidden());
            }
            if asker.user() != user && source.broker.authority().user(&user).is_none() {
                return Err(Failure::not_found());
            }
            list::answer(asker, source, collection, None, vec![("user", user)], Shape::parse(&wanted)?).await
        }),
    )
}

/// The rows of a list in a vhost that have these fields.
pub(crate) async fn with_fields(
    asker: Asker,
    source: Arc<Source>,
    collection: &'static dyn Collection,
    (vhost, fields): (String, Vec<list::Field>),
    shape: Shape,
) -> Answer {
    list::answer(asker, source, collection, Some(vhost), fields, shape).await
}

/// Registers a path with and without a slash at its end, because clients write both.
fn both(path: &str, what: axum::routing::MethodRouter<Arc<Source>>) -> Routes {
    Router::new().route(&format!("/api/{path}"), what.clone()).route(&format!("/api/{path}/"), what)
}

/// The thing that `find` finds, if this user sees it.
pub(crate) async fn one(
    asker: Asker,
    source: Arc<Source>,
    rights: Rights,
    find: impl FnOnce(&Source) -> Option<Json> + Send + 'static,
) -> Answer {
    let row = look(&source, &asker.clone(), move |source| seen(&asker, source, rights, None, find)).await?;
    shown(row?)
}

/// The thing that `find` finds in a vhost, if this user sees it.
pub(crate) async fn one_in_vhost(
    asker: Asker,
    source: Arc<Source>,
    vhost: String,
    find: impl FnOnce(&Source, &str) -> Option<Json> + Send + 'static,
) -> Answer {
    let seer = asker.clone();
    let found = move |source: &Source| seen(&seer, source, Rights::Vhost, Some(&vhost), |source| find(source, &vhost));
    let row = look(&source, &asker, found).await?;
    shown(row?)
}

/// A thing, if this user sees it. A user that may not enter a vhost is told nothing of its
/// contents.
pub(crate) fn seen(
    asker: &Asker,
    source: &Source,
    rights: Rights,
    vhost: Option<&str>,
    find: impl FnOnce(&Source) -> Option<Json>,
) -> Result<Json, Failure> {
    asker.may_list(rights)?;
    if let Some(vhost) = vhost {
        asker.looks_into(source, vhost)?;
    }
    match find(source) {
        Some(row) if asker.sees(source, rights, &row) => Ok(row),
        None if asker.monitors() || vhost.is_some() => Err(Failure::not_found()),
        // A missing thing and another user's thing get the same answer.
        Some(_) | None => Err(Failure::forbidden()),
    }
}

/// The rows of a short list that this user sees and that have these fields.
pub(crate) fn select(
    asker: &Asker,
    source: &Source,
    collection: &dyn Collection,
    vhost: Option<&str>,
    fields: &[(&str, &str)],
) -> Result<Vec<Json>, Failure> {
    let rights = collection.rights();
    asker.may_list(rights)?;
    let mut rows = listing::all(source, collection, vhost);
    rows.retain(|row| fields.iter().all(|(name, value)| row[*name] == *value) && asker.sees(source, rights, row));
    Ok(rows)
}

/// Makes a change on a thread that may block. Returns the number of messages or connections that
/// the change deleted or closed.
pub(crate) async fn make(
    source: &Arc<Source>,
    asker: &Asker,
    change: impl Changes + Send + 'static,
) -> Result<u64, Failure> {
    let caller = asker.caller();
    blocking(source, asker, move |source| change::make(&source.broker, change, caller)).await
}

/// Runs work that waits for the disk or computes a hash, in the places for such work.
pub(crate) async fn blocking<T: Send + 'static>(
    source: &Arc<Source>,
    asker: &Asker,
    work: impl FnOnce(&Source) -> Result<T, Refused> + Send + 'static,
) -> Result<T, Failure> {
    Ok(off_the_loop(source, asker, Work::Change, work).await??)
}

/// Looks up a single thing by its name, or a few things.
pub(crate) async fn look<T: Send + 'static>(
    source: &Arc<Source>,
    asker: &Asker,
    work: impl FnOnce(&Source) -> T + Send + 'static,
) -> Result<T, Failure> {
    off_the_loop(source, asker, Work::Look, work).await
}

/// Builds an answer whose size grows with the number of objects.
pub(crate) async fn sum_up<T: Send + 'static>(
    source: &Arc<Source>,
    asker: &Asker,
    work: impl FnOnce(&Source) -> T + Send + 'static,
) -> Result<T, Failure> {
    off_the_loop(source, asker, Work::List, work).await
}

async fn off_the_loop<T: Send + 'static>(
    source: &Arc<Source>,
    asker: &Asker,
    kind: Work,
    work: impl FnOnce(&Source) -> T + Send + 'static,
) -> Result<T, Failure> {
    let there = Arc::clone(source);
    let kind = if asker.identity().is_decided_elsewhere() { Work::Elsewhere } else { kind };
    source.pool.run(kind, asker.user(), move || work(&there)).await.map_err(Failure::failed)
}
