//! What is durable: facts about owners as the journal keeps them.

pub(crate) mod facts;
pub(crate) mod runs;
