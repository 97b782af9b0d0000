//! What is durable: facts about owners as the journal keeps them, and the world rebuilt from them
//! at start.

pub(crate) mod facts;
mod pages;
pub(crate) mod recovery;
pub(crate) mod restate;
mod runs;
pub(crate) mod verify;
