//! Lists: which rows a request asks for, in which order, and from where on.
//!
//! A cursor names the last row of a page by what the list is sorted by and by its key. So a page
//! misses and repeats nothing that stays, whatever comes and goes in between.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use auth::pattern::Pattern;
use axum::extract::{Query, State};
use axum::routing::{MethodRouter, get};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value as Json, json};

use super::field::{Field, Kind};
use super::resource::{BETWEEN, Reading, Resource, SomeOf};
use crate::api::{Answer, Asker, Failure, Shared, shown, sum_up};
use crate::listing::{PART, SortKey};
use crate::source::Source;

/// Rows of a page if the request does not say, and the most that it may ask for.
const PAGE: usize = 100;
const LARGEST_PAGE: usize = 1000;
/// The most conditions of a filter.
const MOST_TERMS: usize = 16;

/// The route of the list of a resource.
pub(super) fn route<T: Send + Sync>(resource: &'static Resource<T>) -> MethodRouter<Arc<Source>> {
    get(async move |asker: Asker, source: Shared, query: Query<HashMap<String, String>>| {
        answer(resource, asker, source, query).await
    })
}

async fn answer<T: Send + Sync>(
    resource: &'static Resource<T>,
    asker: Asker,
    State(source): Shared,
    Query(query): Query<HashMap<String, String>>,
) -> Answer {
    asker.may_list(resource.rights)?;
    let wanted = Wanted::parse(resource.fields, &query).map_err(Failure::bad_request)?;
    shown(sum_up(&source, &asker.clone(), move |source| wanted.page(resource, source, &asker)).await?)
}

/// What a request asks for.
struct Wanted<T: 'static> {
    fields: Vec<&'static Field<T>>,
    sort: Option<(&'static Field<T>, Direction)>,
    filter: Vec<Term<T>>,
    limit: usize,
    after: Option<Position>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

/// Where a row is in the list.
#[derive(Debug, Clone)]
struct Position {
    /// The value that the list is sorted by.
    value: Json,
    sort: SortKey,
    key: String,
}

impl Position {
    fn new(value: Json, key: String) -> Self {
        Self { sort: SortKey::of(Some(&value)), value, key }
    }

    fn cursor(&self) -> String {
        URL_SAFE_NO_PAD.encode(json!([self.value, self.key]).to_string())
    }

    fn parse(cursor: &str) -> Option<Self> {
        let (value, key) = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?;
        Some(Self::new(value, key))
    }
}

/// One condition of a filter.
struct Term<T: 'static> {
    field: &'static Field<T>,
    relation: Relation,
}

enum Relation {
    Is(String),
    IsNot(String),
    Matches(Pattern),
    /// The value is, compared with this one, one of the orders.
    Order(SortKey, &'static [Ordering]),
}

impl<T> Term<T> {
    fn holds(&self, report: &T) -> bool {
        let value = (self.field.read)(report);
        let text = |value: &Json| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        match &self.relation {
            Relation::Is(wanted) => text(&value) == *wanted,
            Relation::IsNot(wanted) => text(&value) != *wanted,
            Relation::Matches(pattern) => pattern.matches(&text(&value)),
            Relation::Order(wanted, orders) => {
                !value.is_null() && orders.contains(&SortKey::of(Some(&value)).cmp(wanted))
            }
        }
    }
}

impl<T: Send + Sync> Wanted<T> {
    fn parse(fields: &'static [Field<T>], query: &HashMap<String, String>) -> Result<Self, String> {
        let text = |name: &str| query.get(name).map(String::as_str).filter(|text| !text.is_empty());
        let known = ["limit", "after", "sort", "filter", "fields"];
        if let Some(other) = query.keys().find(|name| !known.contains(&name.as_str())) {
            return Err(format!("a list has no parameter '{other}': there are {}", known.join(", ")));
        }
        let limit = text("limit").map_or(Ok(PAGE), |limit| {
            let number = limit.parse().ok().filter(|number| (1..=LARGEST_PAGE).contains(number));
            number.ok_or_else(|| format!("limit is a whole number from 1 to {LARGEST_PAGE}, not '{limit}'"))
        })?;
        let sort = text("sort").map(|sort| match sort.strip_prefix('-') {
            Some(name) => named(fields, name).map(|field| (field, Direction::Down)),
            None => named(fields, sort).map(|field| (field, Direction::Up)),
        });
        let chosen = text("fields").map_or_else(
            || Ok(fields.iter().collect()),
            |names| names.split(',').map(|name| named(fields, name)).collect::<Result<Vec<_>, _>>(),
        );
        let after = text("after").map(|cursor| {
            Position::parse(cursor).ok_or_else(|| "after is no cursor: take the one in next of a page".to_owned())
        });
        Ok(Self {
            fields: chosen?,
            sort: sort.transpose()?,
            filter: text("filter").map_or(Ok(Vec::new()), |filter| terms(fields, filter))?,
            limit,
            after: after.transpose()?,
        })
    }

    /// The document of a page.
    fn page(&self, resource: &Resource<T>, source: &Source, asker: &Asker) -> Json {
        let brief = self.brief(resource);
        let (mut kept, total) = match &resource.reading {
            Reading::Named { .. } if self.sort.is_none() && self.filter.is_empty() => {
                self.next_named(resource, source, asker)
            }
            _ => self.gathered(resource, source, asker, brief.map(|(_, brief)| brief)),
        };
        let is_last = kept.len() <= self.limit;
        kept.truncate(self.limit);
        let next = kept.last().filter(|_| !is_last).map(|(position, _)| position.cursor());
        let whole = |(position, report): (Position, T)| {
            let Some((some, _)) = brief else { return Some(report) };
            let (vhost, name) = position.key.split_once(BETWEEN)?;
            some(&source.broker, vhost, &[name.into()]).pop()
        };
        let items: Vec<Json> = kept.into_iter().filter_map(whole).map(|report| self.row(&report)).collect();
        json!({ "items": items, "next": next, "total": total })
    }

    /// How things are read whole, and in brief, if the latter tells what this list is filtered and
    /// sorted by.
    fn brief(&self, resource: &Resource<T>) -> Option<(SomeOf<T>, SomeOf<T>)> {
        let Reading::Named { some, brief: Some(brief), .. } = &resource.reading else { return None };
        let mut asked = self.filter.iter().map(|term| term.field).chain(self.sort.map(|(field, _)| field)).peekable();
        asked.peek()?;
        asked.all(|field| brief.fields.contains(&field.name)).then_some((*some, brief.some))
    }

    /// The things of the page and one more, if the list has its own order: only their reports are
    /// made. And how many there are in all.
    fn next_named(&self, resource: &Resource<T>, source: &Source, asker: &Asker) -> (Vec<(Position, T)>, usize) {
        let Reading::Named { names, some, .. } = &resource.reading else { return Default::default() };
        let (mut kept, mut total) = (Vec::new(), 0);
        let last = self.after.as_ref().and_then(|after| after.key.split_once(BETWEEN));
        for vhost in resource.vhosts(source, asker, None) {
            let all = names(&source.broker, &vhost);
            total += all.len();
            let from = match last {
                Some((of, name)) if *of == *vhost => all.partition_point(|known| &**known <= name),
                Some((of, _)) if *of > *vhost => all.len(),
                _ => 0,
            };
            for part in all[from..].chunks(PART) {
                if kept.len() > self.limit {
                    break;
                }
                let reports = some(&source.broker, &vhost, part).into_iter();
                kept.extend(reports.map(|report| (self.position(resource, &report), report)));
            }
        }
        (kept, total)
    }

    /// The same for any order and any filter. No more things are kept than twice those of a page,
    /// and only those of the page become rows.
    fn gathered(
        &self,
        resource: &Resource<T>,
        source: &Source,
        asker: &Asker,
        brief: Option<SomeOf<T>>,
    ) -> (Vec<(Position, T)>, usize) {
        let (mut kept, mut total) = (Vec::new(), 0);
        let mut take = |report: T| {
            if !self.filter.iter().all(|term| term.holds(&report)) {
                return;
            }
            total += 1;
            let position = self.position(resource, &report);
            if self.after.as_ref().is_none_or(|after| self.order(after, &position) == Ordering::Less) {
                kept.push((position, report));
            }
            if kept.len() > 2 * (self.limit + 1) {
                self.arrange(&mut kept);
            }
        };
        match brief {
            Some(brief) => resource.each_named(source, asker, (self.vhost(), brief), &mut take),
            None => resource.each(source, asker, self.vhost(), &mut take),
        }
        self.arrange(&mut kept);
        (kept, total)
    }

    /// The only vhost that the filter lets through.
    fn vhost(&self) -> Option<&str> {
        self.filter.iter().find_map(|term| match &term.relation {
            Relation::Is(vhost) if term.field.name == "vhost" => Some(vhost.as_str()),
            _ => None,
        })
    }

    fn position(&self, resource: &Resource<T>, report: &T) -> Position {
        Position::new(self.sort.map_or(Json::Null, |(field, _)| (field.read)(report)), (resource.key)(report))
    }

    fn row(&self, report: &T) -> Json {
        let fields = self.fields.iter().map(|field| (field.name.to_owned(), (field.read)(report)));
        Json::Object(fields.collect::<Map<_, _>>())
    }

    /// Keeps those of the page and one more, in order.
    fn arrange(&self, kept: &mut Vec<(Position, T)>) {
        kept.sort_by(|(one, _), (other, _)| self.order(one, other));
        kept.truncate(self.limit + 1);
    }

    fn order(&self, one: &Position, other: &Position) -> Ordering {
        let by_value = one.sort.cmp(&other.sort);
        let by_value = if matches!(self.sort, Some((_, Direction::Down))) { by_value.reverse() } else { by_value };
        by_value.then_with(|| one.key.cmp(&other.key))
    }
}

fn named<T>(fields: &'static [Field<T>], name: &str) -> Result<&'static Field<T>, String> {
    fields.iter().find(|field| field.name == name).ok_or_else(|| {
        let known: Vec<&str> = fields.iter().map(|field| field.name).collect();
        format!("there is no field '{name}': there are {}", known.join(", "))
    })
}

/// The conditions of a filter as `ready>1000 consumers=0 name~^orders`.
fn terms<T>(fields: &'static [Field<T>], filter: &str) -> Result<Vec<Term<T>>, String> {
    let terms: Vec<Term<T>> = words(filter)?.iter().map(|word| term(fields, word)).collect::<Result<_, _>>()?;
    if terms.len() > MOST_TERMS {
        return Err(format!("a filter has at most {MOST_TERMS} conditions"));
    }
    Ok(terms)
}

/// What is separated by blanks. Blanks within double quotes do not separate, and the quotes go.
fn words(filter: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for letter in filter.chars() {
        match letter {
            '"' => quoted = !quoted,
            ' ' if !quoted => words.push(std::mem::take(&mut word)),
            other => word.push(other),
        }
    }
    if quoted {
        return Err("a quotation mark of filter is not closed".to_owned());
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    Ok(words)
}

fn term<T>(fields: &'static [Field<T>], word: &str) -> Result<Term<T>, String> {
    let end = word.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(word.len());
    let (field, rest) = (named(fields, &word[..end])?, &word[end..]);
    let order = |value: &str, orders: &'static [Ordering]| {
        let value = match field.kind {
            Kind::Number => json!(value.parse::<f64>().map_err(|_| format!("'{word}': {value} is no number"))?),
            _ => json!(value),
        };
        Ok::<_, String>(Relation::Order(SortKey::of(Some(&value)), orders))
    };
    let relation = if let Some(value) = rest.strip_prefix("!=") {
        Relation::IsNot(value.to_owned())
    } else if let Some(value) = rest.strip_prefix(">=") {
        order(value, &[Ordering::Greater, Ordering::Equal])?
    } else if let Some(value) = rest.strip_prefix("<=") {
        order(value, &[Ordering::Less, Ordering::Equal])?
    } else if let Some(value) = rest.strip_prefix('=') {
        Relation::Is(value.to_owned())
    } else if let Some(value) = rest.strip_prefix('>') {
        order(value, &[Ordering::Greater])?
    } else if let Some(value) = rest.strip_prefix('<') {
        order(value, &[Ordering::Less])?
    } else if let Some(value) = rest.strip_prefix('~') {
        let refused = |reason| format!("'{word}': no regular expression: {reason}");
        Relation::Matches(Pattern::filter(value).map_err(|error| refused(error.reason))?)
    } else {
        return Err(format!("'{word}' is no condition: write FIELD=VALUE, or one of != > < >= <= ~"));
    };
    Ok(Term { field, relation })
}

#[cfg(test)]
mod tests {
    use super::super::field::{declared, figure};
    use super::*;

    struct Thing(&'static str, u64);

    static FIELDS: [Field<Thing>; 2] = [
        declared("name", Kind::Text, "", |thing: &Thing| json!(thing.0)),
        figure("ready", Kind::Number, "", |thing: &Thing| json!(thing.1)),
    ];

    #[test]
    fn a_filter_holds_where_all_its_conditions_do() {
        let things = [Thing("orders", 10), Thing("orders dlq", 2), Thing("mails", 3)];
        for (filter, expected) in [
            ("", "orders,orders dlq,mails"),
            ("ready>2", "orders,mails"),
            ("ready>=2 ready<10", "orders dlq,mails"),
            ("ready<=3 name~^o", "orders dlq"),
            ("name=\"orders dlq\"", "orders dlq"),
            ("name!=mails ready=10", "orders"),
            ("name>n", "orders,orders dlq"),
        ] {
            let terms = terms(&FIELDS, filter).unwrap();
            let kept = things.iter().filter(|thing| terms.iter().all(|term| term.holds(thing)));
            assert_eq!(kept.map(|thing| thing.0).collect::<Vec<_>>().join(","), expected, "{filter}");
        }
        for (filter, words) in [
            ("size>1", "there is no field 'size': there are name, ready"),
            ("ready", "is no condition"),
            ("ready>x", "x is no number"),
            ("name~(", "no regular expression"),
            ("name=\"a", "not closed"),
        ] {
            assert!(terms(&FIELDS, filter).is_err_and(|error| error.contains(words)), "{filter}");
        }
    }

    #[test]
    fn a_cursor_is_read_as_it_was_written() {
        let position = Position::new(json!(7), "v\0q".to_owned());
        let read = Position::parse(&position.cursor()).unwrap();
        assert_eq!((read.value, read.key), (json!(7), "v\0q".to_owned()));
        assert!(Position::parse("x").is_none() && Position::parse("").is_none());
    }

    #[test]
    fn parameters_that_are_wrong_are_named() {
        let parse = |name: &str, value: &str| {
            Wanted::parse(&FIELDS, &HashMap::from([(name.to_owned(), value.to_owned())])).err().unwrap_or_default()
        };
        for (name, value, words) in [
            ("page", "1", "no parameter 'page'"),
            ("limit", "0", "from 1 to 1000"),
            ("sort", "-size", "no field 'size'"),
            ("fields", "name,size", "no field 'size'"),
            ("after", "x", "no cursor"),
        ] {
            assert!(parse(name, value).contains(words), "{name}={value}");
        }
        assert_eq!(parse("sort", "-ready"), "");
    }
}
