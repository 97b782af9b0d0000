//! Which connections are let in: a user's way into a vhost, and the shares of the broker's limits
//! for vhosts and users without limits of their own. Some connections are kept for administrators.
//! So one vhost or user can't keep all others out, nor the administrators who could end that. A
//! user's share of declarations is here too.

use std::sync::Arc;

use auth::Identity;

use crate::catalog::Vhost;
use crate::engine::Engine;
use crate::engine::admission::share;
use crate::engine::clients::{Attached, ClientShared};
use crate::error::Error;
use crate::memory::ledger::{Account, Declared};
use crate::routing::Load;

/// The tag of users that connections are reserved for.
pub(crate) const ADMINISTRATOR: &str = "administrator";

/// A client that asks to be let in.
struct Entrant<'a> {
    client: &'a ClientShared,
    /// Those that are there.
    there: &'a Attached,
    administers: bool,
}

pub(crate) fn no_vhost(name: &str) -> Error {
    Error::not_allowed(format!("vhost {name} not found"))
}

impl Engine {
    /// The vhost, if the user may enter it. Only users that see all vhosts learn that one does not
    /// exist. For all others it looks like one that they may not enter.
    pub(crate) fn enter(&self, identity: &Identity, name: &str) -> Result<Arc<Vhost>, Error> {
        let found = self.catalog.vhost(name);
        if found.is_none() && self.monitors(identity) {
            return Err(no_vhost(name));
        }
        self.authority.enter(identity, name).map_err(|denied| Error::not_allowed(denied.to_string()))?;
        found.ok_or_else(|| no_vhost(name))
    }

    /// Whether an identity may see all vhosts.
    pub(crate) fn monitors(&self, identity: &Identity) -> bool {
        [ADMINISTRATOR, "monitoring"].into_iter().any(|tag| self.authority.is_tagged(identity, tag))
    }

    /// Lists a client, unless that is one too many for the broker, its vhost or its user.
    pub(crate) fn admit_client(&self, client: &Arc<ClientShared>, vhost: &Vhost) -> Result<(), Error> {
        let administers = self.authority.is_tagged(&client.identity, ADMINISTRATOR);
        let mut clients = self.clients.lock();
        let entrant = Entrant { client, there: &clients, administers };
        let [of_all, of_one_vhost, of_one_user] = &self.totals.churn.connections_refused;
        // An administrator may come to close some.
        if !administers {
            // This one is counted already.
            let admitted = self.admit_kept("connection refused", 0);
            admitted.map_err(Error::not_allowed).inspect_err(|_| of_all.add(1))?;
        }
        // The first refusal ends it: log-ins wait for one another here.
        self.refuse_any(&entrant).inspect_err(|_| of_all.add(1))?;
        self.refuse_in_vhost(&entrant, vhost).inspect_err(|_| of_one_vhost.add(1))?;
        self.refuse_user(&entrant).inspect_err(|_| of_one_user.add(1))?;
        clients.insert(client);
        client.account.list();
        Ok(())
    }

    /// The connections that are kept for administrators.
    pub(crate) fn reserved_connections(&self) -> u64 {
        let limits = &self.settings.limits;
        limits.reserved_connections.min(limits.connections / 4)
    }

    fn refuse_any(&self, entrant: &Entrant<'_>) -> Result<(), Error> {
        let there = entrant.there.len() as u64;
        let (limit, kept) = (self.settings.limits.connections, self.reserved_connections());
        if there >= limit {
            return Err(Error::not_allowed(format!("connection refused: node connection limit ({limit}) is reached")));
        }
        if there >= limit - kept && !entrant.administers {
            return Err(Error::not_allowed(format!(
                "connection refused: the last {kept} of {limit} connections are kept for administrators \
                 (limits.reserved_connections)"
            )));
        }
        Ok(())
    }

    fn refuse_in_vhost(&self, entrant: &Entrant<'_>, vhost: &Vhost) -> Result<(), Error> {
        let Entrant { client, there, administers } = *entrant;
        let (name, user, limits) = (&client.vhost, &client.user, &self.settings.limits);
        let reaches = |limit| there.of_vhost(name) >= limit;
        let share = share(limits.connections, limits.vhost_share);
        let limit = self.system.lock().vhost_limits(vhost.id).connections;
        match limit {
            Some(limit) if reaches(limit) => Err(Error::not_allowed(format!(
                "access to vhost '{name}' refused for user '{user}': connection limit ({limit}) is reached"
            ))),
            None if !administers && !self.catalog.has_one_vhost() && reaches(share) => {
                Err(Error::not_allowed(format!(
                    "access to vhost '{name}' refused for user '{user}': the vhost has its share of all connections ({share}); give \
                     it a limit of its own, or raise limits.vhost_share"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Fails where a user has declared as much as one may, of those that do not administer. A lone
    /// one takes no room from others.
    pub(crate) fn admit_of_user(
        &self,
        what: &str,
        load: Load,
        (identity, account): (&Identity, &Account),
    ) -> Result<(), Error> {
        if identity.is_operator() || self.authority.is_tagged(identity, ADMINISTRATOR) {
            return Ok(());
        }
        self.admit_declared(what, load, account.declared())
    }

    /// The same for a user that does not administer, whether it is there or not.
    pub(crate) fn admit_declared(&self, what: &str, load: Load, declared: &Declared) -> Result<(), Error> {
        let (now, user) = (declared.bytes(), declared.user());
        let set = self.settings.limits.declarations.user_bytes;
        let most = set.unwrap_or_else(|| self.most_declared() / 2);
        let is_alone = || set.is_none() && !self.authority.has_several_without(ADMINISTRATOR);
        if now + load.memory <= most || is_alone() {
            return Ok(());
        }
        Err(Error::precondition(format!(
            "cannot declare {what}: what user '{user}' has declared takes {now} bytes of memory, of {most} that it may: \
             delete some, or raise limits.user_declarations_bytes"
        )))
    }

    fn refuse_user(&self, entrant: &Entrant<'_>) -> Result<(), Error> {
        let Entrant { client, there, administers } = *entrant;
        let (user, limits) = (&client.user, &self.settings.limits);
        let reaches = |limit| there.of_user(user) >= limit;
        let share = share(limits.connections, limits.user_share);
        match self.authority.limits(user).connections.map(u64::from) {
            Some(limit) if reaches(limit) => Err(Error::not_allowed(format!(
                "connection refused for user '{user}': user connection limit ({limit}) is reached"
            ))),
            // A lone user takes no room from others: administrators have connections of their own.
            None if !administers && self.authority.has_several_without(ADMINISTRATOR) && reaches(share) => {
                Err(Error::not_allowed(format!(
                    "connection refused for user '{user}': it has its share of all connections ({share}); give it a limit of its own, or \
                 raise limits.user_share"
                )))
            }
            _ => Ok(()),
        }
    }
}
