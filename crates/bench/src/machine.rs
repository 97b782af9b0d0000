//! What the operating system knows: processes, disks, the whole machine, waiting for sockets. On
//! systems without `/proc` and `/sys` the figures are absent, never guessed.

pub(crate) mod backlog;
pub(crate) mod descriptors;
pub(crate) mod directory;
pub(crate) mod disk;
pub(crate) mod facts;
pub(crate) mod freeze;
pub(crate) mod identity;
pub(crate) mod java;
pub(crate) mod metrics;
pub(crate) mod packets;
pub(crate) mod process;
pub(crate) mod quiet;
pub(crate) mod wait;
