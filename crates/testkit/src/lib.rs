//! What the tests of several crates share: simulated disks, clocks and peers. Nothing here is part of the product.

pub mod sim_disk;
