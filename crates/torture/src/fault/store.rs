//! L3 and L9, what a store may cost: a backlog much larger than the memory for it, and an old
//! message that must not keep the log from being emptied.

use std::time::{Duration, Instant};

use super::group::Group;
use super::hand::{Publisher, Taker};
use super::rig::{Rig, demand};
use super::{Scene, Stop};
use crate::gauge;
use crate::server::{Launch, Sizes};
use crate::talk::{Control, Protocol};
use crate::topology::{PLAIN, straight};

const MIB: u64 = 1 << 20;
/// The memory of the broker that holds a backlog.
const MEMORY: u64 = 128 * MIB;
/// Messages of a backlog if nothing else is said, and their bodies.
const BACKLOG: u64 = 400_000;
const SMALL: usize = 100;
/// Publishes that wait for a confirm.
const WINDOW: usize = 1000;
/// MiB that pass by the oldest message if nothing else is said, and their bodies.
const PASSING: u64 = 1024;
const BODY: usize = 8 * 1024;
/// The log of 8 MiB, and as much again for what was taken out of it.
const ROOM: u64 = 16 * MIB;
/// How often the room is looked at.
const GLANCE: Duration = Duration::from_millis(20);

/// L3: a backlog is taken, survives a kill, and is given back, all with little memory.
pub(super) fn backlog(scene: &Scene) -> Result<String, Stop> {
    let rig = Rig::new(scene)?;
    let group = Group::with_memory(MEMORY)?;
    let launch = Launch { wrapper: group.wrapper(), ..Launch::plain(Sizes::Default) };
    let mut server = rig.start_new(&launch)?;
    let count = scene.count.unwrap_or(BACKLOG);
    let halves = [count / 2, count - count / 2];
    let mut rates = Vec::new();
    let mut publisher = Publisher::open(&rig.stage, Protocol::Amqp).map_err(|error| error.to_string())?;
    for half in halves {
        let begin = Instant::now();
        publisher.publish_all(straight(PLAIN), half, SMALL, WINDOW).map_err(|error| rig.with_log(error.to_string()))?;
        rates.push(half as f64 / begin.elapsed().as_secs_f64());
    }
    drop(publisher);
    let filled = gauge::peak_resident(server.id())?;
    let each = gauge::room_below(&rig.program.data()) as f64 / count as f64;
    rig.kill(&mut server)?;
    let mut server = rig.program.start(&launch)?;
    let start = server.wait_until_ready(rig.stage.ports).map_err(|error| rig.with_log(error))?;
    rig.stage.control(Control::verify)?;
    let begin = Instant::now();
    let taken: Result<(), String> = std::thread::scope(|scope| {
        let takers = [(Protocol::Amqp, halves[0]), (Protocol::Stomp, halves[1])].map(|(protocol, half)| {
            let stage = &rig.stage;
            scope.spawn(move || {
                let taken = Taker::open(stage, protocol, PLAIN).and_then(|mut taker| taker.accept(half));
                taken.map_err(|error| format!("over {protocol:?}: {error}"))
            })
        });
        takers.into_iter().try_for_each(|taker| taker.join().unwrap_or_else(|_| Err("a thread panicked".to_owned())))
    });
    taken.map_err(|error| rig.with_log(error))?;
    let out = count as f64 / begin.elapsed().as_secs_f64();
    let drained = gauge::peak_resident(server.id())?;
    rig.kill(&mut server)?;
    rig.judge(&launch)?;
    Ok(format!(
        "{count} messages of {SMALL} B in {} MiB: in {:.0}/s, the second half {:.0}/s, out {out:.0}/s; {each:.0} B each on \
         disk; start after a kill {} ms; peak {} and {} MiB resident; 0 lost",
        MEMORY / MIB,
        rates[0],
        rates[1],
        start.as_millis(),
        filled / MIB,
        drained / MIB
    ))
}

/// L9: while the oldest message of a queue is not settled, many times the log's size passes through
/// the same queue.
pub(super) fn oldest_stays(scene: &Scene) -> Result<String, Stop> {
    let rig = Rig::new(scene)?;
    let small = Launch::plain(Sizes::Small);
    let mut server = rig.start_new(&small)?;
    let passing = scene.count.unwrap_or(PASSING);
    let count = passing * MIB / BODY as u64;
    let told = |error: crate::talk::Broken| error.to_string();
    let mut publisher = Publisher::open(&rig.stage, Protocol::Amqp).map_err(told)?;
    publisher.publish_all(straight(PLAIN), 1, BODY, 1).map_err(told)?;
    let mut holder = Taker::with_prefetch(&rig.stage, Protocol::Amqp, PLAIN, 1).map_err(told)?;
    while holder.held() == 0 {
        holder.turn(0).map_err(told)?;
    }
    let mut taker = Taker::open(&rig.stage, Protocol::Stomp, PLAIN).map_err(told)?;
    let peak = std::thread::scope(|scope| -> Result<u64, String> {
        let publishing = scope.spawn(move || publisher.publish_all(straight(PLAIN), count, BODY, 64));
        let taking = scope.spawn(move || taker.accept(count));
        let mut peak = 0;
        while !(publishing.is_finished() && taking.is_finished()) {
            peak = peak.max(gauge::room_below(&rig.program.data()));
            std::thread::sleep(GLANCE);
            holder.turn(0).map_err(told)?;
        }
        for thread in [publishing, taking] {
            thread.join().map_err(|_| "a thread panicked".to_owned())?.map_err(told)?;
        }
        Ok(peak)
    })
    .map_err(|error| rig.with_log(error))?;
    demand(peak <= ROOM, || rig.with_log(format!("the data directory took {} MiB", peak / MIB)))?;
    rig.kill(&mut server)?;
    rig.judge(&small)?;
    Ok(format!(
        "{passing} MiB passed by one unsettled message; the data directory never took more than {} KiB; 0 lost",
        peak / 1024
    ))
}
