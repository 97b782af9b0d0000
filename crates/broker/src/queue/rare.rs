//! State that most queues lack. Until it is first changed it takes no memory, and reads as empty.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

/// State that can be empty.
pub(crate) trait Empty: Default + 'static {
    /// An empty one, to be read.
    fn empty() -> &'static Self;
}

impl<K: Send + Sync + 'static, V: Send + Sync + 'static> Empty for BTreeMap<K, V> {
    fn empty() -> &'static Self {
        const { &BTreeMap::new() }
    }
}

/// See the module. A change through [`DerefMut`] makes it; where there is nothing to change,
/// [`Rare::made_mut`] does not.
#[derive(Debug)]
pub(crate) struct Rare<T>(Option<Box<T>>);

impl<T> Default for Rare<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Rare<T> {
    /// This state.
    pub(super) fn of(state: T) -> Self {
        Self(Some(Box::new(state)))
    }

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
