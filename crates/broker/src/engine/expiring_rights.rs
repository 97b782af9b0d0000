//! Rights that end by themselves: a client whose grant from elsewhere has expired is closed, unless
//! it was renewed before.

use std::sync::Arc;
use std::time::{Duration, Instant};

use auth::{Identity, NotRenewed};

use crate::engine::Engine;
use crate::engine::clients::ClientShared;

impl Engine {
    /// Notes when the rights of a client end.
    pub(crate) fn watch_expiry(&self, client: &ClientShared) {
        if let Some(at) = client.identity.expires() {
            self.clients.expiries.lock().insert((at, client.number));
            self.housekeeper.wake();
        }
    }

    /// Forgets that of a client that leaves.
    pub(crate) fn forget_expiry(&self, client: &ClientShared) {
        if let Some(at) = client.identity.expires() {
            self.clients.expiries.lock().remove(&(at, client.number));
        }
    }

    /// Gives a client the rights of its user's newer log-in, and takes away what these do not
    /// cover.
    ///
    /// # Errors
    /// If that is another user, or the client has no rights to renew; then nothing has changed.
    pub(crate) fn renew(&self, client: &Arc<ClientShared>, newer: &Identity) -> Result<(), NotRenewed> {
        let before = client.identity.expires();
        client.identity.renew(newer)?;
        if let Some(at) = before {
            self.clients.expiries.lock().remove(&(at, client.number));
        }
        self.watch_expiry(client);
        self.hold_one_to_rights(client);
        Ok(())
    }

    /// Closes the clients whose rights have ended. Returns when the next ones do.
    pub(crate) fn close_expired(&self, unix_ms: u64, now: Instant) -> Option<Instant> {
        let (ended, next) = {
            let mut expiries = self.clients.expiries.lock();
            let later = expiries.split_off(&(unix_ms + 1, 0));
            let ended = std::mem::replace(&mut *expiries, later);
            (ended, expiries.first().map(|(at, _)| *at))
        };
        for (_, number) in ended {
            let client = self.clients.lock().get(&number).cloned();
            // One that was renewed at this moment is noted with a later time.
            if let Some(client) = client.filter(|client| client.identity.expires().is_some_and(|at| at <= unix_ms)) {
                client.kick(&format!("the credentials of user '{}' have expired", client.user));
            }
        }
        next.map(|at| now + Duration::from_millis(at - unix_ms))
    }
}
