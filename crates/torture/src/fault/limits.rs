//! Faults of the machine besides the disk: F8 (little memory), F9 (few file descriptors), F10 (a
//! stopped process).

use std::time::{Duration, Instant};

use super::group::Group;
use super::hand::Publisher;
use super::mount::run;
use super::rig::{Rig, demand};
use super::{Scene, Stop, full};
use crate::gauge;
use crate::server::{Launch, Sizes};
use crate::talk::Protocol;
use crate::topology::{PLAIN, straight};

const MIB: u64 = 1 << 20;
/// The memory that a broker gets.
const MEMORY: u64 = 128 * MIB;
/// File descriptors that a broker gets, and the connections that are tried.
const DESCRIPTORS: &str = "--nofile=256";
const CONNECTIONS: usize = 300;
/// How long a broker without descriptors is watched, and the part of a core, in percent, that it
/// may use.
const WATCHED: Duration = Duration::from_secs(3);
const BUSY: u64 = 20;
/// How long a process is stopped, and how long the load lasts before and after.
const STOPPED: (u64, u64) = (5, 8);
const BESIDE: Duration = Duration::from_secs(1);

/// F8: a queue twice as large as the memory does not have the kernel end the broker. The broker
/// finds its limit itself.
pub(super) fn memory(scene: &Scene) -> Result<String, Stop> {
    little_memory(scene, Vec::new())
}

/// The same with a limit that is set.
pub(super) fn memory_set(scene: &Scene) -> Result<String, Stop> {
    little_memory(scene, vec![("HERMOD_MEMORY_LIMIT", (MEMORY / 10 * 4).to_string())])
}

fn little_memory(scene: &Scene, variables: Vec<(&'static str, String)>) -> Result<String, Stop> {
    let group = Group::with_memory(MEMORY)?;
    let launch = Launch { wrapper: group.wrapper(), variables, ..Launch::plain(Sizes::Default) };
    let figure = full::held(scene, &launch, 2 * MEMORY)?;
    Ok(format!("{figure}; peak {} of {} MiB with the file cache", group.peak() / MIB, MEMORY / MIB))
}

/// F9: without descriptors the broker takes no new connection, does not spin, and serves the ones
/// that it has.
pub(super) fn descriptors(scene: &Scene) -> Result<String, Stop> {
    run("prlimit", &[DESCRIPTORS, "true"]).map_err(Stop::Skipped)?;
    let rig = Rig::new(scene)?;
    let plain = Launch::plain(Sizes::Small);
    let wrapper = vec!["prlimit".to_owned(), DESCRIPTORS.to_owned()];
    let mut server = rig.start_new(&Launch { wrapper, ..plain.clone() })?;
    let refused = |error| format!("an existing connection: {error}");
    let mut first = Publisher::open(&rig.stage, Protocol::Amqp).map_err(|error| error.to_string())?;
    let mut open = Vec::new();
    while open.len() < CONNECTIONS
        && let Ok(publisher) = Publisher::open(&rig.stage, Protocol::Stomp)
    {
        open.push(publisher);
    }
    demand(open.len() < CONNECTIONS, || "the limit was not reached".to_owned())?;
    // The broker can't accept these; they must not keep it busy.
    let knocking: Vec<_> = (0..20)
        .filter_map(|_| std::net::TcpStream::connect((std::net::Ipv4Addr::LOCALHOST, rig.stage.ports.amqp)).ok())
        .collect();
    let before = gauge::ticks(server.id())?;
    std::thread::sleep(WATCHED);
    let busy = (gauge::ticks(server.id())? - before) * 100 / (gauge::TICKS * WATCHED.as_secs());
    demand(busy < BUSY, || rig.with_log(format!("a broker without descriptors uses {busy} % of a core")))?;
    first.publish_all(straight(PLAIN), 500, 200, 64).map_err(refused)?;
    let taken = open.len();
    drop((open, knocking));
    std::thread::sleep(BESIDE);
    Publisher::open(&rig.stage, Protocol::Amqp)
        .and_then(|mut publisher| publisher.publish_all(straight(PLAIN), 500, 200, 64))
        .map_err(|error| format!("a new connection after others have left: {error}"))?;
    rig.kill(&mut server)?;
    rig.judge(&plain)?;
    Ok(format!("{taken} connections with 256 descriptors; {busy} % of a core while more knock; 1000 confirmed, 0 lost"))
}

/// F10: the process is stopped and goes on; connections live, nothing is lost or comes twice.
pub(super) fn stopped(scene: &Scene) -> Result<String, Stop> {
    let mut rig = Rig::new(scene)?;
    let plain = Launch::plain(Sizes::Small);
    let mut server = rig.start_new(&plain)?;
    let pause = Duration::from_secs(rig.random.within(STOPPED.0..=STOPPED.1));
    let id = server.id().to_string();
    let begin = Instant::now();
    let mut outcome = None;
    let ended = rig.play(&mut server, || {
        if outcome.is_none() && begin.elapsed() > BESIDE {
            outcome = Some(run("kill", &["-STOP", &id]).and_then(|_| {
                std::thread::sleep(pause);
                run("kill", &["-CONT", &id])
            }));
        }
        begin.elapsed() > 2 * BESIDE + pause
    })?;
    outcome.unwrap_or_else(|| Err("the load ended before the process was stopped".to_owned()))?;
    demand(ended.is_none(), || rig.with_log(format!("the broker ended with {ended:?}")))?;
    rig.stage.verdict()?;
    rig.judge(&plain)?;
    let confirmed = rig.stage.checker().counts().confirmed;
    Ok(format!("stopped for {pause:?} under load, no connection lost; {confirmed} confirmed, 0 lost"))
}
