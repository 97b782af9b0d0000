//! Definitions are kept and ended: logged before they count.

use std::collections::BTreeMap;
use std::sync::Arc;

use journal::{LogId, Ticket};

use crate::catalog::definitions::{Definition, DefinitionKey, EVERYWHERE, KEY, Sort, definition_bytes};
use crate::engine::Engine;
use crate::engine::admission::Asker;
use crate::error::Error;
use crate::routing::Load;
use crate::store::facts;
use crate::value::{Table, Value};

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
        let mut kept = self.definitions.0.lock();
        let bytes = self.admit_definition(&key, &value, &kept)?;
        let owner = kept.get(&key).map_or_else(|| self.owner(key.log()), |kept| kept.owner);
        let mut appender = self.journal.appender(LogId::of(owner));
        appender.fact(None, owner, facts::DEFINITION, &[&bytes]);
        let ticket = appender.ticket();
        drop(appender);
        kept.insert(key, Definition { owner, value: Arc::new(value) });
        Ok(ticket)
    }

    /// The bytes of a definition that may be logged, in place of the `kept` one with this key.
    ///
    /// # Errors
    /// `Precondition` for one that can't be stored, and for a new one without room.
    pub(crate) fn admit_definition(
        &self,
        key: &DefinitionKey,
        value: &Table,
        kept: &BTreeMap<DefinitionKey, Definition>,
    ) -> Result<Vec<u8>, Error> {
        let bytes = self.check_definition(key, value)?;
        if !kept.contains_key(key) {
            self.admit_load(&key.to_string(), Load { logged: bytes.len() as u64, memory: 0 }, Asker::Operator)?;
        }
        Ok(bytes)
    }

    /// The bytes of a definition.
    ///
    /// # Errors
    /// `Precondition` for one that can't be stored.
    pub(crate) fn check_definition(&self, key: &DefinitionKey, value: &Table) -> Result<Vec<u8>, Error> {
        let bytes = definition_bytes(key, value)?;
        self.check_storable(bytes.len())?;
        Ok(bytes)
    }

    /// Ends a definition. Returns the ticket for the answer; `None` if there is none.
    pub(crate) fn undefine(&self, key: &DefinitionKey) -> Option<Ticket> {
        let mut kept = self.definitions.0.lock();
        let owner = kept.get(key)?.owner;
        let mut appender = self.journal.appender(LogId::of(owner));
        appender.drop_owner(None, owner, &mut std::iter::empty());
        let ticket = appender.ticket();
        drop(appender);
        kept.remove(key);
        Some(ticket)
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
