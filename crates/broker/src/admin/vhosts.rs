//! Adding, changing and deleting vhosts while the broker runs.
//!
//! A vhost ends by one record of the log. Everything in it and all rights to it end there, at a
//! restart too, whatever else of the deletion was written. Its connections are closed, and nothing
//! can be added after the record.

use std::sync::Arc;

use journal::Ticket;

use crate::arguments::check_queue_type;
use crate::broker::Broker;
use crate::catalog::Vhost;
use crate::catalog::definitions::{DefinitionKey, Sort};
use crate::catalog::vhost_settings::{VhostLimits, VhostSpec};
use crate::engine::system::refuse_control;
use crate::error::Error;
use crate::message::NAME_MAX;

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
        if let Some(vhost) = self.engine.catalog.vhost(name) {
            return self.engine.define(DefinitionKey::new(Sort::Vhost, vhost.id, ""), spec.to_table());
        }
        let limit = self.engine.settings.limits.vhosts;
        if self.engine.catalog.vhosts().len() as u64 >= limit {
            return Err(Error::precondition(format!(
                "cannot create vhost '{name}': vhost limit ({limit}) is reached; delete one, or raise limits.vhosts"
            )));
        }
        self.engine.add_vhost(name, spec.to_table())
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
        let ticket = self.engine.end_vhost(&vhost);
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
        let mut limits = self.engine.system.lock().vhost_limits(vhost.id);
        change(&mut limits)?;
        let key = DefinitionKey::new(Sort::VhostLimits, vhost.id, "");
        if limits == VhostLimits::default() {
            return Ok(self.engine.undefine(&key).unwrap_or(Ticket::NONE));
        }
        self.engine.define(key, limits.to_table())
    }

    /// Every vhost, by name.
    pub fn vhosts(&self) -> Vec<VhostReport> {
        let (vhosts, system) = (self.engine.catalog.vhosts(), self.engine.system.lock());
        let report = |vhost: Arc<Vhost>| VhostReport {
            name: vhost.name.to_string(),
            spec: system.vhost_spec(vhost.id),
            limits: system.vhost_limits(vhost.id),
            traced: vhost.is_traced(),
        };
        let mut reports: Vec<_> = vhosts.into_iter().map(report).collect();
        reports.sort_by(|a, b| a.name.cmp(&b.name));
        reports
    }
}
