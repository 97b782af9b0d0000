//! Where the entries of a log lie on this disk. An entry is a batch with something new; records
//! name a body by how many entries back it is, which is the same on every copy of the log.
//!
//! Invariant: the entries of a log ascend by index and by place alike. Eight bytes are kept for
//! each that is still in the ring.

use std::collections::VecDeque;

use super::batch::HEADER;
use crate::Address;

/// The entries of one log that are still in the ring.
#[derive(Default, Debug)]
pub(crate) struct Entries {
    /// The index of the first.
    first: u64,
    /// The file and the offset of each batch.
    places: VecDeque<(u32, u32)>,
}

impl Entries {
    /// Notes where entry `index` lies, the next of its log. After a gap, which only a damaged log
    /// has, what lies before that can't be found any more.
    pub(crate) fn note(&mut self, index: u64, place: (u32, u32)) {
        if self.first + self.places.len() as u64 != index {
            self.places.clear();
            self.first = index;
        }
        self.places.push_back(place);
    }

    /// The name of a body for a record of entry `index`: how many entries back, and the offset
    /// among the records there. A body that is not in the ring is named by an entry before all
    /// others.
    #[inline]
    pub(crate) fn name(&self, index: u64, body: Address) -> (u32, u32) {
        let before = |place: &(u32, u32)| *place <= (body.file, body.offset);
        let at = match self.places.back() {
            Some(last) if before(last) => self.places.len() - 1,
            _ => self.places.partition_point(before).wrapping_sub(1),
        };
        match self.places.get(at).filter(|place| place.0 == body.file) {
            Some(place) => ((index - self.first - at as u64) as u32, body.offset - place.1 - HEADER as u32),
            None => {
                debug_assert!(false, "{body:?} is not in the ring, so it was not held");
                (u32::try_from(index).unwrap_or(u32::MAX), 0)
            }
        }
    }

    /// The body that a record of entry `index` names so; none once it has left the ring.
    pub(crate) fn find(&self, index: u64, (back, offset): (u32, u32)) -> Option<Address> {
        let at = index.checked_sub(u64::from(back))?.checked_sub(self.first)?;
        let place = self.places.get(usize::try_from(at).ok()?)?;
        Some(Address { file: place.0, offset: place.1.checked_add(HEADER as u32)?.checked_add(offset)? })
    }

    /// The index of the first that is still in the ring, or of the next if there is none.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// The index of the first in `file` or behind it.
    pub(crate) fn first_from(&self, file: u32) -> Option<u64> {
        let at = self.places.partition_point(|place| place.0 < file);
        (at < self.places.len()).then(|| self.first + at as u64)
    }

    /// Where entry `index` lies, if it is still in the ring.
    pub(crate) fn place(&self, index: u64) -> Option<(u32, u32)> {
        let at = usize::try_from(index.checked_sub(self.first)?).ok()?;
        self.places.get(at).copied()
    }

    /// The files up to this one have left the ring.
    pub(crate) fn forget(&mut self, file: u32) {
        let left = self.places.partition_point(|place| place.0 <= file);
        self.places.drain(..left);
        self.first += left as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_named_by_its_entry_and_found_again_until_its_file_leaves() {
        let mut entries = Entries::default();
        let places = [(3, 4096), (3, 12288), (4, 4096), (6, 8192)];
        (5..).zip(places).for_each(|(index, place)| entries.note(index, place));
        let table = [
            ((3, 4096 + 128), (3, 0)),
            ((3, 4096 + 128 + 700), (3, 700)),
            ((3, 12288 + 128), (2, 0)),
            ((4, 4096 + 5000), (1, 5000 - 128)),
            ((6, 8192 + 128), (0, 0)),
            ((6, 60_000), (0, 60_000 - 8192 - 128)),
        ];
        for ((file, offset), name) in table {
            let address = Address { file, offset };
            assert_eq!(entries.name(8, address), name, "{address:?}");
            assert_eq!(entries.find(8, name), Some(address));
        }
        entries.forget(3);
        assert_eq!((entries.find(8, (3, 0)), entries.find(8, (2, 0))), (None, None));
        assert_eq!(entries.find(8, (1, 0)), Some(Address { file: 4, offset: 4096 + 128 }));
        // Another record, of a later entry, names the same body otherwise.
        entries.note(9, (6, 16384));
        assert_eq!(entries.name(9, Address { file: 4, offset: 4096 + 128 }), (2, 0));
        assert_eq!((entries.find(9, (10, 0)), entries.find(9, (u32::MAX, 0))), (None, None));
        // Behind a gap nothing before it is found.
        entries.note(12, (7, 4096));
        assert_eq!((entries.find(12, (3, 0)), entries.name(12, Address { file: 7, offset: 5000 })), (None, (0, 776)));
    }
}
