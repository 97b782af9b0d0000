//! The person in front of a run: one line shows them what is going on, and Ctrl-C tells that they want it to end. The line goes
//! to standard error, so that standard output stays a clean table.

use std::io::{IsTerminal, Write, stderr};
use std::time::Duration;

use crate::clock::now;
use crate::interrupt::Interrupt;
use crate::load::Totals;
use crate::load::sample::Sample;

/// Shows progress on a terminal, and finished steps everywhere.
#[derive(Debug)]
pub(crate) struct Progress {
    live: bool,
    quiet: bool,
    /// What the line begins with: which part of a longer run, and which block of how many.
    part: String,
    step: String,
    interrupt: Interrupt,
}

impl Progress {
    /// `quiet` shows nothing at all.
    pub(crate) fn new(quiet: bool) -> Self {
        Self {
            live: !quiet && stderr().is_terminal(),
            quiet,
            part: String::new(),
            step: String::new(),
            interrupt: Interrupt::default(),
        }
    }

    /// Also hears when the person in front of it wants the run to end.
    pub(crate) fn heeding(self, interrupt: Interrupt) -> Self {
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

    /// Names the step that begins.
    pub(crate) fn step(&mut self, text: String) {
        self.step = text;
    }

    /// Shows how fast messages move; returns the totals for the next call.
    pub(crate) fn moving(
        &self,
        target: &str,
        doing: &str,
        totals: Totals,
        before: Totals,
        interval: Duration,
        since: Option<&Sample>,
    ) -> Totals {
        if self.live {
            let rate = |after: u64, before: u64| after.saturating_sub(before) as f64 / interval.as_secs_f64();
            let seconds = since.filter(|first| first.at > 0).map(|first| (now() - first.at) as f64 / 1e9);
            let clock = seconds.map_or(String::new(), |seconds| format!(" {seconds:.1} s"));
            self.line(&format!(
                "{}{}{target}: {doing}{clock}  sent {:.0}/s  received {:.0}/s  confirmed {:.0}/s",
                self.part,
                self.step,
                rate(totals.sent, before.sent),
                rate(totals.received, before.received),
                rate(totals.confirmed, before.confirmed),
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
