//! The one way to change users while the broker runs: logged, then in force, then held against the
//! connections that are open.

use auth::User;
use hashbrown::HashMap;
use journal::{LogId, Owner, Ticket};

use crate::engine::Engine;
use crate::engine::admission::Asker;
use crate::engine::definitions::refuse_control;
use crate::engine::rights::ChangedRights;
use crate::error::Error;
use crate::routing::Load;
use crate::store::facts;

impl Engine {
    /// Ends a user, and closes its connections.
    pub(crate) fn end_user(&self, name: &str) -> Ticket {
        let ticket = {
            let mut users = self.users.lock();
            let mut appender = self.journal.appender(LogId::SYSTEM);
            if let Some(owner) = users.remove(name) {
                appender.drop_owner(None, owner, &mut std::iter::empty());
            }
            appender.ticket()
        };
        self.authority.remove(name);
        self.catalog.changed();
        self.kick_all(|client| client.user == name, &format!("user '{name}' is deleted"));
        ticket
    }

    /// Logs a user, which counts from then on. This includes routes that its clients remember and
    /// their consumers, which the old rights allowed.
    pub(crate) fn put_user(&self, user: User) -> Result<Ticket, Error> {
        let name = user.name.clone();
        let mut users = self.users.lock();
        let before = self.authority.user(&name).unwrap_or_else(|| User::new(&name, None));
        let change = ChangedRights::between(&before, &user);
        let ticket = self.log_user(&user, &mut users)?;
        // Under the lock: a restatement in between would repeat the old record behind the new one.
        self.authority.put(user).map_err(|error| Error::precondition(error.to_string()))?;
        drop(users);
        self.catalog.changed();
        self.hold_to_rights(&name, &change);
        Ok(ticket)
    }

    /// Logs a user under the lock that restatements of users take.
    pub(crate) fn log_user(&self, user: &User, users: &mut HashMap<String, Owner>) -> Result<Ticket, Error> {
        let bytes = self.user_record(user)?;
        if !users.contains_key(&*user.name) {
            let load = Load { logged: bytes.len() as u64, memory: 0 };
            self.admit_load(&format!("user '{}'", user.name), load, Asker::Operator)?;
        }
        let owner = *users.entry(user.name.to_string()).or_insert_with(|| self.owner(LogId::SYSTEM));
        let mut appender = self.journal.appender(LogId::SYSTEM);
        appender.fact(None, owner, facts::USER, &[&bytes]);
        Ok(appender.ticket())
    }

    pub(crate) fn user_record(&self, user: &User) -> Result<Vec<u8>, Error> {
        if self.authority.user(&user.name).is_none() {
            refuse_control("user", &user.name)?;
        }
        let bytes = user.encode().map_err(|error| Error::precondition(error.to_string()))?;
        self.check_storable(bytes.len())?;
        Ok(bytes)
    }
}
