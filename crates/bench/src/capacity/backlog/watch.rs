//! Watching a phase: a mark whenever another slice of the messages has moved, and an end in any
//! case.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::BacklogArgs;
use crate::capacity::Trial;
use crate::capacity::interval::Mark;
use crate::load::sample::Sample;
use crate::load::{Run, RunPhase};
use crate::progress::Progress;
use bench_record::totals::Totals;

/// How often the watcher looks; a slice ends at most this late, and counts what had moved by then.
const STEP: Duration = Duration::from_millis(2);
/// How often progress is shown.
const SHOW: Duration = Duration::from_millis(250);

/// Why a phase ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    Done,
    /// Nothing moved any more.
    Silent,
    /// It took too long.
    Late,
    /// A thread failed; joining it says why.
    Failed,
}

impl Ended {
    /// What is wrong with it.
    pub(super) fn complaint(self, args: &BacklogArgs) -> Option<String> {
        match self {
            Self::Done | Self::Failed => None,
            Self::Silent => Some(format!("given up: nothing moved for {} s (--patience)", args.patience)),
            Self::Late => Some(format!("given up: it took more than {} s (--limit)", args.limit)),
        }
    }
}

/// Watches one phase.
pub(super) struct Watch<'a> {
    args: &'a BacklogArgs,
    trial: &'a Trial,
    run: &'a Run,
    /// Which counter tells how far it has come.
    moved: fn(&Totals) -> u64,
    /// The beginning, each end of a slice, and the end.
    pub(super) marks: Vec<Mark>,
}

impl<'a> Watch<'a> {
    /// Begins now: no thread has been started yet.
    pub(super) fn new(args: &'a BacklogArgs, trial: &'a Trial, run: &'a Run, moved: fn(&Totals) -> u64) -> Self {
        let mut watch = Self { args, trial, run, moved, marks: Vec::new() };
        watch.mark();
        watch
    }

    fn mark(&mut self) -> u64 {
        let sample = Sample::take(self.run, &self.trial.target.pids);
        let moved = (self.moved)(&sample.totals);
        self.marks.push(Mark { moved, sample });
        moved
    }

    /// Watches until `done`, or silence, or the limit.
    pub(super) fn until(&mut self, done: &dyn Fn() -> bool, progress: &Progress, doing: &str) -> Ended {
        let begin = Instant::now();
        let (patience, limit) = [self.args.patience, self.args.limit]
            .map(|s| Duration::try_from_secs_f64(s).unwrap_or(Duration::MAX))
            .into();
        let (mut last, mut moved_at, mut shown_at) = (0, begin, begin);
        let (mut next, mut before) = (self.args.slice, self.run.totals());
        let ended = loop {
            if done() {
                break Ended::Done;
            }
            if self.run.phase() == RunPhase::End {
                break Ended::Failed;
            }
            if begin.elapsed() > limit {
                break Ended::Late;
            }
            let moved = (self.moved)(&self.run.totals());
            if moved != last {
                (last, moved_at) = (moved, Instant::now());
            } else if moved_at.elapsed() > patience {
                break Ended::Silent;
            }
            if moved >= next {
                next = (self.mark() / self.args.slice + 1) * self.args.slice;
            }
            if shown_at.elapsed() > SHOW {
                let first = self.marks.first().map(|mark| &mark.sample);
                before = progress.moving(
                    &self.trial.target.name,
                    doing,
                    self.run.totals(),
                    before,
                    SHOW,
                    first.map(|first| first.at),
                );
                shown_at = Instant::now();
            }
            sleep(STEP);
        };
        // The last slice may have ended just now.
        if self.marks.len() == 1 || self.marks.last().is_some_and(|mark| mark.moved < (self.moved)(&self.run.totals()))
        {
            self.mark();
        }
        ended
    }
}
