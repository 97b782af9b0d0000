//! Who holds a share of the connections: this process, or a child that is this program again. A
//! child says on standard output that all are open, proves once that they live when it is given a
//! line, and ends when its standard input closes.

use std::io::{BufRead, BufReader, Read, Write, stdin};
use std::ops::Range;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::crowd::{Crowd, Order, Proof};
use super::{ConnectionsArgs, Trial};
use bench_record::failure::{Context, Failure};
use bench_record::output;

/// What a child says when all of its connections are open.
const OPEN: &str = "open";
/// Longest line of a child, in bytes.
const LONGEST_LINE: u64 = 1 << 20;
/// A child that has not proven its connections after this long never will: each probe waits for 30
/// s at most.
const PROVING: Duration = Duration::from_secs(600);

/// One process that holds connections.
#[derive(Debug)]
pub(super) enum Holder {
    Here(Box<Crowd>),
    There(Process),
}

/// A child. It ends when this value is dropped.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    lines: Receiver<String>,
}

impl Holder {
    /// Opens the connections in this process.
    pub(super) fn here(order: &Order) -> Result<Self, Failure> {
        Crowd::open(order).map(|crowd| Self::Here(Box::new(crowd)))
    }

    /// Starts a child that opens the connections with these numbers, and sends messages through
    /// `probes` of them.
    pub(super) fn start(
        args: &ConnectionsArgs,
        trial: &Trial,
        numbers: &Range<u32>,
        probes: usize,
    ) -> Result<Self, Failure> {
        let program = std::env::current_exe().context("finding this program")?;
        let mut command = Command::new(program);
        // The broker's address with its password; a peer was started by this program alone.
        command.args(["connections", "--target", &trial.target.text, "--share-from", &numbers.start.to_string()]);
        command.args(["--count", &numbers.len().to_string(), "--parallel", &args.parallel.to_string()]);
        command.args(["--limit", &args.limit.to_string(), "--probes", &probes.to_string()]);
        command.args(args.consume.then_some("--consume"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("starting a child")?;
        let out = child.stdout.take().ok_or_else(|| Failure::new("a child without standard output"))?;
        let lines = lines(out)?;
        Ok(Self::There(Process { child, lines }))
    }

    /// Waits until all of its connections are open.
    pub(super) fn opened(&mut self, until: Option<Instant>) -> Result<(), Failure> {
        let Self::There(process) = self else { return Ok(()) };
        let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
        match process.line(left)? {
            line if line == OPEN => Ok(()),
            line => Err(Failure::new(format!("a child said {line}"))),
        }
    }

    /// Lets it prove its connections.
    pub(super) fn prove(&mut self) -> Result<Proof, Failure> {
        match self {
            Self::Here(crowd) => crowd.prove(),
            Self::There(process) => {
                let input = process.child.stdin.as_mut().ok_or_else(|| Failure::new("a child without input"))?;
                input.write_all(b"prove\n").context("asking a child")?;
                let line = process.line(PROVING)?;
                serde_json::from_str(&line).context("the answer of a child")
            }
        }
    }
}

impl Process {
    fn line(&mut self, time: Duration) -> Result<String, Failure> {
        self.lines.recv_timeout(time).map_err(|error| match error {
            RecvTimeoutError::Timeout => Failure::new("a child took too long"),
            RecvTimeoutError::Disconnected => Failure::new("a child ended; it says above why"),
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads the lines of a child in a thread, so that waiting for one can end.
fn lines(out: ChildStdout) -> Result<Receiver<String>, Failure> {
    let (sender, receiver) = channel();
    let read = move || {
        let mut reader = BufReader::new(out);
        loop {
            let mut line = String::new();
            let read = reader.by_ref().take(LONGEST_LINE).read_line(&mut line);
            if !matches!(read, Ok(1..)) || sender.send(line.trim().to_owned()).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("child".to_owned()).spawn(read).context("starting a thread")?;
    Ok(receiver)
}

/// What a child does.
pub(super) fn serve(order: &Order) -> Result<(), Failure> {
    let mut crowd = Crowd::open(order)?;
    output::show(&format!("{OPEN}\n"))?;
    let mut line = String::new();
    if matches!(stdin().lock().take(LONGEST_LINE).read_line(&mut line), Ok(1..)) {
        output::show_line(&crowd.prove()?)?;
    }
    // Whatever else comes, its end is the parent's end.
    let _ = stdin().lock().take(LONGEST_LINE).read_to_string(&mut line);
    Ok(())
}
