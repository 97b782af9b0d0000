//! The entries of a hot page in order, in chunks of fixed size.
//!
//! A page grows by whole chunks and copies nothing. One vector for all of them would double, in
//! all queues of a fanout at once: that takes twice what is counted, and leaves holes in the heap.
//! A short queue needs no second chunk, however many messages pass through it: entries that are
//! done make room in the first one.

use crate::queue::page::{Entry, State};

/// Entries in a chunk, of 4 KiB.
pub(super) const CHUNK: usize = 64;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Entries {
    /// The first chunk. It grows to its size by doubling: most queues are short.
    head: Vec<Entry>,
    /// The other chunks. All are full but the last.
    rest: Vec<Vec<Entry>>,
}

impl Entries {
    /// None, with room for one.
    pub(super) fn short() -> Self {
        Self { head: Vec::with_capacity(1), rest: Vec::new() }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        match self.rest.last() {
            None => self.head.len(),
            Some(last) => self.rest.len() * CHUNK + last.len(),
        }
    }

    #[inline]
    pub(super) fn get(&self, at: usize) -> Option<&Entry> {
        if at < CHUNK { self.head.get(at) } else { self.rest.get(at / CHUNK - 1)?.get(at % CHUNK) }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut Entry> {
        if at < CHUNK { self.head.get_mut(at) } else { self.rest.get_mut(at / CHUNK - 1)?.get_mut(at % CHUNK) }
    }

    #[inline]
    pub(super) fn push(&mut self, entry: Entry) {
        if self.head.len() < CHUNK {
            self.head.push(entry);
            return;
        }
        match self.rest.last_mut() {
            Some(last) if last.len() < CHUNK => last.push(entry),
            _ => self.push_chunk(entry),
        }
    }

    fn push_chunk(&mut self, entry: Entry) {
        let mut chunk = Vec::with_capacity(CHUNK);
        chunk.push(entry);
        self.rest.push(chunk);
    }

    /// Takes the entries that are done off the front where the only chunk has no room and at least
    /// half of it is done. Returns how many.
    #[inline]
    pub(super) fn make_room(&mut self) -> usize {
        if self.head.len() < self.head.capacity() || !self.rest.is_empty() { 0 } else { self.drop_done() }
    }

    fn drop_done(&mut self) -> usize {
        let is_done = |entry: &Entry| entry.state == State::Done;
        let done = self.head.iter().take_while(|entry| is_done(entry)).count();
        if done < self.head.len().div_ceil(2) {
            return 0;
        }
        self.head.drain(..done);
        done
    }

    /// The first chunk, if it is full and others follow it.
    pub(super) fn full_head(&self) -> Option<&[Entry]> {
        (!self.rest.is_empty()).then_some(self.head.as_slice())
    }

    /// Gives back the first chunk.
    pub(super) fn drop_head(&mut self) {
        self.head = if self.rest.is_empty() { Vec::new() } else { self.rest.remove(0) };
    }

    /// Takes out all entries, and keeps the memory of one chunk.
    pub(super) fn clear(&mut self) {
        self.head.clear();
        self.rest.clear();
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.head.iter().chain(self.rest.iter().flatten())
    }

    pub(super) fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut Entry> {
        self.head.iter_mut().chain(self.rest.iter_mut().flatten())
    }

    /// How many entries its memory has room for.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.head.capacity() + self.rest.iter().map(Vec::capacity).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: usize) -> Entry {
        Entry { length: number as u32, ..Entry::gone() }
    }

    fn numbers(entries: &Entries) -> Vec<u32> {
        entries.iter().map(|entry| entry.length).collect()
    }

    #[test]
    fn every_entry_is_in_its_place_and_memory_is_one_chunk_ahead_at_most() {
        let mut entries = Entries::short();
        for number in 0..5 * CHUNK {
            entries.push(entry(number));
            assert_eq!(entries.len(), number + 1);
            assert!(entries.capacity() < 2 * (number + 1) + 3 && entries.capacity() <= number + CHUNK);
        }
        for number in 0..5 * CHUNK {
            assert_eq!(entries.get(number).map(|entry| entry.length), Some(number as u32));
            assert_eq!(entries.get_mut(number).map(|entry| entry.length), Some(number as u32));
        }
        assert!(entries.get(5 * CHUNK).is_none());
        let backwards: Vec<_> = entries.iter_mut().rev().map(|entry| entry.length).collect();
        assert_eq!(backwards, (0..5 * CHUNK as u32).rev().collect::<Vec<_>>());
        entries.drop_head();
        assert_eq!(numbers(&entries), (CHUNK as u32..5 * CHUNK as u32).collect::<Vec<_>>());
        entries.clear();
        assert_eq!((entries.len(), entries.capacity()), (0, CHUNK));
    }

    #[test]
    fn entries_that_are_done_make_room_and_others_keep_their_places() {
        let mut entries = Entries::short();
        let mut first = 0;
        for number in 0..10 * CHUNK {
            first += entries.make_room();
            entries.push(Entry { state: State::Ready, ..entry(number) });
            // Two are live at most.
            if number > 0 {
                entries.get_mut(number - 1 - first).expect("it is there").state = State::Done;
            }
            assert_eq!(entries.get(number - first).map(|entry| entry.length), Some(number as u32));
        }
        assert!(entries.capacity() <= 4, "{} for one", entries.capacity());
        let mut entries = Entries::short();
        for number in 0..CHUNK {
            assert_eq!(entries.make_room(), 0, "nothing is done");
            entries.push(Entry { state: State::Ready, ..entry(number) });
        }
        (0..CHUNK / 2 - 1).for_each(|at| entries.get_mut(at).expect("it is there").state = State::Done);
        assert_eq!(entries.make_room(), 0, "less than half");
        entries.get_mut(CHUNK / 2 - 1).expect("it is there").state = State::Done;
        assert_eq!(entries.make_room(), CHUNK / 2);
        assert_eq!(entries.get(0).map(|entry| entry.length), Some(CHUNK as u32 / 2));
    }

    #[test]
    fn the_last_chunk_is_not_full_behind_others() {
        let mut entries = Entries::default();
        assert!(entries.full_head().is_none());
        (0..CHUNK).for_each(|number| entries.push(entry(number)));
        assert!(entries.full_head().is_none(), "nothing follows it");
        entries.push(entry(CHUNK));
        assert_eq!(entries.full_head().map(<[Entry]>::len), Some(CHUNK));
    }
}
