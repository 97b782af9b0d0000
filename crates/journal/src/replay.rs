//! What the journal asks of whoever uses it: to take what recovery found, and to state again what
//! is about to go.

use crate::{Address, Bits, Chunk, Journal, Owner, Reference};

/// Takes the durable records in log order while a journal opens.
///
/// Records of a group are delivered only if the record that ends the group is in the log, each at
/// its own place, not at the place of that end: what is restated between the two must not
/// contradict them. References and settlements may be delivered whose counterpart has been
/// recycled; replay is idempotent by (owner, sequence number).
pub trait Replay {
    /// References of `owner`, all in its page `page`, have bodies of `bytes` bytes in all in a
    /// segment. Every one of them counts that no settlement takes back. All chunks come before the
    /// first record of the log; of a page there may be several, in different segments.
    fn cold(&mut self, owner: Owner, page: u64, bytes: u64, chunk: Chunk);
    /// A fact of `owner`, as it was appended.
    fn fact(&mut self, owner: Owner, kind: u8, bytes: &[u8]);
    /// `bodies` were referenced by `owner` with consecutive sequence numbers from `first_seq`.
    /// Where the bodies have left the log since there are none: their numbers are
    /// [`burnt`](Replay::burnt), and what of them is live is in a chunk.
    fn reference(&mut self, owner: Owner, first_seq: u64, mark: u64, bodies: &[Address]);
    /// The references in `runs`, each (first sequence number, count), are settled.
    fn settled(&mut self, owner: Owner, reason: u8, runs: &[(u64, u64)]);
    /// The owner is gone with everything it had.
    fn dropped(&mut self, owner: Owner);
    /// A segment, or its index, is damaged, cut short or missing: the file, and what is wrong with
    /// it. Comes before all chunks. If it is the index there are no chunks of the segment; else
    /// they come, and what of the bodies is whole can be read. Its files are kept.
    fn lost(&mut self, segment: u32, file: &str, what: &str);
    /// Sequence numbers of references that are not delivered: they must not be used again.
    fn burnt(&mut self, owner: Owner, first_seq: u64, count: u64);
}

/// Knows the present state of every owner. What is asked here is asked on the background thread,
/// without any lock that appending takes.
pub trait Owners: Send + Sync {
    /// The oldest file is about to be recycled: append the present state of each of these owners,
    /// through [`Journal::housekeeping_appender`]. Owners that are gone are skipped. Called on the
    /// background thread without any lock of the journal held, a bounded number of owners at a
    /// time. For an owner that has had chunks since the journal was opened this includes which of
    /// its sequence numbers are settled, all of them: a chunk comes back at the next start as long
    /// as its segment is kept by anybody.
    fn restate(&self, owners: &[Owner], journal: &Journal);
    /// Adds to `found` the references of `owner` that are not settled and whose bodies lie in
    /// `file`. That file is closed and no publisher holds anything in it, so there will be no more
    /// of them. A length of zero is taken for one that is not known; it is read from the file.
    fn referenced(&self, owner: Owner, file: u32, found: &mut Vec<Reference>);
    /// Sets in `bits`, which are zero, the bit of each sequence number of the page that is not
    /// settled; none for an owner that is gone.
    fn unsettled(&self, owner: Owner, page: u64, bits: &mut Bits);
    /// The bodies of `entries`, all of one page and listed in `chunk`, lay in one of the files
    /// `from` and lie at new addresses now; after an adoption these are the old ones. Says how many
    /// of them are still unsettled: each of these must be freed at its new place when it is
    /// settled, every other one was freed at its old: a settlement in a group counts from the
    /// moment it is appended. The chunks of `from` that the page had are gone.
    fn moved(&self, owner: Owner, page: u64, from: &[u32], chunk: Chunk, entries: &[Reference]) -> u64;
}
