//! What the server sides of all protocols do alike: log-in, audit, keep-alive, and turns.
//!
//! A protocol has frames and texts of its own. The steps between them are here once, so that a
//! check or a line of the audit log is the same whatever a client speaks.

mod entrance;
mod keep_alive;
mod sasl;
mod turn;

pub use entrance::{Entrance, Label, PendingLogin, PendingRenewal, Wish, Words};
pub use keep_alive::{Due, KeepAlive};
pub use sasl::{Mechanisms, Sasl};
pub use turn::{Conversation, End, Line, Parts, Turns, View};
