//! How many HTTP connections there are, in all and from one address.
//!
//! Whoever connects may ask for metrics without a password, and shows who it is with each request anew: each connection
//! counts as a stranger's for as long as it lasts. None is served without a [`Place`].

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What HTTP connections are held to.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Most of them, of all listeners.
    pub connections: usize,
    /// Most from one address.
    pub per_address: usize,
    /// How long a peer may take for the head of a request, counted from when nothing else is going on.
    pub head_timeout: Duration,
    /// How long it may read nothing of what waits for it.
    pub write_timeout: Duration,
}

/// Why a connection was not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// There are as many as there may be.
    House,
    /// There are as many as there may be from this address.
    Address,
}

impl Full {
    /// What `hermod_connections_refused_total` calls it: the setting that says so, if there is one.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::House => "http",
            Self::Address => "pending_per_address",
        }
    }
}

/// Lets connections in.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) limits: Limits,
    /// How many there are from each address.
    inside: Mutex<HashMap<IpAddr, usize>>,
}

impl Door {
    pub(crate) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self { limits, inside: Mutex::default() })
    }

    /// A place for a connection from `address`.
    pub(crate) fn admit(self: &Arc<Self>, address: IpAddr) -> Result<Place, Full> {
        let address = address.to_canonical();
        // What a panic could leave behind is a count.
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        if inside.values().sum::<usize>() >= self.limits.connections {
            return Err(Full::House);
        }
        if inside.get(&address).is_some_and(|count| *count >= self.limits.per_address) {
            return Err(Full::Address);
        }
        *inside.entry(address).or_default() += 1;
        Ok(Place { door: self.clone(), address })
    }
}

/// A connection that was let in; it leaves when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    door: Arc<Door>,
    address: IpAddr,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut inside = self.door.inside.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = inside.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                inside.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_few_in_all_and_from_each_address_and_make_room_when_they_go() {
        let (head_timeout, write_timeout) = (Duration::from_secs(1), Duration::from_secs(1));
        let door = Door::new(Limits { connections: 3, per_address: 2, head_timeout, write_timeout });
        let from = |address: &str| door.admit(address.parse().unwrap());
        let first = from("10.0.0.1").unwrap();
        let mapped = from("::ffff:10.0.0.1").unwrap();
        assert_eq!(from("10.0.0.1").unwrap_err(), Full::Address);
        let other = from("10.0.0.2").unwrap();
        assert_eq!(from("10.0.0.3").unwrap_err(), Full::House);
        drop(first);
        let again = from("10.0.0.1").unwrap();
        drop((mapped, other, again));
        assert!(door.inside.lock().unwrap().is_empty(), "nothing is kept of who has gone");
    }
}
