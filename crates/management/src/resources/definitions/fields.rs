//! One object of a document, read field by field.
//!
//! A value of the wrong type refuses the document, and its line names the path of the value. A
//! field that nothing reads refuses it too, unless the import skips such fields: nothing is
//! ignored.

use serde_json::{Map, Value as Json};

/// Lines of one kind that are kept; further ones are only counted.
const MOST_LINES: usize = 1000;
/// Characters of a value that a line shows.
const SHOWN: usize = 60;

/// Lines about a document. A limited number is kept.
#[derive(Debug, Default)]
pub(super) struct Lines {
    lines: Vec<String>,
    more: u64,
}

/// The faults of a document, and notes about it.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// They refuse the document.
    pub(super) wrong: Lines,
    /// They refuse the document, unless the import skips unsupported things.
    pub(super) unsupported: Lines,
    /// They refuse nothing.
    pub(super) notes: Lines,
}

/// An object, without the fields that have been read.
pub(super) struct Fields<'a> {
    path: String,
    left: Map<String, Json>,
    faults: &'a mut Faults,
}

impl Lines {
    /// Adds a line. Control characters are escaped, because names in a document may contain them.
    pub(super) fn push(&mut self, line: impl AsRef<str>) {
        match self.lines.len() < MOST_LINES {
            true => self.lines.push(auth::shown::escaped(line.as_ref()).into_owned()),
            false => self.more += 1,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// All lines that were kept, and one line that counts the others.
    pub(super) fn into_lines(mut self) -> Vec<String> {
        if self.more > 0 {
            self.lines.push(format!("and {} more", self.more));
        }
        self.lines
    }
}

impl<'a> Fields<'a> {
    /// The fields of the object at `path`. Any other value is a fault, and has no fields.
    pub(super) fn new(path: &str, object: Json, faults: &'a mut Faults) -> Self {
        let left = match object {
            Json::Object(fields) => fields,
            other => {
                faults.wrong.push(format!("{path}: expected an object, not {}", shown(&other)));
                Map::new()
            }
        };
        Self { path: path.to_owned(), left, faults }
    }

    /// A field that may be absent or null. If `read` returns `None`, the fault says what was
    /// `wanted`.
    fn optional<T>(&mut self, name: &str, wanted: &str, read: impl FnOnce(&Json) -> Option<T>) -> Option<T> {
        let value = self.left.remove(name).filter(|value| !value.is_null())?;
        let known = read(&value);
        if known.is_none() {
            self.wrong(name, format!("expected {wanted}, not {}", shown(&value)));
        }
        known
    }

    /// A text that must be there. A missing one is a fault, and read as empty.
    pub(super) fn text(&mut self, name: &str) -> String {
        if self.left.get(name).is_none_or(Json::is_null) {
            self.wrong(name, "missing");
        }
        self.optional_text(name).unwrap_or_default()
    }

    pub(super) fn optional_text(&mut self, name: &str) -> Option<String> {
        self.optional(name, "a text", |value| value.as_str().map(str::to_owned))
    }

    pub(super) fn truth(&mut self, name: &str) -> Option<bool> {
        self.optional(name, "true or false", Json::as_bool)
    }

    pub(super) fn number(&mut self, name: &str) -> Option<i64> {
        self.optional(name, "a whole number", Json::as_i64)
    }

    /// A value of any type; null if the field is missing.
    pub(super) fn any(&mut self, name: &str) -> Json {
        self.left.remove(name).unwrap_or_default()
    }

    /// A list of words, which older documents write as one text with commas.
    pub(super) fn words(&mut self, name: &str) -> Option<Vec<String>> {
        self.optional(name, "a list of texts, or a text", |value| match value {
            Json::String(text) => Some(crate::api::words_of(text)),
            Json::Array(words) => words.iter().map(|word| word.as_str().map(str::to_owned)).collect(),
            _ => None,
        })
    }

    /// An object. RabbitMQ's command line writes some as a list of pairs.
    pub(super) fn object(&mut self, name: &str) -> Option<Map<String, Json>> {
        let pair = |pair: &Json| match pair.as_array().map(Vec::as_slice) {
            Some([Json::String(name), value]) => Some((name.clone(), value.clone())),
            _ => None,
        };
        let object = self.optional(name, "an object", |value| match value {
            Json::Object(fields) => Some((fields.clone(), fields.len())),
            Json::Array(pairs) => {
                let fields: Option<Map<_, _>> = pairs.iter().map(pair).collect();
                fields.map(|fields| (fields, pairs.len()))
            }
            _ => None,
        });
        let (fields, entries) = object?;
        if fields.len() < entries {
            self.wrong(name, "a name is there twice");
        }
        Some(fields)
    }

    /// The fields of an object within this one; none if it is absent.
    pub(super) fn within(&mut self, name: &str) -> Fields<'_> {
        let left = self.object(name).unwrap_or_default();
        Fields { path: format!("{}.{name}", self.path), left, faults: self.faults }
    }

    /// The same; `None` if it is not there.
    pub(super) fn within_if_there(&mut self, name: &str) -> Option<Fields<'_>> {
        let left = self.object(name)?;
        Some(Fields { path: format!("{}.{name}", self.path), left, faults: self.faults })
    }

    /// Limits by their names, as whole numbers; a number below zero means no limit. An unknown name
    /// or value always refuses the document, because an import without it would remove a limit.
    pub(super) fn limits<const N: usize>(&mut self, name: &str, known: [&str; N]) -> Option<[Option<u64>; N]> {
        let fields = self.object(name)?;
        let mut limits = [None; N];
        for (limit, value) in fields {
            let place = known.iter().position(|known| *known == limit);
            match (place, value.as_i64()) {
                (Some(place), Some(number)) => limits[place] = u64::try_from(number).ok(),
                (Some(_), None) => {
                    self.wrong(&format!("{name}.{limit}"), format!("expected a whole number, not {}", shown(&value)));
                }
                (None, _) => {
                    self.wrong(&format!("{name}.{limit}"), format!("no limit; there are {}", known.join(", ")))
                }
            }
        }
        Some(limits)
    }

    /// Reports what is wrong with a field.
    pub(super) fn wrong(&mut self, name: &str, what: impl std::fmt::Display) {
        self.faults.wrong.push(format!("{}.{name}: {what}", self.path));
    }

    /// Reports what Hermod does not support in a field.
    pub(super) fn unsupported(&mut self, name: &str, what: impl std::fmt::Display) {
        self.faults.unsupported.push(format!("{}.{name}: {what}", self.path));
    }

    /// Ignores a field that has nothing to import.
    pub(super) fn pass(&mut self, name: &str) {
        self.left.remove(name);
    }

    /// Reports the fields that were not read.
    pub(super) fn finish(self) {
        for name in self.left.keys() {
            self.faults.unsupported.push(format!("{}.{name}: Hermod has no meaning for this field", self.path));
        }
    }
}

/// The beginning of a value.
fn shown(value: &Json) -> String {
    let text = match value {
        Json::Array(_) => return "a list".to_owned(),
        Json::Object(_) => return "an object".to_owned(),
        other => other.to_string(),
    };
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(object: Json, read: impl FnOnce(&mut Fields<'_>)) -> (Vec<String>, Vec<String>) {
        let mut faults = Faults::default();
        let mut fields = Fields::new("it[3]", object, &mut faults);
        read(&mut fields);
        fields.finish();
        (faults.wrong.into_lines(), faults.unsupported.into_lines())
    }

    #[test]
    fn what_is_of_another_type_or_not_read_is_told_with_its_path() {
        let limits = |fields: &mut Fields<'_>| {
            fields.limits("limits", ["max-a", "max-b"]);
        };
        type Reading = fn(&mut Fields<'_>);
        let cases: [(Json, Reading, &str); 8] = [
            (
                json!({ "name": 7 }),
                |it| {
                    it.optional_text("name");
                },
                "it[3].name: expected a text, not 7",
            ),
            (
                json!({}),
                |it| {
                    it.text("name");
                },
                "it[3].name: missing",
            ),
            (
                json!({ "name": null }),
                |it| {
                    it.text("name");
                },
                "it[3].name: missing",
            ),
            (
                json!({ "on": "true" }),
                |it| {
                    it.truth("on");
                },
                "it[3].on: expected true or false, not \"true\"",
            ),
            (
                json!({ "n": 1.5 }),
                |it| {
                    it.number("n");
                },
                "it[3].n: expected a whole number, not 1.5",
            ),
            (
                json!({ "w": [1] }),
                |it| {
                    it.words("w");
                },
                "it[3].w: expected a list of texts, or a text, not a list",
            ),
            (
                json!({ "o": [["a", 1], ["a", 2]] }),
                |it| {
                    it.object("o");
                },
                "it[3].o: a name is there twice",
            ),
            (json!(7), |_| {}, "it[3]: expected an object, not 7"),
        ];
        for (object, reading, expected) in cases {
            assert_eq!(read(object, reading).0, [expected]);
        }
        for (value, expected) in [
            (json!({ "max-a": "60" }), "it[3].limits.max-a: expected a whole number, not \"60\""),
            (json!({ "max-a": 1.5 }), "it[3].limits.max-a: expected a whole number, not 1.5"),
            (json!({ "max-a": [1] }), "it[3].limits.max-a: expected a whole number, not a list"),
            (json!({ "max-a": null }), "it[3].limits.max-a: expected a whole number, not null"),
            (json!({ "max-c": 1 }), "it[3].limits.max-c: no limit; there are max-a, max-b"),
            (json!([1]), "it[3].limits: expected an object, not a list"),
        ] {
            assert_eq!(read(json!({ "limits": value }), limits).0, [expected]);
        }
        let (wrong, unsupported) = read(json!({ "a\n": 1 }), |_| {});
        assert!(wrong.is_empty());
        assert_eq!(unsupported, ["it[3].a\\n: Hermod has no meaning for this field"]);
    }

    #[test]
    fn what_is_null_is_absent_and_pairs_are_an_object() {
        let (wrong, unsupported) = read(
            json!({ "t": null, "o": [["a", 1]], "w": "a, b,", "limits": [["max-a", -1], ["max-b", 5]] }),
            |fields| {
                assert_eq!(fields.optional_text("t"), None);
                assert_eq!(fields.object("o").map(Json::Object), Some(json!({ "a": 1 })));
                assert_eq!(fields.words("w"), Some(vec!["a".to_owned(), "b".to_owned()]));
                assert_eq!(fields.limits("limits", ["max-a", "max-b"]), Some([None, Some(5)]));
            },
        );
        assert!(wrong.is_empty() && unsupported.is_empty(), "{wrong:?} {unsupported:?}");
    }

    #[test]
    fn lines_are_bounded() {
        let mut lines = Lines::default();
        (0..MOST_LINES + 5).for_each(|n| lines.push(n.to_string()));
        assert_eq!(lines.into_lines().last().map(String::as_str), Some("and 5 more"));
    }
}
