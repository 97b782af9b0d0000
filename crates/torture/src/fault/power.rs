//! Faults of a disk that is ours from the kernel down: D3 (a power cut), D6 (no confirm before its
//! flush), F2 (a failed flush whose bytes are lost), F3 (short writes), F4 (slow flushes) and F13
//! (everything fails from one moment on).

use std::time::{Duration, Instant};

use super::disk::Trouble;
use super::filesystem::MountedDisk;
use super::hand::Publisher;
use super::rig::{Rig, demand};
use super::{Scene, Stop};
use crate::server::{Launch, Sizes};
use crate::talk::{Control, Protocol};
use crate::topology::{FAN, PLAIN, straight};

/// Cycles if nothing else is said.
const CUTS: u64 = 10;
const ROUNDS: u64 = 3;
/// How long the load lasts before the power is cut, from and to, in milliseconds.
const LOAD: (u64, u64) = (200, 1500);
/// How much of 100 unflushed sectors and names survive a cut: nothing, or some in any order.
const KEPT: [u64; 4] = [0, 10, 50, 95];
/// How long a flush takes at most while the power may be cut, in microseconds: what waits for it is
/// what can be lost.
const FLUSH: u64 = 8000;
/// The exit code of a broker that cannot write its log any more.
const CANNOT_WRITE: i32 = 74;
/// How long a broker may take to notice that its disk fails.
const NOTICE: Duration = Duration::from_secs(10);
/// Messages of each publisher whose confirms are held against the flushes.
const AUDITED: u64 = 1500;
/// A flush of a slow disk.
const SLOW: Duration = Duration::from_millis(5);
const SLOWER: Duration = Duration::from_millis(200);

/// D3: from one moment on nothing reaches the disk, and what had not been flushed by then is gone,
/// wholly or in part.
pub(super) fn cut(scene: &Scene) -> Result<String, Stop> {
    let mut rig = Rig::new(scene)?;
    let mounted = MountedDisk::mount(&rig.program.data(), Duration::ZERO)?;
    let small = Launch::plain(Sizes::Small);
    rig.declare(&small)?;
    let cycles = scene.count.unwrap_or(CUTS);
    let mut with_loss = 0;
    for cycle in 1..=cycles {
        let mut server = rig.start(&small)?;
        let kept = *rig.random.pick(&KEPT);
        let end = Instant::now() + Duration::from_millis(rig.random.within(LOAD.0..=LOAD.1));
        mounted.disk().flush_takes = Duration::from_micros(rig.random.within(0..=FLUSH));
        let mut sectors = rig.random.fork(cycle);
        let before = mounted.disk().counts.lost;
        let ended = rig.play(&mut server, || {
            let over = Instant::now() > end;
            if over {
                let mut disk = mounted.disk();
                disk.trouble = Trouble::Gone;
                disk.cut(&mut sectors, kept);
            }
            over
        })?;
        // It may have seen the first error before it was killed.
        let expected = ended.is_none_or(|status| status.code() == Some(CANNOT_WRITE));
        demand(expected, || rig.with_log(format!("cycle {cycle}: the broker ended with {ended:?}")))?;
        let mut disk = mounted.disk();
        (disk.trouble, disk.flush_takes) = (Trouble::None, Duration::ZERO);
        with_loss += u64::from(disk.counts.lost > before);
        drop(disk);
        rig.judge(&small).map_err(|error| rig.with_log(format!("cycle {cycle}, {kept} % kept: {error}")))?;
    }
    let counts = mounted.disk().counts;
    let confirmed = rig.stage.checker().counts().confirmed;
    Ok(format!(
        "{cycles} power cuts, {with_loss} of which took {} unflushed sectors and names ({} writes, {} flushes); {confirmed} \
         confirmed, 0 lost",
        counts.lost, counts.writes, counts.flushes
    ))
}

/// F2 and F13: trouble in the middle of the load. The broker ends with its exit code; then the
/// power is cut as well, so that a confirm that should not have been shows as a loss.
fn trouble(scene: &Scene, trouble: Trouble) -> Result<String, Stop> {
    let notice = if trouble == Trouble::Gone { NOTICE } else { NOTICE / 5 };
    let mut rig = Rig::new(scene)?;
    let mounted = MountedDisk::mount(&rig.program.data(), Duration::ZERO)?;
    let small = Launch::plain(Sizes::Small);
    rig.declare(&small)?;
    let rounds = scene.count.unwrap_or(ROUNDS);
    let mut survived = 0;
    for round in 1..=rounds {
        let mut server = rig.start(&small)?;
        let begin = Instant::now() + Duration::from_millis(rig.random.within(LOAD.0..=LOAD.1));
        let mut made = false;
        let ended = rig.play(&mut server, || {
            if !made && Instant::now() > begin {
                mounted.disk().trouble = trouble;
                made = true;
            }
            begin.elapsed() > notice
        })?;
        let what = || {
            let (after, problems) = (begin.elapsed(), rig.stage.problems().join("; "));
            rig.with_log(format!(
                "round {round}: the broker ended with {ended:?} {after:?} after the trouble; {problems}"
            ))
        };
        match ended.map(|status| status.code()) {
            Some(Some(CANNOT_WRITE)) => {}
            // It was a file that is not part of the log yet: that is tried again.
            None if trouble == Trouble::FlushFails && rig.stage.problems().is_empty() => survived += 1,
            _ => return Err(Stop::Failed(what())),
        }
        let mut disk = mounted.disk();
        disk.trouble = Trouble::None;
        disk.cut(&mut rig.random, 0);
        drop(disk);
        rig.judge(&small).map_err(|error| format!("round {round}: {error}"))?;
    }
    let confirmed = rig.stage.checker().counts().confirmed;
    let ended = rounds - survived;
    Ok(format!(
        "{ended} times exit code {CANNOT_WRITE}, {survived} times survived, power cut, restarted; {confirmed} confirmed, 0 lost"
    ))
}

pub(super) fn flush_loses(scene: &Scene) -> Result<String, Stop> {
    trouble(scene, Trouble::FlushFails)
}

pub(super) fn gone(scene: &Scene) -> Result<String, Stop> {
    trouble(scene, Trouble::Gone)
}

/// F3: every other write takes a third of what it is given, which is no error.
pub(super) fn short_writes(scene: &Scene) -> Result<String, Stop> {
    let mut rig = Rig::new(scene)?;
    let mounted = MountedDisk::mount(&rig.program.data(), Duration::ZERO)?;
    mounted.disk().trouble = Trouble::Short;
    let small = Launch::plain(Sizes::Small);
    let mut server = rig.start_new(&small)?;
    let end = Instant::now() + Duration::from_secs(2);
    let ended = rig.play(&mut server, || Instant::now() > end)?;
    demand(ended.is_none(), || rig.with_log(format!("the broker ended with {ended:?}")))?;
    mounted.disk().cut(&mut rig.random, 0);
    rig.judge(&small)?;
    let counts = mounted.disk().counts;
    let confirmed = rig.stage.checker().counts().confirmed;
    Ok(format!("every other of {} writes was short; power cut; {confirmed} confirmed, 0 lost", counts.writes))
}

/// D6: at each confirm, the body of the message has been flushed.
pub(super) fn audit(scene: &Scene) -> Result<String, Stop> {
    let rig = Rig::new(scene)?;
    let mounted = MountedDisk::mount(&rig.program.data(), SLOW)?;
    mounted.disk().audit = Some(rig.stage.run);
    let launch = Launch::plain(Sizes::Small);
    let mut server = rig.start_new(&launch)?;
    let before = mounted.disk().counts.flushes;
    let count = scene.count.unwrap_or(AUDITED);
    let early: Result<u64, String> = std::thread::scope(|scope| {
        let publishers = [
            (Protocol::Amqp, straight(PLAIN), 64, count),
            (Protocol::Stomp, FAN, 64, count),
            (Protocol::Amqp, FAN, 1, count / 20),
        ];
        let threads = publishers.map(|(protocol, route, window, count)| {
            let (rig, mounted) = (&rig, &mounted);
            scope.spawn(move || -> Result<u64, String> {
                let mut publisher = Publisher::open(&rig.stage, protocol).map_err(|error| error.to_string())?;
                let (mut early, mut published) = (0, 0);
                while published < count || publisher.waiting() > 0 {
                    while publisher.waiting() < window && published < count {
                        publisher.publish(route, 200);
                        published += 1;
                    }
                    let confirmed = publisher.exchange().map_err(|error| error.to_string())?;
                    let disk = mounted.disk();
                    early += confirmed.iter().filter(|id| !disk.is_stable(**id)).count() as u64;
                }
                Ok(early)
            })
        });
        threads.map(|thread| thread.join().unwrap_or_else(|_| Err("a thread panicked".to_owned()))).into_iter().sum()
    });
    let early = early?;
    let flushes = mounted.disk().counts.flushes - before;
    let confirmed = rig.stage.checker().counts().confirmed;
    demand(early == 0, || format!("{early} of {confirmed} confirms came before the flush of their messages"))?;
    rig.kill(&mut server)?;
    rig.judge(&launch)?;
    Ok(format!("{confirmed} confirms held against {flushes} flushes of {SLOW:?}: none was early"))
}

/// F4: every flush takes long. Confirms wait for it; a log-in and a heartbeat's worth of answers do
/// not.
pub(super) fn slow(scene: &Scene) -> Result<String, Stop> {
    let mut rig = Rig::new(scene)?;
    let _mounted = MountedDisk::mount(&rig.program.data(), SLOWER)?;
    let small = Launch::plain(Sizes::Small);
    let mut server = rig.start_new(&small)?;
    let (begin, mut slowest, mut asked) = (Instant::now(), Duration::ZERO, 0);
    let mut failed = None;
    let port = rig.stage.ports.amqp;
    let ended = rig.play(&mut server, || {
        let asking = Instant::now();
        // Passive declares of a queue that does not change need no flush.
        match Control::open(port).and_then(|mut control| control.depth_of_all()) {
            Ok(_) => asked += 1,
            Err(error) => failed = Some(error.to_string()),
        }
        slowest = slowest.max(asking.elapsed());
        failed.is_some() || begin.elapsed() > Duration::from_secs(5)
    })?;
    demand(ended.is_none(), || rig.with_log(format!("the broker ended with {ended:?}")))?;
    demand(failed.is_none(), || format!("a log-in beside slow flushes: {failed:?}"))?;
    demand(slowest < NOTICE / 5, || format!("a log-in beside slow flushes took {slowest:?}"))?;
    rig.judge(&small)?;
    let confirmed = rig.stage.checker().counts().confirmed;
    Ok(format!(
        "flushes of {SLOWER:?}; {asked} log-ins with 13 questions each, the slowest {} ms; {confirmed} confirmed, 0 lost",
        slowest.as_millis()
    ))
}
