//! Definitions: tables of fields under a sort, a vhost and a name, which operators define at run
//! time besides exchanges and queues.
//!
//! A definition is one fact of an owner of its own ([`facts::DEFINITION`]). It is logged before it
//! counts, and ends with its owner, or with its vhost. The reader of a sort decides its meaning;
//! here it is only stored.

use std::collections::BTreeMap;
use std::sync::Arc;

use journal::{Journal, LogId, Owner};
use parking_lot::Mutex;

use crate::catalog::policies::PolicyKind;
use crate::encoding::{Malformed, Reader, write_table, write_text, write_varint};
use crate::error::Error;
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
pub(crate) const KEY: &str = "key";

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

    pub(crate) fn of_policy(kind: PolicyKind) -> Self {
        match kind {
            PolicyKind::User => Self::Policy,
            PolicyKind::Operator => Self::OperatorPolicy,
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

    /// The log of a new one. What says that a vhost is there is the system's, all else the vhost's.
    pub(crate) fn log(&self) -> LogId {
        if self.sort == Sort::Vhost { LogId::SYSTEM } else { LogId::of(self.vhost) }
    }
}

impl std::fmt::Display for DefinitionKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} '{}'", self.sort.name(), self.name)
    }
}

#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) owner: Owner,
    pub(crate) value: Arc<Table>,
}

/// All definitions. Its lock is taken after a vhost's tables and before the journal's buffer.
#[derive(Debug, Default)]
pub(crate) struct Definitions(pub(crate) Mutex<BTreeMap<DefinitionKey, Definition>>);

impl Definitions {
    /// Takes a definition from the journal.
    pub(crate) fn recover(&self, owner: Owner, key: DefinitionKey, value: Table) {
        self.0.lock().insert(key, Definition { owner, value: Arc::new(value) });
    }

    pub(crate) fn get(&self, sort: Sort, vhost: Owner, name: &str) -> Option<Arc<Table>> {
        self.0.lock().get(&DefinitionKey::new(sort, vhost, name)).map(|kept| Arc::clone(&kept.value))
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
        if let Ok(bytes) = definition_bytes(key, &found.value) {
            journal.housekeeping_appender(LogId::of(owner)).fact(None, owner, facts::DEFINITION, &[&bytes]);
        }
        true
    }

    /// Forgets the definitions of a vhost. In the log the vhost's own end covers them.
    pub(crate) fn vhost_ends(&self, vhost: Owner) {
        self.0.lock().retain(|key, _| key.vhost != vhost);
    }
}

/// The bytes of a definition.
///
/// # Errors
/// For fields that are nested too deeply.
pub(crate) fn definition_bytes(key: &DefinitionKey, value: &Table) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    write_text(&mut bytes, key.sort.name());
    write_varint(&mut bytes, key.vhost);
    write_text(&mut bytes, &key.name);
    write_table(&mut bytes, value)?;
    Ok(bytes)
}

pub(crate) fn read_definition(bytes: &[u8]) -> Result<(DefinitionKey, Table), Malformed> {
    let mut reader = Reader::new(bytes);
    let sort = Sort::parse(reader.text()?).ok_or_else(|| reader.malformed("unknown sort of definition"))?;
    let key = DefinitionKey { sort, vhost: reader.varint()?, name: reader.text()?.to_owned() };
    let value = reader.table()?;
    reader.end()?;
    Ok((key, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_is_stored_in_these_bytes_and_every_cut_is_noticed() {
        let mut value = Table::default();
        value.set("max-queues", Value::I64(3));
        let key = DefinitionKey::new(Sort::VhostLimits, 300, "n");
        let bytes = definition_bytes(&key, &value).unwrap();
        assert_eq!(bytes, b"\x0cvhost-limits\xac\x02\x01n\x01\x0amax-queues\x09\x03\0\0\0\0\0\0\0");
        for end in 0..bytes.len() {
            assert!(read_definition(&bytes[..end]).is_err(), "cut at {end}");
        }
        assert_eq!(read_definition(&bytes).unwrap(), (key, value));
        assert!(read_definition(&[&bytes[..], b"\0"].concat()).is_err());
        assert!(read_definition(b"\x05storm\0\0\0").is_err());
    }
}
