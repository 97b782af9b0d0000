//! Adding, changing and deleting users while the broker runs. A change of rights affects open
//! connections at once, and a deleted user is disconnected.

use auth::User;
use journal::Ticket;

use crate::broker::Broker;
use crate::error::Error;

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
        self.engine.check_user(user).map(drop)
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
        Ok(self.engine.end_user(name))
    }
}

fn no_user(name: &str) -> Error {
    Error::not_found(format!("user '{name}' does not exist"))
}
