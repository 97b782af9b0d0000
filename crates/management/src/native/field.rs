//! The fields of a resource: name, type, meaning, and where each is read.

use jiff::Timestamp;
use serde_json::{Value as Json, json};

/// The type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Number,
    Truth,
    /// A text as `2026-11-27T10:00:00.000Z`.
    Time,
    /// A list of texts.
    Words,
    /// An object of names that only its author knows.
    Object,
    /// A list of objects with this schema.
    Rows(&'static str),
}

impl Kind {
    /// As JSON Schema says it.
    pub(super) fn schema(self) -> Json {
        match self {
            Self::Text => json!({ "type": "string" }),
            Self::Number => json!({ "type": "integer", "format": "int64" }),
            Self::Truth => json!({ "type": "boolean" }),
            Self::Time => json!({ "type": "string", "format": "date-time" }),
            Self::Words => json!({ "type": "array", "items": { "type": "string" } }),
            Self::Object => json!({ "type": "object" }),
            Self::Rows(of) => {
                json!({ "type": "array", "items": { "$ref": format!("#/components/schemas/{of}") } })
            }
        }
    }
}

/// A field of a `T`.
pub(super) struct Field<T> {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) about: &'static str,
    /// Whether it may be null: unknown, or not set.
    pub(super) is_nullable: bool,
    /// Whether only a request changes it, so that it counts for the ETag.
    pub(super) is_declared: bool,
    pub(super) read: fn(&T) -> Json,
}

/// A field that changes by requests only.
pub(super) const fn declared<T>(name: &'static str, kind: Kind, about: &'static str, read: fn(&T) -> Json) -> Field<T> {
    Field { name, kind, about, is_nullable: false, is_declared: true, read }
}

/// A field that moves by itself.
pub(super) const fn figure<T>(name: &'static str, kind: Kind, about: &'static str, read: fn(&T) -> Json) -> Field<T> {
    Field { name, kind, about, is_nullable: false, is_declared: false, read }
}

impl<T> Field<T> {
    /// The same, where null means that it is not set or not known.
    pub(super) const fn or_null(mut self) -> Self {
        self.is_nullable = true;
        self
    }
}

/// All of these fields of a thing.
pub(super) fn whole<T>(fields: &[Field<T>], thing: &T) -> Json {
    Json::Object(fields.iter().map(|field| (field.name.to_owned(), (field.read)(thing))).collect())
}

/// A time in milliseconds since 1970.
pub(super) fn time(milliseconds: u64) -> Json {
    let time = i64::try_from(milliseconds).ok().and_then(|time| Timestamp::from_millisecond(time).ok());
    time.map_or(Json::Null, |time| json!(format!("{time:.3}")))
}

/// A member of a request's document.
pub(super) struct Member {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) about: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_one_length_so_that_texts_sort_as_times() {
        assert_eq!(time(1_700_000_000_100), json!("2023-11-14T22:13:20.100Z"));
        assert_eq!(time(1_700_000_000_000), json!("2023-11-14T22:13:20.000Z"));
        assert_eq!(time(u64::MAX), Json::Null);
    }
}
