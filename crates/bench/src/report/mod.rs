//! What a person and a program get to see: one line while it runs, a table at the end, a record of everything.

pub(crate) mod output;
pub(crate) mod progress;
pub(crate) mod record;
pub(crate) mod table;
pub(crate) mod verdict;
