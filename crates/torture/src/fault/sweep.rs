//! D2, death at the n-th system call: a fixed script is run again and again, and the broker is
//! killed at each of its calls that change the disk in turn. After each death everything that was
//! answered must be true.
//!
//! strace counts for each thread, so the n-th call of a kind is made by the first thread that gets
//! there.

use std::collections::BTreeMap;

use super::catalog::Catalog;
use super::inject::strace;
use super::rig::Rig;
use super::script;
use super::{Scene, Stop};
use crate::history::Event;
use crate::server::{Launch, Started};
use crate::talk::Broken;

/// The calls that change the disk.
const CALLS: &str = "pwrite64,fdatasync,fsync,ftruncate,fallocate,unlink,rename,mkdir";
/// How many points one run tries if nothing else is said.
const POINTS: u64 = 120;
/// Spreads the points of one piece over the whole script; any number that shares no factor with
/// their count would do.
const STRIDE: usize = 7919;

/// Runs one piece of the sweep: the seed says which.
pub(super) fn sweep(scene: &Scene) -> Result<String, Stop> {
    let points = count_calls(scene)?;
    let wanted = scene.count.unwrap_or(POINTS) as usize;
    let pieces = points.len().div_ceil(wanted);
    let piece = scene.seed as usize % pieces;
    let chosen = (piece * wanted..points.len().min((piece + 1) * wanted)).map(|at| &points[at * STRIDE % points.len()]);
    let (mut deaths, mut tried, mut passed) = (BTreeMap::<&str, u64>::new(), 0, 0);
    let mut promises = 0;
    for (call, when) in chosen {
        tried += 1;
        let (died, confirmed) = die_at(scene, call, *when).map_err(|stop| match stop {
            Stop::Failed(error) => Stop::Failed(format!("at {call} {when}: {error}")),
            skipped => skipped,
        })?;
        promises += confirmed;
        if died {
            *deaths.entry(call.as_str()).or_default() += 1;
        } else {
            passed += 1;
        }
    }
    let kinds: Vec<String> = deaths.iter().map(|(call, count)| format!("{count} {call}")).collect();
    Ok(format!(
        "piece {} of {pieces}: {tried} of {} points, {} deaths ({}), {passed} runs to the end; {promises} confirmed, 0 lost",
        piece + 1,
        points.len(),
        tried - passed,
        kinds.join(", ")
    ))
}

/// One run of the script to its end: all pairs of call and n that a thread makes.
fn count_calls(scene: &Scene) -> Result<Vec<(String, u64)>, Stop> {
    let rig = Rig::new(scene)?;
    let log = scene.folder.join("calls");
    let trace = format!("trace={CALLS}");
    let words = ["strace", "-D", "-f", "--seccomp-bpf", "-qq", "-o", &log.to_string_lossy(), "-e", &trace];
    // Skips the fault where there is no strace.
    strace(&scene.folder, "fsync:error=EIO:when=1")?;
    let launch = script::launch();
    let wrapper = words.iter().map(ToString::to_string).collect();
    let mut server = rig.start(&Launch { wrapper, ..launch })?;
    script::run(&rig.stage, &mut Catalog::default()).map_err(|error| format!("the script itself: {error}"))?;
    rig.kill(&mut server)?;
    let text = std::fs::read_to_string(&log).map_err(|error| format!("cannot read {}: {error}", log.display()))?;
    let mut most = BTreeMap::<(String, String), u64>::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (Some(thread), Some(rest)) = (words.next(), words.next()) else { continue };
        let call = rest.split('(').next().unwrap_or_default();
        if CALLS.split(',').any(|known| known == call) {
            *most.entry((call.to_owned(), thread.to_owned())).or_default() += 1;
        }
    }
    let mut points = BTreeMap::<String, u64>::new();
    for ((call, _), count) in most {
        let entry = points.entry(call).or_default();
        *entry = count.max(*entry);
    }
    Ok(points.into_iter().flat_map(|(call, most)| (1..=most).map(move |when| (call.clone(), when))).collect())
}

/// Runs the script on an empty directory with death at one call, and checks everything. Returns
/// whether the broker died, and how much it had confirmed.
fn die_at(scene: &Scene, call: &str, when: u64) -> Result<(bool, u64), Stop> {
    let rig = Rig::new(scene)?;
    let wrapper = strace(&scene.folder, &format!("{call}:signal=SIGKILL:when={when}"))?;
    let launch = script::launch();
    let mut catalog = Catalog::default();
    let mut server = rig.program.start(&Launch { wrapper, ..launch.clone() })?;
    if let Started::Ready(_) = server.wait(rig.stage.ports) {
        match script::run(&rig.stage, &mut catalog) {
            Ok(()) | Err(Broken::Lost(_)) => {}
            Err(refused) => return Err(Stop::Failed(rig.with_log(refused.to_string()))),
        }
    }
    std::thread::sleep(std::time::Duration::from_millis(2));
    let died = server.ended().is_some();
    server.kill()?;
    rig.stage.tell(&[Event::Killed]);
    let mut server = rig.start(&launch)?;
    catalog.check(&rig.stage).map_err(|error| rig.with_log(error))?;
    rig.settle()?;
    server.kill()?;
    let confirmed = rig.stage.checker().counts().confirmed;
    Ok((died, confirmed))
}
