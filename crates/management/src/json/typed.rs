//! Headers as a list that keeps what an object of JSON loses: their order, repeated names, types.
//!
//! Invariant: [`table`] makes of [`list`] the same table again, for all types of AMQP 0-9-1.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use broker::{Table, Value};
use serde_json::{Map, Value as Json, json};

use super::{DEPTH_LIMIT, value_within};

/// Bytes of memory and of text, at most, that a value adds to an answer besides its own.
const VALUE: usize = 128;
const TYPED_VALUE: usize = 1024;

/// True if an object of JSON says everything about these headers.
pub(crate) fn is_plain(table: &Table) -> bool {
    table.0.is_sorted_by(|one, next| one.0 < next.0) && table.0.iter().all(|(_, value)| is_plain_value(value))
}

fn is_plain_value(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::I64(_) | Value::Text(_) => true,
        Value::F64(number) => number.is_finite(),
        Value::Array(values) => values.iter().all(is_plain_value),
        Value::Table(table) => is_plain(table),
        _ => false,
    }
}

/// Bytes that these headers add to an answer besides their encoding.
pub(crate) fn weight(table: &Table) -> usize {
    let each = if is_plain(table) { VALUE } else { TYPED_VALUE };
    values_in(table) * each
}

fn values_in(table: &Table) -> usize {
    table.0.iter().map(|(_, value)| count(value)).sum()
}

/// The value, and those within it.
fn count(value: &Value) -> usize {
    match value {
        Value::Array(values) => 1 + values.iter().map(count).sum::<usize>(),
        Value::Table(table) => 1 + values_in(table),
        _ => 1,
    }
}

/// A list with an object of `name`, `type` and `value` for each header.
pub(crate) fn list(table: &Table) -> Json {
    let fields = table.0.iter().map(|(name, value)| {
        let mut field = typed(value);
        field.insert("name".to_owned(), json!(name));
        Json::Object(field)
    });
    fields.collect()
}

fn typed(value: &Value) -> Map<String, Json> {
    let shown = match value {
        // JSON lacks what is not finite, and its readers may round the rest.
        Value::F32(number) => json!(number.to_string()),
        Value::F64(number) => json!(number.to_string()),
        Value::Decimal { scale, value } => json!({ "scale": scale, "value": value }),
        Value::Bytes(bytes) => json!(STANDARD.encode(bytes)),
        Value::Timestamp(ms) => json!(ms),
        Value::Array(values) => values.iter().map(|value| Json::Object(typed(value))).collect(),
        Value::Table(table) => list(table),
        other => super::json(other),
    };
    Map::from_iter([("type".to_owned(), json!(value.type_name())), ("value".to_owned(), shown)])
}

/// The headers that such a list says.
///
/// # Errors
/// The part that can't be read, as a text.
pub(crate) fn table(list: &Json) -> Result<Table, String> {
    table_within(list, DEPTH_LIMIT)
}

fn table_within(list: &Json, depth: usize) -> Result<Table, String> {
    let fields = list.as_array().ok_or("headers with types are a list")?;
    let named = |field: &Json| {
        let name = field["name"].as_str().ok_or_else(|| format!("a header with a type needs a name, not {field}"))?;
        Ok((name.to_owned(), value_of(name, field, depth)?))
    };
    Ok(Table(fields.iter().map(named).collect::<Result<_, String>>()?))
}

fn value_of(name: &str, field: &Json, depth: usize) -> Result<Value, String> {
    let deeper = depth.checked_sub(1).ok_or_else(|| format!("'{name}' is nested more than {DEPTH_LIMIT} deep"))?;
    let (kind, value) = (field["type"].as_str().unwrap_or_default(), &field["value"]);
    let text = value.as_str();
    let read = match kind {
        "byte" => whole(value).map(Value::I8),
        "unsignedbyte" => whole(value).map(Value::U8),
        "short" => whole(value).map(Value::I16),
        "unsignedshort" => whole(value).map(Value::U16),
        "signedint" => whole(value).map(Value::I32),
        "unsignedint" => whole(value).map(Value::U32),
        "timestamp" => whole(value).map(Value::Timestamp),
        "float" => text.and_then(|text| text.parse().ok()).map(Value::F32),
        "double" => text.and_then(|text| text.parse().ok()).map(Value::F64),
        "decimal" => decimal(value),
        "binary" => text.and_then(|text| STANDARD.decode(text).ok()).map(Value::Bytes),
        "table" => Some(Value::Table(table_within(value, deeper)?)),
        "array" => {
            let values = value.as_array().ok_or_else(|| format!("header '{name}' is an array without a list"))?;
            Some(Value::Array(values.iter().map(|value| value_of(name, value, deeper)).collect::<Result<_, _>>()?))
        }
        "void" | "bool" | "long" | "longstr" => {
            Some(value_within(name, value, depth)?).filter(|value| value.type_name() == kind)
        }
        _ => return Err(format!("header '{name}' has no type that can be published, but '{kind}'")),
    };
    read.ok_or_else(|| format!("header '{name}' is of type '{kind}', which {value} is not"))
}

/// A whole number that the type has room for.
fn whole<N: TryFrom<i64>>(value: &Json) -> Option<N> {
    value.as_i64()?.try_into().ok()
}

fn decimal(value: &Json) -> Option<Value> {
    Some(Value::Decimal { scale: whole(&value["scale"])?, value: whole(&value["value"])? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::object;

    fn headers(fields: &[(&str, Value)]) -> Table {
        Table(fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
    }

    /// A header of each type of AMQP 0-9-1, and its form.
    fn all() -> Vec<(Value, Json)> {
        let inner = headers(&[("b", Value::U8(1)), ("a", Value::Null), ("a", Value::Bool(true))]);
        let fields = json!([
            { "name": "b", "type": "unsignedbyte", "value": 1 },
            { "name": "a", "type": "void", "value": null },
            { "name": "a", "type": "bool", "value": true },
        ]);
        vec![
            (Value::Null, json!({ "type": "void", "value": null })),
            (Value::Bool(false), json!({ "type": "bool", "value": false })),
            (Value::I8(-128), json!({ "type": "byte", "value": -128 })),
            (Value::U8(255), json!({ "type": "unsignedbyte", "value": 255 })),
            (Value::I16(-1), json!({ "type": "short", "value": -1 })),
            (Value::U16(65_535), json!({ "type": "unsignedshort", "value": 65_535 })),
            (Value::I32(-1), json!({ "type": "signedint", "value": -1 })),
            (Value::U32(u32::MAX), json!({ "type": "unsignedint", "value": u32::MAX })),
            (Value::I64(i64::MIN), json!({ "type": "long", "value": i64::MIN })),
            (Value::F32(0.1), json!({ "type": "float", "value": "0.1" })),
            (Value::F64(f64::INFINITY), json!({ "type": "double", "value": "inf" })),
            (
                Value::Decimal { scale: 2, value: 150 },
                json!({ "type": "decimal", "value": { "scale": 2, "value": 150 } }),
            ),
            (Value::Text("\u{fc}".into()), json!({ "type": "longstr", "value": "\u{fc}" })),
            (Value::Bytes(vec![0xff, 0]), json!({ "type": "binary", "value": "/wA=" })),
            (Value::Timestamp(-7000), json!({ "type": "timestamp", "value": -7000 })),
            (Value::Array(vec![Value::I8(1)]), json!({ "type": "array", "value": [{ "type": "byte", "value": 1 }] })),
            (Value::Table(inner), json!({ "type": "table", "value": fields })),
        ]
    }

    #[test]
    fn each_type_comes_back() {
        for (value, mut form) in all() {
            let headers = headers(&[("h", value.clone()), ("h", value)]);
            form["name"] = json!("h");
            let list = list(&headers);
            assert_eq!(list, json!([form, form]));
            assert_eq!(table(&list).unwrap(), headers);
            let sent: Json = serde_json::from_str(&list.to_string()).unwrap();
            assert_eq!(table(&sent).unwrap(), headers, "after its way as text");
        }
    }

    #[test]
    fn an_object_says_everything_of_plain_headers_only() {
        let values =
            all().into_iter().map(|(value, _)| value).chain([Value::F64(0.5), Value::Array(vec![Value::I64(1)])]);
        let singles = values.map(|value| headers(&[("h", value)]));
        let orders = [["a", "b"], ["b", "a"], ["a", "a"]].map(|names| headers(&names.map(|name| (name, Value::Null))));
        for headers in singles.chain(orders) {
            let nested = Table(vec![("n".to_owned(), Value::Table(headers.clone()))]);
            for headers in [headers, nested] {
                let is_same = super::super::table(&object(&headers)).unwrap() == headers;
                assert_eq!(is_plain(&headers), is_same, "{headers:?}");
            }
        }
    }

    #[test]
    fn what_is_no_header_is_refused() {
        let mut deep = json!({ "name": "d", "type": "void", "value": null });
        for _ in 0..DEPTH_LIMIT {
            deep = json!({ "name": "d", "type": "array", "value": [deep] });
        }
        for (list, words) in [
            (json!({}), "are a list"),
            (json!([7]), "needs a name, not 7"),
            (json!([{ "name": "a" }]), "'a' has no type that can be published, but ''"),
            (json!([{ "name": "a", "type": "uuid", "value": "" }]), "'uuid'"),
            (json!([{ "name": "a", "type": "byte", "value": 128 }]), "'byte', which 128 is not"),
            (json!([{ "name": "a", "type": "long", "value": 0.5 }]), "'long', which 0.5 is not"),
            (json!([{ "name": "a", "type": "void" , "value": 1 }]), "'void', which 1 is not"),
            (json!([{ "name": "a", "type": "float", "value": 1 }]), "'float', which 1 is not"),
            (json!([{ "name": "a", "type": "binary", "value": "?" }]), "'binary'"),
            (json!([{ "name": "a", "type": "decimal", "value": 1 }]), "'decimal'"),
            (json!([{ "name": "a", "type": "table", "value": 1 }]), "are a list"),
            (json!([{ "name": "a", "type": "array", "value": 1 }]), "without a list"),
            (json!([deep]), "nested more than"),
        ] {
            let refused = table(&list).unwrap_err();
            assert!(refused.contains(words), "{list}: {refused}");
        }
    }

    #[test]
    fn each_value_has_its_weight() {
        let one = headers(&[("a", Value::Null), ("b", Value::Array(vec![Value::Null, Value::Null]))]);
        assert_eq!(weight(&one), 4 * VALUE);
        let typed = headers(&[("a", Value::U8(1)), ("b", Value::Table(one))]);
        assert_eq!(weight(&typed), 6 * TYPED_VALUE);
    }
}
