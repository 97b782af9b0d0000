//! Processes that this program started, remembered across its own end. A process is its id together
//! with the time of its start and the boot that it belongs to: an id that the system has given to
//! another process is never signalled.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use machine::process::descendants;

/// How long a process may take to end before it is killed: brokers write their last state.
const GRACE: Duration = Duration::from_secs(15);
/// How often is looked.
const STEP: Duration = Duration::from_millis(20);

/// A process that can't be mistaken for another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessIdentity {
    pub(crate) pid: u32,
    /// Start of the process in ticks since the boot.
    born: u64,
    boot: String,
}

impl ProcessIdentity {
    /// The process that has this id now.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let (_, born) = look(pid)?;
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned();
        Some(Self { pid, born, boot })
    }

    /// True while it runs. One that has ended and was not yet waited for does not run.
    pub(crate) fn lives(&self) -> bool {
        look(self.pid).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'))
            && Self::of(self.pid).as_ref() == Some(self)
    }

    /// Sends a signal to this process and no other.
    #[cfg(target_os = "linux")]
    fn signal(&self, signal: Signal) {
        use rustix::process::{Pid, PidfdFlags, Signal as Raw, pidfd_open, pidfd_send_signal};
        let raw = match signal {
            Signal::Continue => Raw::CONT,
            Signal::End => Raw::TERM,
            Signal::Kill => Raw::KILL,
        };
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return };
        // The descriptor stands for the process that has the id now; from here on it can't change
        // hands any more.
        let Ok(fd) = pidfd_open(pid, PidfdFlags::empty()) else { return };
        if self.lives() {
            let _ = pidfd_send_signal(&fd, raw);
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn signal(&self, signal: Signal) {
        // Without /proc no process is ever kept.
        let _ = signal;
    }
}

#[derive(Debug, Clone, Copy)]
enum Signal {
    Continue,
    End,
    Kill,
}

/// Ends `roots`, the last started first, each with all that it started, and waits until they are
/// gone.
pub(crate) fn end(roots: &[ProcessIdentity]) {
    for root in roots.iter().rev().filter(|root| root.lives()) {
        let tree: Vec<ProcessIdentity> = descendants(&[root.pid]).into_iter().filter_map(ProcessIdentity::of).collect();
        // A frozen process takes no other signal than this.
        tree.iter().for_each(|process| process.signal(Signal::Continue));
        tree.iter().for_each(|process| process.signal(Signal::End));
        if !gone(&tree) {
            tree.iter().for_each(|process| process.signal(Signal::Kill));
            gone(&tree);
        }
    }
}

fn gone(tree: &[ProcessIdentity]) -> bool {
    let begin = Instant::now();
    while tree.iter().any(ProcessIdentity::lives) {
        if begin.elapsed() > GRACE {
            return false;
        }
        sleep(STEP);
    }
    true
}

/// State and start of a process.
fn look(pid: u32) -> Option<(char, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before may hold anything, parentheses too.
    let mut fields = text.rsplit_once(") ")?.1.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_tree_ends_and_somebody_else_with_the_same_id_does_not() {
        let mut child = Command::new("sh").args(["-c", "sleep 60 & wait"]).spawn().unwrap();
        let kept = ProcessIdentity::of(child.id()).unwrap();
        assert!(kept.lives());
        for other in [
            ProcessIdentity { born: kept.born + 1, ..kept.clone() },
            ProcessIdentity { boot: "another".to_owned(), ..kept.clone() },
        ] {
            assert!(!other.lives());
            end(&[other]);
            assert!(child.try_wait().unwrap().is_none(), "a stranger was ended");
        }
        while descendants(&[child.id()]).len() < 2 {
            sleep(STEP);
        }
        let tree: Vec<ProcessIdentity> =
            descendants(&[child.id()]).into_iter().filter_map(ProcessIdentity::of).collect();
        end(&[kept]);
        assert!(tree.iter().all(|process| !process.lives()));
        child.wait().unwrap();
    }

    #[test]
    fn a_frozen_process_ends_too() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let frozen = machine::freeze::Frozen::stop(&[child.id()], &[]).unwrap();
        end(&[ProcessIdentity::of(child.id()).unwrap()]);
        assert!(child.wait().is_ok());
        drop(frozen);
    }
}
