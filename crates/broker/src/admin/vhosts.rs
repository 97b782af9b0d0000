//! Adding, changing and deleting vhosts while the broker runs.
//!
//! A vhost ends by one record of the log. Everything in it ends with it, at a restart too, whatever
//! else of the deletion was written. Its connections are closed, and nothing can be added after the
//! record.

use std::sync::Arc;

use journal::{Owner, Ticket};

use crate::admin::checks::refuse_control;
use crate::arguments::{check_queue_type, is_no_choice};
use crate::broker::Broker;
use crate::catalog::definitions::{DefinitionKey, Sort};
use crate::catalog::{OWNERS_PER_VHOST, Vhost};
use crate::engine::Engine;
use crate::error::Error;
use crate::message::NAME_MAX;
use crate::store::facts;
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

/// One vhost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VhostReport {
    /// Its name.
    pub name: String,
    /// Its description.
    pub spec: VhostSpec,
    /// Its limits.
    pub limits: VhostLimits,
    /// Messages that are published and delivered in it are copied to `amq.rabbitmq.trace`.
    pub traced: bool,
}

impl Broker {
    /// Adds a vhost, or changes its description. Returns the ticket for the answer.
    ///
    /// # Errors
    /// `Precondition` for an empty or too long name, an unknown default queue type, or one vhost
    /// too many.
    pub fn put_vhost(&self, name: &str, spec: &VhostSpec) -> Result<Ticket, Error> {
        self.check_vhost(name, spec)?;
        let _alone = self.engine.administration.lock();
        let id = match self.engine.catalog.vhost(name) {
            Some(vhost) => vhost.id,
            None => {
                let limit = self.engine.settings.limits.vhosts;
                if self.engine.catalog.vhosts().len() as u64 >= limit {
                    return Err(Error::precondition(format!(
                        "cannot create vhost '{name}': vhost limit ({limit}) is reached; delete one, or raise limits.vhosts"
                    )));
                }
                self.engine.add_vhost(name)
            }
        };
        self.engine.define(DefinitionKey::new(Sort::Vhost, id, ""), spec.to_table())
    }

    /// Fails where [`Broker::put_vhost`] would, except for the limit.
    ///
    /// # Errors
    /// As there.
    pub fn check_vhost(&self, name: &str, spec: &VhostSpec) -> Result<(), Error> {
        if name.is_empty() || name.len() > NAME_MAX {
            return Err(Error::precondition(format!(
                "the name of a vhost has 1 to {NAME_MAX} bytes, not {}",
                name.len()
            )));
        }
        if self.engine.catalog.vhost(name).is_none() {
            refuse_control("vhost", name)?;
        }
        if let Some(kind) = &spec.default_queue_type {
            check_queue_type(kind).map_err(|what| Error::precondition(format!("vhost '{name}': {what}")))?;
        }
        self.engine.check_definition(&DefinitionKey::new(Sort::Vhost, 0, ""), &spec.to_table()).map(drop)
    }

    /// Deletes a vhost with everything in it, and closes its connections. Returns the ticket for
    /// the answer.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn delete_vhost(&self, name: &str) -> Result<Ticket, Error> {
        let _alone = self.engine.administration.lock();
        let vhost = self.engine.existing_vhost(name)?;
        let mut ticket = self.engine.end_vhost(&vhost);
        for user in self.engine.authority.remove_vhost(name) {
            ticket = ticket.max(self.engine.log_user(&user, &mut self.engine.users.lock())?);
        }
        self.engine.kick_all(|client| client.vhost == name, &format!("vhost '{name}' is deleted"));
        Ok(ticket)
    }

    /// Sets the limits of a vhost. Returns the ticket for the answer.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn limit_vhost(&self, name: &str, limits: VhostLimits) -> Result<Ticket, Error> {
        self.change_vhost_limits(name, |known| {
            *known = limits;
            Ok(())
        })
    }

    /// Changes the limits of a vhost by `change`; if that fails nothing is changed. Returns the
    /// ticket for the answer.
    ///
    /// # Errors
    /// `NotFound`, and the error of `change`.
    pub fn change_vhost_limits(
        &self,
        name: &str,
        change: impl FnOnce(&mut VhostLimits) -> Result<(), Error>,
    ) -> Result<Ticket, Error> {
        let _alone = self.engine.administration.lock();
        let vhost = self.engine.existing_vhost(name)?;
        let mut limits = self.engine.vhost_limits(vhost.id);
        change(&mut limits)?;
        let key = DefinitionKey::new(Sort::VhostLimits, vhost.id, "");
        if limits == VhostLimits::default() {
            return Ok(self.engine.undefine(&key).unwrap_or(Ticket::NONE));
        }
        self.engine.define(key, limits.to_table())
    }

    /// Every vhost, by name.
    pub fn vhosts(&self) -> Vec<VhostReport> {
        let report = |vhost: Arc<Vhost>| VhostReport {
            name: vhost.name.to_string(),
            spec: self.engine.vhost_spec(vhost.id),
            limits: self.engine.vhost_limits(vhost.id),
            traced: vhost.is_traced(),
        };
        let mut reports: Vec<_> = self.engine.catalog.vhosts().into_iter().map(report).collect();
        reports.sort_by(|a, b| a.name.cmp(&b.name));
        reports
    }
}

impl Engine {
    /// Logs and adds a vhost; returns its number.
    fn add_vhost(&self, name: &str) -> Owner {
        let id = self.owners(OWNERS_PER_VHOST);
        facts::log_vhost(&mut self.journal.appender(), None, id, name);
        self.catalog.insert_vhost(Arc::new(Vhost::new(id, name, &self.catalog.bindings)));
        id
    }

    pub(crate) fn existing_vhost(&self, name: &str) -> Result<Arc<Vhost>, Error> {
        self.catalog.vhost(name).ok_or_else(|| Error::not_found(format!("vhost '{name}' does not exist")))
    }

    /// The record comes first: later records only say how many bodies are free.
    fn end_vhost(&self, vhost: &Vhost) -> Ticket {
        let mut tables = vhost.tables.write();
        self.journal.appender().drop_owner(None, vhost.id, &mut std::iter::empty());
        tables.end();
        self.catalog.remove_vhost(&vhost.name);
        self.definitions.vhost_ends(vhost.id);
        let queues: Vec<_> = tables.queues().cloned().collect();
        for queue in queues {
            // The check is empty, so it can't refuse.
            let _ = self.end_queue(&mut tables, &queue, &|_| Ok(()));
        }
        for exchange in tables.exchange_names() {
            self.end_exchange(&mut tables, &exchange);
        }
        self.journal.appender().ticket()
    }

    pub(crate) fn vhost_spec(&self, vhost: Owner) -> VhostSpec {
        self.definitions.get(Sort::Vhost, vhost, "").map(|table| VhostSpec::of_table(&table)).unwrap_or_default()
    }

    pub(crate) fn vhost_limits(&self, vhost: Owner) -> VhostLimits {
        let limits = self.definitions.get(Sort::VhostLimits, vhost, "");
        limits.map(|table| VhostLimits::of_table(&table)).unwrap_or_default()
    }
}

impl VhostSpec {
    fn to_table(&self) -> Table {
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
    fn to_table(self) -> Table {
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
