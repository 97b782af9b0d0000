//! Lists of JSON objects from the server, printed as they are or as a table of some of their
//! fields.

use serde_json::Value as Json;

use crate::cli::output::{Form, show, show_json};
use crate::cli::table;
use crate::exit::Failure;

/// Prints `rows`: whole as JSON, or their fields `columns` as a table.
pub(crate) fn print(rows: &[Json], columns: &[&str], form: Form) -> Result<(), Failure> {
    if form == Form::Json {
        return show_json(&rows);
    }
    let cells = |row: &Json| columns.iter().map(|column| text(row.get(column).unwrap_or(&Json::Null))).collect();
    let cells: Vec<Vec<String>> = rows.iter().map(cells).collect();
    show(&table::text(columns, &cells))
}

/// A field as one cell: texts as they are, lists with commas, objects as `name=value`.
fn text(value: &Json) -> String {
    match value {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        Json::Array(values) => values.iter().map(text).collect::<Vec<_>>().join(","),
        Json::Object(fields) => {
            fields.iter().map(|(name, value)| format!("{name}={}", text(value))).collect::<Vec<_>>().join(",")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_one_cell() {
        let value = serde_json::json!({"a": [1, "x", null], "b": {"c": true}});
        assert_eq!(text(&value), "a=1,x,,b=c=true");
    }
}
