//! F1, the full disk: publishers are stopped by name before the log has no room, everything that
//! makes room goes on, and publishing resumes by itself. Nothing that was confirmed is lost, also
//! when the broker is killed on a full disk.

use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::hand::{Publisher, Taker};
use super::mount::{Mount, fill};
use super::rig::{Rig, demand, wait_for};
use super::{Scene, Stop};
use crate::server::{Launch, Server, Sizes};
use crate::stage::Stage;
use crate::talk::{Broken, Control, Protocol};
use crate::topology::{PLAIN, straight};

const MIB: u64 = 1 << 20;
const TMPFS: u64 = 64 * MIB;
const EXT4: u64 = 256 * MIB;
/// The bodies that fill the disk.
const BODY: usize = 32 * 1024;
/// Publishes of each connection that wait for a confirm.
const WINDOW: usize = 16;
/// The disk counts as full when no confirm came for so long.
const STILL: Duration = Duration::from_secs(1);
/// How long filling, and how long resuming may take.
const FILLING: Duration = Duration::from_secs(60);
const RESUMING: Duration = Duration::from_secs(20);
/// Messages that are confirmed before a foreign file takes the rest.
const BEFORE_FOREIGN: u64 = 200;
/// Messages that are taken while the disk is full.
const TAKEN: u64 = 20;
/// A queue that is deleted while the disk is full.
const SPARE: &str = "fault.spare";
/// The file of another program, in the data directory's file system.
const FOREIGN: &str = "foreign";

pub(super) fn tmpfs(scene: &Scene) -> Result<String, Stop> {
    own_log(scene, |at| Mount::tmpfs(at, TMPFS))
}

pub(super) fn ext4(scene: &Scene) -> Result<String, Stop> {
    own_log(scene, |at| Mount::new_ext4(&scene.folder.join("image"), at, EXT4))
}

pub(super) fn foreign_tmpfs(scene: &Scene) -> Result<String, Stop> {
    foreign(scene, |at| Mount::tmpfs(at, TMPFS))
}

pub(super) fn foreign_ext4(scene: &Scene) -> Result<String, Stop> {
    foreign(scene, |at| Mount::new_ext4(&scene.folder.join("image"), at, EXT4))
}

/// The log itself fills the disk; consumers make room.
fn own_log(scene: &Scene, mount: impl Fn(&Path) -> Result<Mount, Stop>) -> Result<String, Stop> {
    until_blocked(scene, &Launch::plain(Sizes::Default), mount)
}

/// Publishes into a broker with `place` under its data directory until it is blocked, whatever by;
/// then consumers make room.
fn until_blocked<P>(scene: &Scene, launch: &Launch, place: impl Fn(&Path) -> Result<P, Stop>) -> Result<String, Stop> {
    let rig = Rig::new(scene)?;
    let _place = place(&rig.program.data())?;
    let mut server = rig.start_new(launch)?;
    rig.stage.control(|control| control.declare_extra(SPARE))?;
    let load = Load::default();
    let figure = load.during(&rig, |load| {
        let filled = load.wait_until_blocked(&mut server)?;
        let taken = load.confirmed();
        let login = serves_while_full(&rig, &mut server)?;
        let resumed = load.resumed(&mut server, || {
            let mut taker = Taker::open(&rig.stage, Protocol::Amqp, PLAIN)?;
            // Half of what there is, so that what is killed has something to lose.
            taker.accept(taken / 2)
        })?;
        rig.kill(&mut server)?;
        Ok(format!(
            "publishers blocked after {} messages of {BODY} B in {:.1} s; log-in while full {} ms; publishing again {} ms \
             after the first delivery",
            taken,
            filled.as_secs_f64(),
            login.as_millis(),
            resumed.as_millis()
        ))
    })?;
    rig.judge(launch)?;
    Ok(format!("{figure}; {} confirmed, 0 lost", load.confirmed()))
}

/// Publishes at least `bytes` into a broker without consumers, and kills it: it must have held them
/// all.
pub(super) fn held(scene: &Scene, launch: &Launch, bytes: u64) -> Result<String, Stop> {
    let rig = Rig::new(scene)?;
    let mut server = rig.start_new(launch)?;
    rig.stage.control(|control| control.declare_extra(SPARE))?;
    let load = Load::default();
    let figure = load.during(&rig, |load| {
        let enough = bytes / BODY as u64;
        let took = wait_for(&mut server, FILLING, "enough confirms", || load.confirmed() >= enough)?;
        let login = serves_while_full(&rig, &mut server)?;
        rig.kill(&mut server)?;
        Ok(format!(
            "{enough} messages of {BODY} B taken in {:.1} s; log-in then {} ms",
            took.as_secs_f64(),
            login.as_millis()
        ))
    })?;
    rig.judge(launch)?;
    Ok(format!("{figure}; {} confirmed, 0 lost", load.confirmed()))
}

/// Another program takes the last byte, and gives it back. The broker is killed and started again
/// in between.
fn foreign(scene: &Scene, mount: impl Fn(&Path) -> Result<Mount, Stop>) -> Result<String, Stop> {
    let rig = Rig::new(scene)?;
    let mount = mount(&rig.program.data())?;
    let launch = Launch::plain(Sizes::Default);
    let mut server = rig.start_new(&launch)?;
    rig.stage.control(|control| control.declare_extra(SPARE))?;
    let path = rig.program.data().join(FOREIGN);
    let load = Load::default();
    let (eaten, login, resumed) = load.during(&rig, |load| {
        wait_for(&mut server, FILLING, "enough confirms", || load.confirmed() > BEFORE_FOREIGN)?;
        remove(&path)?;
        let eaten = fill(&path)?;
        load.wait_until_blocked(&mut server)?;
        // What the broker has given back since is eaten as well.
        let eaten = eaten.max(fill(&path)?);
        let login = serves_while_full(&rig, &mut server)?;
        let resumed = load.resumed(&mut server, || remove(&path).map_err(Broken::Refused))?;
        fill(&path)?;
        rig.kill(&mut server)?;
        Ok((eaten, login, resumed))
    })?;
    // Still full: the broker must serve those who make room.
    let mut server = rig.start(&launch)?;
    rig.stage.control(Control::verify)?;
    Taker::open(&rig.stage, Protocol::Stomp, PLAIN)
        .and_then(|mut taker| taker.accept(TAKEN))
        .map_err(|error| format!("consuming after a start on a full disk: {error}"))?;
    rig.kill(&mut server)?;
    remove(&path)?;
    rig.judge(&launch)?;
    drop(mount);
    Ok(format!(
        "{} MiB eaten by a foreign file; log-in while full {} ms; publishing again {} ms after it was removed; killed and \
         served again on a full disk; {} confirmed, 0 lost",
        eaten / MIB,
        login.as_millis(),
        resumed.as_millis(),
        load.confirmed()
    ))
}

/// Removes the foreign file, or the folder of this name in a new file system.
fn remove(path: &Path) -> Result<(), String> {
    let removed = if path.is_dir() { std::fs::remove_dir(path) } else { std::fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("cannot remove {}: {error}", path.display()))
        }
        _ => Ok(()),
    }
}

/// What must go on while the disk is full: log-in, consuming, acknowledging, deleting. Returns how
/// long a log-in took.
fn serves_while_full(rig: &Rig, server: &mut Server) -> Result<Duration, Stop> {
    let begin = Instant::now();
    let mut control = Control::open(rig.stage.ports.amqp).map_err(|error| format!("a log-in while full: {error}"))?;
    let login = begin.elapsed();
    for protocol in [Protocol::Amqp, Protocol::Stomp] {
        let taken = Taker::open(&rig.stage, protocol, PLAIN).and_then(|mut taker| taker.accept(TAKEN));
        taken.map_err(|error| format!("consuming while full over {protocol:?}: {error}"))?;
    }
    control.delete(SPARE).map_err(|error| format!("deleting a queue while full: {error}"))?;
    demand(server.ended().is_none(), || rig.with_log("the broker ended by itself on a full disk".to_owned()))?;
    Ok(login)
}

/// Publishers that fill the disk, and what is known of them.
#[derive(Default)]
struct Load {
    confirmed: AtomicU64,
    blocked: AtomicBool,
    stop: AtomicBool,
    last: Mutex<Option<Instant>>,
}

impl Load {
    /// Runs `act` while the publishers publish, and stops them; whether it killed the broker is its
    /// own affair.
    fn during<T>(&self, rig: &Rig, act: impl FnOnce(&Self) -> Result<T, Stop>) -> Result<T, Stop> {
        std::thread::scope(|scope| {
            for protocol in [Protocol::Amqp, Protocol::Amqp, Protocol::Stomp] {
                scope.spawn(move || {
                    if let Err(broken) = self.publish(&rig.stage, protocol)
                        && !self.stop.load(Ordering::SeqCst)
                    {
                        rig.stage.report("a publisher", &broken);
                    }
                });
            }
            let outcome = act(self);
            self.stop.store(true, Ordering::SeqCst);
            outcome
        })
    }

    fn publish(&self, stage: &Stage, protocol: Protocol) -> Result<(), Broken> {
        let mut publisher = Publisher::open(stage, protocol)?;
        while !self.stop.load(Ordering::SeqCst) {
            while publisher.waiting() < WINDOW {
                publisher.publish(straight(PLAIN), BODY);
            }
            let outcome = publisher.exchange();
            if stage.is_dying() {
                return Ok(());
            }
            let confirmed = outcome?.len() as u64;
            if confirmed > 0 {
                *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
                self.confirmed.fetch_add(confirmed, Ordering::SeqCst);
            }
            if protocol == Protocol::Amqp {
                self.blocked.store(publisher.blocked, Ordering::SeqCst);
            }
        }
        Ok(())
    }

    fn confirmed(&self) -> u64 {
        self.confirmed.load(Ordering::SeqCst)
    }

    /// Waits until the broker has said that it is blocked and has confirmed nothing for a while.
    fn wait_until_blocked(&self, server: &mut Server) -> Result<Duration, String> {
        let still = || {
            let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
            last.is_none_or(|last| last.elapsed() > STILL)
        };
        let waited = wait_for(server, FILLING, "connection.blocked and no confirm", || {
            self.blocked.load(Ordering::SeqCst) && still()
        })?;
        Ok(waited.saturating_sub(STILL))
    }

    /// Makes room by `free`, and waits until the publishers go on by themselves. Returns how long
    /// after that was.
    fn resumed(&self, server: &mut Server, free: impl FnOnce() -> Result<(), Broken>) -> Result<Duration, String> {
        let before = self.confirmed();
        let begin = Instant::now();
        let waiting = std::thread::scope(|scope| {
            let first = scope.spawn(move || {
                while self.confirmed() == before && begin.elapsed() < RESUMING {
                    std::thread::sleep(Duration::from_millis(5));
                }
                begin.elapsed()
            });
            let freed = free().map_err(|error| format!("making room: {error}"));
            let first = first.join().map_err(|_| "a thread panicked".to_owned());
            freed.and(first)
        })?;
        wait_for(server, RESUMING, "publishing again", || self.confirmed() > before + WINDOW as u64)?;
        Ok(waiting)
    }
}
