//! Adding, changing and deleting users while the broker runs. A change of rights affects open
//! connections at once, and a deleted user is disconnected.

use auth::User;
use hashbrown::HashMap;
use journal::{Owner, Ticket};

use crate::admin::checks::refuse_control;
use crate::admin::rights::Change;
use crate::broker::Broker;
use crate::engine::Engine;
use crate::engine::admission::Asker;
use crate::error::Error;
use crate::routing::Load;
use crate::store::facts;

impl Broker {
    /// Adds a user. Returns the ticket for the answer.
    ///
    /// # Errors
    /// `Precondition` if there is one of this name, or its record can't be stored.
    pub fn add_user(&self, user: User) -> Result<Ticket, Error> {
        let _alone = self.engine.administration.lock();
        if self.engine.authority.user(&user.name).is_some() {
            return Err(Error::precondition(format!("user '{}' already exists", user.name)));
        }
        self.engine.put_user(user)
    }

    /// Adds a user, or replaces the one of its name. Returns the ticket for the answer.
    ///
    /// # Errors
    /// `Precondition` if its record can't be stored.
    pub fn put_user(&self, user: User) -> Result<Ticket, Error> {
        let _alone = self.engine.administration.lock();
        self.engine.put_user(user)
    }

    /// Fails where [`Broker::put_user`] would.
    ///
    /// # Errors
    /// As there.
    pub fn check_user(&self, user: &User) -> Result<(), Error> {
        self.engine.user_record(user).map(drop)
    }

    /// Changes a user by `change`; if that fails nothing is changed. Returns the ticket for the
    /// answer.
    ///
    /// # Errors
    /// `NotFound`, the error of `change`, `Precondition` when the record can't be stored.
    pub fn change_user(
        &self,
        name: &str,
        change: impl FnOnce(&mut User) -> Result<(), Error>,
    ) -> Result<Ticket, Error> {
        let _alone = self.engine.administration.lock();
        let mut user = self.engine.authority.user(name).ok_or_else(|| no_user(name))?;
        change(&mut user)?;
        self.engine.put_user(user)
    }

    /// Deletes a user and closes its connections. Returns the ticket for the answer.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn delete_user(&self, name: &str) -> Result<Ticket, Error> {
        let _alone = self.engine.administration.lock();
        if self.engine.authority.user(name).is_none() {
            return Err(no_user(name));
        }
        let ticket = {
            let mut users = self.engine.users.lock();
            let mut appender = self.engine.journal.appender();
            if let Some(owner) = users.remove(name) {
                appender.drop_owner(None, owner, &mut std::iter::empty());
            }
            appender.ticket()
        };
        self.engine.authority.remove(name);
        self.engine.catalog.changed();
        self.engine.kick_all(|client| client.user == name, &format!("user '{name}' is deleted"));
        Ok(ticket)
    }
}

fn no_user(name: &str) -> Error {
    Error::not_found(format!("user '{name}' does not exist"))
}

impl Engine {
    /// Logs a user, which counts from then on. This includes routes that its clients remember and
    /// their consumers, which the old rights allowed.
    pub(crate) fn put_user(&self, user: User) -> Result<Ticket, Error> {
        let name = user.name.clone();
        let mut users = self.users.lock();
        let before = self.authority.user(&name).unwrap_or_else(|| User::new(&name, None));
        let change = Change::between(&before, &user);
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
        let owner = *users.entry(user.name.to_string()).or_insert_with(|| self.owner());
        let mut appender = self.journal.appender();
        appender.fact(None, owner, facts::USER, &[&bytes]);
        Ok(appender.ticket())
    }

    fn user_record(&self, user: &User) -> Result<Vec<u8>, Error> {
        if self.authority.user(&user.name).is_none() {
            refuse_control("user", &user.name)?;
        }
        let bytes = user.encode().map_err(|error| Error::precondition(error.to_string()))?;
        self.check_storable(bytes.len())?;
        Ok(bytes)
    }
}
