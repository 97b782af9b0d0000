//! The ends of links that this side has.

use crate::session::receiver::Receiver;
use crate::session::sender::Sender;

/// One link, by its handle.
pub(super) enum Link {
    /// This side sends: the peer consumes.
    Sender(Box<Sender>),
    /// This side receives: the peer publishes.
    Receiver(Box<Receiver>),
    /// This side has detached it, and ignores what the peer sends before its own detach.
    Detached,
}
