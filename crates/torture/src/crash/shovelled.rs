//! Shovels from queue to queue of the broker that they run in, over its kills: so every kill is one
//! of the source, of the destination and of the shovel at once.
//!
//! What a source has confirmed comes to its destination, at least once. What comes for the first
//! time comes in the order in which it was published.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::mqtt::{PATIENCE, lock};
use crate::random::Random;
use crate::server::Program;
use crate::stage::Stage;
use crate::talk::{Broken, Control};

/// A shovel: its name, the queues at its ends, and how it reaches them. The first one speaks AMQP
/// 0-9-1, the second one translates, the third one speaks 1.0.
struct Shovel {
    name: &'static str,
    from: &'static str,
    to: &'static str,
    ends: &'static str,
}

const SHOVELS: [Shovel; 3] = [
    Shovel {
        name: "crash.plain",
        from: "crash.plain.from",
        to: "crash.plain.to",
        ends: r#""src-queue": "crash.plain.from", "dest-queue": "crash.plain.to""#,
    },
    Shovel {
        name: "crash.translates",
        from: "crash.translates.from",
        to: "crash.translates.to",
        ends: r#""src-queue": "crash.translates.from",
                 "dest-protocol": "amqp10", "dest-address": "/queues/crash.translates.to""#,
    },
    Shovel {
        name: "crash.ten",
        from: "crash.ten.from",
        to: "crash.ten.to",
        ends: r#""src-protocol": "amqp10", "src-address": "/queues/crash.ten.from",
                 "dest-protocol": "amqp10", "dest-address": "/queues/crash.ten.to""#,
    },
];

/// Messages that are published together at most.
const TOGETHER: u64 = 40;
/// Messages of a shovel between publisher and consumer at most, so that a small log holds them.
const UNDER_WAY: u64 = 500;
/// A pause of a part that has nothing to do.
const PAUSE: Duration = Duration::from_millis(2);

/// What has become of the messages of a shovel, each a number from 1 on.
#[derive(Debug, Default)]
struct Moved {
    /// The last one that was published.
    last: u64,
    /// Those that the source has confirmed.
    confirmed: BTreeSet<u64>,
    /// Those that came to the destination.
    come: BTreeSet<u64>,
    again: u64,
    /// How many had come when it was last asked whether the shovel lives.
    before: usize,
}

impl Moved {
    /// A message has come.
    ///
    /// # Errors
    /// If it was never published, or comes for the first time behind a later one.
    fn comes(&mut self, number: u64) -> Result<(), String> {
        if number == 0 || number > self.last {
            return Err(format!("message {number} came, and {} is the last that was published", self.last));
        }
        if !self.come.insert(number) {
            self.again += 1;
            return Ok(());
        }
        match self.come.last() {
            Some(last) if *last > number => Err(format!("message {number} came behind {last} for the first time")),
            _ => Ok(()),
        }
    }

    fn is_complete(&self) -> bool {
        self.confirmed.is_subset(&self.come)
    }

    fn under_way(&self) -> u64 {
        self.last - self.come.len() as u64
    }
}

/// The load, and what it has seen: one entry for each of [`SHOVELS`].
#[derive(Debug, Default)]
pub(crate) struct ShovelLoad {
    moved: Mutex<[Moved; SHOVELS.len()]>,
}

impl ShovelLoad {
    /// Makes the queues, and sets the shovels.
    pub(crate) fn set(&self, program: &Program, stage: &Stage) -> Result<(), String> {
        for Shovel { name, from, to, ends } in &SHOVELS {
            stage.control(|control| control.declare_extra(from).and_then(|()| control.declare_extra(to)))?;
            let definition =
                format!(r#"{{"src-uri": "amqp://", "dest-uri": "amqp://", "reconnect-delay": 1, {ends}}}"#);
            let words: [&str; 4] = ["shovels", "set", name, &definition];
            let said = program.ask(&words.map(OsStr::new))?.wait_with_output();
            let said = said.map_err(|error| format!("cannot wait for `hermod shovels set`: {error}"))?;
            if !said.status.success() {
                return Err(format!("`hermod shovels set {name}`: {}", String::from_utf8_lossy(&said.stderr)));
            }
        }
        Ok(())
    }

    /// Publishes to the sources, until the broker dies, or until then.
    pub(crate) fn publish(&self, stage: &Stage, random: &mut Random, until: Instant) {
        play(stage, until, |control| {
            for (place, shovel) in SHOVELS.iter().enumerate() {
                let numbers = {
                    let mut all = lock(&self.moved);
                    let moved = &mut all[place];
                    if moved.under_way() > UNDER_WAY {
                        continue;
                    }
                    let first = moved.last + 1;
                    moved.last += random.within(1..=TOGETHER);
                    first..=moved.last
                };
                control.publish_numbers(shovel.from, numbers.clone())?;
                lock(&self.moved)[place].confirmed.extend(numbers);
            }
            Ok(())
        });
    }

    /// Takes what comes to the destinations, until the broker dies, or until then.
    pub(crate) fn consume(&self, stage: &Stage, until: Instant) {
        play(stage, until, |control| self.take(control).map(drop));
    }

    /// Takes all that is there now. Returns how much that was.
    fn take(&self, control: &mut Control) -> Result<u64, Broken> {
        let mut count = 0;
        for (place, shovel) in SHOVELS.iter().enumerate() {
            while let Some(number) = control.take_number(shovel.to)? {
                let judged = lock(&self.moved)[place].comes(number);
                judged.map_err(|wrong| Broken::Refused(format!("shovel {}: {wrong}", shovel.name)))?;
                count += 1;
            }
        }
        Ok(count)
    }

    /// The broker lives: all that was confirmed comes.
    pub(crate) fn settle(&self, stage: &Stage) -> Result<(), String> {
        let mut control = Control::open(stage.ports.amqp).map_err(|broken| format!("shovels: {broken}"))?;
        let begin = Instant::now();
        loop {
            let taken = self.take(&mut control).map_err(|broken| format!("shovels: {broken}"))?;
            let moved = lock(&self.moved);
            if moved.iter().all(Moved::is_complete) {
                return Ok(());
            }
            if begin.elapsed() > PATIENCE {
                let missing = SHOVELS.iter().zip(&*moved).map(|(shovel, Moved { confirmed, come, .. })| {
                    let missing: Vec<_> = confirmed.difference(come).collect();
                    format!("{}: {} messages, the first {:?}", shovel.name, missing.len(), missing.first())
                });
                return Err(format!(
                    "shovels have lost what was confirmed: {}",
                    missing.collect::<Vec<_>>().join("; ")
                ));
            }
            drop(moved);
            if taken == 0 {
                std::thread::sleep(PAUSE);
            }
        }
    }

    /// Each shovel has moved something since this was asked last.
    pub(crate) fn alive(&self) -> Result<(), String> {
        for (shovel, moved) in SHOVELS.iter().zip(&mut *lock(&self.moved)) {
            if moved.come.len() == moved.before {
                return Err(format!("the shovel {} has moved nothing", shovel.name));
            }
            moved.before = moved.come.len();
        }
        Ok(())
    }
}

/// Does something over and over on a connection of its own, until the broker dies, or until then.
fn play(stage: &Stage, until: Instant, mut act: impl FnMut(&mut Control) -> Result<(), Broken>) {
    let mut control = None;
    while !stage.is_dying() && Instant::now() < until {
        let acted = match &mut control {
            Some(control) => act(control),
            None => Control::open(stage.ports.amqp).map(|new| control = Some(new)),
        };
        match acted {
            Ok(()) => std::thread::sleep(PAUSE),
            Err(broken) if stage.is_dying() => return drop(broken),
            Err(broken) => return stage.report("shovels", &broken),
        }
    }
}

impl std::fmt::Display for ShovelLoad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let moved = lock(&self.moved);
        let sum = |count: fn(&Moved) -> u64| moved.iter().map(count).sum::<u64>();
        write!(
            f,
            "shovels: {} confirmed, each came in its order ({} came again)",
            sum(|moved| moved.confirmed.len() as u64),
            sum(|moved| moved.again)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_is_judged_by_its_first_time() {
        for (numbers, wrong) in [
            (&[1, 2, 3][..], None),
            (&[1, 2, 1, 2, 4, 2], None),
            (&[1, 3, 2], Some("message 2 came behind 3")),
            (&[6], Some("5 is the last")),
            (&[0], Some("0 came")),
        ] {
            let mut moved = Moved { last: 5, ..Moved::default() };
            let judged = numbers.iter().try_for_each(|number| moved.comes(*number));
            assert_eq!(judged.is_err(), wrong.is_some(), "{numbers:?}");
            assert!(judged.err().unwrap_or_default().contains(wrong.unwrap_or_default()), "{numbers:?}");
        }
        let mut moved = Moved { last: 2, confirmed: [1, 2].into(), ..Moved::default() };
        moved.comes(2).unwrap();
        assert!(!moved.is_complete(), "1 is missing");
    }
}
