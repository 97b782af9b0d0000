//! The durable facts about owners, as the journal stores them.

pub(crate) mod facts;
pub(crate) mod owners;
pub(crate) mod runs;
