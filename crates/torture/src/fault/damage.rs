//! F6 and F7, damaged data directories: one bit flipped, a file cut, missing, swapped, doubled or
//! stale. A broker refuses to start, or stops the queues that miss messages by name, or everything
//! confirmed is there, byte for byte. A start with less or with something else is the failure.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::catalog::Catalog;
use super::hand::Publisher;
use super::inject::{is_refusal, stopped_by_name};
use super::mount::Mount;
use super::rig::Rig;
use super::{Scene, Stop, script};
use crate::checker::Checker;
use crate::random::Random;
use crate::server::Started;
use crate::talk::Protocol;
use crate::topology::{FAN, PLAIN, straight};

/// How often a directory is damaged if nothing else is said.
const FLIPS: u64 = 300;
const SPOILT: u64 = 100;
/// An idle broker has proven by then that all before was flushed.
pub(super) const IDLE: Duration = Duration::from_millis(500);
/// Room for the data directory in memory, where it is put if that is permitted: its flushes are not
/// the point here.
const ROOM: u64 = 64 << 20;
/// Messages that lie in the queues when the broker stops.
const LEFT: u64 = 20;
/// Failures that are described; more are counted.
const DESCRIBED: usize = 5;

/// The files of a data directory, with their names in it.
pub(super) type Files = Vec<(PathBuf, Vec<u8>)>;

/// Does damage, and says which.
type Spoil = fn(&mut Random, files: &mut Files, older: &Files) -> Spoilt;

/// What was done.
struct Spoilt {
    what: String,
    /// A file was replaced by an earlier state of its own generation: a directory that once was
    /// like that, which nothing in it can tell from the truth.
    rolled_back: bool,
}

/// Bytes at the beginning of a log file that say whose it is and which generation.
const HEADER: usize = 32;

pub(super) fn flip(scene: &Scene) -> Result<String, Stop> {
    damage(scene, scene.count.unwrap_or(FLIPS), flip_bit)
}

pub(super) fn spoil(scene: &Scene) -> Result<String, Stop> {
    damage(scene, scene.count.unwrap_or(SPOILT), spoil_file)
}

/// A stopped broker's directory and what must be in it.
pub(super) struct Original {
    pub(super) files: Files,
    /// What the directory held earlier.
    pub(super) older: Files,
    pub(super) checker: Checker,
    pub(super) catalog: Catalog,
}

fn damage(scene: &Scene, times: u64, spoil: Spoil) -> Result<String, Stop> {
    let mut rig = Rig::new(scene)?;
    let data = rig.program.data();
    let _mount = Mount::tmpfs(&data, ROOM).ok();
    let original = original(&rig, &data)?;
    whole(&rig, &original)?;
    let (mut refused, mut stopped, mut harmless, mut rolled_back, mut broken) = (0, 0, 0, 0, Vec::new());
    for time in 1..=times {
        let mut files = original.files.clone();
        let spoilt = spoil(&mut rig.random, &mut files, &original.older);
        restore(&data, &files)?;
        match start(&rig, &original) {
            Ok(Start::Refused) => refused += 1,
            Ok(Start::Stopped) => stopped += 1,
            Ok(Start::Harmless) => harmless += 1,
            Err(_) if spoilt.rolled_back => rolled_back += 1,
            Err(error) => {
                broken.push(format!("{time}: {}: {}", spoilt.what, error.lines().next().unwrap_or_default()));
            }
        }
    }
    let mut figure = format!(
        "{times} damaged directories: {refused} refused by name, {stopped} stopped a queue by name, {harmless} harmless"
    );
    if rolled_back > 0 {
        figure += &format!(", {rolled_back} went back with the newest file to an earlier state");
    }
    if broken.is_empty() {
        return Ok(format!("{figure}, 0 served with something missing or wrong"));
    }
    let count = broken.len();
    broken.truncate(DESCRIBED);
    Err(Stop::Failed(format!("{figure}, {count} BROKEN:\n{}", broken.join("\n"))))
}

/// A directory without damage is served whole, again and again: else no damage would mean anything.
fn whole(rig: &Rig, original: &Original) -> Result<(), Stop> {
    let data = rig.program.data();
    for _ in 0..2 {
        restore(&data, &original.files)?;
        if !matches!(start(rig, original)?, Start::Harmless) {
            return Err(Stop::Failed("the directory is not served whole before it is damaged".to_owned()));
        }
    }
    restore(&data, &original.files)?;
    Ok(())
}

/// Makes a directory with messages in its queues, and stops the broker behind it when it is idle.
fn original(rig: &Rig, data: &Path) -> Result<Original, Stop> {
    let launch = script::launch();
    let mut catalog = Catalog::default();
    let mut server = rig.start(&launch)?;
    script::run(&rig.stage, &mut catalog).map_err(|error| error.to_string())?;
    rig.kill(&mut server)?;
    let older = read(data)?;
    let mut server = rig.start(&launch)?;
    for (route, protocol) in [(straight(PLAIN), Protocol::Amqp), (FAN, Protocol::Stomp)] {
        let publisher = Publisher::open(&rig.stage, protocol);
        let published = publisher.and_then(|mut publisher| publisher.publish_all(route, LEFT, 900, 3));
        published.map_err(|error| error.to_string())?;
    }
    std::thread::sleep(IDLE);
    rig.kill(&mut server)?;
    let checker = rig.stage.checker().clone();
    Ok(Original { files: read(data)?, older, checker, catalog })
}

/// What came of a start on damaged files, if no promise was broken.
pub(super) enum Start {
    Refused,
    /// A queue stopped at a message that is lost, and the broker said so.
    Stopped,
    Harmless,
}

/// Starts the broker on damaged files and looks at everything.
pub(super) fn start(rig: &Rig, original: &Original) -> Result<Start, String> {
    let mut server = rig.program.start(&script::launch())?;
    match server.wait(rig.stage.ports) {
        Started::Ended(status) if is_refusal(status) => {
            let log = rig.program.log_tail();
            let last = log.lines().next_back().unwrap_or_default();
            let named = ["wal", "FORMAT"].iter().any(|name| last.contains(name));
            if named { Ok(Start::Refused) } else { Err(format!("the refusal names no file: {last}")) }
        }
        Started::Ready(_) => {
            *rig.stage.checker() = original.checker.clone();
            original.catalog.check(&rig.stage)?;
            let settled = rig.settle();
            server.kill()?;
            match settled {
                Ok(()) => Ok(Start::Harmless),
                Err(error) if stopped_by_name(rig, &error) => Ok(Start::Stopped),
                Err(error) => Err(error),
            }
        }
        other => Err(format!("the broker neither served nor refused by name: {other:?}")),
    }
}

/// Flips one bit: in a file chosen by its size, or, as often, in any file.
fn flip_bit(random: &mut Random, files: &mut Files, _: &Files) -> Spoilt {
    let chosen = choose(random, files);
    let (name, bytes) = &mut files[chosen];
    let bit = random.below(bytes.len() as u64 * 8);
    bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
    Spoilt { what: format!("bit {} of byte {} of {}", bit % 8, bit / 8, name.display()), rolled_back: false }
}

/// Spoils a whole file.
fn spoil_file(random: &mut Random, files: &mut Files, older: &Files) -> Spoilt {
    let one = choose(random, files);
    let other = choose(random, files);
    let name = files[one].0.display().to_string();
    let mut rolled_back = false;
    let what = match random.below(5) {
        0 => {
            let length = random.below(files[one].1.len() as u64);
            files[one].1.truncate(length as usize);
            format!("{name} cut at {length}")
        }
        1 => {
            files.remove(one);
            format!("{name} missing")
        }
        2 => {
            let bytes = std::mem::take(&mut files[other].1);
            let bytes = std::mem::replace(&mut files[one].1, bytes);
            files[other].1 = bytes;
            format!("{name} and {} swapped", files[other].0.display())
        }
        3 => {
            files[other].1 = files[one].1.clone();
            format!("{name} copied over {}", files[other].0.display())
        }
        _ => {
            let earlier = older.iter().find(|(older, _)| *older == files[one].0);
            let earlier = earlier.map_or_else(Vec::new, |(_, bytes)| bytes.clone());
            rolled_back = earlier.len() > HEADER && earlier.get(..HEADER) == files[one].1.get(..HEADER);
            files[one].1 = earlier;
            format!("{name} as it was earlier")
        }
    };
    Spoilt { what, rolled_back }
}

/// One of the files that are not empty: by size, or any.
fn choose(random: &mut Random, files: &Files) -> usize {
    let total: u64 = files.iter().map(|(_, bytes)| bytes.len() as u64).sum();
    if random.chance(50) {
        let mut at = random.below(total);
        for (number, (_, bytes)) in files.iter().enumerate() {
            match at.checked_sub(bytes.len() as u64) {
                Some(rest) => at = rest,
                None => return number,
            }
        }
    }
    let filled: Vec<usize> = (0..files.len()).filter(|number| !files[*number].1.is_empty()).collect();
    *random.pick(&filled)
}

/// Reads all files of a data directory.
pub(super) fn read(data: &Path) -> Result<Files, String> {
    let mut found = Vec::new();
    for folder in [PathBuf::new(), PathBuf::from("wal"), PathBuf::from("cold")] {
        let path = data.join(&folder);
        if !path.exists() {
            continue;
        }
        let entries = std::fs::read_dir(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        for entry in entries.flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_file()) {
                let bytes = std::fs::read(entry.path());
                let bytes = bytes.map_err(|error| format!("cannot read {}: {error}", entry.path().display()))?;
                found.push((folder.join(entry.file_name()), bytes));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Makes the data directory hold these files and no others.
pub(super) fn restore(data: &Path, files: &Files) -> Result<(), String> {
    for (name, _) in read(data)? {
        if files.iter().all(|(wanted, _)| *wanted != name) {
            let path = data.join(name);
            std::fs::remove_file(&path).map_err(|error| format!("cannot remove {}: {error}", path.display()))?;
        }
    }
    for (name, bytes) in files {
        let path = data.join(name);
        std::fs::write(&path, bytes).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(())
}
