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
        let members = self.authority.members(name);
        let ended = self.authority.user(name).map(|user| ChangedRights::of_role(&user)).unwrap_or_default();
        // A later user of this name is no role of those: they lose it with the user, in one group.
        let mut changes: Vec<_> = members.iter().filter_map(|member| self.without_role(member, name)).collect();
        changes.extend(self.system.lock().user(name).map(|id| SystemChange::End { id }));
        let ticket = if changes.is_empty() { Ticket::NONE } else { self.change_system(changes) };
        members.iter().for_each(|member| self.hold_to_rights(&member.name, &ended));
        self.hold_guests_to_rights(name, &ended);
        let is_of = |client: &ClientShared| client.user == name && client.identity.backend().is_none();
        self.kick_all(is_of, &format!("user '{name}' is deleted"));
        self.sever_subscriptions_of(name);
        ticket
    }

    /// Adds a user, or replaces the one of its name. This counts for routes that its clients
    /// remember and their consumers too, which the old rights allowed.
    pub(crate) fn put_user(&self, user: User) -> Result<Ticket, Error> {
        let name = user.name.clone();
        let before = self.authority.user(&name).unwrap_or_else(|| User::new(&name, None));
        let mut change = ChangedRights::between(&before, &user);
        let other_roles = before.roles.symmetric_difference(&user.roles);
        other_roles.filter_map(|role| self.authority.user(role)).for_each(|role| change.add_role(&role));
        let of_members = change.as_of_role();
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
        for member in self.authority.members(&name) {
            self.hold_to_rights(&member.name, &of_members);
        }
        self.hold_guests_to_rights(&name, &of_members);
        Ok(ticket)
    }

    /// The change that takes a role from a user.
    fn without_role(&self, member: &User, role: &str) -> Option<SystemChange> {
        let id = self.system.lock().user(&member.name)?;
        let mut user = Box::new(member.clone());
        user.roles.remove(role);
        Some(SystemChange::User { id, user })
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
