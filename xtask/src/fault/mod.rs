//! Faults as commands: each breaks something real under a running broker (a full disk, a failing flush, a flipped bit)
//! and holds the broker to its promises with the checker of the crash harness.
//!
//! Each fault is bounded in time and prints one line with its figure. What this machine does not permit is skipped,
//! never passed in silence.

mod catalog;
mod damage;
mod disk;
mod filesystem;
mod full;
mod gone;
mod hand;
mod inject;
mod ledger;
mod limits;
mod mount;
mod objects;
mod power;
mod rig;
mod script;
mod sweep;
mod torn;

use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::crash::{ledger as commits, server};

/// What to run.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Faults by name, all whose names begin so with a dash behind (`F1`), or `all`; `list` shows them.
    #[arg(required = true)]
    names: Vec<String>,
    /// The decisions of a run can be made again from its seed; one is chosen if none is given.
    #[arg(long)]
    seed: Option<u64>,
    /// How often the fault is made, for those that are made again and again.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// The broker to start; built if not given.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// The commit that `--binary` was built from, for the ledger; the one that is checked out if not given.
    #[arg(long)]
    commit: Option<String>,
    /// Append the runs to docs/ledger/faults.md.
    #[arg(long)]
    ledger: bool,
}

/// Lines of a failure that are shown.
const REPORTED: usize = 12;

/// One fault.
struct Fault {
    name: &'static str,
    /// What it breaks, in a line.
    what: &'static str,
    /// Returns the figure of a run.
    run: fn(&Scene) -> Result<String, Stop>,
}

/// All faults.
const FAULTS: [Fault; 26] = [
    Fault { name: "F1-tmpfs", what: "the log fills a tmpfs of 64 MiB", run: full::tmpfs },
    Fault { name: "F1-ext4", what: "the log fills an ext4 image of 256 MiB", run: full::ext4 },
    Fault { name: "F1-foreign", what: "a foreign file eats the last byte of a tmpfs", run: full::foreign_tmpfs },
    Fault {
        name: "F1-foreign-ext4",
        what: "a foreign file eats the last byte of an ext4 image",
        run: full::foreign_ext4,
    },
    Fault { name: "F2-once", what: "one fdatasync fails with EIO", run: inject::flush_once },
    Fault { name: "F2-ever", what: "every fdatasync fails with EIO from the n-th on", run: inject::flush_forever },
    Fault { name: "F3-eio", what: "one write fails with EIO", run: inject::write_once },
    Fault {
        name: "F3-enospc",
        what: "every write fails with ENOSPC from the n-th on",
        run: inject::write_without_room,
    },
    Fault { name: "F3-lie", what: "one write claims 512 bytes and writes nothing", run: inject::write_lies },
    Fault { name: "F5", what: "a read fails with EIO while the broker recovers", run: inject::read_fails },
    Fault { name: "D2", what: "death at the n-th system call of a script, for each n", run: sweep::sweep },
    Fault { name: "F6", what: "one bit of a stopped broker's data directory is flipped", run: damage::flip },
    Fault {
        name: "F7",
        what: "a file of the data directory is cut, missing, swapped, doubled or stale",
        run: damage::spoil,
    },
    Fault { name: "D3", what: "power cuts: what was not flushed is gone, wholly or in part", run: power::cut },
    Fault { name: "D6", what: "each confirm is held against the flushes of the disk", run: power::audit },
    Fault { name: "F2-lost", what: "one flush fails and its bytes are lost, then the power", run: power::flush_loses },
    Fault { name: "F3-short", what: "every other write is short", run: power::short_writes },
    Fault { name: "F4", what: "every flush takes 200 ms", run: power::slow },
    Fault { name: "D5", what: "the last write of the log is cut at every length", run: torn::tear },
    Fault { name: "D8", what: "death while queues are declared and deleted", run: objects::kill },
    Fault { name: "F8", what: "128 MiB of memory and a queue that grows", run: limits::memory },
    Fault { name: "F8-set", what: "the same with the limit told to the broker", run: limits::memory_set },
    Fault { name: "F9", what: "256 file descriptors and more connections than that", run: limits::descriptors },
    Fault { name: "F10", what: "the process is stopped for some seconds under load", run: limits::stopped },
    Fault { name: "F13-gone", what: "the disk answers everything with EIO, then the power is cut", run: power::gone },
    Fault { name: "F13-detached", what: "the mount of the data directory is detached", run: gone::detached },
];

/// Why a fault has no figure.
#[derive(Debug)]
enum Stop {
    /// This machine does not permit it.
    Skipped(String),
    /// A promise was broken, or the fault could not be made.
    Failed(String),
}

impl From<String> for Stop {
    fn from(text: String) -> Self {
        Self::Failed(text)
    }
}

/// What a run of one fault is given.
struct Scene {
    seed: u64,
    count: Option<u64>,
    /// The broker's executable.
    source: PathBuf,
    /// An empty place to work in, which is removed if all goes well.
    folder: PathBuf,
}

/// Runs the faults that were asked for.
///
/// # Errors
/// When a promise is broken, or there is no such fault.
pub(crate) fn run(root: &Path, options: &Options) -> Result<(), String> {
    if options.names.iter().any(|name| name == "list") {
        FAULTS.iter().for_each(|fault| println!("{:16} {}", fault.name, fault.what));
        return Ok(());
    }
    let chosen = choose(&options.names)?;
    let seed = options.seed.unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.map_or(1, |time| time.as_nanos() as u64 % 1_000_000)
    });
    let commit = match &options.commit {
        Some(commit) => commit.clone(),
        None => commits::commit(root)?,
    };
    let source = match &options.binary {
        Some(path) => path.clone(),
        None => server::build(root, None)?,
    };
    let (mut passed, mut skipped, mut failed) = (0, 0, 0);
    for fault in chosen {
        let begin = Instant::now();
        let name = format!("{}-{seed}-{}", fault.name, std::process::id());
        let folder = server::target_folder(root).join("fault").join(name);
        let scene = Scene { seed, count: options.count, source: source.clone(), folder };
        match (fault.run)(&scene) {
            Ok(figure) => {
                passed += 1;
                println!("{} passed in {:.1} s, seed {seed}: {figure}", fault.name, begin.elapsed().as_secs_f64());
                remove(&scene.folder);
                if options.ledger {
                    ledger::append(root, &commit, fault.name, seed, &figure)?;
                }
            }
            Err(Stop::Skipped(why)) => {
                skipped += 1;
                println!("{} SKIPPED: {}", fault.name, why.lines().next().unwrap_or_default());
                remove(&scene.folder);
            }
            Err(Stop::Failed(why)) => {
                failed += 1;
                let lines: Vec<&str> = why.lines().collect();
                let shown = lines[..lines.len().min(REPORTED)].join("\n  ");
                println!("{} FAILED, seed {seed}, kept {}: {shown}", fault.name, scene.folder.display());
                if options.ledger {
                    let figure = format!("**FAILED**: {}", lines.first().unwrap_or(&""));
                    ledger::append(root, &commit, fault.name, seed, &figure)?;
                }
            }
        }
    }
    println!("faults: {passed} passed, {skipped} skipped, {failed} failed");
    if failed > 0 { Err(format!("{failed} faults broke something that must not break")) } else { Ok(()) }
}

/// The faults with these names.
fn choose(names: &[String]) -> Result<Vec<&'static Fault>, String> {
    let mut chosen = Vec::new();
    for name in names {
        let fits = |fault: &&Fault| {
            let rest = fault.name.strip_prefix(name.as_str());
            name == "all" || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        let exact: Vec<&Fault> = FAULTS.iter().filter(|fault| fault.name == name).collect();
        let found = if exact.is_empty() { FAULTS.iter().filter(fits).collect() } else { exact };
        if found.is_empty() {
            return Err(format!("there is no fault `{name}`; `cargo xtask fault list` shows them"));
        }
        chosen.extend(found);
    }
    Ok(chosen)
}

/// Clears up behind a run. What can't be removed is only in the way.
fn remove(folder: &Path) {
    if let Err(error) = std::fs::remove_dir_all(folder)
        && folder.exists()
    {
        eprintln!("cannot remove {}: {error}", folder.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_whole_or_end_at_a_dash() {
        let names = |asked: &str| choose(&[asked.to_owned()]).map(|found| found.len()).ok();
        assert_eq!(names("F1-foreign"), Some(1));
        assert!(names("F1").is_some_and(|count| count > 2));
        assert_eq!(names("F"), None);
        assert_eq!(names("all"), Some(FAULTS.len()));
        for (number, fault) in FAULTS.iter().enumerate() {
            assert!(FAULTS[..number].iter().all(|other| other.name != fault.name), "{} is there twice", fault.name);
        }
    }
}
