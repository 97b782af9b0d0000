//! What a form has sent: fields by name, and what becomes of them.
//!
//! A form that is refused is shown again with what was written in it, beside the reason.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};

/// The fields of a form, by their names.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Fields(BTreeMap<String, String>);

impl FromIterator<(String, String)> for Fields {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(fields: I) -> Self {
        Self(fields.into_iter().collect())
    }
}

impl Fields {
    pub(super) fn parse(bytes: &[u8]) -> Self {
        Self(form_urlencoded::parse(bytes).into_owned().collect())
    }

    /// These fields, if they are of the form of this name. A page with one form need not name it.
    pub(super) fn if_of(&self, form: &str) -> Self {
        if ["", form].contains(&self.text("form")) { self.clone() } else { Self::default() }
    }

    /// A field as it was written; empty if the form has none.
    pub(super) fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// A name or a choice, without the blanks around it.
    pub(super) fn name(&self, name: &str) -> &str {
        self.text(name).trim()
    }

    /// A field that must be there.
    pub(super) fn needed(&self, name: &str, label: &str) -> Result<&str, String> {
        let text = self.name(name);
        if text.is_empty() { Err(format!("{label} is empty.")) } else { Ok(text) }
    }

    /// A whole number; `None` if the field is empty.
    pub(super) fn number(&self, name: &str, label: &str) -> Result<Option<u64>, String> {
        let text = self.name(name);
        if text.is_empty() {
            return Ok(None);
        }
        let digits: String = text.chars().filter(|letter| !letter.is_whitespace()).collect();
        digits.parse().map(Some).map_err(|_| format!("{label} is a whole number from 0 on, not '{text}'."))
    }

    /// Whether a box is ticked.
    pub(super) fn is_ticked(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// A JSON object; empty if the field is.
    pub(super) fn object(&self, name: &str, label: &str) -> Result<Map<String, Json>, String> {
        let text = self.name(name);
        if text.is_empty() {
            return Ok(Map::new());
        }
        serde_json::from_str(text)
            .map_err(|error| format!("{label} must be a JSON object, such as {{\"x-max-priority\": 5}}: {error}."))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_read_as_people_write_them() {
        let fields = Fields::parse(b"name=+orders+&ttl=60+000&none=&arguments=%7B%22a%22%3A1%7D&box=on&bad=many");
        assert_eq!(fields.text("name"), " orders ");
        assert_eq!(fields.needed("name", "Name"), Ok("orders"));
        assert_eq!(fields.needed("none", "Name"), Err("Name is empty.".to_owned()));
        assert_eq!(fields.number("ttl", "TTL"), Ok(Some(60_000)));
        assert_eq!(fields.number("none", "TTL"), Ok(None));
        assert_eq!(fields.number("bad", "TTL"), Err("TTL is a whole number from 0 on, not 'many'.".to_owned()));
        assert!(fields.is_ticked("box") && !fields.is_ticked("other"));
        assert_eq!(Json::from(fields.object("arguments", "Arguments").unwrap()), json!({ "a": 1 }));
        assert!(fields.object("bad", "Arguments").unwrap_err().starts_with("Arguments must be a JSON object"));
    }
}
