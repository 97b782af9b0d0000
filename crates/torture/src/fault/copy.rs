//! D10, a backup that is taken under load: the copy opens as a data directory of its own and has
//! everything that was confirmed before the backup began, and nothing that was settled and fenced
//! by then.

use std::ffi::OsStr;
use std::io::Read;
use std::process::Child;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::hand::{Publisher, Taker};
use super::rig::{Rig, demand};
use super::{Scene, Stop};
use crate::history::Event;
use crate::random::Random;
use crate::server::{Launch, Program, Sizes};
use crate::stamp::{DeliveryMode, Stamp};
use crate::talk::{Broken, Protocol};
use crate::topology::{FAN, FAN_A, FAN_B};

/// What is published before if nothing else is said, and taken and fenced again; then the load goes
/// on through the backup.
const BEFORE: u64 = 3000;
const TAKEN: u64 = 500;
const BODY: usize = 4096;
const WINDOW: usize = 64;
/// How long a backup may take.
const LONGEST: Duration = Duration::from_secs(40);

pub(super) fn backup(scene: &Scene) -> Result<String, Stop> {
    let rig = Rig::new(scene)?;
    let launch = Launch::plain(Sizes::Small);
    let mut server = rig.start_new(&launch)?;
    let told = |error: Broken| error.to_string();
    let mut publisher = Publisher::open(&rig.stage, Protocol::Amqp).map_err(told)?;
    publisher.publish_all(FAN, scene.count.unwrap_or(BEFORE).max(TAKEN), BODY, WINDOW).map_err(told)?;
    for (protocol, queue) in [(Protocol::Amqp, FAN_A), (Protocol::Stomp, FAN_B)] {
        Taker::open(&rig.stage, protocol, queue).and_then(|mut taker| taker.accept(TAKEN)).map_err(told)?;
    }
    let program = Program::prepare(&scene.source, &scene.folder.join("copy"), None)?;
    let copy = Rig { stage: Arc::new(rig.stage.fork(program.ports())), program, random: Random::new(scene.seed) };
    let before = publisher.published();
    let begin = Instant::now();
    let mut asked = rig.program.ask(&[OsStr::new("backup"), copy.program.data().as_os_str()])?;
    let answered = publish_until_answered(&mut publisher, &mut asked);
    let took = begin.elapsed();
    let (status, said) = answer(&mut asked)?;
    if said.contains("unrecognized subcommand") {
        return Err(Stop::Skipped("this broker has no backup".to_owned()));
    }
    answered?;
    demand(status == Some(0), || rig.with_log(format!("the backup ended with {status:?}: {said}")))?;
    // Whether the copy has what came while it was made is open: it was attempted, and no confirm is
    // known there.
    let later = publisher.ids_from(before).map(|id| {
        let stamp = Stamp { id, transaction: None, queues: FAN.queues, due: 0 };
        Event::Attempt { stamp, mode: DeliveryMode::Persistent }
    });
    copy.stage.tell(&later.collect::<Vec<_>>());
    copy.buried();
    let during = publisher.published() - before;
    rig.kill(&mut server)?;
    rig.judge(&launch)?;
    copy.judge(&launch).map_err(|error| format!("the copy: {error}"))?;
    Ok(format!(
        "{during} messages came during a backup of {:.1} s; in the copy 0 of {before} confirmed before are missing, none of \
         {TAKEN} settled twice over came back",
        took.as_secs_f64()
    ))
}

/// Publishes until the backup has ended, and waits for the confirms.
fn publish_until_answered(publisher: &mut Publisher<'_>, asked: &mut Child) -> Result<(), String> {
    let begin = Instant::now();
    loop {
        let ended = asked.try_wait().map_err(|error| format!("waiting for the backup: {error}"))?.is_some();
        if ended && publisher.waiting() == 0 {
            return Ok(());
        }
        if begin.elapsed() > LONGEST {
            // It may have ended already. The error below says more than that of the kill.
            let _ = asked.kill();
            return Err(format!("a backup and the confirms beside it took more than {LONGEST:?}"));
        }
        while !ended && publisher.waiting() < WINDOW {
            publisher.publish(FAN, BODY);
        }
        publisher.exchange().map_err(|error| format!("publishing during a backup: {error}"))?;
    }
}

/// How a command ended, and what it said.
fn answer(child: &mut Child) -> Result<(Option<i32>, String), String> {
    let status = child.wait().map_err(|error| format!("waiting for the backup: {error}"))?;
    let mut said = String::new();
    let streams: [Option<Box<dyn Read>>; 2] = [
        child.stdout.take().map(|stream| Box::new(stream) as Box<dyn Read>),
        child.stderr.take().map(|stream| Box::new(stream) as Box<dyn Read>),
    ];
    for mut stream in streams.into_iter().flatten() {
        stream.read_to_string(&mut said).map_err(|error| format!("reading what the backup said: {error}"))?;
    }
    Ok((status.code(), said))
}
