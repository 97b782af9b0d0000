//! Whether one more declaration fits: into memory, and into the log, where it stays as long as it
//! exists.
//!
//! A durable one is admitted like a publish. Where the disk or the log is short, deletes and
//! settlements make room, and all else waits. An existing one is never refused.

use journal::Admission;

use crate::engine::Engine;
use crate::error::Error;
use crate::routing::Load;

/// The side that asks for room in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asker {
    /// A client that only publishes.
    Publisher,
    /// A client that also consumes. Its declarations may help it to make room.
    Consumer,
    /// The operator.
    Operator,
}

impl Engine {
    /// Fails where a declaration has no room in memory or, if it is logged, in the log.
    pub(crate) fn admit_load(&self, what: &str, load: Load, asker: Asker) -> Result<(), Error> {
        let (now, most) = (self.catalog.bindings.load(), self.settings.limits.declarations_bytes);
        if now.memory + load.memory > most {
            return Err(Error::precondition(format!(
                "cannot declare {what}: names and arguments of all declarations take {} bytes of memory, of {most} that they may: \
                 delete some, or raise limits.declarations_bytes",
                now.memory
            )));
        }
        if load.logged == 0 {
            return Ok(());
        }
        let closed = match asker {
            Asker::Publisher => Admission::Headroom,
            Asker::Consumer | Asker::Operator => Admission::Closed,
        };
        if self.journal.admission() >= closed {
            return Err(Error::precondition(format!(
                "cannot declare {what}: broker is low on disk; consume, purge or delete to make room, or declare it transient"
            )));
        }
        let most = self.journal.lasting_max();
        if now.logged + load.logged > most {
            return Err(Error::precondition(format!(
                "cannot declare {what}: durable declarations take {} bytes of the log, of {most} that they may: delete some, or raise \
                 journal.max_bytes and journal.file_bytes",
                now.logged
            )));
        }
        self.journal.note_lasting(now.logged + load.logged);
        Ok(())
    }
}
