//! What the operating system knows and does: processes, disks, the whole machine, the clock,
//! signals, network namespaces, waiting for sockets. It knows no broker and no protocol.
//! On systems without `/proc` and `/sys` the figures are absent, never guessed.

pub mod clock;
pub mod command;
pub mod descriptors;
pub mod directory;
pub mod disk;
pub mod facts;
pub mod freeze;
pub mod identity;
pub mod interrupt;
pub mod java;
pub mod netns;
pub mod packets;
pub mod process;
pub mod quiet;
pub mod wait;
