//! What a client has of one kind, by numbers that rise and are never given out again.
//!
//! Most clients have one or a few, and use one many times before the next. So what was looked up
//! last is looked at first, and no hash is taken. Invariant: the places are in the order of their
//! numbers, and at most half of them are vacant, besides a few.

/// Places that have become vacant before the others move up.
const VACANT_MAX: usize = 16;

/// See the module.
#[derive(Debug)]
pub(super) struct Numbered<T> {
    /// In boxes: places are made for several at once.
    places: Vec<(u32, Option<Box<T>>)>,
    count: usize,
    /// The number that was given out last.
    last: u32,
    /// The place that was looked up last.
    recent: usize,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self { places: Vec::new(), count: 0, last: 0, recent: 0 }
    }
}

impl<T> Numbered<T> {
    /// Adds one, and returns its number.
    pub(super) fn add(&mut self, value: T) -> u32 {
        self.last += 1;
        self.count += 1;
        self.places.reserve_exact(usize::from(self.places.is_empty()));
        self.places.push((self.last, Some(Box::new(value))));
        self.last
    }

    #[inline]
    fn place(&self, number: u32) -> Option<usize> {
        match self.places.get(self.recent) {
            Some((found, _)) if *found == number => Some(self.recent),
            _ => self.places.binary_search_by_key(&number, |(found, _)| *found).ok(),
        }
    }

    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<&T> {
        self.places[self.place(number)?].1.as_deref()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.recent = self.place(number)?;
        self.places[self.recent].1.as_deref_mut()
    }

    pub(super) fn remove(&mut self, number: u32) -> Option<T> {
        let place = self.place(number)?;
        let removed = self.places[place].1.take()?;
        self.count -= 1;
        if self.places.len() > 2 * self.count + VACANT_MAX || self.count == 0 {
            self.places.retain(|(_, value)| value.is_some());
        }
        Some(*removed)
    }

    pub(super) fn clear(&mut self) {
        self.places.clear();
        self.count = 0;
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// All of them, in the order of their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.places.iter().filter_map(|(number, value)| Some((*number, value.as_deref()?)))
    }

    /// The same, to be changed.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        self.places.iter_mut().filter_map(|(number, value)| Some((*number, value.as_deref_mut()?)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_is_found_by_its_number_and_vacant_places_do_not_pile_up(
            steps in proptest::collection::vec((0..8_u8, 0..400_u32), 0..800),
        ) {
            let (mut all, mut expected, mut last) = (Numbered::default(), BTreeMap::new(), 0);
            for (kind, number) in steps {
                let number = number % (last + 2);
                match kind {
                    0..3 => {
                        last += 1;
                        prop_assert_eq!(all.add(last * 10), last);
                        expected.insert(last, last * 10);
                    }
                    3..5 => prop_assert_eq!(all.remove(number), expected.remove(&number)),
                    _ => prop_assert_eq!(all.get_mut(number).map(|value| *value), expected.get(&number).copied()),
                }
                prop_assert_eq!(all.get(number), expected.get(&number));
                prop_assert_eq!(all.len(), expected.len());
                prop_assert!(all.places.len() <= 2 * all.len() + VACANT_MAX);
            }
            let mut left: Vec<_> = all.iter().map(|(number, value)| (number, *value)).collect();
            prop_assert_eq!(&left, &expected.into_iter().collect::<Vec<_>>());
            left.reverse();
            for (number, value) in all.iter_mut() {
                prop_assert_eq!(left.pop(), Some((number, *value)));
            }
            all.clear();
            prop_assert_eq!((all.len(), all.iter().count()), (0, 0));
            prop_assert_eq!(all.add(7), last + 1, "no number is given out again");
        }
    }
}
