//! L7, messages that are as large as they may be, over several connections at once: memory follows
//! what is under way, not what has passed, and little memory is no reason to be ended by the
//! kernel.

use std::time::Instant;

use super::group::Group;
use super::hand::{Publisher, Taker};
use super::rig::{Rig, demand};
use super::{Scene, Stop};
use crate::gauge;
use crate::server::{Launch, Sizes};
use crate::talk::Protocol;
use crate::topology::{PLAIN, straight};

const MIB: u64 = 1 << 20;
const BODY: u64 = 16 * MIB;
/// Messages of each connection if nothing else is said.
const EACH: u64 = 4;
/// Connections that publish where there is memory, and where there is less than they have under
/// way.
const FEW: u64 = 8;
const MANY: u64 = 40;
const MEMORY: u64 = 512 * MIB;
/// Messages that the consumer may have.
const PREFETCH: u16 = 2;
/// What queues may keep of messages that are on disk, and the memory of a broker that does nothing.
const KEPT: (&str, u64) = ("32MiB", 32 * MIB);
const IDLE: u64 = 64 * MIB;
/// How much memory each byte under way may take.
const FACTOR: u64 = 4;

/// As much memory as the machine has.
pub(super) fn few(scene: &Scene) -> Result<String, Stop> {
    let variables = vec![("HERMOD_MEMORY_BUDGET", KEPT.0.to_owned())];
    let launch = Launch { variables, ..Launch::plain(Sizes::Default) };
    let passed = pass(scene, &launch, FEW)?;
    let most = FACTOR * passed.under_way + KEPT.1 + IDLE;
    demand(passed.resident <= most, || format!("more than {} MiB were resident: {}", most / MIB, passed.figure()))?;
    Ok(passed.figure())
}

/// In a control group with less memory than all the messages that are being sent at once.
pub(super) fn many(scene: &Scene) -> Result<String, Stop> {
    let group = Group::with_memory(MEMORY)?;
    let launch = Launch { wrapper: group.wrapper(), ..Launch::plain(Sizes::Default) };
    let passed = pass(scene, &launch, MANY)?;
    Ok(format!("in {} MiB: {}", MEMORY / MIB, passed.figure()))
}

/// What came of it.
struct Passed {
    count: u64,
    publishers: u64,
    under_way: u64,
    resident: u64,
    seconds: f64,
}

impl Passed {
    fn figure(&self) -> String {
        format!(
            "{} messages of {} MiB over {} connections, {:.0} MiB/s; peak {} MiB resident with {} MiB under way; 0 lost",
            self.count,
            BODY / MIB,
            self.publishers,
            (self.count * BODY / MIB) as f64 / self.seconds,
            self.resident / MIB,
            self.under_way / MIB
        )
    }
}

fn pass(scene: &Scene, launch: &Launch, publishers: u64) -> Result<Passed, Stop> {
    let rig = Rig::new(scene)?;
    let mut server = rig.start_new(launch)?;
    let each = scene.count.unwrap_or(EACH);
    let count = each * publishers;
    let begin = Instant::now();
    let passed: Result<(), String> = std::thread::scope(|scope| {
        let stage = &rig.stage;
        let publish = || {
            scope.spawn(move || {
                Publisher::open(stage, Protocol::Amqp)
                    .and_then(|mut publisher| publisher.publish_all(straight(PLAIN), each, BODY as usize, 1))
            })
        };
        let mut threads: Vec<_> = (0..publishers).map(|_| publish()).collect();
        threads.push(scope.spawn(move || {
            Taker::with_prefetch(stage, Protocol::Amqp, PLAIN, PREFETCH).and_then(|mut taker| taker.accept(count))
        }));
        let ended = threads.into_iter().map(|thread| match thread.join() {
            Ok(outcome) => outcome.map_err(|error| error.to_string()),
            Err(_) => Err("a thread panicked".to_owned()),
        });
        ended.collect()
    });
    let seconds = begin.elapsed().as_secs_f64();
    if let Some(status) = server.ended() {
        return Err(Stop::Failed(rig.with_log(format!("the broker ended by itself ({status})"))));
    }
    passed.map_err(|error| rig.with_log(error))?;
    let resident = gauge::peak_resident(server.id())?;
    rig.kill(&mut server)?;
    rig.judge(launch)?;
    Ok(Passed { count, publishers, under_way: (publishers + u64::from(PREFETCH)) * BODY, resident, seconds })
}
