//! State that most queues lack. Until it is first changed it takes no memory, and reads as empty.

use std::ops::{Deref, DerefMut};

/// State that can be empty.
pub(super) trait Empty: Default + 'static {
    /// An empty one, to be read.
    fn empty() -> &'static Self;
}

/// See the module. A change through [`DerefMut`] makes it; where there is nothing to change,
/// [`Rare::made_mut`] does not.
#[derive(Debug)]
pub(super) struct Rare<T>(Option<Box<T>>);

impl<T> Default for Rare<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Rare<T> {
    /// The state, if it was ever changed.
    #[inline]
    pub(super) fn made_mut(&mut self) -> Option<&mut T> {
        self.0.as_deref_mut()
    }
}

impl<T: Empty> Deref for Rare<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match &self.0 {
            Some(made) => made,
            None => T::empty(),
        }
    }
}

impl<T: Empty> DerefMut for Rare<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}
