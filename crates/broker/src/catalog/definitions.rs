//! Definitions: tables of fields under a sort, a vhost and a name, which operators define at run
//! time besides exchanges and queues.
//!
//! A definition is one fact of an owner of its own ([`crate::store::facts::DEFINITION`]). It is
//! logged before it counts, and ends with its owner or its vhost. The reader of a sort decides its
//! meaning.

use journal::Owner;

use crate::catalog::policies::PolicyKind;
use crate::encoding::{Malformed, Reader, write_table, write_text, write_varint};
use crate::error::Error;
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
    /// A task of an operator; the name is its own.
    Task,
    /// A shovel.
    Shovel,
    /// The key from which the salts of missing users follow; the name is empty.
    Decoys,
    /// The name that an operator gave the cluster; the definition's own is empty.
    ClusterName,
    /// A parameter of the whole broker, which only the tools of operators read.
    GlobalParameter,
}

/// The field of [`Sort::Decoys`].
pub(crate) const KEY: &str = "key";

impl Sort {
    const ALL: [Self; 9] = [
        Self::Vhost,
        Self::VhostLimits,
        Self::Policy,
        Self::OperatorPolicy,
        Self::Task,
        Self::Shovel,
        Self::Decoys,
        Self::ClusterName,
        Self::GlobalParameter,
    ];

    /// Those of a vhost, with an empty name. Policies are in its tables.
    pub(crate) const OF_VHOSTS: [Self; 2] = [Self::Vhost, Self::VhostLimits];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Vhost => "vhost",
            Self::VhostLimits => "vhost-limits",
            Self::Policy => "policy",
            Self::OperatorPolicy => "operator-policy",
            Self::Task => "task",
            Self::Shovel => "shovel",
            Self::Decoys => "decoys",
            Self::ClusterName => "cluster-name",
            Self::GlobalParameter => "global-parameter",
        }
    }

    /// The kind of the policies that it stands for, if it does.
    pub(crate) fn policy(self) -> Option<PolicyKind> {
        [PolicyKind::User, PolicyKind::Operator].into_iter().find(|kind| Self::of_policy(*kind) == self)
    }

    /// Whether the tables of its vhost have it, and not the system.
    pub(crate) fn is_in_tables(self) -> bool {
        matches!(self, Self::Task | Self::Shovel) || self.policy().is_some()
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
}

impl std::fmt::Display for DefinitionKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} '{}'", self.sort.name(), self.name)
    }
}

/// The key of decoys, in the definition of one.
pub(crate) fn decoy_key(key: &DefinitionKey, value: &Table) -> Option<[u8; 32]> {
    match value.get(KEY) {
        Some(Value::Bytes(bytes)) if key.sort == Sort::Decoys => bytes.as_slice().try_into().ok(),
        _ => None,
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
