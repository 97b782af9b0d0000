//! A journal that counts what is flushed only once a follower has flushed it, too.
//!
//! Invariant: what a follower says that it has counts only if the records before it are the same
//! here. Of entries that it was sent it has checked that itself.

use hashbrown::HashMap;

use crate::copies::{Awaited, Waiting};
use crate::engine::feed::FeedError;
use crate::engine::journal::Journal;
use crate::log::{LogEnd, LogId};

impl Journal {
    /// From now on a ticket is durable once a follower has flushed it, too; or once it is flushed
    /// here. The first time this must be asked before clients are let in.
    pub fn await_follower(&self, awaited: Awaited) {
        let engine = self.engine();
        let ended = engine.with_buffer(|buffer| buffer.ended_logs()).unwrap_or_default();
        engine.progress.await_follower(awaited, &ended);
    }

    /// A follower has flushed logs up to these indexes: of entries that it was sent, or as far as
    /// [`Journal::shared_ends`] says.
    pub fn confirm(&self, ends: &[(LogId, u64)]) {
        self.engine().progress.confirm(ends);
    }

    /// What waits for a follower. Looks at each log.
    pub fn waiting(&self) -> Waiting {
        self.engine().progress.waiting()
    }

    /// The logs that are here just as far as there, and have the same records. Those that are
    /// further here are not among them: whether the follower has the same is seen when it is sent
    /// what comes next. Waits for a flush.
    ///
    /// # Errors
    /// [`FeedError::Forked`] if a log has other records there.
    pub fn shared_ends(&self, theirs: &[LogEnd]) -> Result<Vec<(LogId, u64)>, FeedError> {
        let Some(log) = &self.engine().log else { return Ok(Vec::new()) };
        let logs: Vec<_> = theirs.iter().map(|end| end.log).collect();
        let here = log.writer.lock().ends_of(&logs);
        let here: HashMap<_, _> = here.into_iter().map(|end| (end.log, end)).collect();
        let mut shared = Vec::new();
        for end in theirs {
            match here.get(&end.log).filter(|here| here.index == end.index) {
                Some(here) if here.link != end.link => {
                    return Err(FeedError::Forked { log: end.log, index: end.index });
                }
                Some(_) => shared.push((end.log, end.index)),
                None => {}
            }
        }
        Ok(shared)
    }
}
