//! Shovels of a vhost: what moves messages from one broker to another for as long as it is set.
//!
//! Here a shovel is a text that its vhost keeps, and the user who set it. Another part of the
//! program knows what the text means, and carries it out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Waker;

use journal::{Appender, Group, Owner};
use parking_lot::Mutex;

use super::definitions::{DefinitionKey, Sort, definition_bytes};
use crate::store::facts::DEFINITION;
use crate::value::{Table, Value};

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShovelSpec {
    /// The definition, in the words of the program that carries it out. It holds passwords.
    pub definition: String,
    /// The user that set it; `None` for the operator.
    pub author: Option<String>,
}

/// A shovel.
#[derive(Debug)]
pub(crate) struct Shovel {
    pub(crate) id: Owner,
    pub(crate) vhost: Owner,
    pub(crate) name: String,
    pub(crate) spec: ShovelSpec,
}

const TEXT: &str = "definition";
const AUTHOR: &str = "author";

impl Shovel {
    /// The shovel with these fields.
    pub(crate) fn read(id: Owner, key: &DefinitionKey, fields: &Table) -> Option<Self> {
        let text = |name| fields.get(name).and_then(Value::as_text).map(str::to_owned);
        let spec = ShovelSpec { definition: text(TEXT)?, author: text(AUTHOR) };
        Some(Self { id, vhost: key.vhost, name: key.name.clone(), spec })
    }

    /// The bytes of its fact.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut fields = Table::default();
        fields.set(TEXT, Value::Text(self.spec.definition.clone()));
        self.spec.author.iter().for_each(|author| fields.set(AUTHOR, Value::Text(author.clone())));
        let bytes = definition_bytes(&DefinitionKey::new(Sort::Shovel, self.vhost, &self.name), &fields);
        debug_assert!(bytes.is_ok(), "a shovel has no nested fields");
        bytes.unwrap_or_default()
    }

    /// Logs what there is to say about it.
    pub(crate) fn log(&self, group: Option<Group>, appender: &mut Appender<'_>) {
        appender.fact(group, self.id, DEFINITION, &[&self.bytes()]);
    }
}

/// The shovels of a vhost, by name.
#[derive(Debug, Default)]
pub(crate) struct ShovelList(BTreeMap<String, Arc<Shovel>>);

impl ShovelList {
    pub(crate) fn put(&mut self, shovel: Arc<Shovel>) {
        self.0.insert(shovel.name.clone(), shovel);
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Arc<Shovel>> {
        self.0.get(name)
    }

    pub(crate) fn by_id(&self, id: Owner) -> Option<&Arc<Shovel>> {
        self.0.values().find(|shovel| shovel.id == id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Shovel>> {
        self.0.values()
    }
}

/// Who is woken when shovels change.
#[derive(Debug, Default)]
pub(crate) struct ShovelWatch(Mutex<Option<Waker>>);

impl ShovelWatch {
    pub(crate) fn set(&self, waker: Waker) {
        *self.0.lock() = Some(waker);
    }

    pub(crate) fn wake(&self) {
        self.0.lock().iter().for_each(Waker::wake_by_ref);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::definitions::read_definition;

    #[test]
    fn a_shovel_is_read_as_it_was_written() {
        for author in [None, Some("ada".to_owned())] {
            let spec = ShovelSpec { definition: "{}".to_owned(), author };
            let shovel = Shovel { id: 300, vhost: 3, name: "s".to_owned(), spec };
            let (key, fields) = read_definition(&shovel.bytes()).unwrap();
            assert_eq!(key, DefinitionKey::new(Sort::Shovel, 3, "s"));
            assert_eq!(Shovel::read(300, &key, &fields).unwrap().spec, shovel.spec);
        }
        assert!(Shovel::read(1, &DefinitionKey::new(Sort::Shovel, 3, "s"), &Table::default()).is_none());
    }
}
