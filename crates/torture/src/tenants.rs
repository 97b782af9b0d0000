//! What an ordinary tenant can do to the others, measured by hand: while each attack runs, another
//! user's round trips, the memory of the process, and what the broker counts of it.
//!
//! Each attack has a broker of its own on loopback. The neighbour plays alone first, then beside
//! the attack, then alone once more. The attackers' threads give way to the broker and the
//! neighbour, as if they were other machines.

mod attacks;
mod figure;
mod house;
mod neighbour;
mod peer;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::gauge;
use crate::{ledger as commits, server};
use attacks::{ATTACKS, Attack, Ground};
use figure::Figure;
use house::{House, Sample};
use neighbour::{Neighbour, Part};

/// Which attacks to make, and how.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Attacks whose names begin so: `A7` is all of its kinds. All, if not given.
    #[arg(long)]
    attack: Option<String>,
    /// Threads of the broker for connections; each attack is made with each number.
    #[arg(long, value_delimiter = ',', default_value = "1,3")]
    io_threads: Vec<u64>,
    /// How long each attack lasts when what it takes is there.
    #[arg(long, default_value_t = 15)]
    seconds: u64,
    /// The broker's `memory.limit` in MiB.
    #[arg(long, default_value_t = 256)]
    memory: u64,
    /// The broker to start; built if not given. Figures are of a release build.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// The commit that `--binary` was built from; the one that is checked out if not given.
    #[arg(long)]
    commit: Option<String>,
    /// Append the rows to docs/ledger/tenants.md.
    #[arg(long)]
    ledger: bool,
}

/// How long the neighbour plays alone, before and after. The first second is not measured.
const QUIET: Duration = Duration::from_secs(6);
const WARM_UP: Duration = Duration::from_secs(1);
const MIB: u64 = 1 << 20;
/// The default of the time that a log-in may take: the broker is attacked as users have it.
const DEFAULT_LOGIN: &str = "10s";
/// The queue of the neighbour.
const QUEUE: &str = "other.queue";
/// How far the attackers' threads give way.
const NICE: &str = "5";

/// Makes the attacks and prints a row for each.
///
/// # Errors
/// When one can't be made, or a bound is missed.
pub(crate) fn run(root: &Path, options: &Options) -> Result<(), String> {
    let begin = options.attack.as_deref().unwrap_or_default();
    let chosen: Vec<&Attack> = ATTACKS.iter().filter(|attack| is_meant(attack.name, begin)).collect();
    if chosen.is_empty() {
        let names: Vec<_> = ATTACKS.iter().map(|attack| attack.name).collect();
        return Err(format!("there is no attack '{begin}', only {}", names.join(", ")));
    }
    let commit = options.commit.clone().map_or_else(|| commits::commit(root), Ok)?;
    let source = options.binary.clone().map_or_else(|| server::build(root, None), Ok)?;
    println!("{}", figure::HEAD);
    let mut missed = 0;
    for attack in chosen {
        for threads in &options.io_threads {
            let folder = house::folder(root, attack.name, *threads);
            let figure = measure(attack, *threads, options, &source, &folder)?;
            println!("{}", figure.row(&commit));
            println!("  {} ({})\n  did: {}", attack.name, attack.what, figure.tally);
            println!("  {}", figure.apart());
            figure.told.iter().for_each(|line| println!("  {line}"));
            missed += usize::from(!figure.missed().is_empty());
            if options.ledger {
                figure.append(root, &commit)?;
            }
            server::remove(&folder);
        }
    }
    if missed > 0 { Err(format!("{missed} rows miss a bound")) } else { Ok(()) }
}

/// Whether an attack of this name is meant: `A1` does not mean `A10`.
fn is_meant(name: &str, wanted: &str) -> bool {
    wanted.is_empty() || name == wanted || name.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('-'))
}

/// Makes one attack on a new broker.
fn measure(attack: &Attack, threads: u64, options: &Options, source: &Path, folder: &Path) -> Result<Figure, String> {
    let limit = ("HERMOD_MEMORY_LIMIT", format!("{}MiB", options.memory));
    let login = (server::LOGIN.0, DEFAULT_LOGIN.to_owned());
    let settings = attack.settings.iter().map(|(name, value)| (*name, (*value).to_owned()));
    let settings: Vec<_> = settings.chain([limit, login]).collect();
    let mut house = House::start(source, folder, threads, &settings, attack.tag)?;
    let ground = Ground::new(house.amqp(), house.http(), Duration::from_secs(options.seconds));
    let played = play(&house, attack, &ground);
    let ended = house.ended();
    let Played { quiet, during, parts, after, samples, begin, trouble } = played?;
    let base = samples.iter().rev().find(|(at, _)| *at < begin).map_or(Sample::default(), |(_, sample)| *sample);
    let top = samples.iter().map(|(_, sample)| *sample).max_by_key(|sample| sample.resident).unwrap_or_default();
    Ok(Figure {
        attack: attack.name,
        threads,
        quiet,
        during,
        parts,
        after,
        peak: gauge::peak_resident(house.process()).unwrap_or(top.resident),
        limit: options.memory * MIB,
        base,
        top,
        long_turns: house::long_turns(house.http()).unwrap_or_default(),
        tally: ground.tally(),
        trouble: trouble.into_iter().chain(ended).collect(),
        told: house.long_turns_told(),
        load: load(),
    })
}

/// What one attack has shown.
struct Played {
    quiet: neighbour::Times,
    during: neighbour::Times,
    /// The same of confirms and deliveries alone.
    parts: [neighbour::Times; 2],
    after: neighbour::Times,
    samples: Vec<(Instant, Sample)>,
    /// When the attack began.
    begin: Instant,
    trouble: Vec<String>,
}

fn play(house: &House, attack: &Attack, ground: &Ground) -> Result<Played, String> {
    let (neighbour, over) = (Neighbour::default(), AtomicBool::new(false));
    let samples = Mutex::new(Vec::new());
    let (process, http, amqp) = (house.process(), house.http(), house.amqp());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            house::watch(process, http, &over, |at, sample| {
                samples.lock().unwrap_or_else(PoisonError::into_inner).push((at, sample));
            });
        });
        let playing = scope.spawn(|| neighbour.play(amqp, house::OTHER, QUEUE));
        std::thread::sleep(QUIET);
        let begin = Instant::now();
        let attacking = scope.spawn(|| {
            give_way();
            (attack.run)(ground)
        });
        let attacked = attacking.join().unwrap_or_else(|_| Err("the attack panicked".to_owned()));
        let end = Instant::now();
        std::thread::sleep(QUIET);
        let last = Instant::now();
        let waiting = neighbour.waiting();
        neighbour.stop();
        let played = playing.join().unwrap_or_else(|_| Err("the neighbour panicked".to_owned()));
        over.store(true, Ordering::SeqCst);
        let trouble = [attacked.map_err(|error| format!("the attack ended: {error}")), played];
        Ok(Played {
            quiet: neighbour.times(Part::Whole, begin - QUIET + WARM_UP, begin),
            parts: [Part::Confirm, Part::Delivery].map(|part| neighbour.times(part, begin, end)),
            during: neighbour.times(Part::Whole, begin, end),
            after: neighbour.times(Part::Whole, end, last),
            samples: std::mem::take(&mut samples.lock().unwrap_or_else(PoisonError::into_inner)),
            begin,
            trouble: trouble
                .into_iter()
                .filter_map(Result::err)
                .chain((waiting > 100).then(|| format!("{waiting} messages were still under way at the end")))
                .collect(),
        })
    })
}

/// Lets this thread, and those that it starts, give way to others. Where that can't be, it competes
/// with them.
fn give_way() {
    let thread = std::fs::read_link("/proc/thread-self").unwrap_or_default();
    if let Some(number) = thread.file_name() {
        let _ = Command::new("renice").args(["-n", NICE, "-p"]).arg(number).output();
    }
}

/// The machine's load over the last minute.
fn load() -> String {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split_whitespace().next().unwrap_or("?").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_its_kinds_and_no_longer_number() {
        assert!(is_meant("A7-small", "A7") && is_meant("A7-small", "A7-small") && is_meant("A1", ""));
        assert!(!is_meant("A10", "A1") && !is_meant("A7", "A7-small"));
        let mut names: Vec<_> = ATTACKS.iter().map(|attack| attack.name).collect();
        names.dedup();
        assert_eq!(names.len(), ATTACKS.len());
    }
}
