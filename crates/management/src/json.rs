//! Arguments and properties as JSON, in both directions.
//!
//! JSON has fewer types than a protocol. A value without a JSON type is written as the closest text
//! or number. A number is read as an integer of 64 bits, or as a float. [`typed`] keeps the rest.

pub(crate) mod typed;

use broker::{Table, Value, seconds_of_ms};
use serde::Deserializer;
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value as Json, json};

/// How deep JSON may be nested; the broker has the same limit.
const DEPTH_LIMIT: usize = 32;

/// A table as an object. If several fields have the same name, the first is taken.
pub(crate) fn object(table: &Table) -> Map<String, Json> {
    let mut fields = Map::new();
    for (name, value) in &table.0 {
        if !fields.contains_key(name) {
            fields.insert(name.clone(), json(value));
        }
    }
    fields
}

/// A value in the JSON type that is closest to it. Bytes that are no text are escaped.
pub(crate) fn json(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(truth) => json!(truth),
        Value::F32(number) => json!(number),
        Value::F64(number) => json!(number),
        Value::Decimal { scale, value } => json!(f64::from(*value) / 10_f64.powi(i32::from(*scale))),
        Value::Text(text) => json!(text),
        Value::Bytes(bytes) => json!(bytes.escape_ascii().to_string()),
        Value::Timestamp(time) => json!(seconds_of_ms(*time)),
        Value::Array(values) => Json::Array(values.iter().map(json).collect()),
        Value::Table(table) => Json::Object(object(table)),
        other => match other.nearest() {
            Some(nearest) => json(&nearest),
            None => json!(other.as_integer()),
        },
    }
}

/// Whether a JSON text is an object. The text need not be valid.
pub(crate) fn is_object(text: &[u8]) -> bool {
    text.trim_ascii_start().first() == Some(&b'{')
}

/// An object whose names are unique, also in the objects within it.
///
/// # Errors
/// If it is no object, or if a name is there twice, because then its meaning is unclear.
pub(crate) fn unique<'de, D: Deserializer<'de>>(document: D) -> Result<Map<String, Json>, D::Error> {
    let mut left = usize::MAX;
    match (Once { left: &mut left }).deserialize(document)? {
        Json::Object(fields) => Ok(fields),
        _ => Err(D::Error::custom("expected an object")),
    }
}

/// Reads a value in whose objects every name is unique.
pub(crate) struct Once<'a> {
    /// How many values may still follow, including this one.
    pub(crate) left: &'a mut usize,
}

impl<'de> DeserializeSeed<'de> for Once<'_> {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<Json, D::Error> {
        let too_many = || D::Error::custom("it has more values than one entry may");
        *self.left = self.left.checked_sub(1).ok_or_else(too_many)?;
        value.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Once<'_> {
    type Value = Json;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Json, E> {
        Ok(truth.into())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Json, E> {
        Ok(number.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Json, E> {
        Ok(number.into())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Json, E> {
        Ok(number.into())
    }

    fn visit_str<E>(self, text: &str) -> Result<Json, E> {
        Ok(text.into())
    }

    fn visit_string<E>(self, text: String) -> Result<Json, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Json, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = entries.next_element_seed(Once { left: &mut *self.left })? {
            values.push(value);
        }
        Ok(Json::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Json, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = entries.next_key::<String>()? {
            if fields.contains_key(&name) {
                return Err(A::Error::custom(format!("'{}' is there twice", auth::shown::escaped(&name))));
            }
            fields.insert(name, entries.next_value_seed(Once { left: &mut *self.left })?);
        }
        Ok(Json::Object(fields))
    }
}

/// The mark that some editors put in front of a text.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// A document without the byte order mark that may stand in front of it.
pub(crate) fn unmarked(document: &[u8]) -> &[u8] {
    document.strip_prefix(BYTE_ORDER_MARK).unwrap_or(document)
}

/// An object as a table.
///
/// # Errors
/// The part that a table can't hold, as a text.
pub(crate) fn table(fields: &Map<String, Json>) -> Result<Table, String> {
    table_within(fields, DEPTH_LIMIT)
}

fn table_within(fields: &Map<String, Json>, depth: usize) -> Result<Table, String> {
    let mut table = Table::default();
    for (name, value) in fields {
        table.0.push((name.clone(), value_within(name, value, depth)?));
    }
    Ok(table)
}

fn value_within(name: &str, value: &Json, depth: usize) -> Result<Value, String> {
    let deeper = depth.checked_sub(1).ok_or_else(|| format!("'{name}' is nested more than {DEPTH_LIMIT} deep"))?;
    Ok(match value {
        Json::Null => Value::Null,
        Json::Bool(truth) => Value::Bool(*truth),
        Json::String(text) => Value::Text(text.clone()),
        Json::Array(values) => {
            Value::Array(values.iter().map(|value| value_within(name, value, deeper)).collect::<Result<_, _>>()?)
        }
        Json::Object(fields) => Value::Table(table_within(fields, deeper)?),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => Value::I64(integer),
            (None, Some(float)) if number.is_f64() => Value::F64(float),
            _ => return Err(format!("'{name}' is {number}, which is beyond 64 bits")),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_json_can_say_comes_back() {
        let text = r#"{"a":-1,"b":[true,null,"x",1.5],"c":{"d":{}}}"#;
        let fields: Map<String, Json> = serde_json::from_str(text).unwrap();
        assert_eq!(object(&table(&fields).unwrap()), fields);
    }

    #[test]
    fn what_json_can_not_say_is_close() {
        let table = Table(vec![
            ("d".to_owned(), Value::Decimal { scale: 2, value: 150 }),
            ("b".to_owned(), Value::Bytes(b"x\xff".to_vec())),
            ("t".to_owned(), Value::Timestamp(7999)),
            ("u".to_owned(), Value::U8(255)),
            ("u".to_owned(), Value::Null),
            ("v".to_owned(), Value::U64(u64::MAX)),
            ("w".to_owned(), Value::Decimal64([0x31, 0x80, 0, 0, 0, 0, 2, 0xee])),
            ("x".to_owned(), Value::Array(vec![Value::Uuid([0x11; 16]), Value::Char('c')])),
        ]);
        assert_eq!(
            serde_json::to_string(&object(&table)).unwrap(),
            r#"{"b":"x\\xff","d":1.5,"t":7,"u":255,"v":"18446744073709551615","w":7.5,"x":["urn:uuid:11111111-1111-1111-1111-111111111111","c"]}"#
        );
    }

    #[test]
    fn what_is_said_twice_is_refused_however_deep() {
        #[derive(Debug, serde::Deserialize)]
        struct Body {
            #[serde(deserialize_with = "unique")]
            fields: Map<String, Json>,
        }
        for (text, expected) in [
            (r#"{"fields":{"a":1,"b":[{"c":null}]}}"#, None),
            (r#"{"fields":{"a":1,"a":2}}"#, Some("'a' is there twice")),
            (r#"{"fields":{"b":[{"c":1,"c":1}]}}"#, Some("'c' is there twice")),
            (r#"{"fields":[]}"#, Some("expected an object")),
        ] {
            match (serde_json::from_str::<Body>(text), expected) {
                (Ok(body), None) => assert_eq!(body.fields["b"], json!([{ "c": null }])),
                (Err(error), Some(expected)) => assert!(error.to_string().contains(expected), "{error}"),
                (read, _) => panic!("{text}: {read:?}"),
            }
        }
    }

    #[test]
    fn what_no_table_can_hold_is_refused() {
        let deep = format!(r#"{{"a":{}1{}}}"#, "[".repeat(DEPTH_LIMIT), "]".repeat(DEPTH_LIMIT));
        for (text, expected) in [(r#"{"n":18446744073709551615}"#, "beyond 64 bits"), (deep.as_str(), "nested")] {
            let error = table(&serde_json::from_str(text).unwrap()).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
