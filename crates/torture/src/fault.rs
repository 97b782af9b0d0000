//! Faults as commands: each breaks something real under a running broker (a full disk, a failing
//! flush, a flipped bit) and holds the broker to its promises with the checker of the crash
//! harness.
//!
//! Each fault is bounded in time and prints one line with its figure. What this machine does not
//! permit is skipped, never passed in silence.

mod catalog;
mod clock;
mod copy;
mod crowd;
mod damage;
mod delays;
mod disk;
mod filesystem;
mod full;
mod gone;
mod group;
mod hand;
mod inject;
mod large;
mod ledger;
mod limits;
mod list;
mod mount;
mod names;
mod objects;
mod power;
mod rig;
mod script;
mod store;
mod sweep;
mod torn;

use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::{ledger as commits, server};

/// What to run.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Faults by name, all whose names begin so with a dash behind (`F1`), or `all`; `list` shows
    /// them.
    #[arg(required = true)]
    names: Vec<String>,
    /// The decisions of a run can be made again from its seed; one is chosen if none is given.
    #[arg(long)]
    seed: Option<u64>,
    /// How often the fault is made, for those that are made again and again; for others how much
    /// passes.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// The broker to start; built if not given.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// The commit that `--binary` was built from, for the ledger; the one that is checked out if
    /// not given.
    #[arg(long)]
    commit: Option<String>,
    /// Append the runs to docs/ledger/faults.md.
    #[arg(long)]
    ledger: bool,
}

/// Lines of a failure that are shown.
const REPORTED: usize = 12;

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
        list::FAULTS.iter().for_each(|fault| println!("{:16} {}", fault.name, fault.what));
        return Ok(());
    }
    let chosen = list::choose(&options.names)?;
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
                server::remove(&scene.folder);
                if options.ledger {
                    ledger::append(root, &commit, fault.name, seed, &figure)?;
                }
            }
            Err(Stop::Skipped(why)) => {
                skipped += 1;
                println!("{} SKIPPED: {}", fault.name, why.lines().next().unwrap_or_default());
                server::remove(&scene.folder);
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
