//! The one way to change users while the broker runs: logged, then in force, then held against the
//! connections that are open.

use auth::User;
use journal::{LogId, Ticket};

use crate::catalog::system::SystemChange;
use crate::engine::Engine;
use crate::engine::admission::Asker;
use crate::engine::clients::ClientShared;
use crate::engine::rights::ChangedRights;
use crate::engine::system::refuse_control;
use crate::error::Error;
use crate::routing::Load;

impl Engine {
    /// Ends a user, and closes its connections.
    pub(crate) fn end_user(&self, name: &str) -> Ticket {
        let id = self.system.lock().user(name);
        let ticket = id.map_or(Ticket::NONE, |id| self.change_system(vec![SystemChange::End { id }]));
        let is_of = |client: &ClientShared| client.user == name && client.identity.backend().is_none();
        self.kick_all(is_of, &format!("user '{name}' is deleted"));
        ticket
    }

    /// Adds a user, or replaces the one of its name. This counts for routes that its clients
    /// remember and their consumers too, which the old rights allowed.
    pub(crate) fn put_user(&self, user: User) -> Result<Ticket, Error> {
        let name = user.name.clone();
        let before = self.authority.user(&name).unwrap_or_else(|| User::new(&name, None));
        let change = ChangedRights::between(&before, &user);
        let bytes = self.check_user(&user)?;
        let known = self.system.lock().user(&name);
        let id = match known {
            Some(id) => id,
            None => {
                self.admit_load(&format!("user '{name}'"), Load { logged: bytes, memory: 0 }, Asker::Operator)?;
                self.owner(LogId::SYSTEM)
            }
        };
        let ticket = self.change_system(vec![SystemChange::User { id, user: Box::new(user) }]);
        self.hold_to_rights(&name, &change);
        Ok(ticket)
    }

    /// The bytes of a user.
    ///
    /// # Errors
    /// `Precondition` for one that can't be stored.
    pub(crate) fn check_user(&self, user: &User) -> Result<u64, Error> {
        if self.authority.user(&user.name).is_none() {
            refuse_control("user", &user.name)?;
        }
        let bytes = user.encode().map_err(|error| Error::precondition(error.to_string()))?.len();
        self.check_storable(bytes)?;
        Ok(bytes as u64)
    }
}
