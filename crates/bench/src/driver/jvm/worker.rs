//! A worker process: its pipes, its clock, and its end. What it says is read by a thread of its
//! own, which notes when each line came, so that clocks are compared without the time that this
//! program takes to look.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command as Process, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::protocol::{Answer, Command, Hello, Spec, VERSION};
use bench_record::failure::{Context, Failure};
use machine::clock::now;
use machine::java;
use machine::wait::sharpen_timer;

/// The class of the worker's program.
const MAIN: &str = "hermod.bench.Main";
/// The collector with the least work in all, and a heap that large windows fit into.
const MACHINE: [&str; 3] = ["-Xms256m", "-Xmx1g", "-XX:+UseParallelGC"];
/// Most questions about the time, and the doubt at which no more are asked.
const CLOCK_ASKED: usize = 200;
const CLOCK_SURE_NS: u64 = 10_000;
/// With more doubt than this the times of worker and program can't be compared.
pub(crate) const CLOCK_DOUBT_NS: u64 = 50_000;
/// How long a worker may take to answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long it has to end by itself.
const GOODBYE: Duration = Duration::from_secs(1);
/// How much of its complaints is kept.
const COMPLAINTS: usize = 2000;

/// A line, and when it came by this program's clock.
type Said = (u64, Result<Answer, Failure>);

/// A running worker; it ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct Worker {
    child: Child,
    input: Option<ChildStdin>,
    said: Receiver<Said>,
    complaints: Arc<Mutex<String>>,
    hello: Hello,
    /// The worker's clock minus this program's.
    ahead_ns: i64,
    /// The load that it made last, as far as it is the same in other slices; none: it has made
    /// none.
    practised: Option<Spec>,
}

/// How well a worker knows a load: which of its code the Java machine has compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Practice {
    /// It has made no load yet.
    None,
    /// It made another one last.
    Other,
    /// It made the same one last.
    Same,
}

impl Worker {
    /// Starts a worker with this class path in a Java machine of version `least` or newer: the one
    /// that JAVA_HOME names, or one that is found.
    pub(crate) fn start(class_path: &str, least: u32) -> Result<Self, Failure> {
        let named = std::env::var_os("JAVA_HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
        let java = java::program_in(&named.map_or_else(|| java::home(least), Ok)?);
        let mut command = Process::new(&java);
        command.args(MACHINE).args(["-cp", class_path, MAIN]);
        // Who interrupts this program wants an orderly end, which needs the worker.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        // What this thread's timer is set to, its children's are too.
        sharpen_timer();
        Self::over(command, CLOCK_DOUBT_NS).context(format!("the JMS worker ({})", java.display()))
    }

    /// Starts a worker by any command. It is refused if its clock can't be compared with this
    /// program's to within `worst_doubt_ns`.
    pub(crate) fn over(mut command: Process, worst_doubt_ns: u64) -> Result<Self, Failure> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("it does not start")?;
        let (to, said) = channel();
        let complaints = Arc::new(Mutex::new(String::new()));
        if let Some(output) = child.stdout.take() {
            spawn("worker-answers", move || listen(BufReader::new(output), &to))?;
        }
        if let Some(errors) = child.stderr.take() {
            let complaints = Arc::clone(&complaints);
            spawn("worker-complaints", move || overhear(BufReader::new(errors), &complaints))?;
        }
        let hello = Hello { v: 0, api: String::new(), jvm: String::new(), pid: child.id(), heap: 0 };
        let mut worker =
            Self { input: child.stdin.take(), child, said, complaints, hello, ahead_ns: 0, practised: None };
        worker.greet()?;
        let (ahead_ns, doubt) = worker.compare_clocks()?;
        if doubt > worst_doubt_ns {
            let text = format!(
                "its clock could only be compared within {} µs, and more than {} can't be measured with",
                doubt / 1000,
                worst_doubt_ns / 1000
            );
            return Err(Failure::new(text));
        }
        worker.ahead_ns = ahead_ns;
        Ok(worker)
    }

    /// Makes sure that one that slept is still there and says nothing but what it is asked for.
    pub(crate) fn wake(&mut self) -> Result<(), Failure> {
        // Both clocks go evenly: where they can't be compared well now, they are as far apart as
        // they were.
        let (ahead_ns, doubt) = self.compare_clocks()?;
        if doubt <= CLOCK_DOUBT_NS {
            self.ahead_ns = ahead_ns;
        }
        Ok(())
    }

    /// How well it knows a load.
    pub(crate) fn practice(&self, spec: &Spec) -> Practice {
        match &self.practised {
            None => Practice::None,
            Some(practised) if *practised == spec.everywhere() => Practice::Same,
            Some(_) => Practice::Other,
        }
    }

    /// Notes that it has made this load.
    pub(crate) fn has_practised(&mut self, spec: &Spec) {
        self.practised = Some(spec.everywhere());
    }

    /// Who it is.
    pub(crate) fn hello(&self) -> &Hello {
        &self.hello
    }

    /// A time of this program's clock by the worker's.
    pub(crate) fn there(&self, here: u64) -> i64 {
        i64::try_from(here).unwrap_or(i64::MAX).saturating_add(self.ahead_ns)
    }

    /// A time of the worker's clock by this program's.
    pub(crate) fn here(&self, there: i64) -> u64 {
        u64::try_from(there.saturating_sub(self.ahead_ns)).unwrap_or(0)
    }

    /// Tells it something.
    pub(crate) fn tell(&mut self, command: &Command<'_>) -> Result<(), Failure> {
        let mut line = serde_json::to_string(command).context("a command")?;
        line.push('\n');
        let input = self.input.as_mut().ok_or_else(|| Failure::new("the worker's input is closed"))?;
        match input.write_all(line.as_bytes()) {
            Ok(()) => Ok(()),
            Err(error) => Err(self.ended(&error.to_string())),
        }
    }

    /// What it said next, if it says anything within `time`. What went wrong there is a failure
    /// here.
    pub(crate) fn hear(&mut self, time: Duration) -> Result<Option<(u64, Answer)>, Failure> {
        match self.said.recv_timeout(time) {
            Ok((_, Ok(Answer::Failed(why)))) => Err(Failure::new(why)),
            Ok((_, Ok(Answer::Lacks(what)))) => Err(Failure::lacking(format!("{what} in this broker's client"))),
            Ok((at, answer)) => answer.map(|answer| Some((at, answer))),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(self.ended("it said nothing more")),
        }
    }

    /// What it says next, within a patience that is enough for any client to connect.
    pub(crate) fn answer(&mut self) -> Result<(u64, Answer), Failure> {
        self.hear(PATIENCE)?.ok_or_else(|| {
            Failure::new(format!("the JMS worker did not answer within {} s{}", PATIENCE.as_secs(), self.complaints()))
        })
    }

    fn greet(&mut self) -> Result<(), Failure> {
        self.tell(&Command::Hello { v: VERSION })?;
        match self.answer()? {
            (_, Answer::Hello(hello)) if hello.v == VERSION => {
                self.hello = hello;
                Ok(())
            }
            (_, other) => Err(Failure::new(format!("it is no worker of version {VERSION}: {other:?}"))),
        }
    }

    /// How far its clock is ahead, and the doubt about that. Of many questions that one counts
    /// whose answer came soonest: the doubt is half of what it took.
    fn compare_clocks(&mut self) -> Result<(i64, u64), Failure> {
        let (mut ahead, mut doubt) = (0, u64::MAX);
        for _ in 0..CLOCK_ASKED {
            let asked = now();
            self.tell(&Command::Clock { t: asked })?;
            let (came, Answer::Clock(clock)) = self.answer()? else {
                return Err(Failure::new("it answered something else than the time"));
            };
            let half = came.saturating_sub(asked) / 2;
            if clock.t == asked && half < doubt {
                let middle = i64::try_from(asked + half).unwrap_or(i64::MAX);
                (ahead, doubt) = (clock.nano.saturating_sub(middle), half);
            }
            if doubt < CLOCK_SURE_NS {
                break;
            }
        }
        Ok((ahead, doubt))
    }

    /// The failure of a worker that is gone.
    fn ended(&mut self, why: &str) -> Failure {
        // Its last words may still be on their way.
        std::thread::sleep(Duration::from_millis(50));
        let status = self.child.try_wait().ok().flatten().map_or(String::new(), |status| format!(" ({status})"));
        Failure::new(format!("the JMS worker ended{status}: {why}{}", self.complaints()))
    }

    fn complaints(&self) -> String {
        let text = self.complaints.lock().unwrap_or_else(PoisonError::into_inner);
        if text.is_empty() { String::new() } else { format!("; it complained: {}", text.trim()) }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may be gone already; then nothing here matters.
        let _ = self.tell(&Command::Bye);
        self.input = None;
        let begin = Instant::now();
        while begin.elapsed() < GOODBYE {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).context("starting a thread").map(|_| ())
}

/// Reads answers until the worker closes its output or they are no longer wanted.
fn listen(output: impl BufRead, to: &Sender<Said>) {
    for line in output.lines() {
        let at = now();
        let answer = line
            .map_err(|error| Failure::new(format!("reading the worker's answers: {error}")))
            .and_then(|line| serde_json::from_str(&line).context(format!("an answer of the worker ({line:.200})")));
        if to.send((at, answer)).is_err() {
            return;
        }
    }
}

/// Keeps the first complaints; later ones follow from these.
fn overhear(errors: impl BufRead, complaints: &Mutex<String>) {
    for line in errors.lines().map_while(Result::ok) {
        let mut text = complaints.lock().unwrap_or_else(PoisonError::into_inner);
        if text.len() + line.len() < COMPLAINTS {
            text.push_str(&line);
            text.push('\n');
        }
    }
}
