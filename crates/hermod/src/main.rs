//! hermod
fn main() {}
