//! Which calls that force data to a disk a broker makes, seen by `strace` where there is one and it
//! may look. All processes of the broker's tree are traced before the first message is sent, and
//! whatever they start later with them. A broker may force its data in ways that it does not show
//! (writes that are synchronous by themselves), so that seeing none is no proof.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use bench_record::failure::{Context, Failure};
use bench_record::rules::FLUSHED;
use machine::process::{descendants, is_alive};

/// The calls that are counted.
const FORCING: [&str; 6] = ["fsync", "fdatasync", "sync_file_range", "syncfs", "sync", "msync"];
/// What a strace may take to attach to all threads that it was given.
const ATTACHING: Duration = Duration::from_secs(20);
/// What a strace may take to let go of them.
const LEAVING: Duration = Duration::from_secs(5);
/// How often is looked whether it has.
const GLANCE: Duration = Duration::from_millis(20);
/// Who still finds threads without a tracer after this many rounds looks at a broker that never
/// comes to rest.
const ROUNDS: usize = 8;

/// Forcing calls that the broker made while messages were confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Calls {
    pub(super) count: u64,
    /// Messages confirmed meanwhile.
    pub(super) confirmed: u64,
    pub(super) window: u64,
    /// Processes that were looked at.
    #[serde(default)]
    pub(super) processes: usize,
}

impl Calls {
    /// True when there were about as many as forced confirms need at least: one for each full
    /// window.
    pub(super) fn force(&self) -> bool {
        self.confirmed > 0 && self.count as f64 >= self.confirmed as f64 / self.window as f64 * FLUSHED
    }
}

impl std::fmt::Display for Calls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { count, confirmed, window, processes } = self;
        write!(f, "{count} forcing calls seen in {processes} processes for {confirmed} confirms in windows of {window}")
    }
}

/// True where there is `strace`.
pub(super) fn possible() -> bool {
    let asked =
        Command::new("strace").arg("-V").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    asked.is_ok_and(|status| status.success())
}

/// A tree of processes whose calls are looked at, until this is dropped.
#[derive(Debug)]
pub(super) struct Trace {
    tracers: Vec<Tracer>,
    /// Processes that there were when all were traced.
    pub(super) processes: usize,
}

/// One strace, and where it writes down each call.
#[derive(Debug)]
struct Tracer {
    child: Child,
    seen: NamedTempFile,
}

impl Trace {
    /// Looks at `roots` and all below them; none where that is not allowed here.
    pub(super) fn attach(roots: &[u32]) -> Result<Option<Self>, Failure> {
        let mut tracers = Vec::new();
        // What a process started that was not traced yet is found by looking again.
        for _ in 0..ROUNDS {
            let tree = descendants(roots);
            let missed = untraced(&tree);
            if missed.is_empty() {
                return Ok(Some(Self { tracers, processes: tree.len() }));
            }
            let mut tracer = Tracer::start(&missed)?;
            if !tracer.await_all(&missed)? {
                return Ok(None);
            }
            tracers.push(tracer);
        }
        Ok(None)
    }

    /// Forcing calls seen so far.
    pub(super) fn count(&self) -> Result<u64, Failure> {
        self.tracers.iter().map(Tracer::count).sum()
    }
}

impl Tracer {
    fn start(threads: &[u32]) -> Result<Self, Failure> {
        let seen = NamedTempFile::new().context("a file for strace")?;
        let mut strace = Command::new("strace");
        strace.args(["-f", "-qq", "-e", "signal=none", "-e", &format!("trace={}", FORCING.join(","))]);
        strace.arg("-o").arg(seen.path());
        for thread in threads {
            strace.args(["-p", &thread.to_string()]);
        }
        let strace = strace.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self { child: strace.spawn().context("starting strace")?, seen })
    }

    /// Waits until each of `threads` is traced, or has ended. False: it may not, or can't.
    fn await_all(&mut self, threads: &[u32]) -> Result<bool, Failure> {
        let end = Instant::now() + ATTACHING;
        while threads.iter().any(|thread| is_traced(*thread) == Some(false)) {
            let ended = self.child.try_wait().context("waiting for strace")?.is_some();
            if ended || Instant::now() > end {
                return Ok(false);
            }
            std::thread::sleep(GLANCE);
        }
        Ok(true)
    }

    fn count(&self) -> Result<u64, Failure> {
        let seen = fs::read(self.seen.path()).context("what strace saw")?;
        Ok(forcing(&String::from_utf8_lossy(&seen)))
    }
}

impl Drop for Tracer {
    /// Lets go of the threads. A strace that is asked to waits for each of them to stop, and so for
    /// ever for one that waits itself for a child which the same strace holds (`vfork`); when it is
    /// ended, the kernel lets go of all.
    fn drop(&mut self) {
        let end = Instant::now() + LEAVING;
        if matches!(self.child.try_wait(), Ok(None)) {
            interrupt(self.child.id());
        }
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > end {
                let _ = self.child.kill();
                break;
            }
            std::thread::sleep(GLANCE);
        }
        let _ = self.child.wait();
    }
}

/// What strace is to be given so that all threads of `tree` are traced: the processes of which none
/// is, and single threads of the others.
fn untraced(tree: &[u32]) -> Vec<u32> {
    let mut missed = Vec::new();
    for pid in tree.iter().copied().filter(|pid| is_alive(*pid)) {
        if is_traced(pid) == Some(false) {
            missed.push(pid);
            continue;
        }
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let threads = tasks.filter_map(|task| task.file_name().to_str()?.parse().ok());
        missed.extend(threads.filter(|thread| is_traced(*thread) == Some(false)));
    }
    missed
}

/// Whether a thread is traced; none when it has ended.
fn is_traced(thread: u32) -> Option<bool> {
    traced(&fs::read_to_string(format!("/proc/{thread}/status")).ok()?)
}

fn traced(status: &str) -> Option<bool> {
    let field = |label: &str| status.lines().find_map(|line| line.strip_prefix(label)?.split_whitespace().next());
    let ended = field("State:").is_none_or(|state| matches!(state, "Z" | "X"));
    if ended { None } else { Some(field("TracerPid:")? != "0") }
}

/// Asks strace to let go.
#[cfg(unix)]
fn interrupt(pid: u32) {
    use rustix::process::{Pid, Signal, kill_process};
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::INT);
    }
}

#[cfg(not(unix))]
fn interrupt(_: u32) {
    // There is no strace here.
}

/// The calls that strace wrote down. One that another line interrupts has a second line, where it
/// is resumed.
fn forcing(seen: &str) -> u64 {
    let begins = |line: &&str| {
        // A line begins with the thread's number, where there is more than one.
        let call = line.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == ' ');
        call.split_once('(').is_some_and(|(name, _)| FORCING.contains(&name))
    };
    seen.lines().filter(begins).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_where_they_begin() {
        let cases = [
            ("", 0),
            ("fsync(3)                                = 0\n", 1),
            (
                "17 fsync(3) = 0\n1234  fdatasync(26 <unfinished ...>\n17 sync() = 0\n1234  <... fdatasync resumed>) = 0\n",
                3,
            ),
            ("17 fsync(3) = -1 EIO (Input/output error)\n17 +++ exited with 0 +++\n", 1),
            ("17 msync(0x7f0000000000, 4096, MS_SYNC) = 0\n17 unsync(1) = 0\n17 --- SIGINT (fsync) ---\n", 1),
        ];
        for (seen, count) in cases {
            assert_eq!(forcing(seen), count, "{seen}");
        }
    }

    #[test]
    fn a_thread_is_traced_when_it_says_by_whom() {
        let cases = [
            ("Name:\tx\nState:\tS (sleeping)\nTracerPid:\t0\n", Some(false)),
            ("Name:\tx\nState:\tt (tracing stop)\nTracerPid:\t77\n", Some(true)),
            ("Name:\tx\nState:\tZ (zombie)\nTracerPid:\t0\n", None),
            ("", None),
        ];
        for (status, expected) in cases {
            assert_eq!(traced(status), expected, "{status}");
        }
    }

    /// As strace was found to, between a shell and its child that had not become another program
    /// yet. The audit waited for ever.
    #[test]
    #[cfg(unix)]
    fn a_tracer_that_does_not_let_go_is_ended() {
        let script = "trap '' INT; echo; exec sleep 600";
        let mut child = Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let pid = child.id();
        drop(Tracer { child, seen: NamedTempFile::new().unwrap() });
        assert!(!is_alive(pid));
    }

    /// A shell that started another, which starts a program again and again: a tree of which some
    /// was there before, and some comes later.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_whole_tree_is_traced_with_what_it_starts_later() {
        let dir = tempfile::tempdir().unwrap();
        let force = format!("dd if=/dev/zero of={}/f bs=1 count=1 conv=fsync status=none", dir.path().display());
        let script = format!("sh -c 'while :; do {force}; sleep 0.01; done' & wait");
        let mut root = Command::new("sh").args(["-c", &script]).spawn().unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        while descendants(&[root.id()]).len() < 2 && Instant::now() < end {
            std::thread::sleep(GLANCE);
        }
        let trace = if possible() { Trace::attach(&[root.id()]).unwrap() } else { None };
        let mut count = 0;
        if let Some(trace) = &trace {
            assert!(trace.processes >= 2);
            while count < 3 && Instant::now() < end {
                std::thread::sleep(GLANCE);
                count = trace.count().unwrap();
            }
        }
        let looked = trace.is_some();
        drop(trace);
        let tree = descendants(&[root.id()]);
        let kill = |pid: &u32| Command::new("kill").args(["-9", &pid.to_string()]).status();
        tree.iter().for_each(|pid| drop(kill(pid)));
        root.wait().unwrap();
        assert!(!looked || count >= 3, "{count} calls");
    }
}
