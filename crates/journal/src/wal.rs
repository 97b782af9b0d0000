//! The write-ahead log itself: batches, the buffer they are filled in, the files they go to.

pub(crate) mod batch;
pub(crate) mod buffer;
pub(crate) mod entries;
pub(crate) mod file;
pub(crate) mod identity;
pub(crate) mod keeps;
pub(crate) mod received;
pub(crate) mod recent;
pub(crate) mod table;
pub(crate) mod tails;
