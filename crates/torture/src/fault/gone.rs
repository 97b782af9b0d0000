//! F13, the disk that goes away under a running broker or takes no more writes: it ends by itself
//! or goes on with the files that it has, but everything that it confirmed is on the disk that
//! comes back.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::hand::Publisher;
use super::mount::{Mount, run};
use super::rig::{Rig, demand};
use super::{Scene, Stop};
use crate::server::{Launch, Server, Sizes};
use crate::talk::{Broken, Protocol};
use crate::topology::{PLAIN, straight};

const IMAGE: u64 = 256 << 20;
/// The log makes new files all the time: they are small and nothing is consumed.
const FILE_BYTES: &str = "1MiB";
const LOG_BYTES: &str = "96MiB";
const LARGEST: &str = "128KiB";
const BODY: usize = 8 * 1024;
/// Messages that are confirmed before the mount is taken away, and published in all if the broker
/// goes on.
const BEFORE: u64 = 1000;
const PUBLISHED: u64 = 4000;
const WINDOW: usize = 32;
/// The exit code of a broker that cannot write its log any more.
const CANNOT_WRITE: i32 = 74;
/// How long the broker may neither confirm nor end.
const PATIENCE: Duration = Duration::from_secs(10);

/// The mount is detached (`umount -l`): open files still reach the disk, new names do not.
pub(super) fn detached(scene: &Scene) -> Result<String, Stop> {
    let OnImage { rig, launch, mut server, image, mount } = start(scene)?;
    let data = rig.program.data();
    let (before, after) = publish(&rig, &mut server, || run("umount", &["-l", &data.to_string_lossy()]).map(drop))?;
    let ended = server.ended();
    rig.kill(&mut server)?;
    rig.stage.forgive_lost();
    let astray = files_below(&data);
    // Its own place was taken away already.
    mount.forget();
    let _mount = Mount::ext4(&image, &data)?;
    let told = match ended.and_then(|status| status.code()) {
        Some(code) => format!("the broker ended with exit code {code}"),
        None => "the broker went on".to_owned(),
    };
    let what = format!("{told}; {before} confirmed before, {after} after; {astray} files were made beside the mount");
    rig.judge(&launch).map_err(|error| format!("{what}: {error}"))?;
    Ok(format!("{what}; mounted again and restarted: 0 lost"))
}

/// The file system becomes read-only, as it does when it finds damage in itself.
pub(super) fn read_only(scene: &Scene) -> Result<String, Stop> {
    let OnImage { rig, launch, mut server, image, mount } = start(scene)?;
    let (before, after) = publish(&rig, &mut server, || mount.abort())?;
    let begin = Instant::now();
    let mut ended = server.ended();
    while ended.is_none() && begin.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(5));
        ended = server.ended();
    }
    demand(ended.and_then(|status| status.code()) == Some(CANNOT_WRITE), || {
        rig.with_log(format!("the broker ended with {ended:?}; {after} confirmed after the disk was read-only"))
    })?;
    rig.buried();
    rig.stage.forgive_lost();
    drop(mount);
    let _mount = Mount::ext4(&image, &rig.program.data())?;
    rig.judge(&launch)?;
    let confirmed = before + after;
    Ok(format!("exit code {CANNOT_WRITE}; {confirmed} confirmed, {after} of them after it; mounted again: 0 lost"))
}

/// A broker whose data directory is a file system of its own.
struct OnImage {
    rig: Rig,
    launch: Launch,
    server: Server,
    image: PathBuf,
    mount: Mount,
}

fn start(scene: &Scene) -> Result<OnImage, Stop> {
    let rig = Rig::new(scene)?;
    let image = scene.folder.join("image");
    let mount = Mount::new_ext4(&image, &rig.program.data(), IMAGE)?;
    let variables = vec![
        ("HERMOD_JOURNAL_MAX_BYTES", LOG_BYTES.to_owned()),
        ("HERMOD_JOURNAL_FILE_BYTES", FILE_BYTES.to_owned()),
        ("HERMOD_LIMITS_MAX_MESSAGE_SIZE", LARGEST.to_owned()),
    ];
    let launch = Launch { variables, ..Launch::plain(Sizes::Default) };
    let server = rig.start_new(&launch)?;
    Ok(OnImage { rig, launch, server, image, mount })
}

/// Publishes to one queue, with `fault` in the middle. Returns what was confirmed before and after.
fn publish(rig: &Rig, server: &mut Server, fault: impl FnOnce() -> Result<(), String>) -> Result<(u64, u64), Stop> {
    let open = |error: Broken| error.to_string();
    let mut publisher = Publisher::open(&rig.stage, Protocol::Amqp).map_err(open)?;
    publisher.publish_all(straight(PLAIN), BEFORE, BODY, WINDOW).map_err(open)?;
    fault()?;
    let (mut published, mut confirmed) = (0, 0);
    let mut last = Instant::now();
    while confirmed < PUBLISHED && last.elapsed() < PATIENCE && server.ended().is_none() {
        while publisher.waiting() < WINDOW && published < PUBLISHED {
            publisher.publish(straight(PLAIN), BODY);
            published += 1;
        }
        match publisher.exchange() {
            Ok(now) => {
                confirmed += now.len() as u64;
                if !now.is_empty() {
                    last = Instant::now();
                }
            }
            Err(_) => break,
        }
    }
    Ok((BEFORE, confirmed))
}

/// How many files lie in a folder and the folders in it.
fn files_below(folder: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let count = |path: PathBuf| if path.is_dir() { std::fs::read_dir(path).map_or(0, Iterator::count) } else { 1 };
    entries.flatten().map(|entry| count(entry.path())).sum()
}
