//! System calls that fail, by strace's injection into the serving process: F2 (a flush fails), F3
//! (a write fails, has no room, or lies), F5 (a read fails).
//!
//! strace counts the calls of each thread for itself, so *the n-th call* is that of the first
//! thread that gets there.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use super::mount::run;
use super::rig::{Rig, demand};
use super::{Scene, Stop};
use crate::server::{Launch, Sizes, Started};

/// How often the fault is made if nothing else is said.
const ROUNDS: u64 = 5;
/// The n of the n-th call, from and to.
const CALLS: (u64, u64) = (10, 300);
/// How long a round lasts at most; the load makes more calls than the largest n in that time.
const ROUND: Duration = Duration::from_secs(20);
/// How long the load goes on after a lie that may go unnoticed.
const LYING: Duration = Duration::from_secs(2);
/// The exit code of a broker that cannot write its log any more.
const CANNOT_WRITE: i32 = 74;
/// How a drain fails that finds nothing wrong but a queue that gives no more.
const STUCK: &str = "the drain is stuck";
/// What the broker says of a queue that it has stopped, with its name.
const UNREADABLE: &str = "that can't be read";
/// The exit code of a broker that finds damage in its log.
const DAMAGED: i32 = 65;

pub(super) fn flush_once(scene: &Scene) -> Result<String, Stop> {
    fail_stop(scene, "fdatasync:error=EIO", "")
}

pub(super) fn flush_forever(scene: &Scene) -> Result<String, Stop> {
    fail_stop(scene, "fdatasync:error=EIO", "+")
}

pub(super) fn write_once(scene: &Scene) -> Result<String, Stop> {
    fail_stop(scene, "pwrite64:error=EIO", "")
}

pub(super) fn write_without_room(scene: &Scene) -> Result<String, Stop> {
    fail_stop(scene, "pwrite64:error=ENOSPC", "+")
}

/// What becomes the server with a fault injected: `inject` as strace takes it.
pub(super) fn strace(folder: &Path, inject: &str) -> Result<Vec<String>, Stop> {
    let log = folder.join("strace");
    let trace = format!("trace={}", inject.split(':').next().unwrap_or_default());
    run("strace", &["-f", "-qq", "-o", "/dev/null", "true"]).map_err(Stop::Skipped)?;
    // With -D the server is our child, and strace its own.
    let words = ["strace", "-D", "-f", "-qq", "-o", &log.to_string_lossy(), "-e", &trace, "-e"];
    let mut words: Vec<String> = words.iter().map(ToString::to_string).chain([format!("inject={inject}")]).collect();
    // The filter stops the server only at the calls that matter, but where it stops it no signal
    // can be injected.
    if !inject.contains(":signal=") {
        words.insert(1, "--seccomp-bpf".to_owned());
    }
    Ok(words)
}

/// A failure after which nothing may be confirmed: the broker ends by itself with its exit code,
/// and what it had confirmed is there.
fn fail_stop(scene: &Scene, inject: &str, from_then_on: &str) -> Result<String, Stop> {
    let mut rig = Rig::new(scene)?;
    let plain = Launch::plain(Sizes::Small);
    rig.declare(&plain)?;
    let rounds = scene.count.unwrap_or(ROUNDS);
    let mut slowest = Duration::ZERO;
    for round in 1..=rounds {
        let when = rig.random.within(CALLS.0..=CALLS.1);
        let wrapper = strace(&scene.folder, &format!("{inject}:when={when}{from_then_on}"))?;
        let begin = Instant::now();
        let mut server = rig.program.start(&Launch { wrapper, ..plain.clone() })?;
        let ended = match server.wait(rig.stage.ports) {
            Started::Ended(status) => Some(status),
            _ => rig.play(&mut server, || begin.elapsed() > ROUND)?,
        };
        slowest = slowest.max(begin.elapsed());
        let what = || rig.with_log(format!("round {round}, {inject} at call {when}: the broker ended with {ended:?}"));
        demand(ended.and_then(|status| status.code()) == Some(CANNOT_WRITE), what)?;
        rig.judge(&plain).map_err(|error| format!("round {round}, {inject} at call {when}: {error}"))?;
    }
    let confirmed = rig.stage.checker().counts().confirmed;
    Ok(format!("{rounds} times exit code {CANNOT_WRITE}, restarted; {confirmed} confirmed, 0 lost"))
}

/// A write that claims 512 bytes and wrote nothing. It can't be noticed at once. A restart must
/// notice it, or the queue that needs what is missing, or nothing is missing.
pub(super) fn write_lies(scene: &Scene) -> Result<String, Stop> {
    let rounds = scene.count.unwrap_or(ROUNDS);
    let (mut refused, mut stopped, mut harmless) = (0, 0, 0);
    for round in 1..=rounds {
        let seed = scene.seed.wrapping_add(round);
        let part =
            Scene { seed, count: None, source: scene.source.clone(), folder: scene.folder.join(round.to_string()) };
        let mut rig = Rig::new(&part)?;
        let plain = Launch::plain(Sizes::Small);
        rig.declare(&plain)?;
        let when = rig.random.within(CALLS.0..=CALLS.1);
        let wrapper = strace(&part.folder, &format!("pwrite64:retval=512:when={when}"))?;
        let mut server = rig.start(&Launch { wrapper, ..plain.clone() })?;
        let begin = Instant::now();
        let ended = rig.play(&mut server, || begin.elapsed() > LYING)?;
        demand(ended.is_none(), || rig.with_log(format!("round {round}: the broker ended with {ended:?}")))?;
        let mut server = rig.program.start(&plain)?;
        match server.wait(rig.stage.ports) {
            Started::Ended(status) if is_refusal(status) => refused += 1,
            _ => {
                server.kill()?;
                match rig.judge(&plain) {
                    Ok(()) => harmless += 1,
                    Err(error) if stopped_by_name(&rig, &error) => stopped += 1,
                    Err(error) => {
                        let what = format!("round {round}, a lie at write {when}: {error}");
                        return Err(Stop::Failed(rig.with_log(what)));
                    }
                }
            }
        }
    }
    Ok(format!(
        "{rounds} writes of 512 bytes that never happened: {refused} refused at the start, {stopped} stopped a queue by name, \
         {harmless} harmless"
    ))
}

/// Whether a broker has refused to start because its data is damaged.
pub(super) fn is_refusal(status: ExitStatus) -> bool {
    status.code() == Some(DAMAGED)
}

/// Whether a queue gives nothing any more because the broker has said that it stops there.
pub(super) fn stopped_by_name(rig: &Rig, error: &str) -> bool {
    error.starts_with(STUCK) && rig.program.log_tail().contains(UNREADABLE)
}

/// A read that fails while the broker recovers: it ends and says so; without the fault it serves.
pub(super) fn read_fails(scene: &Scene) -> Result<String, Stop> {
    let mut rig = Rig::new(scene)?;
    let plain = Launch::plain(Sizes::Small);
    let mut server = rig.start_new(&plain)?;
    let begin = Instant::now();
    rig.play(&mut server, || begin.elapsed() > LYING)?;
    let rounds = scene.count.unwrap_or(ROUNDS);
    let mut failed = 0;
    for round in 1..=rounds {
        let inject = format!("pread64:error=EIO:when={}", rig.random.within(1..=8));
        let mut wrapper = strace(&scene.folder, &inject)?;
        // Of the log only: the program and its libraries are read as well.
        for path in log_files(&rig.program.data())? {
            wrapper.extend(["-P".to_owned(), path.to_string_lossy().into_owned()]);
        }
        let mut server = rig.program.start(&Launch { wrapper, ..plain.clone() })?;
        match server.wait(rig.stage.ports) {
            Started::Ended(status) if status.code() == Some(CANNOT_WRITE) => failed += 1,
            // It reads less than that at its start.
            Started::Ready(_) => server.kill()?,
            other => return Err(Stop::Failed(rig.with_log(format!("round {round}: {other:?}")))),
        }
    }
    rig.judge(&plain)?;
    let confirmed = rig.stage.checker().counts().confirmed;
    Ok(format!("{failed} of {rounds} starts ended with exit code {CANNOT_WRITE}; then {confirmed} confirmed, 0 lost"))
}

/// The files of the log in a data directory.
pub(super) fn log_files(data: &Path) -> Result<Vec<PathBuf>, String> {
    let folder = data.join("wal");
    let entries = std::fs::read_dir(&folder).map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    Ok(files)
}
