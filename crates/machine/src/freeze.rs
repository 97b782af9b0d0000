//! Stopping the brokers that are not measured right now, so that they use no CPU, and never leaving
//! one stopped.
//!
//! A keeper process holds the list of stopped processes and continues them when this program ends
//! in whatever way: its standard input is a pipe from here, and a pipe closes even when its writer
//! is killed.

use std::process::{Child, Command, Stdio};

use super::process::descendants;
use bench_record::failure::{Context, Failure};

/// Processes stopped until this value is dropped.
#[derive(Debug)]
pub struct Frozen {
    pids: Vec<u32>,
    keeper: Child,
}

/// What the keeper does: wait for the end of its input, untouched by Ctrl-C, then continue
/// all.
const KEEPER: &str = "trap '' INT TERM HUP; cat >/dev/null; kill -CONT \"$@\" 2>/dev/null; exit 0";

impl Frozen {
    /// Stops `roots` and all their descendants, but never `spared` or this program.
    pub fn stop(roots: &[u32], spared: &[u32]) -> Result<Option<Self>, Failure> {
        let mut spared = descendants(spared);
        spared.push(std::process::id());
        let pids: Vec<u32> = descendants(roots).into_iter().filter(|pid| *pid > 1 && !spared.contains(pid)).collect();
        if pids.is_empty() {
            return Ok(None);
        }
        let mut command = Command::new("sh");
        command.args(["-c", KEEPER, "keeper"]).args(pids.iter().map(u32::to_string));
        let keeper = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let frozen = Self { pids, keeper: keeper.context("starting sh, which continues frozen brokers")? };
        frozen.signal(Which::Stop);
        Ok(Some(frozen))
    }

    fn signal(&self, which: Which) {
        // A process that has ended meanwhile needs neither.
        self.pids.iter().for_each(|pid| send(*pid, which));
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        self.signal(Which::Continue);
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

#[derive(Debug, Clone, Copy)]
enum Which {
    Stop,
    Continue,
}

#[cfg(unix)]
fn send(pid: u32, which: Which) {
    use rustix::process::{Pid, Signal, kill_process};
    let signal = match which {
        Which::Stop => Signal::STOP,
        Which::Continue => Signal::CONT,
    };
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

#[cfg(not(unix))]
fn send(_: u32, which: Which) {
    // Nothing can be stopped here: see `supported`.
    let _ = which;
}

/// True where processes can be stopped.
pub const fn supported() -> bool {
    cfg!(unix)
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use std::fs;
    use std::time::{Duration, Instant};

    fn state(pid: u32) -> char {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        text.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()).unwrap()
    }

    fn becomes(pid: u32, wanted: impl Fn(char) -> bool) -> bool {
        let end = Instant::now() + Duration::from_secs(10);
        while Instant::now() < end {
            if wanted(state(pid)) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }

    #[test]
    fn a_frozen_process_goes_on_when_dropped_and_when_its_keeper_loses_us() {
        let mut victim = Command::new("sleep").arg("60").spawn().unwrap();
        let frozen = Frozen::stop(&[victim.id()], &[]).unwrap().unwrap();
        assert!(becomes(victim.id(), |s| s == 'T'));
        drop(frozen);
        assert!(becomes(victim.id(), |s| s != 'T'));

        let mut frozen = Frozen::stop(&[victim.id()], &[]).unwrap().unwrap();
        assert!(becomes(victim.id(), |s| s == 'T'));
        drop(frozen.keeper.stdin.take());
        assert!(becomes(victim.id(), |s| s != 'T'));
        drop(frozen);
        victim.kill().unwrap();
        victim.wait().unwrap();
    }

    #[test]
    fn nobody_freezes_itself() {
        let own = std::process::id();
        assert!(Frozen::stop(&[own], &[own]).unwrap().is_none());
    }
}
