//! Definitions: tables of fields under a sort, a vhost and a name, which operators define at run
//! time besides exchanges and queues.
//!
//! A definition is one fact of an owner of its own ([`facts::DEFINITION`]). It is logged before it
//! counts, and ends with its owner, or with its vhost. The reader of a sort decides its meaning;
//! here it is only stored.

use std::collections::BTreeMap;
use std::sync::Arc;

use journal::{Journal, Owner, Ticket};
use parking_lot::Mutex;

use crate::catalog::admission::Asker;
use crate::engine::Engine;
use crate::error::Error;
use crate::routing::Load;
use crate::store::facts;
use crate::value::{Table, Value};

/// The vhost of definitions without a vhost: no owner has this number.
pub(crate) const EVERYWHERE: Owner = 0;

/// The subject of a definition. The names are in data directories. They are never changed or given
/// another meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sort {
    /// The description of a vhost, and the default type of its queues; the name is empty.
    Vhost,
    /// The limits of a vhost; the name is empty.
    VhostLimits,
    /// A policy.
    Policy,
    /// An operator policy.
    OperatorPolicy,
    /// The key from which the salts of missing users follow; the name is empty.
    Decoys,
}

/// The field of [`Sort::Decoys`].
const KEY: &str = "key";

impl Sort {
    const ALL: [Self; 5] = [Self::Vhost, Self::VhostLimits, Self::Policy, Self::OperatorPolicy, Self::Decoys];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Vhost => "vhost",
            Self::VhostLimits => "vhost-limits",
            Self::Policy => "policy",
            Self::OperatorPolicy => "operator-policy",
            Self::Decoys => "decoys",
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|sort| sort.name() == name)
    }
}

/// The key of a definition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DefinitionKey {
    pub(crate) sort: Sort,
    /// The vhost that it ends with, or [`EVERYWHERE`].
    pub(crate) vhost: Owner,
    pub(crate) name: String,
}

impl DefinitionKey {
    pub(crate) fn new(sort: Sort, vhost: Owner, name: &str) -> Self {
        Self { sort, vhost, name: name.to_owned() }
    }
}

impl std::fmt::Display for DefinitionKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} '{}'", self.sort.name(), self.name)
    }
}

#[derive(Debug)]
struct Definition {
    owner: Owner,
    value: Arc<Table>,
}

/// All definitions. Its lock is taken after a vhost's tables and before the journal's buffer.
#[derive(Debug, Default)]
pub(crate) struct Definitions(Mutex<BTreeMap<DefinitionKey, Definition>>);

impl Definitions {
    /// Takes a definition from the journal.
    pub(crate) fn recover(&self, owner: Owner, key: DefinitionKey, value: Table) {
        self.0.lock().insert(key, Definition { owner, value: Arc::new(value) });
    }

    pub(crate) fn get(&self, sort: Sort, vhost: Owner, name: &str) -> Option<Arc<Table>> {
        self.0.lock().get(&DefinitionKey::new(sort, vhost, name)).map(|kept| Arc::clone(&kept.value))
    }

    /// The names and values of all definitions of a sort in a vhost.
    pub(crate) fn all(&self, sort: Sort, vhost: Owner) -> Vec<(String, Arc<Table>)> {
        let kept = self.0.lock();
        let here = kept.iter().filter(|(key, _)| key.sort == sort && key.vhost == vhost);
        here.map(|(key, kept)| (key.name.clone(), Arc::clone(&kept.value))).collect()
    }

    /// The key of decoys from the log.
    pub(crate) fn decoy_key(&self) -> Option<[u8; 32]> {
        match self.get(Sort::Decoys, EVERYWHERE, "")?.get(KEY) {
            Some(Value::Bytes(bytes)) => bytes.as_slice().try_into().ok(),
            _ => None,
        }
    }

    /// Restates the definition of `owner`. True if there is one.
    pub(crate) fn restate(&self, owner: Owner, journal: &Journal) -> bool {
        let kept = self.0.lock();
        let Some((key, found)) = kept.iter().find(|(_, kept)| kept.owner == owner) else { return false };
        // It was written before, so it can be written again.
        if let Ok(bytes) = facts::definition_bytes(key, &found.value) {
            journal.housekeeping_appender().fact(None, owner, facts::DEFINITION, &[&bytes]);
        }
        true
    }

    /// Forgets the definitions of a vhost. In the log the vhost's own end covers them.
    pub(crate) fn vhost_ends(&self, vhost: Owner) {
        self.0.lock().retain(|key, _| key.vhost != vhost);
    }
}

impl Engine {
    /// Stores the key of decoys for the next start, if the log has none yet. If there is no room
    /// for it, the next start tries again.
    pub(crate) fn keep_decoy_key(&self, key: &[u8; 32]) {
        if self.definitions.decoy_key().is_none() {
            let mut table = Table::default();
            table.set(KEY, Value::Bytes(key.to_vec()));
            let _ = self.define(DefinitionKey::new(Sort::Decoys, EVERYWHERE, ""), table);
        }
    }

    /// Stores a definition, in place of the one with this key. Returns the ticket for the answer.
    ///
    /// # Errors
    /// `Precondition` for a value that is nested too deeply or too large to be stored.
    pub(crate) fn define(&self, key: DefinitionKey, value: Table) -> Result<Ticket, Error> {
        let bytes = self.check_definition(&key, &value)?;
        let mut kept = self.definitions.0.lock();
        if !kept.contains_key(&key) {
            self.admit_load(&key.to_string(), Load { logged: bytes.len() as u64, memory: 0 }, Asker::Operator)?;
        }
        let owner = kept.get(&key).map_or_else(|| self.owner(), |kept| kept.owner);
        let mut appender = self.journal.appender();
        appender.fact(None, owner, facts::DEFINITION, &[&bytes]);
        let ticket = appender.ticket();
        drop(appender);
        kept.insert(key, Definition { owner, value: Arc::new(value) });
        Ok(ticket)
    }

    /// The bytes of a definition.
    ///
    /// # Errors
    /// `Precondition` for one that can't be stored.
    pub(crate) fn check_definition(&self, key: &DefinitionKey, value: &Table) -> Result<Vec<u8>, Error> {
        let bytes = facts::definition_bytes(key, value)?;
        self.check_storable(bytes.len())?;
        Ok(bytes)
    }

    /// Ends a definition. Returns the ticket for the answer; `None` if there is none.
    pub(crate) fn undefine(&self, key: &DefinitionKey) -> Option<Ticket> {
        let mut kept = self.definitions.0.lock();
        let owner = kept.get(key)?.owner;
        let mut appender = self.journal.appender();
        appender.drop_owner(None, owner, &mut std::iter::empty());
        let ticket = appender.ticket();
        drop(appender);
        kept.remove(key);
        Some(ticket)
    }
}
