//! What died in one queue goes back to it: again and again while all parts play, and all of it
//! before a drain.
//!
//! A redrive that a kill cuts short has moved each message or left it; the checker sees which. One
//! that nothing disturbs says how many it moved, and so many are then there.

use std::ffi::OsStr;
use std::process::Output;
use std::time::{Duration, Instant};

use crate::history::Event;
use crate::random::Random;
use crate::server::Program;
use crate::stage::Stage;
use crate::talk::Broken;
use crate::topology::{QUEUES, Queue};

/// How long the parts play between two redrives, in milliseconds, from and to.
const PAUSE: (u64, u64) = (20, 250);
/// How long what was moved may take until it is seen.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a redrive did.
#[derive(Debug)]
struct Moved {
    count: u64,
    /// Messages that it found and left there.
    left: u64,
    out_of_room: bool,
}

/// Sends some messages back now and then, until the broker dies, or until then.
pub(crate) fn play(program: &Program, stage: &Stage, random: &mut Random, until: Instant) {
    while !stage.is_dying() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(random.within(PAUSE.0..=PAUSE.1)));
        for (_, target) in pairs() {
            match redrive(program, target, random.within(1..=200)) {
                Ok(moved) => stage.tell(&[Event::Redriven(moved.count)]),
                Err(_) if stage.is_dying() => return,
                // The broker's death may be seen here first.
                Err(error) => return stage.report("redrive", &Broken::Lost(error)),
            }
        }
    }
}

/// Sends back all that there is. No part of the load publishes or consumes meanwhile.
pub(crate) fn all(program: &Program, stage: &Stage) -> Result<(), String> {
    for (source, target) in pairs() {
        let depth = |queue: &Queue| stage.control(|control| control.depth(queue.name));
        let (before, waiting) = (depth(source)?, depth(target)?);
        let moved = redrive(program, target, u64::MAX)?;
        stage.tell(&[Event::Redriven(moved.count)]);
        if moved.out_of_room {
            continue;
        }
        let name = target.name;
        if (moved.count, moved.left) != (waiting, 0) {
            return Err(format!("{name} had {waiting} messages, and a redrive of all did this: {moved:?}"));
        }
        let (begin, expected) = (Instant::now(), (before + waiting, 0));
        while (depth(source)?, depth(target)?) != expected {
            if begin.elapsed() > PATIENCE {
                let found = (depth(source)?, depth(target)?);
                return Err(format!(
                    "{name}: {moved:?}, but there are {found:?} messages in its source and in it, not {expected:?}"
                ));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    Ok(())
}

/// Each queue that is sent back to, and where its dead letters wait.
fn pairs() -> impl Iterator<Item = (&'static Queue, &'static Queue)> {
    QUEUES.iter().filter(|queue| queue.redriven).filter_map(|queue| Some((queue, &QUEUES[queue.dead_letter?])))
}

fn redrive(program: &Program, queue: &Queue, limit: u64) -> Result<Moved, String> {
    let limit = limit.to_string();
    let words = ["redrive", queue.name, "--limit", &limit, "--json"].map(OsStr::new);
    let Output { status, stdout, stderr } = (program.ask(&words)?.wait_with_output())
        .map_err(|error| format!("cannot wait for `hermod redrive`: {error}"))?;
    if !status.success() {
        return Err(format!("`hermod redrive` ended with {status}: {}", String::from_utf8_lossy(&stderr)));
    }
    let said: serde_json::Value = serde_json::from_slice(&stdout)
        .map_err(|error| format!("`hermod redrive` said {}: {error}", String::from_utf8_lossy(&stdout)))?;
    let count = |name: &str| said[name].as_u64().ok_or_else(|| format!("`hermod redrive` said {said}: no {name}"));
    Ok(Moved {
        count: count("moved")?,
        left: count("alive")? + count("homeless")? + count("refused")?,
        out_of_room: said["out_of_room"].as_bool() == Some(true),
    })
}
