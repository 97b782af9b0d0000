//! How one node follows another: the messages between two nodes, the state of both sides, and the
//! connections that carry them.
//!
//! Both sides are sans-IO: bytes and time in, bytes and events out. The one that serves sends what
//! it has flushed ([`Sender`]), the one that follows says how much it takes ([`Receiver`]). A
//! [`Link`] is TLS between two nodes of one cluster, an [`Identity`] what they know each other by.
//! `docs/formats/nodes.md` draws every byte.

mod confirming;
mod copy;
mod dial;
mod directory;
mod frames;
mod identity;
mod keeping;
mod leader;
mod link;
mod message;
mod receiver;
mod retained;
mod sender;
mod standing;
mod strangers;
mod token;

pub use confirming::{Awaiting, Begins, Confirming, Confirms, Waits};
pub use copy::{CopyError, CopySource, CopyTarget};
pub use dial::{ask, connect, join, tell};
pub use directory::{copy_folder, finish_swap, swap};
pub use frames::{Frames, LONGEST_ASKED, longest_sent};
pub use identity::{Identity, new_key};
pub use keeping::FOLDER;
pub use leader::{Copying, Feeding, Followers, Keeper, Listener, Replaced, SILENCE, Serving};
pub use link::{Came, Credentials, Link};
pub use message::{Beat, FORMAT, Hello, LONGEST_NAME, Malformed, Membership, Message, NodeId, PIECE, Refusal};
pub use receiver::{Event, Receiver};
pub use retained::{Doing, FollowerStatus, MOST_FOLLOWERS};
pub use sender::{Asked, Filled, Sender};
pub use standing::{Role, Standing};
pub use token::Token;
