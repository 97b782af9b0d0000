//! L4 and L5, many of something at once: consumers of which one is slow, and queues that all get a
//! copy.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::hand::{Publisher, Taker};
use super::rig::{Rig, demand};
use super::{Scene, Stop};
use crate::gauge;
use crate::server::{Launch, Sizes};
use crate::stage::Stage;
use crate::talk::{Broken, Control, Protocol};
use crate::topology::{FAN, PLAIN, straight};

const MIB: u64 = 1 << 20;
/// Consumers of one queue that settle all they get, and how long they are measured.
const CONSUMERS: usize = 9;
const MEASURED: Duration = Duration::from_secs(5);
/// Messages that a slow consumer may have, and how often it settles one.
const SLOW_PREFETCH: u16 = 1000;
const SLOW: Duration = Duration::from_secs(1);
const BODY: usize = 1024;
const WINDOW: usize = 256;
/// Most messages that are published and not consumed.
const AHEAD: u64 = 20_000;
/// Queues that get a copy of everything, and what is published to them.
const QUEUES: u64 = 1000;
const COPIED: u64 = 200;
const COPIED_BODY: usize = 16 * 1024;
/// The most that may be written for each byte of a body that goes to all of them: the log is zeroed
/// before it is used, and each queue has a reference.
const WRITTEN: u64 = 8;

/// L4: consumers go on as before when another one joins them that hardly settles anything.
pub(super) fn slow_consumer(scene: &Scene) -> Result<String, Stop> {
    let rig = Rig::new(scene)?;
    let launch = Launch::plain(Sizes::Default);
    let mut server = rig.start_new(&launch)?;
    let moved = Moved::default();
    let (alone, beside) = std::thread::scope(|scope| {
        for protocol in [Protocol::Amqp, Protocol::Stomp] {
            let (rig, moved) = (&rig, &moved);
            scope.spawn(move || moved.report(&rig.stage, moved.publish(&rig.stage, protocol)));
        }
        let alone = moved.consume(&rig.stage, 0);
        let beside = moved.consume(&rig.stage, 1);
        moved.stop.store(true, Ordering::SeqCst);
        (alone, beside)
    });
    rig.stage.verdict().map_err(|error| rig.with_log(error))?;
    let resident = gauge::peak_resident(server.id())?;
    rig.kill(&mut server)?;
    rig.judge(&launch)?;
    demand(beside * 2 > alone, || {
        format!("{CONSUMERS} consumers took {alone} messages, and {beside} beside a slow one")
    })?;
    let seconds = MEASURED.as_secs();
    Ok(format!(
        "{CONSUMERS} consumers took {}/s, and {}/s ({} %) beside one that holds {SLOW_PREFETCH} and settles one a second; \
         peak {} MiB resident; 0 lost",
        alone / seconds,
        beside / seconds,
        beside * 100 / alone.max(1),
        resident / MIB
    ))
}

/// What went through a queue.
#[derive(Default)]
struct Moved {
    published: AtomicU64,
    consumed: AtomicU64,
    stop: AtomicBool,
}

impl Moved {
    fn report(&self, stage: &Stage, outcome: Result<(), Broken>) {
        if let Err(broken) = outcome {
            stage.report("a client", &broken);
        }
    }

    /// Publishes as fast as the consumers are.
    fn publish(&self, stage: &Stage, protocol: Protocol) -> Result<(), Broken> {
        let mut publisher = Publisher::open(stage, protocol)?;
        while !self.stop.load(Ordering::SeqCst) {
            let ahead = self.published.load(Ordering::SeqCst).saturating_sub(self.consumed.load(Ordering::SeqCst));
            while publisher.waiting() < WINDOW && ahead < AHEAD {
                publisher.publish(straight(PLAIN), BODY);
                self.published.fetch_add(1, Ordering::SeqCst);
            }
            publisher.exchange()?;
        }
        Ok(())
    }

    /// Lets consumers consume for a while, with so many slow ones beside them. Returns how much
    /// they took.
    fn consume(&self, stage: &Stage, slow: usize) -> u64 {
        let before = self.consumed.load(Ordering::SeqCst);
        std::thread::scope(|scope| {
            for number in 0..CONSUMERS {
                let protocol = if number % 2 == 0 { Protocol::Amqp } else { Protocol::Stomp };
                scope.spawn(move || self.report(stage, self.take(stage, protocol)));
            }
            for _ in 0..slow {
                scope.spawn(move || self.report(stage, self.dawdle(stage)));
            }
        });
        self.consumed.load(Ordering::SeqCst) - before
    }

    fn take(&self, stage: &Stage, protocol: Protocol) -> Result<(), Broken> {
        let end = Instant::now() + MEASURED;
        let mut taker = Taker::open(stage, protocol, PLAIN)?;
        while Instant::now() < end {
            let held = taker.held();
            taker.turn(held)?;
            self.consumed.fetch_add(held as u64, Ordering::SeqCst);
        }
        Ok(())
    }

    fn dawdle(&self, stage: &Stage) -> Result<(), Broken> {
        let end = Instant::now() + MEASURED;
        let mut taker = Taker::with_prefetch(stage, Protocol::Amqp, PLAIN, SLOW_PREFETCH)?;
        let mut next = Instant::now() + SLOW;
        while Instant::now() < end {
            let due = Instant::now() > next;
            next += if due { SLOW } else { Duration::ZERO };
            taker.turn(usize::from(due))?;
        }
        Ok(())
    }
}

/// L5: each of a thousand durable queues gets a copy, and the disk gets one.
pub(super) fn fan_out(scene: &Scene) -> Result<String, Stop> {
    let rig = Rig::new(scene)?;
    let launch = Launch::plain(Sizes::Default);
    let mut server = rig.start_new(&launch)?;
    let names: Vec<String> = (0..QUEUES).map(|number| format!("fault.copy.{number}")).collect();
    rig.stage.control(|control| names.iter().try_for_each(|name| control.declare_bound(name, FAN.exchange)))?;
    let count = scene.count.unwrap_or(COPIED);
    let before = gauge::written(server.id())?;
    let begin = Instant::now();
    Publisher::open(&rig.stage, Protocol::Amqp)
        .and_then(|mut publisher| publisher.publish_all(FAN, count, COPIED_BODY, 32))
        .map_err(|error| rig.with_log(error.to_string()))?;
    let took = begin.elapsed().as_secs_f64();
    let written = gauge::written(server.id())? - before;
    let resident = gauge::peak_resident(server.id())?;
    let bodies = count * COPIED_BODY as u64;
    let factor = written as f64 / bodies as f64;
    demand(written < WRITTEN * bodies, || format!("{factor:.1} bytes were written for each byte of a body"))?;
    rig.kill(&mut server)?;
    let mut server = rig.start(&launch)?;
    rig.stage.control(Control::verify)?;
    for name in &names {
        let depth = rig.stage.control(|control| control.depth(name))?;
        demand(depth == count, || rig.with_log(format!("{name} holds {depth} messages, not {count}")))?;
    }
    rig.kill(&mut server)?;
    rig.judge(&launch)?;
    Ok(format!(
        "{count} messages of {COPIED_BODY} B to {QUEUES} queues at {:.0} copies/s; {factor:.2} bytes written for each byte of \
         a body; peak {} MiB resident; each queue has all after a kill",
        (count * QUEUES) as f64 / took,
        resident / MIB
    ))
}
