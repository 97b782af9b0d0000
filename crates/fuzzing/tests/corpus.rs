//! Replays the committed corpus through the entries that the fuzzers use, and simple mutations of
//! it: every seed cut at every offset, and with single bytes changed by a fixed sequence. This is
//! not fuzzing. It catches the return of faults that fuzzing found, and shows that the entries
//! work.

use std::path::{Path, PathBuf};

/// Changed copies per seed.
const CHANGES: usize = 200;
/// Longer seeds are not cut at every offset.
const CUT_EVERYWHERE: usize = 2048;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name)
}

fn seeds(name: &str) -> std::io::Result<Vec<(String, Vec<u8>)>> {
    let mut seeds = Vec::new();
    for entry in std::fs::read_dir(folder(name))? {
        let entry = entry?;
        seeds.push((entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path())?));
    }
    seeds.sort();
    Ok(seeds)
}

/// The next number of a fixed sequence (xorshift64, Marsaglia 2003).
fn next(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 16) as usize
}

#[test]
fn the_corpus_and_its_mutations_break_nothing() {
    for target in fuzzing::TARGETS {
        let seeds = seeds(target.name).unwrap_or_default();
        assert!(!seeds.is_empty(), "{} has no corpus", target.name);
        let mut state = 0x9e37_79b9_7f4a_7c15;
        for (file, seed) in &seeds {
            println!("{}/{file}", target.name);
            (target.run)(seed);
            if seed.len() <= CUT_EVERYWHERE {
                (0..seed.len()).for_each(|end| (target.run)(&seed[..end]));
            }
            if seed.is_empty() {
                continue;
            }
            for _ in 0..CHANGES {
                let mut changed = seed.clone();
                for _ in 0..next(&mut state) % 3 + 1 {
                    let place = next(&mut state) % changed.len();
                    changed[place] = next(&mut state) as u8;
                }
                (target.run)(&changed);
            }
        }
    }
}

#[test]
fn every_target_has_its_program() {
    for target in fuzzing::TARGETS {
        let program = folder("..").join("fuzz_targets").join(format!("{}.rs", target.name));
        let text = std::fs::read_to_string(&program).unwrap_or_default();
        assert!(text.contains(&format!("\"{}\"", target.name)), "{} does not run its target", program.display());
    }
}
