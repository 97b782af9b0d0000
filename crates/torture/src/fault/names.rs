//! D4, a power cut that takes names: a file's bytes are flushed with the file, its name only with
//! the folder that it lies in. A script makes, adopts, merges and removes the files of a small log;
//! each moment at which names were not flushed is kept, and the broker is started on what is left
//! when any of them are lost, the removed ones come back, or both.
//!
//! A moment is the whole disk together with the history as the clients knew it then, so one run of
//! the script has all of them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::disk::{Change, Disk, Piece, State, Trouble, Watch};
use super::filesystem::MountedDisk;
use super::hand::{Publisher, Taker};
use super::rig::{Rig, demand};
use super::script;
use super::{Scene, Stop};
use crate::checker::Checker;
use crate::gauge::Metrics;
use crate::part;
use crate::random::Random;
use crate::stage::Stage;
use crate::talk::{Broken, Control, Protocol};
use crate::topology::{PLAIN, WORK, straight};

/// Cuts if nothing else is said, and on the disk that forgets names.
const CUTS: u64 = 300;
const DEAF_CUTS: u64 = 30;
/// The data directory below the root of the disk: its own name, too, has to last.
const DATA: &str = "lib/hermod";
/// Of so many names that were not flushed every subset is tried; of more, so many by chance.
const EVERY_SUBSET: usize = 3;
const SOME_SUBSETS: u64 = 6;
/// How much of 100 unflushed sectors survive.
const KEPT: [u64; 3] = [0, 50, 100];
/// Moments that are kept at most; of more, every second one is.
const MOMENTS: usize = 1024;
/// How often the log is filled and emptied.
const ROUNDS: usize = 2;
/// Messages to two queues in turn, so that half of each file dies before the other half.
const STEPS: u64 = 100;
const WORKED: u64 = 8;
const STAYING: u64 = 5;
/// Messages that push the older files out of the log.
const PUSHING: u64 = 400;
const BODY: usize = 3000;
const WINDOW: usize = 16;

/// The disk at one moment, and what the clients knew.
struct Moment {
    state: State,
    checker: Checker,
    /// The queues were declared and answered.
    declared: bool,
}

/// All moments of a script, or a share of them in even steps.
#[derive(Default)]
struct Moments {
    kept: Vec<Moment>,
    seen: u64,
    /// So many moments are passed over before each one that is kept.
    skipped: u64,
}

impl Moments {
    fn add(&mut self, moment: impl FnOnce() -> Moment) {
        self.seen += 1;
        if !self.seen.is_multiple_of(self.skipped + 1) {
            return;
        }
        self.kept.push(moment());
        if self.kept.len() >= MOMENTS {
            let mut odd = false;
            self.kept.retain(|_| {
                odd = !odd;
                odd
            });
            self.skipped = self.skipped * 2 + 1;
        }
    }
}

/// What happens at a moment.
#[derive(Debug, Clone, Copy)]
struct Fate {
    moment: usize,
    /// The names that were not flushed and survive a power cut, a bit for each; `None`: the broker
    /// is only killed, and what the next one sees is flushed by that one alone.
    names: Option<u64>,
}

/// A run of the script and what can be lost of it.
struct Recording {
    rig: Rig,
    moments: Moments,
    changes: Vec<Change>,
    /// Log files that stayed as segments, and segments that took the place of others.
    adopted: u64,
    merges: u64,
}

pub(super) fn lose(scene: &Scene) -> Result<String, Stop> {
    let mut recording = record(scene, Trouble::None)?;
    let (chosen, all) = recording.fates(scene.count.unwrap_or(CUTS));
    for fate in &chosen {
        recording.meet(scene, *fate)?;
    }
    let confirmed = recording.moments.kept.iter().map(|moment| moment.checker.counts().confirmed).max();
    Ok(format!(
        "{}; {} moments with names not flushed, {} of {all} ways to go on from them; up to {} confirmed, 0 lost",
        recording.describe(),
        recording.moments.seen,
        chosen.len(),
        confirmed.unwrap_or_default()
    ))
}

/// The same on a disk that answers the flush of a folder and does nothing: what is lost must be
/// seen.
pub(super) fn deaf(scene: &Scene) -> Result<String, Stop> {
    let mut recording = record(scene, Trouble::Deaf)?;
    let (chosen, _) = recording.fates(scene.count.unwrap_or(DEAF_CUTS));
    let (mut seen, wanted) = (0, chosen.len());
    for fate in &chosen {
        match recording.meet(scene, *fate) {
            Ok(()) => {}
            Err(Stop::Failed(_)) => seen += 1,
            Err(skipped) => return Err(skipped),
        }
    }
    demand(seen > 0, || format!("none of {wanted} cuts of a disk that flushes no folder was seen"))?;
    Ok(format!("{seen} of {wanted} cuts of a disk that flushes no folder were seen as a loss"))
}

/// Runs the script once and keeps its moments.
fn record(scene: &Scene, trouble: Trouble) -> Result<Recording, Stop> {
    let mut rig = Rig::new(scene)?;
    let root = scene.folder.join("disk");
    rig.program = rig.program.with_data(root.join(DATA));
    let moments = Arc::new(Mutex::new(Moments::default()));
    let declared = Arc::new(AtomicBool::new(false));
    let mut disk = Disk::new();
    disk.trouble = trouble;
    disk.watch = Some(watch(&rig.stage, &moments, &declared));
    let mounted = MountedDisk::of(&root, disk)?;
    let mut server = rig.start(&script::launch())?;
    rig.stage.control(Control::declare)?;
    declared.store(true, Ordering::SeqCst);
    play(&rig.stage).map_err(|error| rig.with_log(format!("the script itself: {error}")))?;
    let metrics = Metrics::of(rig.program.http())?;
    let adopted = metrics.get("hermod_segment_adopted_files_total")?;
    let merges = metrics.get("hermod_segment_merges_total")?;
    demand(adopted > 0 && merges > 0, || {
        format!("the script made the broker adopt {adopted} files and merge {merges} times")
    })?;
    rig.kill(&mut server)?;
    let mut disk = mounted.disk();
    disk.watch = None;
    let changes = std::mem::take(&mut disk.changes);
    let last = disk.state().clone();
    drop(disk);
    let mut moments = std::mem::take(&mut *moments.lock().unwrap_or_else(PoisonError::into_inner));
    moments.kept.push(Moment { state: last, checker: rig.stage.checker().clone(), declared: true });
    Ok(Recording { rig, moments, changes, adopted, merges })
}

/// Keeps each moment. The disk stands still meanwhile: what is confirmed in this time was flushed
/// before.
fn watch(stage: &Arc<Stage>, moments: &Arc<Mutex<Moments>>, declared: &Arc<AtomicBool>) -> Watch {
    let (stage, moments, declared) = (Arc::clone(stage), Arc::clone(moments), Arc::clone(declared));
    Box::new(move |state| {
        moments.lock().unwrap_or_else(PoisonError::into_inner).add(|| Moment {
            state: state.clone(),
            checker: stage.checker().clone(),
            declared: declared.load(Ordering::SeqCst),
        });
    })
}

/// Fills a log of eight files until those that are mostly alive have to leave it, kills half of
/// what is in them, fills it again, and empties it.
fn play(stage: &Stage) -> Result<(), Broken> {
    let mut work = Publisher::open(stage, Protocol::Amqp)?;
    let mut plain = Publisher::open(stage, Protocol::Stomp)?;
    for _ in 0..ROUNDS {
        for _ in 0..STEPS {
            work.publish_all(straight(WORK), WORKED, BODY, WINDOW)?;
            plain.publish_all(straight(PLAIN), STAYING, BODY, WINDOW)?;
        }
        Taker::open(stage, Protocol::Amqp, WORK)?.accept(STEPS * WORKED)?;
        plain.publish_all(straight(PLAIN), PUSHING, BODY, WINDOW)?;
        // One message stays, and is the oldest when the next round begins.
        Taker::open(stage, Protocol::Stomp, PLAIN)?.accept(STEPS * STAYING + PUSHING - 1)?;
    }
    Ok(())
}

impl Recording {
    /// At most `wanted` of all fates, one by chance from each of as many equal shares, and how many
    /// there are.
    fn fates(&mut self, wanted: u64) -> (Vec<Fate>, usize) {
        let mut all = Vec::new();
        for (moment, kept) in self.moments.kept.iter().enumerate() {
            let subsets = subsets(kept.state.pending(), &mut self.rig.random);
            all.extend(subsets.into_iter().map(|names| Fate { moment, names: Some(names) }));
            all.push(Fate { moment, names: None });
        }
        let (count, random) = (all.len() as u64, &mut self.rig.random);
        let wanted = wanted.min(count);
        let starts = (0..wanted).map(|share| (share * count / wanted, (share + 1) * count / wanted));
        (starts.map(|(from, end)| all[random.within(from..=end - 1) as usize]).collect(), all.len())
    }

    /// Cuts the power as a fate says, and sees what the broker makes of what is left.
    fn meet(&mut self, scene: &Scene, fate: Fate) -> Result<(), Stop> {
        let Self { rig, moments, .. } = self;
        let Moment { state, checker, declared } = &moments.kept[fate.moment];
        let kept = *rig.random.pick(&KEPT);
        let mut disk = Disk::at(state.clone());
        let mut sectors = rig.random.fork(0);
        if let Some(mut names) = fate.names {
            disk.cut_by(&mut |piece| match piece {
                Piece::Sector => sectors.chance(kept),
                Piece::Name => {
                    let survives = names & 1 == 1;
                    names >>= 1;
                    survives
                }
            });
        }
        let left = disk.state().clone();
        let mounted = MountedDisk::of(&scene.folder.join("disk"), disk)?;
        rig.stage.checker().clone_from(checker);
        rig.buried();
        // What was not declared at that moment is declared now.
        let look = if *declared { Control::verify } else { Control::declare };
        judge(rig, &mounted, look).map_err(|error| {
            for (state, name) in [(state, "moment"), (&left, "left"), (mounted.disk().state(), "end")] {
                let to = scene.folder.join(name);
                if let Err(error) = std::fs::create_dir_all(&to).and_then(|()| state.save(&to)) {
                    eprintln!("{name} is not kept: {error}");
                }
            }
            let pending = state.pending();
            let what = match fate.names {
                Some(names) => format!("cut, names {names:#b} and {kept} % of sectors survive"),
                None => "killed".to_owned(),
            };
            let begin = format!("moment {}, {pending} names not flushed, {what}", fate.moment);
            Stop::Failed(rig.with_log(format!("{begin}: {error}")))
        })
    }

    /// What the script did to names.
    fn describe(&self) -> String {
        let count = |wanted: &dyn Fn(&Change) -> bool| self.changes.iter().filter(|change| wanted(change)).count();
        let made = |end: &str| count(&|change| matches!(change, Change::Made(name) if ends(name, end)));
        let removed = |end: &str| count(&|change| matches!(change, Change::Removed(name) if ends(name, end)));
        format!(
            "{} log files made, {} removed, {} adopted; {} segments made, {} of them by merging, {} removed; {} flushes of folders",
            made(".wal"),
            removed(".wal"),
            self.adopted,
            made(".seg"),
            self.merges,
            removed(".seg"),
            count(&|change| *change == Change::Flushed)
        )
    }
}

/// Starts the broker and looks at everything. Then the power is cut, and all that was not flushed
/// is lost: what was there by then is there, and nothing that was settled comes back.
fn judge(rig: &Rig, mounted: &MountedDisk, look: fn(&mut Control) -> Result<(), Broken>) -> Result<(), String> {
    let launch = script::launch();
    let mut server = rig.start(&launch)?;
    rig.stage.control(look)?;
    // With patience: what was not confirmed may be under way still, and would seem to come back
    // after the second cut.
    part::drain_alive(&rig.stage, &mut server)?;
    let retired = rig.stage.number();
    rig.stage.checker().finish(retired);
    rig.stage.verdict()?;
    rig.kill(&mut server)?;
    mounted.disk().cut_by(&mut |_| false);
    let again = |error| format!("after a second cut: {error}");
    let mut server = rig.start(&launch).map_err(again)?;
    rig.stage.control(Control::verify).map_err(again)?;
    rig.settle().map_err(again)?;
    rig.kill(&mut server)
}

fn ends(name: &std::ffi::OsStr, end: &str) -> bool {
    name.to_string_lossy().ends_with(end)
}

/// The subsets that are tried of so many names: all, or none, every one, and some.
fn subsets(pending: usize, random: &mut Random) -> Vec<u64> {
    if pending <= EVERY_SUBSET {
        return (0..1 << pending).collect();
    }
    let some = (0..SOME_SUBSETS).map(|_| random.next());
    [0, u64::MAX].into_iter().chain(some).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_names_have_all_their_subsets() {
        let mut random = Random::new(1);
        assert_eq!(subsets(1, &mut random), [0, 1]);
        assert_eq!(subsets(3, &mut random), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(subsets(4, &mut random).len() as u64, SOME_SUBSETS + 2);
    }

    #[test]
    fn of_too_many_moments_those_in_even_steps_are_kept() {
        let mut moments = Moments::default();
        for round in 0..5 * MOMENTS as u64 {
            let checker = Checker::default();
            let state = Disk::new().state().clone();
            moments.add(|| Moment { state, checker, declared: round == 0 });
        }
        assert!(moments.kept.len() >= MOMENTS / 2 && moments.kept.len() < MOMENTS);
        assert_eq!((moments.seen, moments.skipped), (5 * MOMENTS as u64, 7));
        assert!(moments.kept[0].declared);
    }
}
