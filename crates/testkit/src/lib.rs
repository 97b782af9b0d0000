//! What the tests of several crates share: simulated disks, clocks, brokers and peers. Nothing here is part of the
//! product.

pub mod broker;
pub mod peer;
pub mod script;
pub mod sim_disk;
