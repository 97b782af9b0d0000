//! What operators note about the broker as a whole: its cluster's name, and parameters that only
//! their own tools read.

use journal::Ticket;

use crate::broker::Broker;
use crate::catalog::definitions::{DefinitionKey, EVERYWHERE, Sort};
use crate::engine::system::refuse_control;
use crate::error::Error;
use crate::message::NAME_MAX;
use crate::value::{Table, Value};

/// The only field of these definitions.
const VALUE: &str = "value";
/// Most bytes of a parameter's value.
const LONGEST_VALUE: usize = 16 * 1024;
/// Most parameters.
const MOST: usize = 1000;

/// A parameter of the whole broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GlobalParameter {
    /// Its name.
    pub name: String,
    /// Its value, as its operator wrote it.
    pub value: String,
}

impl Broker {
    /// The name of the cluster: the one that an operator gave it, else that of the settings.
    pub fn cluster_name(&self) -> String {
        let system = self.engine.system.lock();
        let named = system.defined(&DefinitionKey::new(Sort::ClusterName, EVERYWHERE, ""));
        named.and_then(text_of).unwrap_or(&self.engine.settings.names.cluster).to_owned()
    }

    /// Names the cluster. Returns the ticket for the answer.
    ///
    /// # Errors
    /// `Precondition` for a name that can't be one, or without room.
    pub fn name_cluster(&self, name: &str) -> Result<Ticket, Error> {
        check_name("cluster", name)?;
        let _alone = self.engine.administration.lock();
        self.engine.define(DefinitionKey::new(Sort::ClusterName, EVERYWHERE, ""), table_of(name))
    }

    /// Sets a parameter, in place of the one with this name. Returns the ticket for the answer.
    ///
    /// # Errors
    /// `Precondition` for a name that can't be one, a value that is too long, one parameter too
    /// many, or without room.
    pub fn set_global_parameter(&self, name: &str, value: &str) -> Result<Ticket, Error> {
        self.check_global_parameter(name, value)?;
        let _alone = self.engine.administration.lock();
        let key = DefinitionKey::new(Sort::GlobalParameter, EVERYWHERE, name);
        let is_full = {
            let system = self.engine.system.lock();
            let count = || system.all_defined(Sort::GlobalParameter, EVERYWHERE).count();
            system.definition(&key).is_none() && count() >= MOST
        };
        if is_full {
            let text = format!("there are {MOST} global parameters, the most that may be: clear one first");
            return Err(Error::precondition(text));
        }
        self.engine.define(key, table_of(value))
    }

    /// Fails where [`Broker::set_global_parameter`] would, except for room and number.
    ///
    /// # Errors
    /// As there.
    pub fn check_global_parameter(&self, name: &str, value: &str) -> Result<(), Error> {
        check_name("global parameter", name)?;
        if value.len() > LONGEST_VALUE {
            let text = format!(
                "the value of global parameter '{name}' has {} bytes, {LONGEST_VALUE} are the most",
                value.len()
            );
            return Err(Error::precondition(text));
        }
        Ok(())
    }

    /// Clears a parameter. Returns the ticket for the answer.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn clear_global_parameter(&self, name: &str) -> Result<Ticket, Error> {
        let _alone = self.engine.administration.lock();
        let ended = self.engine.undefine(&DefinitionKey::new(Sort::GlobalParameter, EVERYWHERE, name));
        ended.ok_or_else(|| Error::not_found(format!("global parameter '{name}' does not exist")))
    }

    /// One parameter.
    pub fn global_parameter(&self, name: &str) -> Option<GlobalParameter> {
        let system = self.engine.system.lock();
        let value = system.defined(&DefinitionKey::new(Sort::GlobalParameter, EVERYWHERE, name))?;
        parameter_of((name, value))
    }

    /// Every parameter, by name.
    pub fn global_parameters(&self) -> Vec<GlobalParameter> {
        let system = self.engine.system.lock();
        system.all_defined(Sort::GlobalParameter, EVERYWHERE).filter_map(parameter_of).collect()
    }
}

fn check_name(what: &str, name: &str) -> Result<(), Error> {
    if name.is_empty() || name.len() > NAME_MAX {
        let text = format!("the name of a {what} has 1 to {NAME_MAX} bytes, not {}", name.len());
        return Err(Error::precondition(text));
    }
    refuse_control(what, name)
}

fn parameter_of((name, value): (&str, &Table)) -> Option<GlobalParameter> {
    Some(GlobalParameter { name: name.to_owned(), value: text_of(value)?.to_owned() })
}

fn table_of(text: &str) -> Table {
    let mut table = Table::default();
    table.set(VALUE, Value::Text(text.to_owned()));
    table
}

fn text_of(table: &Table) -> Option<&str> {
    table.get(VALUE).and_then(Value::as_text)
}
