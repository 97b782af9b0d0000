//! What the tests of several crates share: simulated disks, clocks, brokers and peers. Nothing here
//! is part of the product.

// Test code: a test that can't go on ends here, with words.
#![allow(clippy::panic, clippy::unwrap_used)]

pub mod broker;
pub mod certificates;
pub mod driver;
pub mod lines;
pub mod peer;
pub mod rights;
pub mod script;
pub mod sim_disk;
