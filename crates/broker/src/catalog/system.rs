//! What belongs to no vhost's tables: the vhosts themselves, users with their rights, and
//! definitions.
//!
//! A change that has passed its checks is logged ([`SystemChange::log`]), then applied
//! ([`System::apply`]), both under the lock of the system. A restatement takes that lock too. A
//! start applies what the log says, fact after fact.

use std::collections::BTreeMap;
use std::sync::Arc;

use auth::{Authority, User};
use hashbrown::HashMap;
use journal::{Appender, Group, Owner};

use crate::catalog::definitions::{DefinitionKey, Sort, decoy_key, definition_bytes, read_definition};
use crate::catalog::{Catalog, OWNERS_PER_VHOST};
use crate::encoding::Malformed;
use crate::store::facts;
use crate::value::Table;

/// A change that has passed its checks.
#[derive(Debug)]
pub(crate) enum SystemChange {
    /// A vhost is added. In its home it has [`OWNERS_PER_VHOST`] owners from its id on.
    Vhost { record: Owner, id: Owner, name: Arc<str> },
    /// A user is added, or gets other properties and rights.
    User { id: Owner, user: Box<User> },
    /// A definition is set, in place of the one with this key.
    Definition { id: Owner, key: DefinitionKey, value: Arc<Table> },
    /// A vhost with all in it and all rights to it, a user, or a definition ends.
    End { id: Owner },
}

/// What the facts of an owner are about.
#[derive(Debug)]
enum Subject {
    Vhost(Owner, Arc<str>),
    User(Arc<str>),
    Definition(DefinitionKey, Arc<Table>),
}

/// The owners of vhosts, users and definitions, and the values of the last.
#[derive(Debug, Default)]
pub(crate) struct System {
    subjects: HashMap<Owner, Subject>,
    /// The names of vhosts by their ids.
    vhosts: HashMap<Owner, Arc<str>>,
    users: HashMap<Arc<str>, Owner>,
    definitions: BTreeMap<DefinitionKey, Owner>,
}

impl SystemChange {
    pub(crate) fn log(&self, group: Option<Group>, appender: &mut Appender<'_>) {
        match self {
            Self::Vhost { record, id, name } => facts::log_vhost(appender, group, (*record, *id), name),
            Self::User { id, user } => {
                let bytes = user.encode();
                debug_assert!(bytes.is_ok(), "a user that was accepted can't be stored");
                bytes.iter().for_each(|bytes| appender.fact(group, *id, facts::USER, &[bytes]));
            }
            Self::Definition { id, key, value } => {
                let bytes = definition_bytes(key, value);
                debug_assert!(bytes.is_ok(), "a definition that was accepted can't be stored");
                bytes.iter().for_each(|bytes| appender.fact(group, *id, facts::DEFINITION, &[bytes]));
            }
            Self::End { id } => appender.drop_owner(group, *id, &mut std::iter::empty()),
        }
    }

    /// The last owner that it takes.
    pub(crate) fn last_owner(&self) -> Owner {
        match self {
            Self::Vhost { id, .. } => id + OWNERS_PER_VHOST - 1,
            Self::User { id, .. } | Self::Definition { id, .. } | Self::End { id } => *id,
        }
    }
}

/// The change that a fact stands for; `None` for a fact about something in a vhost.
///
/// # Errors
/// The damage of one that can't be read.
pub(crate) fn read_system_change(id: Owner, kind: u8, bytes: &[u8]) -> Result<Option<SystemChange>, String> {
    let unreadable = |error: Malformed| {
        format!("a fact of kind {kind} about owner {id} can't be read at byte {}: {}", error.at, error.what)
    };
    Ok(match kind {
        facts::VHOST => {
            let (name, home) = facts::read_vhost(bytes).map_err(unreadable)?;
            // Before vhosts had logs of their own, the record had the vhost's id.
            Some(SystemChange::Vhost { record: id, id: home.unwrap_or(id), name: name.into() })
        }
        facts::USER if bytes.is_empty() => Some(SystemChange::End { id }),
        facts::USER => {
            let user = User::decode(bytes).and_then(|user| user.check().map(|()| user));
            let user = user.map_err(|error| format!("a user's record: {error}"))?;
            Some(SystemChange::User { id, user: Box::new(user) })
        }
        facts::DEFINITION => {
            let (key, value) = read_definition(bytes).map_err(unreadable)?;
            let is_in_tables = key.sort.is_in_tables();
            (!is_in_tables).then(|| SystemChange::Definition { id, key, value: Arc::new(value) })
        }
        _ => None,
    })
}

impl System {
    /// Puts a change in force.
    pub(crate) fn apply(&mut self, change: SystemChange, catalog: &Catalog, authority: &Authority) {
        match change {
            SystemChange::Vhost { id, .. } if self.vhosts.contains_key(&id) => {}
            SystemChange::Vhost { record, id, name } => {
                catalog.add_vhost(record, id, &name);
                self.vhosts.insert(id, Arc::clone(&name));
                self.subjects.insert(record, Subject::Vhost(id, name));
            }
            SystemChange::User { id, user } => {
                let name: Arc<str> = user.name.as_ref().into();
                let put = authority.put(*user);
                debug_assert!(put.is_ok(), "a user that was logged can be in force");
                self.users.insert(Arc::clone(&name), id);
                self.subjects.insert(id, Subject::User(name));
            }
            SystemChange::Definition { id, key, value } => {
                if let Some(key) = decoy_key(&key, &value) {
                    authority.set_decoy_key(key);
                }
                self.definitions.insert(key.clone(), id);
                self.subjects.insert(id, Subject::Definition(key, value));
            }
            SystemChange::End { id } => self.end(id, catalog, authority),
        }
    }

    fn end(&mut self, id: Owner, catalog: &Catalog, authority: &Authority) {
        match self.subjects.remove(&id) {
            Some(Subject::Vhost(id, name)) => {
                self.vhosts.remove(&id);
                catalog.remove_vhost(&name);
                authority.remove_vhost(&name);
                for sort in Sort::OF_VHOSTS {
                    let ended = self.definitions.remove(&DefinitionKey::new(sort, id, ""));
                    ended.and_then(|id| self.subjects.remove(&id));
                }
            }
            Some(Subject::User(name)) => {
                self.users.remove(&name);
                authority.remove(&name);
            }
            Some(Subject::Definition(key, _)) => {
                self.definitions.remove(&key);
            }
            None => {}
        }
    }

    /// The change that says again what there is about an owner.
    pub(crate) fn restated(&self, id: Owner, authority: &Authority) -> Option<SystemChange> {
        Some(match self.subjects.get(&id)? {
            Subject::Vhost(vhost, name) => SystemChange::Vhost { record: id, id: *vhost, name: Arc::clone(name) },
            Subject::User(name) => SystemChange::User { id, user: Box::new(authority.user(name)?) },
            Subject::Definition(key, value) => {
                SystemChange::Definition { id, key: key.clone(), value: Arc::clone(value) }
            }
        })
    }

    /// True when there is neither a vhost nor a user.
    pub(crate) fn is_empty(&self) -> bool {
        self.users.is_empty() && self.vhosts.is_empty()
    }

    /// The name of a vhost.
    pub(crate) fn vhost(&self, id: Owner) -> Option<&Arc<str>> {
        self.vhosts.get(&id)
    }

    /// The id of the vhost whose record has this owner.
    pub(crate) fn vhost_of(&self, record: Owner) -> Option<Owner> {
        match self.subjects.get(&record)? {
            Subject::Vhost(id, _) => Some(*id),
            Subject::User(_) | Subject::Definition(..) => None,
        }
    }

    /// The owner of a user.
    pub(crate) fn user(&self, name: &str) -> Option<Owner> {
        self.users.get(name).copied()
    }

    /// The owner of a definition.
    pub(crate) fn definition(&self, key: &DefinitionKey) -> Option<Owner> {
        self.definitions.get(key).copied()
    }

    /// The value of a definition.
    pub(crate) fn defined(&self, key: &DefinitionKey) -> Option<&Table> {
        self.value_of(self.definition(key)?)
    }

    /// The names and values of all definitions of this sort, by name.
    pub(crate) fn all_defined(&self, sort: Sort, vhost: Owner) -> impl Iterator<Item = (&str, &Table)> {
        let from = DefinitionKey::new(sort, vhost, "");
        let all = self.definitions.range(from..).take_while(move |(key, _)| (key.sort, key.vhost) == (sort, vhost));
        all.filter_map(|(key, id)| Some((key.name.as_str(), self.value_of(*id)?)))
    }

    fn value_of(&self, id: Owner) -> Option<&Table> {
        match self.subjects.get(&id)? {
            Subject::Definition(_, value) => Some(value),
            _ => None,
        }
    }
}
