//! The handle by which a part of the log is kept for one that follows.
//!
//! Invariant: what is kept is bounded as its [`Keeping`] says, and goes with the handle.

use crate::engine::Log;
use crate::engine::journal::Journal;
use crate::wal::buffer::Buffer;
use crate::wal::keeps::{Keeping, Shortage};

/// Files of the log that do not leave it as long as this lives, within the bound.
pub struct Kept {
    journal: Journal,
    number: u64,
    /// What was asked for last.
    asked: (u32, Keeping),
}

impl Journal {
    /// Keeps the log from its oldest file on, for one that follows. [`Kept::needs`] lets go of what
    /// that one has.
    pub fn keep(&self, keeping: Keeping) -> Kept {
        let number = self.engine().with_buffer(|buffer| {
            let oldest = buffer.table.oldest().generation;
            buffer.recycle.keeps.add(oldest, keeping)
        });
        Kept { journal: self.clone(), number: number.unwrap_or(0), asked: (0, keeping) }
    }
}

impl Kept {
    /// Nothing before this file is needed any more.
    pub fn needs(&mut self, from: u32) {
        if self.asked.0 < from {
            self.asked.0 = from;
            self.change(|buffer, number| buffer.recycle.keeps.needs(number, from));
        }
    }

    /// Keeps so much from now on. What was given up does not come back.
    pub fn keep(&mut self, keeping: Keeping) {
        if self.asked.1 != keeping {
            self.asked.1 = keeping;
            self.change(|buffer, number| buffer.recycle.keeps.keep(number, keeping));
        }
    }

    /// The bytes of the log from the first file that is kept on; none if that was given up.
    pub fn bytes(&self) -> Option<u64> {
        self.journal.engine().with_buffer(|buffer| {
            let from = buffer.recycle.keeps.from(self.number)?;
            let before: u64 = buffer.table.before(from).map(|file| u64::from(file.length)).sum();
            Some(buffer.used().saturating_sub(before))
        })?
    }

    fn change(&self, change: impl FnOnce(&mut Buffer, u64)) {
        let engine = self.journal.engine();
        engine.with_buffer(|buffer| change(buffer, self.number));
        engine.wake_background();
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.change(|buffer, number| buffer.recycle.keeps.remove(number));
    }
}

impl Log {
    /// Gives up what is kept and the log has no room for.
    pub(super) fn give_up_kept(&self, buffer: &mut Buffer) {
        if buffer.recycle.keeps.is_empty() || !self.pressed(buffer) {
            return;
        }
        let short = self.room(buffer) <= self.thresholds(buffer.sizes).reserve / 2;
        let shortage = if short { Shortage::ForAll } else { Shortage::ForPublishes };
        buffer.recycle.keeps.give_up(shortage);
    }
}
