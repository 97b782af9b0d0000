//! Setting, clearing and listing shovels. What carries them out is another part of the program,
//! which is woken when they change.

use std::sync::Arc;
use std::task::Waker;

use auth::Identity;
use journal::Ticket;

use crate::broker::Broker;
use crate::catalog::change::Change;
use crate::catalog::shovels::{Shovel, ShovelSpec};
use crate::engine::admission::Asker;
use crate::engine::system::refuse_control;
use crate::error::Error;
use crate::message::NAME_MAX;
use crate::routing::Load;

/// Shovels of one user at most: each has two connections and up to 16 MiB of messages on their way.
const OF_USER: usize = 100;
/// Shovels of the operator at most.
const OF_OPERATOR: usize = 1000;

/// A shovel, for reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShovelReport {
    /// Its vhost.
    pub vhost: String,
    /// Its name.
    pub name: String,
    /// What was asked for.
    pub spec: ShovelSpec,
}

impl Broker {
    /// Sets a shovel, in place of the one with this name. Returns the ticket for the answer.
    ///
    /// # Errors
    /// `NotFound` without the vhost, `Precondition` for a name that can't be one, without room, or
    /// for too many shovels of one user.
    pub fn set_shovel(&self, vhost: &str, name: &str, definition: String, author: &Identity) -> Result<Ticket, Error> {
        check_name(name)?;
        let engine = &self.engine;
        let _alone = engine.administration.lock();
        let vhost = engine.existing_vhost(vhost)?;
        let author = (!author.is_operator()).then(|| author.user().to_owned());
        self.check_shovels_of(author.as_deref(), (&vhost.name, name))?;
        let mut tables = vhost.tables.write();
        if tables.is_ended() {
            return Err(Error::not_found(format!("no vhost '{}'", vhost.name)));
        }
        let before = tables.shovels.get(name).map(|shovel| shovel.id);
        let id = before.unwrap_or_else(|| engine.owner(vhost.log()));
        let spec = ShovelSpec { definition, author };
        let shovel = Shovel { id, vhost: vhost.id, name: name.to_owned(), spec };
        let load = Load { logged: shovel.bytes().len() as u64, memory: 0 };
        engine.check_storable(shovel.bytes().len())?;
        engine.admit_load(&format!("shovel '{name}'"), load, Asker::Operator)?;
        let ticket = engine.change(&vhost, &mut tables, Change::Shovel(Arc::new(shovel)));
        drop(tables);
        self.shovels.wake();
        Ok(ticket)
    }

    /// # Errors
    /// `Precondition` if this user has as many shovels as it may, without the one of this place.
    fn check_shovels_of(&self, author: Option<&str>, (vhost, name): (&str, &str)) -> Result<(), Error> {
        let most = if author.is_some() { OF_USER } else { OF_OPERATOR };
        let all = self.shovels();
        let others = all.iter().filter(|shovel| (shovel.vhost.as_str(), shovel.name.as_str()) != (vhost, name));
        if others.filter(|shovel| shovel.spec.author.as_deref() == author).count() < most {
            return Ok(());
        }
        Err(Error::precondition(format!(
            "shovel '{name}': {} has {most} shovels, and may have no more",
            author.map_or_else(|| "the operator".to_owned(), |author| format!("user '{author}'"))
        )))
    }

    /// Clears a shovel. Returns the ticket for the answer.
    ///
    /// # Errors
    /// `NotFound` without the vhost or the shovel.
    pub fn clear_shovel(&self, vhost: &str, name: &str) -> Result<Ticket, Error> {
        let engine = &self.engine;
        let _alone = engine.administration.lock();
        let known = engine.existing_vhost(vhost)?;
        let mut tables = known.tables.write();
        let shovel = tables.shovels.get(name).cloned();
        let shovel =
            shovel.ok_or_else(|| Error::not_found(format!("shovel '{name}' does not exist in vhost '{vhost}'")))?;
        let ticket = engine.change(&known, &mut tables, Change::EndShovel(shovel));
        drop(tables);
        self.shovels.wake();
        Ok(ticket)
    }

    /// All shovels, by vhost and name.
    pub fn shovels(&self) -> Vec<ShovelReport> {
        let mut vhosts = self.engine.catalog.vhosts();
        vhosts.sort_by(|one, other| one.name.cmp(&other.name));
        let mut reports = Vec::new();
        for vhost in vhosts {
            let report = |shovel: &Arc<Shovel>| ShovelReport {
                vhost: vhost.name.to_string(),
                name: shovel.name.clone(),
                spec: shovel.spec.clone(),
            };
            reports.extend(vhost.tables.read().shovels.iter().map(report));
        }
        reports
    }

    /// Wakes this waker when a shovel was set or cleared. The last one counts.
    pub fn watch_shovels(&self, waker: Waker) {
        self.shovels.set(waker);
    }

    /// Fails where [`Broker::set_shovel`] would for this name.
    ///
    /// # Errors
    /// `Precondition`.
    pub fn check_shovel_name(&self, name: &str) -> Result<(), Error> {
        check_name(name)
    }
}

fn check_name(name: &str) -> Result<(), Error> {
    if name.is_empty() || name.len() > NAME_MAX {
        let length = name.len();
        return Err(Error::precondition(format!("the name of a shovel has 1 to {NAME_MAX} bytes, not {length}")));
    }
    refuse_control("shovel", name)
}
