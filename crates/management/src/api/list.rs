//! Lists, built off the loop and sent a chunk at a time, each when the last one has been read. So a
//! long list, sorted or not, takes no more memory than a short one and the names of its objects.
//! One that only whole rows can sort is charged as a whole.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::body::Body;
use axum::http::header;
use axum::response::IntoResponse;
use serde_json::Value as Json;

use super::answer::{Answer, Failure};
use super::asker::Asker;
use super::page::Shape;
use crate::history::MOST_QUEUES;
use crate::listing::{self, Collection, Entry, PART, Part, Place, Rights};
use crate::pieces::{self, PIECE, Pieces, UNDER_WAY};
use crate::pool::Work;
use crate::source::Source;

/// The name of a field, and the value that rows must have there.
pub(crate) type Field = (&'static str, String);

/// A list as one user sees it.
pub(crate) struct List {
    source: Arc<Source>,
    asker: Asker,
    collection: &'static dyn Collection,
    fields: Vec<Field>,
    parts: VecDeque<Part>,
    shape: Shape,
    /// The rows that got samples of the past.
    sampled: usize,
    /// Whether the bracket before the rows was written.
    opened: bool,
    /// Whether a row was written.
    begun: bool,
}

/// Answers with the rows of a list that this user sees and that have these fields. The request
/// gives their order, pages and columns.
pub(crate) async fn answer(
    asker: Asker,
    source: Arc<Source>,
    collection: &'static dyn Collection,
    vhost: Option<String>,
    fields: Vec<Field>,
    shape: Shape,
) -> Answer {
    asker.may_list(collection.rights())?;
    let pool = Arc::clone(&source.pool);
    let user = asker.user().to_owned();
    let begin = move || {
        let parts = collection.parts(&source, vhost.as_deref());
        let list = List { source, asker, collection, fields, parts, shape, sampled: 0, opened: false, begun: false };
        list.asker.charge(listing::weight(&list.parts))?;
        if list.shape.is_plain() {
            return Ok(list.begin());
        }
        match list.entries()? {
            Some(entries) if list.shape.has_page() => list.picked(entries).map(|text| (text, None)),
            Some(entries) => Ok(list.in_order(entries).begin()),
            None => list.whole().map(|text| (text, None)),
        }
    };
    let begun: Result<_, Failure> = pool.run(Work::List, &user, begin).await.map_err(Failure::failed)?;
    let (text, rest) = begun?;
    let Some(list) = rest else { return Ok(json(Body::from(text))) };
    list.asker.charge(UNDER_WAY)?;
    let places = (Arc::clone(&list.source.pool), user);
    Ok(json(pieces::body(text, list, places)))
}

fn json(body: Body) -> axum::response::Response {
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

impl List {
    /// The next rows that the user sees; `None` after the last.
    fn rows(&mut self) -> Option<Vec<Json>> {
        let part = self.parts.pop_front()?;
        if !self.sees(&part) {
            return Some(Vec::new());
        }
        let mut rows = self.made(part);
        let (has, rights) =
            (|row: &Json| self.fields.iter().all(|(name, value)| row[*name] == **value), self.collection.rights());
        rows.retain(|row| has(row) && self.asker.sees(&self.source, rights, row));
        Some(rows)
    }

    /// The rows of a part. The first of a list get the samples of the past that were asked for: as
    /// many as have histories.
    fn made(&mut self, part: Part) -> Vec<Json> {
        let mut rows = self.collection.rows(&self.source, part, &mut self.parts);
        let ranges = self.shape.ranges();
        if !ranges.is_empty() {
            let some = rows.len().min(MOST_QUEUES - self.sampled);
            self.collection.add_samples(&self.source, ranges, &mut rows[..some]);
            self.sampled += some;
        }
        rows
    }

    /// The beginning of the text, and the rest of the list.
    fn begin(mut self) -> (String, Option<Self>) {
        let (mut text, more) = pieces::next(&mut self);
        // A short list is charged by its length.
        text.shrink_to_fit();
        (text, more.then_some(self))
    }

    /// Whether the user sees anything of a part.
    fn sees(&self, part: &Part) -> bool {
        match part {
            Part::Named(vhost, _) | Part::Direct(vhost, _) if !self.asker.monitors() => {
                self.source.broker.authority().enter(self.asker.identity(), vhost).is_ok()
            }
            _ => true,
        }
    }

    /// The entries of all rows that the user sees; `None` where only rows tell.
    fn entries(&self) -> Result<Option<Vec<Entry>>, Failure> {
        let by_vhost = self.collection.rights() == Rights::Vhost;
        if !self.fields.is_empty() || !(by_vhost || self.asker.monitors()) {
            return Ok(None);
        }
        let mut all = Vec::new();
        for part in self.parts.iter().filter(|part| self.sees(part)) {
            let Some(entries) = self.collection.entries(&self.source, part, self.shape.sort()) else { return Ok(None) };
            let texts: usize = entries.iter().map(|entry| entry.key.text.len()).sum();
            self.asker.charge(entries.len() * size_of::<Entry>() + texts)?;
            all.extend(entries);
        }
        Ok(Some(all))
    }

    /// A page of which only its own rows are made.
    fn picked(mut self, entries: Vec<Entry>) -> Result<String, Failure> {
        let picked = self.shape.pick(entries);
        self.parts = self.parts_of(&picked.entries);
        let mut rows = Vec::new();
        while let Some(part) = self.parts.pop_front() {
            rows.extend(self.made(part));
        }
        self.shape.page(rows, &picked)
    }

    /// The list sorted, of which no row is made yet: it is made as it is read, like any other.
    fn in_order(mut self, entries: Vec<Entry>) -> Self {
        let picked = self.shape.pick(entries);
        self.parts = self.parts_of(&picked.entries);
        self
    }

    /// The parts of a list of these things, in their order.
    fn parts_of(&self, entries: &[Entry]) -> VecDeque<Part> {
        let sockets = self.parts.iter().find_map(|part| match part {
            Part::Clients(_, sockets) => Some(Arc::clone(sockets)),
            _ => None,
        });
        let mut parts = VecDeque::new();
        for Entry { place, .. } in entries {
            match (place, parts.back_mut()) {
                (Place::Named(vhost, name), Some(Part::Named(of, names))) if of == vhost && names.len() < PART => {
                    names.push(Arc::clone(name));
                }
                (Place::Named(vhost, name), _) => {
                    parts.push_back(Part::Named(Arc::clone(vhost), vec![Arc::clone(name)]));
                }
                (Place::Client(number, _), Some(Part::Clients(numbers, _))) if numbers.len() < PART => {
                    numbers.push(*number);
                }
                (Place::Client(number, _), _) => {
                    parts.push_back(Part::Clients(vec![*number], sockets.clone().unwrap_or_default()));
                }
            }
        }
        parts
    }

    /// The whole text, sorted or cut into pages, where only rows tell what it is sorted by.
    fn whole(mut self) -> Result<String, Failure> {
        let asker = self.asker.clone();
        let shape = std::mem::take(&mut self.shape);
        let rows = std::iter::from_fn(|| self.rows()).flatten();
        shape.gather(rows, &mut |bytes| Ok(asker.charge(bytes)?))
    }
}

impl Pieces for List {
    fn write(&mut self, text: &mut String) -> bool {
        if !std::mem::replace(&mut self.opened, true) {
            text.push('[');
        }
        while text.len() < PIECE {
            let Some(rows) = self.rows() else {
                text.push(']');
                return false;
            };
            for row in rows.into_iter().filter(|row| self.shape.keeps(row)) {
                if std::mem::replace(&mut self.begun, true) {
                    text.push(',');
                }
                text.push_str(&self.shape.narrow(row).to_string());
            }
        }
        true
    }
}
