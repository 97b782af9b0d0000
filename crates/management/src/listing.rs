//! How lists are made: a part at a time, so that of a long list only the names of its things are
//! held in memory.
//!
//! A list is not a picture of one moment. A thing that is deleted meanwhile is left out; one that
//! is created meanwhile may be left out or included.

use std::cmp::Ordering;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use broker::{AttachedClient, BindingPlace, DirectConsumer, Names};
use serde_json::{Map, Value as Json};

use crate::facts::Socket;
use crate::history::Ranges;
use crate::source::Source;

/// Rows that are made at once.
pub(crate) const PART: usize = 64;

/// Open sockets by their peers.
pub(crate) type Sockets = HashMap<String, Socket>;

/// Who sees which rows of a list, besides users that see everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rights {
    /// Administrators alone.
    Administrators,
    /// Each row: users that may enter its vhost.
    Vhost,
    /// Each row is a vhost: users that may enter it.
    VhostItself,
    /// Each row: its user.
    Owner,
}

/// A kind of things that can be listed, in the shape of RabbitMQ's HTTP API.
pub(crate) trait Collection: Sync {
    /// Who sees which rows.
    fn rights(&self) -> Rights {
        Rights::Vhost
    }

    /// The parts of a list; if there is a vhost, only of the things in it. A kind with few things
    /// has one part.
    fn parts(&self, _: &Source, vhost: Option<&str>) -> VecDeque<Part> {
        VecDeque::from([Part::Whole(vhost.map(str::to_owned))])
    }

    /// Small entries for the rows of a part, with the field at `sort`. A page is picked from them
    /// before rows are made. `None` where only the rows tell.
    fn entries(&self, _: &Source, _: &Part, _sort: Option<&str>) -> Option<Vec<Entry>> {
        None
    }

    /// The rows of a part. `left` are the parts after it.
    fn rows(&self, source: &Source, part: Part, left: &mut VecDeque<Part>) -> Vec<Json>;

    /// Adds the samples of these ranges to rows, where a history of each thing can be kept.
    fn add_samples(&self, _: &Source, _: Ranges, _rows: &mut [Json]) {}
}

/// A part of a list.
pub(crate) enum Part {
    /// The things with these names in a vhost, or what belongs to these things.
    Named(Arc<str>, Names),
    /// These consumers without a queue, of a vhost.
    Direct(Arc<str>, Vec<DirectConsumer>),
    /// Bindings of an exchange after this one.
    Bindings { vhost: Arc<str>, exchange: Arc<str>, after: Option<BindingPlace> },
    /// These clients, or their sessions.
    Clients(Vec<u64>, Arc<Sockets>),
    /// The whole list, or what is in this vhost.
    Whole(Option<String>),
}

impl Part {
    /// The rows of the whole list that belong to this part.
    pub(crate) fn of_whole(&self, rows: impl IntoIterator<Item = Json>) -> Vec<Json> {
        let Self::Whole(vhost) = self else { return Vec::new() };
        let is_there = |row: &Json| vhost.as_ref().is_none_or(|vhost| row.get("vhost").is_none_or(|of| *of == **vhost));
        rows.into_iter().filter(is_there).collect()
    }

    fn weight(&self) -> usize {
        let inner = match self {
            Self::Named(_, names) => names.len() * size_of::<Arc<str>>(),
            Self::Direct(_, consumers) => consumers.len() * size_of::<DirectConsumer>(),
            Self::Clients(numbers, _) => numbers.len() * size_of::<u64>(),
            Self::Bindings { .. } | Self::Whole(_) => 0,
        };
        size_of::<Self>() + inner
    }
}

/// A thing of a list, without its row.
pub(crate) struct Entry {
    pub(crate) place: Place,
    /// The field that the list is sorted by.
    pub(crate) key: SortKey,
}

/// Where a thing of a list is found again.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// In a vhost, by its name.
    Named(Arc<str>, Arc<str>),
    /// The client of this number, whose connection has this name.
    Client(u64, Arc<str>),
}

impl Place {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Named(_, name) | Self::Client(_, name) => name,
        }
    }
}

/// The entries of a part whose things have names in a vhost. Their names and their vhost are known;
/// `key` makes the other sort keys, with those things that still exist.
pub(crate) fn entries_of_named(
    part: &Part,
    sort: Option<&str>,
    keys: impl Fn(&str, &[Arc<str>], &str) -> Vec<(Arc<str>, SortKey)>,
) -> Option<Vec<Entry>> {
    let Part::Named(vhost, names) = part else { return None };
    let text = |text: &str| SortKey { kind: TEXT, number: 0.0, text: text.to_owned() };
    let keyed = match sort {
        None => names.iter().map(|name| (Arc::clone(name), SortKey::default())).collect(),
        Some("name") => names.iter().map(|name| (Arc::clone(name), text(name))).collect(),
        Some("vhost") => names.iter().map(|name| (Arc::clone(name), text(vhost))).collect(),
        Some(path) => keys(vhost, names, path),
    };
    let entry = |(name, key)| Entry { place: Place::Named(Arc::clone(vhost), name), key };
    Some(keyed.into_iter().map(entry).collect())
}

/// The field of a row at a path with dots.
pub fn at<'a>(row: &'a Json, path: &str) -> Option<&'a Json> {
    path.split('.').try_fold(row, |inner, name| inner.get(name))
}

/// These fields of a row; a field with dots is in a nested object.
pub fn only(row: &Json, columns: &[String]) -> Json {
    let mut narrow = Map::new();
    for path in columns {
        let Some(value) = at(row, path) else { continue };
        let mut into = &mut narrow;
        let mut names = path.split('.').peekable();
        while let Some(name) = names.next() {
            if names.peek().is_none() {
                into.insert(name.to_owned(), value.clone());
                break;
            }
            let inner = into.entry(name).or_insert_with(|| Json::Object(Map::new()));
            let Json::Object(inner) = inner else { break };
            into = inner;
        }
    }
    Json::Object(narrow)
}

/// The kind of keys that are texts.
const TEXT: u8 = 2;

/// What a thing is sorted by. A missing field comes first, then numbers, then texts.
#[derive(Debug, Default, Clone)]
pub struct SortKey {
    kind: u8,
    number: f64,
    pub(crate) text: String,
}

impl SortKey {
    /// The key of a field.
    pub fn of(value: Option<&Json>) -> Self {
        let key = |kind, number, text| Self { kind, number, text };
        match value {
            None | Some(Json::Null) => Self::default(),
            Some(Json::Number(number)) => key(1, number.as_f64().unwrap_or_default(), String::new()),
            Some(Json::String(text)) => key(TEXT, 0.0, text.clone()),
            Some(value) => key(TEXT, 0.0, value.to_string()),
        }
    }
}

impl Ord for SortKey {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_kind = self.kind.cmp(&other.kind);
        by_kind.then(self.number.total_cmp(&other.number)).then_with(|| self.text.cmp(&other.text))
    }
}

impl PartialOrd for SortKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for SortKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for SortKey {}

/// Bytes of memory that parts of a list take, estimated.
pub(crate) fn weight(parts: &VecDeque<Part>) -> usize {
    let sockets = match parts.front() {
        Some(Part::Clients(_, sockets)) => sockets.len() * (2 * size_of::<Socket>()),
        _ => 0,
    };
    sockets + parts.iter().map(Part::weight).sum::<usize>()
}

/// The parts of a list of things that have names in vhosts.
pub(crate) fn named<N: AsRef<[Arc<str>]>>(
    source: &Source,
    vhost: Option<&str>,
    names: impl Fn(&str) -> N,
) -> VecDeque<Part> {
    let vhosts = vhost.map_or_else(|| source.broker.vhost_names(), |vhost| vec![vhost.into()]);
    let of = |vhost: &Arc<str>| -> Vec<Part> {
        names(vhost).as_ref().chunks(PART).map(|names| Part::Named(Arc::clone(vhost), names.to_vec())).collect()
    };
    vhosts.iter().flat_map(of).collect()
}

/// The parts of a list of clients or their sessions.
pub(crate) fn clients(source: &Source, vhost: Option<&str>, sockets: Sockets) -> VecDeque<Part> {
    let sockets = Arc::new(sockets);
    let clients = source.broker.attached();
    let of_vhost = clients.iter().filter(|client| vhost.is_none_or(|vhost| client.vhost() == vhost));
    let numbers: Vec<u64> = of_vhost.map(AttachedClient::number).collect();
    numbers.chunks(PART).map(|numbers| Part::Clients(numbers.to_vec(), Arc::clone(&sockets))).collect()
}

/// All rows of a list, or those in a vhost.
pub(crate) fn all(source: &Source, collection: &dyn Collection, vhost: Option<&str>) -> Vec<Json> {
    narrow(source, collection, vhost, &[])
}

/// These fields of all rows of a list, or of those in a vhost; all fields if none are named. No
/// more whole rows than those of a part are held.
pub(crate) fn narrow(
    source: &Source,
    collection: &dyn Collection,
    vhost: Option<&str>,
    fields: &[String],
) -> Vec<Json> {
    let mut parts = collection.parts(source, vhost);
    let mut rows = Vec::new();
    while let Some(part) = parts.pop_front() {
        let of_part = collection.rows(source, part, &mut parts);
        match fields {
            [] => rows.extend(of_part),
            fields => rows.extend(of_part.iter().map(|row| only(row, fields))),
        }
    }
    rows
}
