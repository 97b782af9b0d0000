//! Feeds libFuzzer's inputs to the target of this name; what must hold is in `crates/fuzzing`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzzing::run("facts", input));
