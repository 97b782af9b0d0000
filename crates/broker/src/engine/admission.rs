//! Whether one more declaration fits: into memory, and into the log, where it stays as long as it
//! exists. Also whether memory has room for one more connection, session or consumer.
//!
//! What stays in memory has two limits. Declarations have `limits.declarations_bytes`, a quarter of
//! the memory limit where it is not set, and one user has half of that. Clients have another
//! quarter, and what declarations leave.
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
    /// Bytes of memory that declarations may take.
    pub(crate) fn most_declared(&self) -> u64 {
        self.settings.limits.declarations.all_bytes.unwrap_or_else(|| self.memory.share())
    }

    /// Fails where clients and declarations take as much memory as they may. `refused` says what
    /// for. Two at once may both take what is left.
    pub(crate) fn admit_kept(&self, refused: &str, bytes: u64) -> Result<(), String> {
        let now = self.memory.kept() as u64 + self.catalog.bindings.load().memory;
        let most = self.most_declared().saturating_add(self.memory.share());
        if now + bytes <= most {
            return Ok(());
        }
        let text = format!(
            "{refused}: connections, consumers and declarations take {now} bytes of memory, of {most} that they may: \
             close or delete some, or raise memory.limit"
        );
        Err(text)
    }

    /// Fails where a declaration has no room in memory or, if it is logged, in the log.
    pub(crate) fn admit_load(&self, what: &str, load: Load, asker: Asker) -> Result<(), Error> {
        let (now, most) = (self.catalog.bindings.load(), self.most_declared());
        if now.memory + load.memory > most {
            return Err(Error::precondition(format!(
                "cannot declare {what}: all declarations take {} bytes of memory, of {most} that they may: \
                 delete some, or raise limits.declarations_bytes",
                now.memory
            )));
        }
        if load.memory > 0 {
            self.admit_kept(&format!("cannot declare {what}"), load.memory).map_err(Error::precondition)?;
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
