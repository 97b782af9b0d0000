//! The one way to change vhosts, users and definitions while the broker runs: logged, then in
//! force. Checks are the caller's, and nothing changes between them and the change
//! (`Engine::administration`).

use std::sync::Arc;

use hashbrown::HashSet;
use journal::{LogId, Owner, Ticket};

use crate::catalog::definitions::{DefinitionKey, EVERYWHERE, KEY, Sort, definition_bytes};
use crate::catalog::system::SystemChange;
use crate::catalog::{OWNERS_PER_VHOST, Vhost};
use crate::engine::Engine;
use crate::engine::admission::Asker;
use crate::error::Error;
use crate::routing::Load;
use crate::value::{Table, Value};

impl Engine {
    /// Logs and applies changes: a restart finds all or none. Returns the ticket for the answer.
    pub(crate) fn change_system(&self, changes: Vec<SystemChange>) -> Ticket {
        let mut system = self.system.lock();
        let mut appender = self.journal.appender(LogId::SYSTEM);
        let group = (changes.len() > 1).then(|| appender.begin_group());
        changes.iter().for_each(|change| change.log(group, &mut appender));
        if let Some(group) = group {
            appender.end_group(group);
        }
        let ticket = appender.ticket();
        drop(appender);
        changes.into_iter().for_each(|change| system.apply(change, &self.catalog, &self.authority));
        self.catalog.changed();
        ticket
    }

    pub(crate) fn existing_vhost(&self, name: &str) -> Result<Arc<Vhost>, Error> {
        self.catalog.vhost(name).ok_or_else(|| Error::not_found(format!("vhost '{name}' does not exist")))
    }

    /// Adds a vhost with its description.
    ///
    /// # Errors
    /// `Precondition` for a description that can't be stored.
    pub(crate) fn add_vhost(&self, name: &str, description: Table) -> Result<Ticket, Error> {
        let (id, vhost) = self.new_vhost(name);
        let description = self.definition(DefinitionKey::new(Sort::Vhost, id, ""), description)?;
        Ok(self.change_system(vec![vhost, description]))
    }

    /// The id of a new vhost, in a log of its own, and the change that adds it. When there are no
    /// more logs, it is in the system's.
    pub(crate) fn new_vhost(&self, name: &str) -> (Owner, SystemChange) {
        let home = self.owners.new_log(&self.journal.logs()).unwrap_or(LogId::SYSTEM);
        let id = self.owners.take(home, OWNERS_PER_VHOST);
        (id, SystemChange::Vhost { record: self.owner(LogId::SYSTEM), id, name: name.into() })
    }

    /// Gives up the logs of vhosts that are gone.
    pub(crate) fn end_logs_without_vhost(&self) {
        let homes: HashSet<LogId> = self.catalog.vhosts().iter().map(|vhost| vhost.log()).collect();
        let gone = |log: &LogId| *log != LogId::SYSTEM && !homes.contains(log);
        self.journal.logs().into_iter().filter(gone).for_each(|log| self.journal.end_log(log));
    }

    /// Ends a vhost with everything in it. Its record comes first: later ones only say how many
    /// bodies are free.
    pub(crate) fn end_vhost(&self, vhost: &Vhost) -> Ticket {
        let mut tables = vhost.tables.write();
        let ticket = self.change_system(vec![SystemChange::End { id: vhost.record }]);
        tables.end();
        let queues: Vec<_> = tables.queues().cloned().collect();
        for queue in queues {
            // The check is empty, so it can't refuse.
            let _ = self.end_queue(&mut tables, &queue, &|_| Ok(()));
        }
        for exchange in tables.exchange_names() {
            self.end_exchange(&mut tables, &exchange);
        }
        if vhost.log() != LogId::SYSTEM {
            self.journal.end_log(vhost.log());
        }
        ticket
    }

    /// Stores the key of decoys for the next start, if the log has none yet. If there is no room
    /// for it, the next start tries again.
    pub(crate) fn keep_decoy_key(&self, key: &[u8; 32]) {
        let place = DefinitionKey::new(Sort::Decoys, EVERYWHERE, "");
        let known = self.system.lock().definition(&place);
        if known.is_none() {
            let mut table = Table::default();
            table.set(KEY, Value::Bytes(key.to_vec()));
            let _ = self.define(place, table);
        }
    }

    /// Stores a definition, in place of the one with this key. Returns the ticket for the answer.
    ///
    /// # Errors
    /// `Precondition` for a value that is nested too deeply or too large to be stored.
    pub(crate) fn define(&self, key: DefinitionKey, value: Table) -> Result<Ticket, Error> {
        Ok(self.change_system(vec![self.definition(key, value)?]))
    }

    /// Ends a definition. Returns the ticket for the answer; `None` if there is none.
    pub(crate) fn undefine(&self, key: &DefinitionKey) -> Option<Ticket> {
        let id = self.system.lock().definition(key)?;
        Some(self.change_system(vec![SystemChange::End { id }]))
    }

    /// A definition that may be logged.
    ///
    /// # Errors
    /// `Precondition` for one that can't be stored, and for a new one without room.
    fn definition(&self, key: DefinitionKey, value: Table) -> Result<SystemChange, Error> {
        let bytes = self.check_definition(&key, &value)?;
        let known = self.system.lock().definition(&key);
        let id = match known {
            Some(id) => id,
            None => {
                self.admit_load(&key.to_string(), Load { logged: bytes, memory: 0 }, Asker::Operator)?;
                self.owner(LogId::SYSTEM)
            }
        };
        Ok(SystemChange::Definition { id, key, value: Arc::new(value) })
    }

    /// The bytes of a definition.
    ///
    /// # Errors
    /// `Precondition` for one that can't be stored.
    pub(crate) fn check_definition(&self, key: &DefinitionKey, value: &Table) -> Result<u64, Error> {
        let bytes = definition_bytes(key, value)?.len();
        self.check_storable(bytes)?;
        Ok(bytes as u64)
    }

    /// Fails for a record of so many bytes that is too large for the log.
    pub(crate) fn check_storable(&self, bytes: usize) -> Result<(), Error> {
        let largest = self.journal.max_body();
        if bytes as u64 > u64::from(largest) {
            return Err(Error::precondition(format!("{bytes} bytes are more than the log can hold ({largest})")));
        }
        Ok(())
    }
}

/// Names from operators are shown in many places: a line end or an escape sequence in one is a
/// mistake or a trap.
pub(crate) fn refuse_control(what: &str, name: &str) -> Result<(), Error> {
    match name.chars().any(char::is_control) {
        true => {
            Err(Error::precondition(format!("the name of a {what} has no control characters: {}", name.escape_debug())))
        }
        false => Ok(()),
    }
}
