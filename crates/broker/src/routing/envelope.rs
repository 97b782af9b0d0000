//! The parts of a message that routing uses: its routing keys, its own first, and its properties,
//! which are read at their first use.

use std::cell::OnceCell;

use hashbrown::HashSet;

use crate::message::cc::{BCC, CC, Copies, named_keys};
use crate::message::properties::Properties;
use crate::value::Table;

/// A message on its way through exchanges.
pub(crate) struct Envelope<'a> {
    key: &'a str,
    copies: Copies,
    read: &'a dyn Fn() -> Option<Properties>,
    properties: OnceCell<Properties>,
}

impl<'a> Envelope<'a> {
    /// A message with this routing key and, where `copies` says so, the keys in its headers. `read`
    /// gives its properties; it is called at most once, and only if they matter.
    pub(crate) fn new(key: &'a str, copies: Copies, read: &'a dyn Fn() -> Option<Properties>) -> Self {
        Self { key, copies, read, properties: OnceCell::new() }
    }

    /// Its own routing key.
    pub(crate) fn key(&self) -> &'a str {
        self.key
    }

    /// All its routing keys, each once.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        let mut seen = HashSet::new();
        let has_copies = self.copies == Copies::Named;
        std::iter::once(self.key).chain(self.named()).filter(move |key| !has_copies || seen.insert(*key))
    }

    /// The routing keys in its headers. One may come several times.
    pub(crate) fn named(&self) -> impl Iterator<Item = &str> {
        let lists: &[&str] = if self.copies == Copies::Named { &[CC, BCC] } else { &[] };
        lists.iter().flat_map(|name| named_keys(self.headers(), name))
    }

    /// Its properties; none where they can't be read.
    pub(crate) fn properties(&self) -> &Properties {
        self.properties.get_or_init(|| (self.read)().unwrap_or_default())
    }

    /// Its headers.
    pub(crate) fn headers(&self) -> &Table {
        &self.properties().headers
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::value::Value;

    type Fields<'a> = &'a [(&'a str, Value)];

    fn list(keys: &[&str]) -> Value {
        Value::Array(keys.iter().map(|key| Value::Text((*key).to_owned())).collect())
    }

    #[test]
    fn keys_come_in_order_and_only_from_lists_of_texts() {
        let mixed = Value::Array(vec![Value::I32(1), Value::Text("c".into()), Value::Array(vec![list(&["d"])])]);
        let cases: &[(Fields<'_>, Copies, &[&str])] = &[
            (&[], Copies::Named, &["k"]),
            (&[(BCC, list(&["b1"])), (CC, list(&["c1", "", "k"]))], Copies::Named, &["k", "c1", "", "b1"]),
            (&[(BCC, list(&["b1"])), (CC, list(&["c1"]))], Copies::None, &["k"]),
            (&[(BCC, list(&["b1"])), (CC, list(&["c1"]))], Copies::Spent, &["k"]),
            (&[(CC, mixed), (BCC, Value::Text("b".into()))], Copies::Named, &["k", "c"]),
            (&[("cc", list(&["x"])), ("Bcc", list(&["y"]))], Copies::Named, &["k"]),
        ];
        for (fields, copies, expected) in cases {
            let headers = Table(fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect());
            let reads = Cell::new(0);
            let read = || {
                reads.set(reads.get() + 1);
                Some(Properties { headers: headers.clone(), ..Properties::default() })
            };
            let envelope = Envelope::new("k", *copies, &read);
            assert_eq!(envelope.keys().collect::<Vec<_>>(), *expected, "{fields:?}");
            assert_eq!(envelope.keys().count(), expected.len());
            assert_eq!(reads.get(), u32::from(*copies == Copies::Named), "{fields:?}: read once, and only for copies");
        }
    }
}
