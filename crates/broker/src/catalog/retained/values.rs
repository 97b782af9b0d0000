//! The values of a vhost, by places. Places lie in bundles of 16, which facts name.
//!
//! Invariant: a place is free, or taken by the caller, who may put one value into it.

use hashbrown::HashMap;
use journal::Owner;

use super::load_of;
use crate::memory::ledger::Declared;
use crate::message::retained::RetainedBlock;

/// Places of a bundle.
pub(super) const BUNDLE: usize = 16;

/// A value.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) block: RetainedBlock,
    pub(super) paid: Declared,
    /// Which change set it.
    pub(super) stamp: u64,
}

impl Kept {
    pub(super) fn new(block: RetainedBlock, paid: Declared, stamp: u64) -> Self {
        paid.changed(0, load_of(block.size()).memory);
        Self { block, paid, stamp }
    }

    /// `now` is in milliseconds since 1970.
    pub(super) fn has_expired(&self, now: u64) -> bool {
        self.block.expires_at().is_some_and(|at| at <= now)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.paid.changed(load_of(self.block.size()).memory, 0);
    }
}

/// Places that facts name together, by their owner.
#[derive(Debug)]
struct Bundle {
    owner: Owner,
    places: Box<[Option<Kept>; BUNDLE]>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Values {
    /// Places are numbered through all of them.
    bundles: Vec<Bundle>,
    /// Where the bundle of each owner is.
    of_owner: HashMap<Owner, u32>,
    free: Vec<u32>,
}

impl Values {
    pub(super) fn get(&self, place: u32) -> Option<&Kept> {
        self.bundles.get(place as usize / BUNDLE)?.places[place as usize % BUNDLE].as_ref()
    }

    /// The topic of a place; nothing without a value.
    pub(super) fn topic(&self, place: u32) -> &str {
        self.get(place).map_or("", |kept| kept.block.topic())
    }

    /// Puts a value into a place, and returns the one that it had.
    pub(super) fn replace(&mut self, place: u32, kept: Option<Kept>) -> Option<Kept> {
        let bundle = self.bundles.get_mut(place as usize / BUNDLE)?;
        std::mem::replace(&mut bundle.places[place as usize % BUNDLE], kept)
    }

    /// The owner whose facts name a place.
    pub(super) fn owner(&self, place: u32) -> Owner {
        self.bundles[place as usize / BUNDLE].owner
    }

    /// The values of a bundle, with their places; `None` if this is the owner of none.
    pub(super) fn of_owner(&self, owner: Owner) -> Option<impl Iterator<Item = (u32, &Kept)>> {
        let bundle = *self.of_owner.get(&owner)?;
        let places = bundle * BUNDLE as u32..;
        let kept = self.bundles[bundle as usize].places.iter();
        Some(places.zip(kept).filter_map(|(place, kept)| Some((place, kept.as_ref()?))))
    }

    /// Takes a free place. Without one there is a new bundle, whose owner `owner` gives.
    pub(super) fn take_place(&mut self, owner: impl FnOnce() -> Owner) -> u32 {
        if self.free.is_empty() {
            let first = self.add(owner());
            self.free.extend((first..first + BUNDLE as u32).rev());
        }
        self.free.pop().unwrap_or_default()
    }

    /// Its value is gone for good.
    pub(super) fn free(&mut self, place: u32) {
        self.free.push(place);
    }

    /// The places without a value of the bundle that begins here are free.
    pub(super) fn free_rest(&mut self, first: u32) {
        let free = (first..first + BUNDLE as u32).filter(|place| self.get(*place).is_none());
        self.free.extend(free.collect::<Vec<_>>());
    }

    /// Adds a bundle of this owner, whose places are not free. Returns the first of them.
    pub(super) fn add(&mut self, owner: Owner) -> u32 {
        let bundle = self.bundles.len() as u32;
        self.of_owner.insert(owner, bundle);
        self.bundles.push(Bundle { owner, places: Box::default() });
        bundle * BUNDLE as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_takes_no_more_than_it_is_said_to() {
        assert_eq!(size_of::<Option<Kept>>(), 32);
    }
}
