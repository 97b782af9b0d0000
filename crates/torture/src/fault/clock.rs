//! F11, a calendar that jumps while the passing of time does not, by libfaketime inside the broker:
//! connections live, nothing is lost or comes twice, and messages that are published after a jump
//! die at their age.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::hand::Publisher;
use super::rig::{Rig, demand};
use super::{Scene, Stop};
use crate::server::{Launch, Sizes};
use crate::stage::Stage;
use crate::talk::{Control, Protocol};
use crate::topology::Route;

/// Where distributions keep the library, as a name in a folder of its own below one of these.
const LIBRARIES: [&str; 3] = ["/usr/lib", "/usr/lib64", "/usr/local/lib"];
const LIBRARY: &str = "faketime/libfaketimeMT.so.1";
const HOUR: i64 = 3600;
const YEAR: i64 = 365 * 24 * HOUR;
/// Where the calendar stands beside the truth, one after the other, in seconds.
const JUMPS: [i64; 9] = [0, HOUR, -HOUR, YEAR, -YEAR, 0, -1, -2, -3];
/// One queue's messages soon die of age, the other's in half an hour.
const SOON: Queue = Queue { name: "fault.soon", after_ms: 300 };
const LATE: Queue = Queue { name: "fault.late", after_ms: 1_800_000 };
/// How long a broker may take to see that a message has died.
const NOTICE: Duration = Duration::from_secs(15);
/// How long the load goes on after each jump.
const STEP: Duration = Duration::from_secs(1);

struct Queue {
    name: &'static str,
    after_ms: i64,
}

impl Queue {
    /// The checker knows nothing of these messages.
    fn route(&self) -> Route {
        Route { exchange: "", key: self.name, queues: 0 }
    }
}

pub(super) fn jumps(scene: &Scene) -> Result<String, Stop> {
    let library = library()?;
    let mut rig = Rig::new(scene)?;
    let calendar = scene.folder.join("calendar");
    set(&calendar, JUMPS[0])?;
    let variables = vec![
        ("LD_PRELOAD", library.to_string_lossy().into_owned()),
        ("FAKETIME_TIMESTAMP_FILE", calendar.to_string_lossy().into_owned()),
        ("FAKETIME_NO_CACHE", "1".to_owned()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ("DONT_FAKE_MONOTONIC", "1".to_owned()),
    ];
    let launch = Launch { variables, ..Launch::plain(Sizes::Small) };
    let mut server = rig.start_new(&launch)?;
    rig.stage.control(|control| {
        [SOON, LATE].iter().try_for_each(|queue| control.declare_expiring(queue.name, queue.after_ms))
    })?;
    let stage = Stage::new(rig.stage.ports, rig.stage.run, rig.stage.largest);
    let (mut done, mut last, mut slowest) = (0, Instant::now(), Duration::ZERO);
    let mut failed = None;
    rig.stage.stop_delays();
    let ended = rig.play(&mut server, || {
        if last.elapsed() > STEP && failed.is_none() && done < JUMPS.len() {
            match step(&stage, &calendar, done) {
                Ok(took) => slowest = slowest.max(took),
                Err(error) => failed = Some(format!("the calendar at {} s: {error}", JUMPS[done])),
            }
            (done, last) = (done + 1, Instant::now());
        }
        failed.is_some() || done == JUMPS.len() && last.elapsed() > STEP
    })?;
    demand(ended.is_none(), || rig.with_log(format!("the broker ended with {ended:?}")))?;
    if let Some(error) = failed {
        return Err(Stop::Failed(rig.with_log(error)));
    }
    rig.stage.verdict()?;
    rig.judge(&Launch::plain(Sizes::Small))?;
    let confirmed = rig.stage.checker().counts().confirmed;
    Ok(format!(
        "{} jumps of up to a year under load, no connection lost; a message of {} ms was gone after {} ms at most; {confirmed} \
         confirmed, 0 lost",
        JUMPS.len() - 1,
        SOON.after_ms,
        slowest.as_millis()
    ))
}

/// Moves the calendar, and sees that messages die when they should. Returns how long the
/// short-lived one lived.
fn step(stage: &Stage, calendar: &Path, number: usize) -> Result<Duration, String> {
    set(calendar, JUMPS[number])?;
    let depth = |queue: &Queue| stage.control(|control: &mut Control| control.depth(queue.name));
    let publish = |queue: &Queue| {
        let mut publisher = Publisher::open(stage, Protocol::Amqp).map_err(|error| error.to_string())?;
        publisher.publish_all(queue.route(), 1, 100, 1).map_err(|error| error.to_string())
    };
    publish(&LATE)?;
    publish(&SOON)?;
    let begin = Instant::now();
    while depth(&SOON)? > 0 {
        if begin.elapsed() > NOTICE {
            return Err(format!("a message of {} ms is still there after {NOTICE:?}", SOON.after_ms));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let lived = begin.elapsed();
    // A jump to where it never was ends the life of what came before, and of nothing else. Behind
    // the head of a queue the dead may wait: what was published before a jump back stands there in
    // their way.
    let ahead = number > 0 && JUMPS[..number].iter().all(|before| JUMPS[number] - before > LATE.after_ms / 1000);
    let (found, most) = (depth(&LATE)?, if ahead { 1 } else { u64::MAX });
    if found == 0 || found > most {
        return Err(format!("{found} messages of half an hour are there"));
    }
    Ok(lived)
}

/// Sets the calendar so many seconds beside the truth.
fn set(calendar: &Path, seconds: i64) -> Result<(), String> {
    // A reader must never find half of it.
    let next = calendar.with_extension("next");
    let moved = std::fs::write(&next, format!("{seconds:+}")).and_then(|()| std::fs::rename(&next, calendar));
    moved.map_err(|error| format!("cannot write {}: {error}", calendar.display()))
}

fn library() -> Result<PathBuf, Stop> {
    let folders = LIBRARIES.iter().flat_map(|folder| {
        let below = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        std::iter::once(PathBuf::from(folder)).chain(below)
    });
    let mut places = folders.map(|folder| folder.join(LIBRARY));
    places.find(|place| place.is_file()).ok_or_else(|| Stop::Skipped("libfaketime is not installed".to_owned()))
}
