//! Things by small numbers that a peer gives them: sessions by channel, links by handle.
//!
//! Peers count from 0, so a thing mostly lies at the place of its number, and is found without a
//! search. What is held grows with the things, not with their numbers.

/// See the module. In the order of the numbers, each once.
#[derive(Debug)]
pub(super) struct Numbered<T>(Vec<(u32, T)>);

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Numbered<T> {
    /// The place of a number, or where it would be.
    #[inline]
    fn place(&self, number: u32) -> Result<usize, usize> {
        match self.0.get(number as usize) {
            Some((known, _)) if *known == number => Ok(number as usize),
            _ => self.0.binary_search_by_key(&number, |(known, _)| *known),
        }
    }

    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<&T> {
        self.place(number).ok().map(|at| &self.0[at].1)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.place(number).ok().map(|at| &mut self.0[at].1)
    }

    /// Puts a thing in the place of what had its number, which is returned.
    pub(super) fn insert(&mut self, number: u32, thing: T) -> Option<T> {
        match self.place(number) {
            Ok(at) => Some(std::mem::replace(&mut self.0[at].1, thing)),
            Err(at) => {
                self.0.insert(at, (number, thing));
                None
            }
        }
    }

    pub(super) fn remove(&mut self, number: u32) -> Option<T> {
        self.place(number).ok().map(|at| self.0.remove(at).1)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// All with their numbers, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.0.iter().map(|(number, thing)| (*number, thing))
    }

    /// The same, to be changed.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        self.0.iter_mut().map(|(number, thing)| (*number, thing))
    }

    /// Takes all out.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = T> {
        self.0.drain(..).map(|(_, thing)| thing)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn it_is_a_map_whatever_numbers_a_peer_chooses() {
        let (mut numbered, mut model) = (Numbered::default(), BTreeMap::new());
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as u32
        };
        for step in 0..5000 {
            // Dense ones, far ones, and the largest.
            let number = match next() % 3 {
                0 => next() % 8,
                1 => next() % 64 * 1000,
                _ => u32::MAX - next() % 4,
            };
            if next() % 3 == 0 {
                assert_eq!(numbered.remove(number), model.remove(&number));
            } else {
                assert_eq!(numbered.insert(number, step), model.insert(number, step));
            }
            let asked = next() % 8;
            assert_eq!(numbered.get(asked), model.get(&asked));
            assert_eq!(numbered.get_mut(number), model.get_mut(&number));
            assert_eq!(numbered.len(), model.len());
        }
        assert!(numbered.iter().eq(model.iter().map(|(number, step)| (*number, step))));
        assert!(numbered.iter_mut().map(|(_, step)| *step).eq(model.values().copied()));
        assert!(numbered.drain().eq(model.into_values()));
        assert_eq!(numbered.len(), 0);
    }
}
