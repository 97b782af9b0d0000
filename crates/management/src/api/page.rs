//! Which part of a list a request asks for: sorted, filtered by name, cut into pages, with some
//! fields only. Names of parameters and of fields are RabbitMQ's.

use std::collections::HashMap;

use auth::pattern::{Pattern, quoted};
use axum::extract::Query;
use axum::http::header;
use axum::response::IntoResponse;
use serde_json::Value as Json;

use super::answer::{Answer, Failure};
use crate::history::Ranges;
use crate::listing::{Entry, SortKey, at, only};

/// Entries of a page if the request does not say, and the most that it may ask for.
const PAGE: usize = 100;
const LARGEST_PAGE: usize = 500;
/// Bytes that a gathered row takes besides its text, and bytes that are gathered between two
/// charges.
const ROW: usize = size_of::<((SortKey, usize), String)>();
const CHARGE: usize = 1 << 16;

/// The parameters of a request.
pub(crate) type Wanted = Query<HashMap<String, String>>;

/// Which part of a list a request asks for, and in which order.
#[derive(Debug, Default)]
pub(crate) struct Shape {
    name: Option<Pattern>,
    sort: Option<String>,
    reversed: bool,
    /// Number, from 1 on, and size.
    page: Option<(usize, usize)>,
    columns: Vec<String>,
    stats: Stats,
    ranges: Ranges,
}

/// Which figures the rows of a list have.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Stats {
    #[default]
    All,
    /// How many messages are in queues, and no more.
    Totals,
    None,
}

/// The rows that a page or a sorted list will have.
#[derive(Default)]
struct Gathered {
    /// Each with its sort key and its number.
    rows: Vec<((SortKey, usize), String)>,
    total: usize,
    filtered: usize,
}

impl Shape {
    pub(crate) fn parse(wanted: &HashMap<String, String>) -> Result<Self, Failure> {
        let text = |name: &str| wanted.get(name).map(String::as_str).filter(|text| !text.is_empty());
        let is_expression = text("use_regex") == Some("true");
        let pattern = |name: &str| match is_expression {
            true => expression(name),
            false => expression(&quoted(name)),
        };
        let is_set = |name: &str| text(name) == Some("true");
        let page = text("page").or_else(|| is_set("pagination").then_some("1"));
        let page = page.map(|page| number("page", page, usize::MAX)).transpose()?;
        let stats = match (is_set("disable_stats"), is_set("enable_queue_totals")) {
            (false, _) => Stats::All,
            (true, true) => Stats::Totals,
            (true, false) => Stats::None,
        };
        let size = text("page_size").map_or(Ok(PAGE), |size| number("page_size", size, LARGEST_PAGE))?;
        Ok(Self {
            name: text("name").map(pattern).transpose()?,
            sort: text("sort").map(str::to_owned),
            reversed: text("sort_reverse") == Some("true"),
            page: page.map(|page| (page, size)),
            columns: text("columns").map(|names| names.split(',').map(str::to_owned).collect()).unwrap_or_default(),
            stats,
            ranges: Ranges::of(wanted),
        })
    }

    /// Whether rows may be written in the order in which they come.
    pub(crate) fn is_plain(&self) -> bool {
        self.sort.is_none() && self.page.is_none()
    }

    /// Whether a part of the list is asked for, with the number of all.
    pub(crate) fn has_page(&self) -> bool {
        self.page.is_some()
    }

    /// The ranges of samples that rows are to have.
    pub(crate) fn ranges(&self) -> Ranges {
        self.ranges
    }

    /// The field that the list is sorted by.
    pub(crate) fn sort(&self) -> Option<&str> {
        self.sort.as_deref()
    }

    pub(crate) fn keeps(&self, row: &Json) -> bool {
        self.name.is_none() || row["name"].as_str().is_some_and(|name| self.keeps_name(name))
    }

    pub(crate) fn keeps_name(&self, name: &str) -> bool {
        self.name.as_ref().is_none_or(|pattern| pattern.matches(name))
    }

    /// The numbers of the first row of the page, and of the first behind it.
    fn bounds(&self) -> (usize, usize) {
        self.page.map_or((0, usize::MAX), |(page, size)| {
            let from = (page - 1).saturating_mul(size);
            (from, from.saturating_add(size))
        })
    }

    /// Picks the entries of the page, in order, out of all that the user sees.
    pub(crate) fn pick(&self, mut entries: Vec<Entry>) -> Picked {
        let total = entries.len();
        entries.retain(|entry| self.keeps_name(entry.place.name()));
        let filtered = entries.len();
        let (from, to) = self.bounds();
        if self.sort.is_some() {
            // The names decide between equals, so that all pages have one order.
            let by = |one: &Entry, other: &Entry| {
                let ordered = one.key.cmp(&other.key).then_with(|| one.place.name().cmp(other.place.name()));
                if self.reversed { ordered.reverse() } else { ordered }
            };
            if to < entries.len() {
                entries.select_nth_unstable_by(to, by);
                entries.truncate(to);
            }
            entries.sort_unstable_by(by);
        }
        entries.truncate(to);
        entries.drain(..from.min(entries.len()));
        Picked { entries, total, filtered }
    }

    /// The text of a page of these rows.
    pub(crate) fn page(&self, rows: Vec<Json>, picked: &Picked) -> Result<String, Failure> {
        let rows: Vec<String> = rows.into_iter().map(|row| self.narrow(row).to_string()).collect();
        let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
        self.enveloped(&rows, picked.total, picked.filtered)
    }

    /// The columns of a row that the request asks for.
    pub(crate) fn narrow(&self, row: Json) -> Json {
        let row = if self.stats == Stats::All { row } else { without_stats(row, self.stats) };
        if self.columns.is_empty() { row } else { only(&row, &self.columns) }
    }

    /// The text of a list or a page of these rows. Its bytes are charged before they are kept.
    pub(crate) fn gather(
        &self,
        rows: impl Iterator<Item = Json>,
        charge: &mut dyn FnMut(usize) -> Result<(), Failure>,
    ) -> Result<String, Failure> {
        let mut gathered = Gathered::default();
        let (from, to) = self.bounds();
        let mut charged = 0;
        for row in rows {
            gathered.total += 1;
            if !self.keeps(&row) {
                continue;
            }
            let number = gathered.filtered;
            gathered.filtered += 1;
            let key = self.sort.as_ref().map(|path| SortKey::of(at(&row, path))).unwrap_or_default();
            if self.sort.is_none() && !(from..to).contains(&number) {
                continue;
            }
            let mut text = self.narrow(row).to_string();
            text.shrink_to_fit();
            let bytes = text.len() + key.text.len() + ROW;
            gathered.rows.push(((key, number), text));
            charged += bytes;
            if charged >= CHARGE {
                charge(std::mem::take(&mut charged))?;
            }
            // While sorting, no more rows are kept than twice those of the pages up to this one.
            if self.sort.is_some() && gathered.rows.len() / 2 > to.saturating_add(PAGE) {
                self.arrange(&mut gathered.rows);
                gathered.rows.truncate(to);
            }
        }
        charge(charged)?;
        if self.sort.is_some() {
            self.arrange(&mut gathered.rows);
            gathered.rows.drain(..from.min(gathered.rows.len()));
            gathered.rows.truncate(to - from);
        }
        let texts: Vec<&str> = gathered.rows.iter().map(|(_, text)| text.as_str()).collect();
        self.enveloped(&texts, gathered.total, gathered.filtered)
    }

    fn arrange(&self, rows: &mut [((SortKey, usize), String)]) {
        rows.sort_by(|(one, _), (other, _)| one.cmp(other));
        if self.reversed {
            rows.reverse();
        }
    }

    /// Rows as a list, or as a page that says how many there are.
    fn enveloped(&self, rows: &[&str], total: usize, filtered: usize) -> Result<String, Failure> {
        let items = format!("[{}]", rows.join(","));
        let Some((page, size)) = self.page else { return Ok(items) };
        let pages = filtered.div_ceil(size).max(1);
        if page > pages {
            return Err(Failure::bad_request(format!("page {page} is beyond the last, which is {pages}")));
        }
        let count = rows.len();
        Ok(format!(
            "{{\"total_count\":{total},\"filtered_count\":{filtered},\"item_count\":{count},\"page\":{page},\
             \"page_count\":{pages},\"page_size\":{size},\"items\":{items}}}"
        ))
    }
}

/// The entries of a page.
pub(crate) struct Picked {
    pub(crate) entries: Vec<Entry>,
    /// How many the user sees.
    total: usize,
    /// How many of them have a name that is asked for.
    filtered: usize,
}

/// How many messages a queue has.
const TOTALS: [&str; 3] = ["messages", "messages_ready", "messages_unacknowledged"];

/// A row without figures that move, or with those of the messages alone.
fn without_stats(row: Json, stats: Stats) -> Json {
    let Json::Object(mut row) = row else { return row };
    let is_rate = |name: &str, value: &Json| name.ends_with("_details") && !value["rate"].is_null();
    row.retain(|name, value| match name.as_str() {
        "message_stats" => false,
        name if TOTALS.contains(&name) => stats == Stats::Totals,
        name if name.starts_with("messages") || name.starts_with("message_bytes") => false,
        name => !is_rate(name, value),
    });
    Json::Object(row)
}

/// A short list as a request asks for it.
pub(crate) fn rows(rows: Vec<Json>, wanted: &HashMap<String, String>) -> Answer {
    let text = Shape::parse(wanted)?.gather(rows.into_iter(), &mut |_| Ok(()))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
}

/// The pattern that a name must match.
fn expression(pattern: &str) -> Result<Pattern, Failure> {
    let refused = |reason| Failure::bad_request(format!("name is no regular expression: {reason}"));
    Pattern::filter(pattern).map_err(|error| refused(error.reason))
}

fn number(name: &str, text: &str, most: usize) -> Result<usize, Failure> {
    let number = text.parse().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| Failure::bad_request(format!("{name} is a whole number from 1 to {most}, not '{text}'")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::listing::Place;

    fn queues() -> Vec<Json> {
        vec![
            json!({ "name": "b", "messages": 2, "message_stats": { "ack": 1, "publish": 7 } }),
            json!({ "name": "Ab", "messages": 10 }),
            json!({ "name": "c", "messages": 1, "message_stats": { "ack": 3, "publish": 1 } }),
        ]
    }

    async fn body(query: &str) -> Result<Json, String> {
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let wanted = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let response = rows(queues(), &wanted).map_err(|failure| format!("{failure:?}"))?;
        let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.map_err(|error| error.to_string())?;
        serde_json::from_slice(&bytes).map_err(|error| error.to_string())
    }

    fn now<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    #[test]
    fn rows_come_as_they_are_wanted() {
        let page = |items: Json, filtered: u64, page: u64, pages: u64, size: u64| {
            let count = items.as_array().unwrap().len();
            json!({
                "total_count": 3, "filtered_count": filtered, "item_count": count, "page": page, "page_count": pages,
                "page_size": size, "items": items,
            })
        };
        for (query, expected) in [
            ("columns=name", json!([{ "name": "b" }, { "name": "Ab" }, { "name": "c" }])),
            ("columns=name&sort=messages", json!([{ "name": "c" }, { "name": "b" }, { "name": "Ab" }])),
            ("columns=name&sort=message_stats.ack", json!([{ "name": "Ab" }, { "name": "b" }, { "name": "c" }])),
            ("columns=name&sort=name&sort_reverse=true", json!([{ "name": "c" }, { "name": "b" }, { "name": "Ab" }])),
            ("name=B&columns=messages", json!([{ "messages": 2 }, { "messages": 10 }])),
            ("name=^b&use_regex=true&columns=message_stats.ack", json!([{ "message_stats": { "ack": 1 } }])),
            ("page=1&columns=name&name=c", page(json!([{ "name": "c" }]), 1, 1, 1, 100)),
            ("page=2&page_size=2&columns=name", page(json!([{ "name": "c" }]), 3, 2, 2, 2)),
            ("page=1&name=none", page(json!([]), 0, 1, 1, 100)),
            ("pagination=true&page_size=1&columns=name", page(json!([{ "name": "b" }]), 3, 1, 3, 1)),
            ("disable_stats=true&name=Ab", json!([{ "name": "Ab" }])),
            ("disable_stats=true&enable_queue_totals=true&name=Ab", json!([{ "name": "Ab", "messages": 10 }])),
        ] {
            assert_eq!(now(body(query)), Ok(expected), "{query}");
        }
        for (query, words) in [
            ("page=0", "page is a whole number"),
            ("page=x", "page is a whole number"),
            ("page=2", "beyond the last, which is 1"),
            ("page=1&page_size=501", "page_size is a whole number from 1 to 500, not '501'"),
            ("name=(&use_regex=true", "no regular expression"),
            ("name=((a{1000}){1000}){1000}&use_regex=true", "no regular expression"),
        ] {
            assert!(now(body(query)).is_err_and(|error| error.contains(words)), "{query}");
        }
    }

    #[test]
    fn pages_are_picked_before_rows_are_made() {
        let entry = |name: &str, messages: u64| Entry {
            place: Place::Named("/".into(), name.into()),
            key: SortKey::of(Some(&json!(messages))),
        };
        let entries = || vec![entry("b", 2), entry("ab", 10), entry("c", 1), entry("bb", 7)];
        for (query, names, counts) in [
            ("", vec!["b", "ab", "c", "bb"], (4, 4)),
            ("sort=messages", vec!["c", "b", "bb", "ab"], (4, 4)),
            ("sort=messages&sort_reverse=true&name=b&page=1&page_size=2", vec!["ab", "bb"], (4, 3)),
            ("name=b&page=2&page_size=2", vec!["bb"], (4, 3)),
            ("page=3&page_size=2", vec![], (4, 4)),
        ] {
            let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            let wanted = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            let picked = Shape::parse(&wanted).unwrap().pick(entries());
            let found: Vec<&str> = picked.entries.iter().map(|entry| entry.place.name()).collect();
            assert_eq!((found, (picked.total, picked.filtered)), (names, counts), "{query}");
        }
    }
}
