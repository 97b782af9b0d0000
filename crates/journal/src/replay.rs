//! How recovery hands over what it found.

use crate::Owner;
use crate::reference::Chunk;
use crate::ticket::Address;

/// Takes the durable records in log order while a journal opens.
///
/// Records of a group are delivered only if the record that ends the group is in the log. Each
/// comes at its own place, not at the place of that end: what is restated between the two must not
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

/// Passes over everything: of a log in which nothing is alive.
impl Replay for () {
    fn cold(&mut self, _: Owner, _: u64, _: u64, _: Chunk) {}
    fn fact(&mut self, _: Owner, _: u8, _: &[u8]) {}
    fn reference(&mut self, _: Owner, _: u64, _: u64, _: &[Address]) {}
    fn settled(&mut self, _: Owner, _: u8, _: &[(u64, u64)]) {}
    fn dropped(&mut self, _: Owner) {}
    fn lost(&mut self, _: u32, _: &str, _: &str) {}
    fn burnt(&mut self, _: Owner, _: u64, _: u64) {}
}
