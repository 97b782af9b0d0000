//! Values in Erlang's syntax: in tables for everything except plain text, in Erlang's own format
//! for everything.

use serde_json::{Map, Value as Json};

/// A value in a cell of a table.
pub(super) fn cell_text(value: &Json) -> String {
    match value {
        Json::Null => String::new(),
        // Line breaks and tabs would end the cell.
        Json::String(text) => text.replace('\n', "\\n").replace('\t', "\\t").replace('\r', "\\r"),
        Json::Array(values) => {
            let plain = |value: &Json| value.as_str().map_or_else(|| nested(value), str::to_owned);
            format!("[{}]", values.iter().map(plain).collect::<Vec<_>>().join(", "))
        }
        other => nested(other),
    }
}

/// A value as a term: texts are binaries.
pub(super) fn term(value: &Json) -> String {
    match value {
        Json::String(text) => format!("<<{}>>", quoted(text)),
        Json::Array(values) => format!("[{}]", values.iter().map(term).collect::<Vec<_>>().join(",")),
        Json::Object(fields) => {
            let pair = |(name, value): (&String, &Json)| format!("{{<<{}>>,{}}}", quoted(name), term(value));
            format!("[{}]", fields.iter().map(pair).collect::<Vec<_>>().join(","))
        }
        other => nested(other),
    }
}

/// A value within a cell: texts are in quotes.
fn nested(value: &Json) -> String {
    match value {
        Json::Null => "undefined".to_owned(),
        Json::String(text) => quoted(text),
        Json::Array(values) => format!("[{}]", values.iter().map(nested).collect::<Vec<_>>().join(",")),
        Json::Object(fields) => properties(fields),
        other => other.to_string(),
    }
}

/// A string in Erlang's syntax.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '\\' | '"' => quoted.extend(['\\', letter]),
            '\n' => quoted += "\\n",
            '\r' => quoted += "\\r",
            '\t' => quoted += "\\t",
            '\u{1b}' => quoted += "\\e",
            control if control.is_control() => quoted += &format!("\\x{{{:x}}}", u32::from(control)),
            other => quoted.push(other),
        }
    }
    quoted + "\""
}

fn properties(fields: &Map<String, Json>) -> String {
    let pair = |(name, value): (&String, &Json)| format!("{{\"{name}\",{}}}", nested(value));
    format!("[{}]", fields.iter().map(pair).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_written_as_erlang_writes_them() {
        for (value, expected) in [
            (serde_json::json!("a\tb"), "a\\tb"),
            (serde_json::json!(true), "true"),
            (serde_json::json!(null), ""),
            (serde_json::json!([]), "[]"),
            (serde_json::json!(["administrator", "monitoring"]), "[administrator, monitoring]"),
            (
                serde_json::json!({"connection_name": "me \"x\"", "capabilities": {"basic.nack": true}}),
                r#"[{"capabilities",[{"basic.nack",true}]},{"connection_name","me \"x\""}]"#,
            ),
        ] {
            assert_eq!(cell_text(&value), expected);
        }
    }

    #[test]
    fn terms_have_their_texts_as_binaries() {
        let value = serde_json::json!({"x-max-length": 5, "list": ["a\"b", null, 1.5]});
        assert_eq!(term(&value), r#"[{<<"list">>,[<<"a\"b">>,undefined,1.5]},{<<"x-max-length">>,5}]"#);
    }
}
