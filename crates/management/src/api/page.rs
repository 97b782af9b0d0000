//! What of a list a request wants to see: sorted, filtered by name, cut into pages, some fields only. Names of parameters and
//! of fields are RabbitMQ's.

use std::cmp::Ordering;
use std::collections::HashMap;

use auth::pattern::{Pattern, quoted};
use axum::extract::Query;
use serde_json::{Map, Value as Json, json};

use super::answer::{Answer, Failure, shown};

/// Entries of a page, if nobody says, and at most.
const PAGE: usize = 100;
const LARGEST_PAGE: usize = 500;

/// The parameters of a request.
pub(super) type Wanted = Query<HashMap<String, String>>;

/// The rows as a request wants them: a list, or with `page` a page of it.
pub(super) fn rows(mut rows: Vec<Json>, wanted: &HashMap<String, String>) -> Answer {
    let text = |name: &str| wanted.get(name).map(String::as_str).filter(|text| !text.is_empty());
    let total = rows.len();
    if let Some(name) = text("name") {
        filter(&mut rows, name, text("use_regex") == Some("true"))?;
    }
    if let Some(path) = text("sort") {
        rows.sort_by(|one, other| compare(at(one, path), at(other, path)));
        if text("sort_reverse") == Some("true") {
            rows.reverse();
        }
    }
    let filtered = rows.len();
    let page = text("page").map(|page| number("page", page, usize::MAX)).transpose()?;
    let columns: Vec<&str> = text("columns").map(|names| names.split(',').collect()).unwrap_or_default();
    let narrow = |rows: Vec<Json>| -> Vec<Json> {
        if columns.is_empty() { rows } else { rows.iter().map(|row| only(row, &columns)).collect() }
    };
    let Some(page) = page else { return shown(narrow(rows)) };
    let size = text("page_size").map_or(Ok(PAGE), |size| number("page_size", size, LARGEST_PAGE))?;
    let pages = filtered.div_ceil(size).max(1);
    if page > pages {
        return Err(Failure::bad_request(format!("page {page} is beyond the last, which is {pages}")));
    }
    let items = narrow(rows.into_iter().skip((page - 1) * size).take(size).collect());
    shown(json!({
        "total_count": total,
        "filtered_count": filtered,
        "item_count": items.len(),
        "page": page,
        "page_count": pages,
        "page_size": size,
        "items": items,
    }))
}

/// Leaves those whose name contains the text, or a match of the expression.
fn filter(rows: &mut Vec<Json>, name: &str, is_expression: bool) -> Result<(), Failure> {
    let pattern = if is_expression { name.to_owned() } else { quoted(name) };
    let expression = Pattern::filter(&pattern);
    let expression =
        expression.map_err(|error| Failure::bad_request(format!("name is no regular expression: {}", error.reason)))?;
    rows.retain(|row| row["name"].as_str().is_some_and(|name| expression.matches(name)));
    Ok(())
}

fn number(name: &str, text: &str, most: usize) -> Result<usize, Failure> {
    let number = text.parse().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| Failure::bad_request(format!("{name} is a whole number from 1 to {most}, not '{text}'")))
}

/// The field of a row that a path with dots leads to.
fn at<'a>(row: &'a Json, path: &str) -> Option<&'a Json> {
    path.split('.').try_fold(row, |inner, name| inner.get(name))
}

/// What is not there comes first, then numbers, then text.
fn compare(one: Option<&Json>, other: Option<&Json>) -> Ordering {
    let key = |value: Option<&Json>| match value {
        None | Some(Json::Null) => (0, 0.0, String::new()),
        Some(Json::Number(number)) => (1, number.as_f64().unwrap_or_default(), String::new()),
        Some(Json::String(text)) => (2, 0.0, text.clone()),
        Some(value) => (2, 0.0, value.to_string()),
    };
    let ((kind, number, text), (of, than, words)) = (key(one), key(other));
    kind.cmp(&of).then(number.total_cmp(&than)).then_with(|| text.cmp(&words))
}

/// These fields of a row; those with dots in a nested object.
fn only(row: &Json, columns: &[&str]) -> Json {
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
