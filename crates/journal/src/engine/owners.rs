//! What the background asks of the owners while it takes a file out of the log, and the only thing
//! that it lets them do meanwhile: append.

use crate::engine::Engine;
use crate::engine::appender::Appender;
use crate::reference::{Bits, Chunk, Reference};
use crate::wal::batch::BatchKind;
use crate::wal::buffer::Buffer;
use crate::{LogId, Owner};

/// The right to say again what a file says that is about to leave the log.
pub struct Restatement<'a>(&'a Engine);

impl<'a> Restatement<'a> {
    pub(crate) fn new(engine: &'a Engine) -> Self {
        Self(engine)
    }

    /// Takes the buffer's lock, to append restated facts to a log. They share no batch with others.
    pub fn appender(&self, log: LogId) -> Appender<'a> {
        Appender::new(self.0, log, BatchKind::Housekeeping)
    }
}

impl Restatement<'_> {
    /// Whether every group of a log has ended that was sent by another journal. Always so in a
    /// journal that follows none.
    pub fn is_whole(&self, log: LogId) -> bool {
        let whole =
            |buffer: &mut Buffer| buffer.recycle.received.as_ref().is_none_or(|received| received.is_whole(log));
        self.0.with_buffer(whole).unwrap_or(true)
    }
}

/// Knows the present state of every owner. What is asked here is asked on the background thread,
/// without any lock that appending takes.
pub trait Owners: Send + Sync {
    /// The oldest file is about to be recycled: append the present state of each of these owners,
    /// through `restatement`. Owners that are gone are skipped. Called on the
    /// background thread without any lock of the journal held, a bounded number of owners at a
    /// time. For an owner that has had chunks since the journal was opened, this includes all of
    /// its sequence numbers that are settled. A chunk comes back at the next start as long as
    /// anything keeps its segment.
    ///
    /// Gives the owners that could not be restated yet, since a group of their log is open whose
    /// records a later one may contradict: see [`Restatement::is_whole`]. They are asked again when
    /// one has ended.
    fn restate(&self, owners: &[Owner], restatement: &Restatement<'_>) -> Vec<Owner>;
    /// Adds to `found` the references of `owner` that are not settled and whose bodies lie in
    /// `file`. That file is closed and no publisher holds anything in it, so there will be no more
    /// of them. A length of zero is taken for one that is not known; it is read from the file.
    fn referenced(&self, owner: Owner, file: u32, found: &mut Vec<Reference>);
    /// Sets in `bits`, which are zero, the bit of each sequence number of the page that is not
    /// settled. Sets none for an owner that is gone.
    fn unsettled(&self, owner: Owner, page: u64, bits: &mut Bits);
    /// The bodies of `entries`, all of one page and listed in `chunk`, lay in one of the files
    /// `from` and lie at new addresses now. After an adoption these are the old ones. Says how many
    /// of them are still unsettled. Each of these must be freed at its new place when it is
    /// settled; every other one was freed at its old place. A settlement in a group counts from the
    /// moment it is appended. The chunks of `from` that the page had are gone.
    fn moved(&self, owner: Owner, page: u64, from: &[u32], chunk: Chunk, entries: &[Reference]) -> u64;
}

/// Owners of which none has anything.
impl Owners for () {
    fn restate(&self, _: &[Owner], _: &Restatement<'_>) -> Vec<Owner> {
        Vec::new()
    }
    fn referenced(&self, _: Owner, _: u32, _: &mut Vec<Reference>) {}
    fn unsettled(&self, _: Owner, _: u64, _: &mut Bits) {}
    fn moved(&self, _: Owner, _: u64, _: &[u32], _: Chunk, _: &[Reference]) -> u64 {
        0
    }
}
