//! The names of links (part 2, §2.6.1): a link is known by its name, the containers at its ends and
//! its direction. A link that is attached again elsewhere is stolen from where it was.
//!
//! Here containers of one id are told apart by user and vhost, so that no user
//! steals from another. A container without an id steals nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::Waker;

use parking_lot::Mutex;

use crate::codec::performative::{Attach, Role};

/// Who a link is of: vhost, user and container id.
type Owner = Arc<(String, String, String)>;

/// The name of a link.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct LinkName {
    owner: Owner,
    link: Box<str>,
    /// Whether the peer sends on it.
    sends: bool,
}

/// Where a link is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) channel: u16,
    pub(super) handle: u32,
    /// Tells it from later links of this channel and handle.
    pub(super) number: u64,
}

/// The links of one connection that were stolen, and how it is told.
#[derive(Debug)]
struct Inbox {
    stolen: Mutex<Vec<Place>>,
    waker: Waker,
}

#[derive(Debug, Default)]
struct Table {
    links: HashMap<LinkName, (Place, Arc<Inbox>)>,
    /// The number of the last link.
    last: u64,
}

/// All names in use.
#[derive(Debug, Clone, Default)]
pub(super) struct Names(Arc<Mutex<Table>>);

/// The names of one connection's links.
#[derive(Debug)]
pub(super) struct OwnNames {
    names: Names,
    owner: Owner,
    inbox: Arc<Inbox>,
}

/// A name that a link has until this is dropped, or another link takes it.
#[derive(Debug)]
pub(super) struct Named {
    names: Names,
    pub(super) name: LinkName,
    pub(super) number: u64,
}

impl LinkName {
    /// Whether both are of one user and vhost.
    pub(super) fn is_of_user_of(&self, other: &Self) -> bool {
        let ((vhost, user, _), (other_vhost, other_user, _)) = (&*self.owner, &*other.owner);
        (vhost, user) == (other_vhost, other_user)
    }
}

impl Names {
    /// The names of a connection that is woken by `waker` when one of its links is stolen.
    pub(super) fn of(&self, vhost: &str, user: &str, container: &str, waker: Waker) -> OwnNames {
        let owner = Arc::new((vhost.to_owned(), user.to_owned(), container.to_owned()));
        let inbox = Arc::new(Inbox { stolen: Mutex::default(), waker });
        OwnNames { names: self.clone(), owner, inbox }
    }
}

impl OwnNames {
    /// The name of a link.
    fn name(&self, link: &str, role: Role) -> LinkName {
        LinkName { owner: Arc::clone(&self.owner), link: link.into(), sends: role == Role::Sender }
    }

    /// Gives the name to a link, and takes it from the link that has it. `role` is the peer's.
    pub(super) fn take(&self, link: &str, role: Role, (channel, handle): (u16, u32)) -> Option<Named> {
        if self.owner.2.is_empty() {
            return None;
        }
        let name = self.name(link, role);
        let mut table = self.names.0.lock();
        table.last += 1;
        let place = Place { channel, handle, number: table.last };
        let robbed = table.links.insert(name.clone(), (place, Arc::clone(&self.inbox)));
        drop(table);
        if let Some((place, inbox)) = robbed {
            inbox.stolen.lock().push(place);
            inbox.waker.wake_by_ref();
        }
        Some(Named { names: self.names.clone(), name, number: place.number })
    }

    /// Where the connection had links that were stolen since the last call.
    pub(super) fn stolen(&self) -> Vec<Place> {
        std::mem::take(&mut *self.inbox.stolen.lock())
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        let mut table = self.names.0.lock();
        if table.links.get(&self.name).is_some_and(|(place, _)| place.number == self.number) {
            table.links.remove(&self.name);
        }
    }
}

/// The queue that goes with a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) queue: String,
    /// How it is found again.
    pub(super) suspended: Suspended,
}

/// The name of a suspended link, and whether the peer sends on it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Suspended {
    link: String,
    sends: bool,
}

impl Suspended {
    /// Of a link that is attached.
    pub(super) fn of(attach: &Attach<'_>) -> Self {
        Self { link: attach.name.to_owned(), sends: attach.role == Role::Sender }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_of_one_link_of_its_owner_in_each_direction() {
        let names = Names::default();
        let own = |user: &str, container: &str| names.of("/", user, container, Waker::noop().clone());
        let (first, second, other, nameless) = (own("u", "c"), own("u", "c"), own("v", "c"), own("u", ""));
        let sender = first.take("l", Role::Sender, (0, 1)).unwrap();
        let receiver = first.take("l", Role::Receiver, (0, 2));
        let foreign = other.take("l", Role::Sender, (0, 3));
        assert!(nameless.take("l", Role::Sender, (0, 4)).is_none());
        assert_eq!(first.stolen(), []);
        let thief = second.take("l", Role::Sender, (5, 6));
        assert_eq!(first.stolen(), [Place { channel: 0, handle: 1, number: sender.number }]);
        // The end of what was stolen leaves the name to its new link.
        drop(sender);
        assert_eq!(names.0.lock().links.len(), 3);
        drop((receiver, foreign, thief));
        assert!(names.0.lock().links.is_empty());
    }
}
