//! The journal from outside: on real disks, and on a simulated one that loses, tears and refuses.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic here is a failed test")]

mod backup;
mod cold;
mod damage;
mod following;
mod handles;
mod logs;
mod older;
mod queues;
mod scrub;
mod simulation;
mod snapshots;
mod spill;
mod verify;
