//! The two threads of a journal: the writer and the background. Each is a loop around a step of the
//! engine and a wait.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::engine::journal::Journal;
use crate::engine::recycle::Activity;
use crate::engine::writer::Flushed;
use crate::engine::{Engine, Log, State, Target};

/// How long the writer is idle before it seals the log: long enough that a lone publisher's pauses
/// cost no flush.
const SEAL_AFTER: Duration = Duration::from_millis(100);
/// How long a writer without room waits before it tries again.
const RETRY_AFTER: Duration = Duration::from_millis(100);
/// How often the background looks at the disk's free space, and whether the log is idle.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long a flush may take that is waited for.
const FLUSH_WITHIN: Duration = Duration::from_secs(60);

impl Engine {
    pub(crate) fn start_threads(self: &Arc<Self>) -> io::Result<()> {
        let (writer, background) = (self.handle(), self.handle());
        let mut threads = self.threads.lock();
        threads.push(std::thread::Builder::new().name("journal-writer".into()).spawn(move || write(&writer))?);
        threads.push(std::thread::Builder::new().name("journal-background".into()).spawn(move || tidy(&background))?);
        Ok(())
    }

    /// Ends the threads, if there are any, once they have finished their step.
    pub(crate) fn stop_threads(&self) {
        {
            let mut state = self.state.lock();
            state.stopping = true;
            self.writer_wakes.notify_all();
            self.background_wakes.notify_all();
        }
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            // A thread that panicked has already ended the process or reported itself.
            drop(thread.join());
        }
    }

    /// Waits until there is something to write. False when the journal stops.
    fn wait_for_records(&self, log: &Log) -> bool {
        let mut state = self.state.lock();
        loop {
            if state.stopping || state.failed {
                return false;
            }
            if !nothing_to_write(&state) {
                return true;
            }
            let proven = matches!(&state.target, Target::Log(buffer) if buffer.proven);
            state.writer_sleeps = true;
            if proven {
                self.writer_wakes.wait(&mut state);
            } else if self.writer_wakes.wait_for(&mut state, SEAL_AFTER).timed_out() && nothing_to_write(&state) {
                state.writer_sleeps = false;
                drop(state);
                if self.seal(log).is_err() {
                    return false;
                }
                state = self.state.lock();
            }
            state.writer_sleeps = false;
        }
    }

    /// A writer without a thread sleeps if there is nothing to write.
    pub(crate) fn let_writer_sleep(&self) {
        let mut state = self.state.lock();
        state.writer_sleeps = nothing_to_write(&state);
    }

    /// Waits until the writer has flushed everything up to `wanted`.
    pub(crate) fn wait_for_flush(&self, log: &Log, wanted: u64) -> io::Result<()> {
        let until = Instant::now() + FLUSH_WITHIN;
        while log.synced.load(Ordering::Acquire) < wanted {
            let state = self.state.lock();
            if state.failed || state.stopping {
                return Err(io::Error::other("the journal ends"));
            }
            drop(state);
            if Instant::now() >= until {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "it took a minute; is there room on the disk?"));
            }
            // About as long as a flush takes.
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Waits until the background is needed, for a look at the disk at the latest; scrubs
    /// meanwhile, one piece at least if that is due.
    fn wait_for_work(&self, log: &Log, started: Instant) {
        let until = Instant::now() + LOOK_EVERY;
        loop {
            let scrub = self.scrub(log, started.elapsed()).and_then(|due| started.checked_add(due));
            let mut state = self.state.lock();
            if state.background_due || state.stopping || state.failed || Instant::now() >= until {
                return;
            }
            let woken = scrub.map_or(until, |due| due.min(until));
            self.background_wakes.wait_until(&mut state, woken);
        }
    }
}

/// Reports the log as failed if its thread panics: without it nothing would ever be durable again.
struct Watch<'a>(&'a Engine, &'a Log);

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(self.1, &io::Error::other("a thread of the journal has panicked"));
        }
    }
}

fn nothing_to_write(state: &State) -> bool {
    !state.sync_wanted && matches!(&state.target, Target::Log(buffer) if buffer.is_idle())
}

/// The writer: no timer gathers a batch; the next one is what arrived during the last flush.
fn write(journal: &Journal) {
    let engine = journal.engine();
    let Some(log) = &engine.log else { return };
    let _watch = Watch(engine, log);
    while engine.wait_for_records(log) {
        let begun = Instant::now();
        match engine.flush(log) {
            Ok(Flushed::Done) => log.figures.flush_times.add(begun.elapsed(), 1),
            Ok(Flushed::Idle) => {}
            Ok(Flushed::Stalled) => {
                let mut state = engine.state.lock();
                engine.writer_wakes.wait_for(&mut state, RETRY_AFTER);
            }
            Err(_) => return,
        }
    }
}

/// The background: works while there is work, then waits to be needed.
fn tidy(journal: &Journal) {
    let engine = journal.engine();
    let Some(log) = &engine.log else { return };
    let _watch = Watch(engine, log);
    let started = Instant::now();
    let mut activity = Activity::Busy;
    loop {
        while engine.background(log, activity) && !engine.state.lock().stopping {}
        let before = engine.state.lock().last_sequence();
        engine.wait_for_work(log, started);
        let mut state = engine.state.lock();
        if state.stopping || state.failed {
            return;
        }
        let idle = !state.background_due && state.last_sequence() == before;
        activity = if idle { Activity::Idle } else { Activity::Busy };
        state.background_due = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Durability, LogId, Options, RealDisk};

    #[test]
    fn a_writer_with_nothing_to_do_seals_the_log_and_sleeps() {
        for durability in [Durability::Fsync, Durability::Os] {
            let folder = tempfile::tempdir().unwrap();
            let disk = Arc::new(RealDisk::open(folder.path()).unwrap());
            let options = Options { durability, max_bytes: 1 << 20, ..Options::default() };
            let opened = Journal::open(disk, options, &mut ()).unwrap();
            let failed = Box::new(|error: &io::Error| panic!("{error}"));
            let journal = opened.start(&mut std::iter::empty(), Arc::new(()), failed);
            journal.appender(LogId::SYSTEM).fact(None, 1, 1, &[b"something"]);
            let asleep = || {
                let state = journal.engine().state.lock();
                state.writer_sleeps && matches!(&state.target, Target::Log(buffer) if buffer.proven)
            };
            // A minute is for a machine that is very busy; a writer that spins never gets there.
            let tries = 6000;
            assert!((0..tries).any(|_| asleep() || {
                std::thread::sleep(Duration::from_millis(10));
                false
            }));
            journal.close().unwrap();
        }
    }
}
