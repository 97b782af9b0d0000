//! The description and the limits of a vhost, and their fields as definitions. A field that is not
//! there has its usual value.

use journal::Owner;

use crate::arguments::is_no_choice;
use crate::catalog::definitions::{DefinitionKey, Sort};
use crate::catalog::system::System;
use crate::value::{Table, Value};

const DESCRIPTION: &str = "description";
const TAGS: &str = "tags";
const DEFAULT_QUEUE_TYPE: &str = "default-queue-type";
const MAX_CONNECTIONS: &str = "max-connections";
const MAX_QUEUES: &str = "max-queues";

/// The description of a vhost, and the default type of its queues.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VhostSpec {
    /// Its purpose, for people.
    pub description: String,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// The type of durable queues without one in their declaration; `None` for the broker's
    /// default.
    pub default_queue_type: Option<String>,
}

/// The limits of a vhost; `None` for those of the broker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VhostLimits {
    /// Connections at a time.
    pub connections: Option<u64>,
    /// Queues.
    pub queues: Option<u64>,
}

impl System {
    pub(crate) fn vhost_spec(&self, vhost: Owner) -> VhostSpec {
        self.defined(&DefinitionKey::new(Sort::Vhost, vhost, "")).map(VhostSpec::of_table).unwrap_or_default()
    }

    pub(crate) fn vhost_limits(&self, vhost: Owner) -> VhostLimits {
        self.defined(&DefinitionKey::new(Sort::VhostLimits, vhost, "")).map(VhostLimits::of_table).unwrap_or_default()
    }
}

impl VhostSpec {
    pub(crate) fn to_table(&self) -> Table {
        let mut table = Table::default();
        table.set(DESCRIPTION, Value::Text(self.description.clone()));
        table.set(TAGS, Value::Array(self.tags.iter().cloned().map(Value::Text).collect()));
        if let Some(kind) = &self.default_queue_type {
            table.set(DEFAULT_QUEUE_TYPE, Value::Text(kind.clone()));
        }
        table
    }

    fn of_table(table: &Table) -> Self {
        let text = |name| table.get(name).and_then(Value::as_text).map(str::to_owned);
        let tags = match table.get(TAGS) {
            Some(Value::Array(tags)) => tags.iter().filter_map(Value::as_text).map(str::to_owned).collect(),
            _ => Vec::new(),
        };
        let description = text(DESCRIPTION).unwrap_or_default();
        let default_queue_type = text(DEFAULT_QUEUE_TYPE).filter(|kind| !is_no_choice(kind));
        Self { description, tags, default_queue_type }
    }
}

impl VhostLimits {
    pub(crate) fn to_table(self) -> Table {
        let mut table = Table::default();
        for (name, limit) in [(MAX_CONNECTIONS, self.connections), (MAX_QUEUES, self.queues)] {
            if let Some(limit) = limit {
                table.set(name, Value::I64(i64::try_from(limit).unwrap_or(i64::MAX)));
            }
        }
        table
    }

    fn of_table(table: &Table) -> Self {
        let limit = |name| table.get(name).and_then(Value::as_integer).and_then(|limit| u64::try_from(limit).ok());
        Self { connections: limit(MAX_CONNECTIONS), queues: limit(MAX_QUEUES) }
    }
}
