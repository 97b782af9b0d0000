//! Whether one more declaration fits: into memory, and into the log, where it stays as long as it
//! exists. Also whether memory has room for one more connection, session or consumer.
//!
//! What stays in memory has two limits. Declarations have `limits.declarations_bytes`, a quarter of
//! the memory limit where it is not set, and one user has half of that. Clients have another
//! quarter, and what declarations leave.
//! A durable one is admitted like a publish. Where the disk or the log is short, deletes and
//! settlements make room, and all else waits. An existing one is never refused.

use journal::Admission;

use crate::catalog::Vhost;
use crate::catalog::wills::WillKept;
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

/// So many percent of a limit, one at least.
pub(crate) fn share(of_all: u64, percent: u32) -> u64 {
    let share = u128::from(of_all) * u128::from(percent.min(100)) / 100;
    u64::try_from(share).unwrap_or(of_all).max(1)
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
        self.admit_memory(what, load)?;
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
        self.admit_lasting(what, load)
    }

    /// Where a will is kept that has room in memory. The log has to have room for it, too, but not
    /// at this moment: the client may be one that makes room.
    pub(crate) fn admit_will(&self, what: &str, load: Load) -> Result<WillKept, Error> {
        self.admit_memory(what, load)?;
        self.admit_lasting(what, load)?;
        Ok(if self.journal.admission() >= Admission::Closed { WillKept::Memory } else { WillKept::Log })
    }

    /// Fails where a declaration has no room in memory.
    fn admit_memory(&self, what: &str, load: Load) -> Result<(), Error> {
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
        Ok(())
    }

    /// Fails where the log has too much of what stays in it.
    fn admit_lasting(&self, what: &str, load: Load) -> Result<(), Error> {
        let (now, most) = (self.catalog.bindings.load(), self.journal.lasting_max());
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

    /// Fails where a vhost has used its share of a limit: so many are there, of so many of all.
    pub(crate) fn check_share(
        &self,
        vhost: &Vhost,
        what: &str,
        (of, there, of_all): (&str, u64, u64),
    ) -> Result<(), Error> {
        let share = share(of_all, self.settings.limits.vhost_share);
        if there < share || self.catalog.has_one_vhost() {
            return Ok(());
        }
        let vhost = &vhost.name;
        Err(Error::precondition(format!(
            "cannot declare {what}: vhost '{vhost}' has its share of all {of} ({share}); delete some, or raise limits.vhost_share"
        )))
    }

    /// Fails where a vhost with so many queues has no room for one more. An operator may exceed its
    /// share.
    pub(crate) fn check_room_for_queue(
        &self,
        vhost: &Vhost,
        name: &str,
        there: u64,
        asker: Asker,
    ) -> Result<(), Error> {
        match self.system.lock().vhost_limits(vhost.id).queues {
            Some(limit) if there >= limit => Err(Error::precondition(format!(
                "cannot declare queue '{name}': queue limit in vhost '{}' ({limit}) is reached",
                vhost.name
            ))),
            Some(_) => Ok(()),
            None if asker == Asker::Operator => Ok(()),
            None => self.check_share(vhost, &format!("queue '{name}'"), ("queues", there, self.settings.limits.queues)),
        }
    }
}
