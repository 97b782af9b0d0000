//! The person in front of a run: one line shows them what is going on, and Ctrl-C tells that they
//! want it to end. The line goes to standard error, so that standard output stays a clean table.

use std::io::{IsTerminal, Write, stderr};
use std::time::Duration;

use bench_record::span::words;
use bench_record::totals::Totals;
use bench_report::table::number;
use machine::clock::now;
use machine::interrupt::Interrupt;

/// Shows progress on a terminal, and finished steps everywhere.
#[derive(Debug)]
pub(crate) struct Progress {
    live: bool,
    quiet: bool,
    /// What the line begins with: which part of a longer run, and which block of how many.
    part: String,
    step: String,
    /// How far the whole is, where that is known.
    course: Option<Course>,
    interrupt: Interrupt,
}

/// How far a run of many slices is.
#[derive(Debug)]
struct Course {
    slices: usize,
    over: usize,
    /// When it began, nanoseconds of the run's clock.
    began: u64,
    /// Seconds that it is expected to take.
    expected: Option<f64>,
}

impl Course {
    /// `slice 13 of 60, 4 min 10 s left`, at a time of the run's clock. What is left follows from
    /// what was needed so far.
    fn told(&self, now: u64) -> String {
        let passed = now.saturating_sub(self.began) as f64 / 1e9;
        let left = match (self.over, self.expected) {
            (0, None) => None,
            (0, Some(expected)) => Some(expected - passed),
            (over, _) => Some(passed / over as f64 * self.slices as f64 - passed),
        };
        let left = left.map_or(String::new(), |left| format!(", {} left", words(left.max(0.0))));
        format!("slice {} of {}{left}", (self.over + 1).min(self.slices), self.slices)
    }
}

impl Progress {
    /// Shows the line on a terminal, and finished steps everywhere.
    pub(crate) fn shown() -> Self {
        Self { live: stderr().is_terminal(), quiet: false, ..Self::silent() }
    }

    /// Shows nothing at all.
    pub(crate) fn silent() -> Self {
        Self {
            live: false,
            quiet: true,
            part: String::new(),
            step: String::new(),
            course: None,
            interrupt: Interrupt::default(),
        }
    }

    /// Also hears when the person in front of it wants the run to end.
    pub(crate) fn interrupted_by(self, interrupt: Interrupt) -> Self {
        Self { interrupt, ..self }
    }

    /// True once the run should end: what is under way is cut short, cleaned up and written.
    pub(crate) fn interrupted(&self) -> bool {
        self.interrupt.asked()
    }

    /// Names the part of a longer run that begins.
    pub(crate) fn within(&mut self, part: String) {
        self.part = part;
    }

    /// Says how many slices are to come, and how many seconds they are expected to take: the line
    /// then tells how far it is. What begins the whole says it; its parts don't.
    pub(crate) fn expect(&mut self, slices: usize, expected: Option<f64>) {
        self.course = Some(Course { slices, over: 0, began: now(), expected });
    }

    /// Counts a slice that is over.
    pub(crate) fn advance(&mut self) {
        if let Some(course) = &mut self.course {
            course.over += 1;
        }
    }

    /// Names the step that begins.
    pub(crate) fn step(&mut self, text: String) {
        self.step = text;
    }

    /// Shows how fast messages move; returns the totals for the next call. `since` is when the
    /// measured time began, in nanoseconds of the run's clock.
    pub(crate) fn moving(
        &self,
        target: &str,
        doing: &str,
        totals: Totals,
        before: Totals,
        interval: Duration,
        since: Option<u64>,
    ) -> Totals {
        if self.live {
            let rate = |after: u64, before: u64| after.saturating_sub(before) as f64 / interval.as_secs_f64();
            let seconds = since.filter(|at| *at > 0).map(|at| (now() - at) as f64 / 1e9);
            let clock = seconds.map_or(String::new(), |seconds| format!(" {seconds:.1} s"));
            let course = self.course.as_ref().map_or(String::new(), |course| format!("  ({})", course.told(now())));
            self.line(&format!(
                "{}{}{target}: {doing}{clock}  sent {}/s  received {}/s  confirmed {}/s{course}",
                self.part,
                self.step,
                number(rate(totals.sent, before.sent), 0),
                number(rate(totals.received, before.received), 0),
                number(rate(totals.confirmed, before.confirmed), 0),
            ));
        }
        totals
    }

    fn line(&self, text: &str) {
        let mut out = stderr().lock();
        // A terminal that is gone must not end a measurement.
        let _ = write!(out, "\r\x1b[K{text}");
        let _ = out.flush();
    }

    /// Reports a finished step on a line of its own.
    pub(crate) fn done(&self, text: &str) {
        if self.live {
            self.line("");
        }
        if !self.quiet {
            let _ = writeln!(stderr(), "{}{}{text}", self.part, self.step);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_follows_from_what_was_needed() {
        let second = 1_000_000_000;
        let course = |over, expected| Course { slices: 60, over, began: 5 * second, expected };
        let cases = [
            (course(0, None), "slice 1 of 60"),
            (course(0, Some(300.0)), "slice 1 of 60, 4 min 0 s left"),
            (course(12, Some(300.0)), "slice 13 of 60, 4 min 0 s left"),
            (course(60, None), "slice 60 of 60, 0 s left"),
        ];
        for (course, text) in cases {
            assert_eq!(course.told(65 * second), text);
        }
    }
}
