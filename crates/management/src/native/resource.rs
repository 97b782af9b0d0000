//! A kind of things: its fields, who sees which of them, and how they are read.
//!
//! Of a long list, reports are made a part at a time.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, get};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use broker::{Broker, Names};
use serde_json::{Map, Value as Json};
use sha2::{Digest, Sha256};

use super::field::Field;
use crate::api::{Answer, Asker, Failure, Shared, look};
use crate::listing::{PART, Rights};
use crate::source::Source;

/// See the module.
pub(super) struct Resource<T: 'static> {
    /// Its name in paths.
    pub(super) name: &'static str,
    pub(super) fields: &'static [Field<T>],
    pub(super) rights: Rights,
    /// The vhost or the user by which it is seen.
    pub(super) of: fn(&T) -> &str,
    /// What tells it from all others of its kind, in the order of lists: the names of its path.
    pub(super) key: fn(&T) -> String,
    pub(super) reading: Reading<T>,
}

/// How things are read.
pub(super) enum Reading<T: 'static> {
    /// By their names in vhosts. What needs several names has them as one, with [`BETWEEN`] in it.
    Named { names: fn(&Broker, &str) -> Names, some: SomeOf<T>, brief: Option<Brief<T>> },
    /// All at once: there are few, or an entry is small and reads the rest when it is asked.
    Whole { all: fn(&Source) -> Vec<T>, one: Option<OneOf<T>> },
    /// Those of a vhost in parts, in no order.
    Parts(EachOf<T>),
}

/// Reports of these things of a vhost, without those that are missing.
pub(super) type SomeOf<T> = fn(&Broker, &str, &[Arc<str>]) -> Vec<T>;

/// Reports with some fields alone, which are read much faster than all: a list that is filtered and
/// sorted by these is picked from them.
pub(super) struct Brief<T: 'static> {
    pub(super) fields: &'static [&'static str],
    pub(super) some: SomeOf<T>,
}

/// By their names, and none of their fields is cheaper than others.
pub(super) const fn by_name<T>(names: fn(&Broker, &str) -> Names, some: SomeOf<T>) -> Reading<T> {
    Reading::Named { names, some, brief: None }
}

/// The thing with these names.
pub(super) type OneOf<T> = fn(&Source, &[String]) -> Option<T>;

/// Visits the things of a vhost, a part at a time.
pub(super) type EachOf<T> = fn(&Source, &str, &mut dyn FnMut(Vec<T>));

/// All at once, and one of them is looked for among all.
pub(super) const fn few<T>(all: fn(&Source) -> Vec<T>) -> Reading<T> {
    Reading::Whole { all, one: None }
}

/// Stands between the names of a key.
pub(super) const BETWEEN: char = '\0';

impl<T: Send + Sync> Resource<T> {
    /// Visits all that this user sees; if there is a vhost, only those in it.
    pub(super) fn each(&self, source: &Source, asker: &Asker, vhost: Option<&str>, visit: &mut dyn FnMut(T)) {
        match &self.reading {
            Reading::Whole { all, .. } => {
                let sees = |report: &T| asker.sees_of(source, self.rights, (self.of)(report));
                all(source).into_iter().filter(sees).for_each(visit);
            }
            Reading::Named { some, .. } => self.each_named(source, asker, (vhost, *some), visit),
            Reading::Parts(each_of) => {
                for vhost in self.vhosts(source, asker, vhost) {
                    each_of(source, &vhost, &mut |part: Vec<T>| part.into_iter().for_each(&mut *visit));
                }
            }
        }
    }

    /// The same for things with names, by these reports.
    pub(super) fn each_named(
        &self,
        source: &Source,
        asker: &Asker,
        (vhost, some): (Option<&str>, SomeOf<T>),
        visit: &mut dyn FnMut(T),
    ) {
        let Reading::Named { names, .. } = &self.reading else { return };
        for vhost in self.vhosts(source, asker, vhost) {
            for part in names(&source.broker, &vhost).chunks(PART) {
                some(&source.broker, &vhost, part).into_iter().for_each(&mut *visit);
            }
        }
    }

    /// The vhosts that this user sees, or the given one if it sees it.
    pub(super) fn vhosts(&self, source: &Source, asker: &Asker, vhost: Option<&str>) -> Names {
        let mut vhosts = source.broker.vhost_names();
        vhosts.retain(|name| vhost.is_none_or(|wanted| wanted == &**name) && asker.sees_of(source, self.rights, name));
        vhosts
    }

    /// The thing with these names, if this user sees it.
    fn find(&self, source: &Source, asker: &Asker, names: &[String]) -> Option<T> {
        let found = match (&self.reading, names) {
            (Reading::Named { some, .. }, [vhost, name @ ..]) => {
                some(&source.broker, vhost, &[name.join(&BETWEEN.to_string()).into()]).pop()
            }
            (Reading::Named { .. }, []) | (Reading::Parts(_), _) => None,
            (Reading::Whole { one: Some(one), .. }, names) => one(source, names),
            (Reading::Whole { all, one: None }, names) => {
                let key = names.join(&BETWEEN.to_string());
                all(source).into_iter().find(|report| (self.key)(report) == key)
            }
        };
        found.filter(|report| asker.sees_of(source, self.rights, (self.of)(report)))
    }

    /// What of a thing only a change can change.
    pub(super) fn tag(&self, source: &Source, asker: &Asker, names: &[String]) -> Option<String> {
        self.find(source, asker, names).map(|report| self.tag_of(&report))
    }

    fn tag_of(&self, report: &T) -> String {
        let declared = self.fields.iter().filter(|field| field.is_declared);
        let declared: Vec<Json> = declared.map(|field| (field.read)(report)).collect();
        let digest = Sha256::digest(Json::from(declared).to_string());
        format!("\"{}\"", URL_SAFE_NO_PAD.encode(&digest[..12]))
    }

    /// All fields of a thing.
    fn row(&self, report: &T) -> Json {
        let fields = self.fields.iter().map(|field| (field.name.to_owned(), (field.read)(report)));
        Json::Object(fields.collect::<Map<_, _>>())
    }

    /// The route of one thing.
    pub(super) fn one(&'static self) -> MethodRouter<Arc<Source>> {
        get(async move |asker: Asker, source: Shared, path: Path<Vec<(String, String)>>| {
            self.show(asker, source, path).await
        })
    }

    async fn show(
        &'static self,
        asker: Asker,
        State(source): Shared,
        Path(path): Path<Vec<(String, String)>>,
    ) -> Answer {
        asker.may_list(self.rights)?;
        let names: Vec<String> = path.into_iter().map(|(_, name)| name).collect();
        let found = look(&source, &asker.clone(), move |source| {
            self.find(source, &asker, &names).map(|report| (self.tag_of(&report), self.row(&report)))
        })
        .await?;
        // A thing that the user may not see does not exist for it.
        let (tag, row) = found.ok_or_else(Failure::not_found)?;
        Ok(([(header::ETAG, tag)], axum::Json(row)).into_response())
    }
}
