//! A part of a session that has memory of its own, and only while it is used. Most connections of a
//! broker with many do nothing most of the time, and each would carry every part.
//!
//! Invariant: a part without memory is as good as an empty one. To read it takes none; to change it
//! does, until it is let go of.

use std::ops::{Deref, DerefMut};

/// What can be absent.
pub(super) trait Empty: Default + 'static {
    /// An empty one, for those that read.
    fn empty() -> &'static Self;
}

/// Says how an absent part is read.
macro_rules! empty {
    ($part:ty) => {
        impl $crate::session::seldom::Empty for $part {
            fn empty() -> &'static Self {
                static EMPTY: std::sync::LazyLock<$part> = std::sync::LazyLock::new(Default::default);
                &EMPTY
            }
        }
    };
}
pub(super) use empty;

/// See the module.
#[derive(Debug)]
pub(super) struct Seldom<T>(Option<Box<T>>);

impl<T> Seldom<T> {
    /// Gives the memory back, and with it all that the part holds.
    pub(super) fn let_go(&mut self) {
        self.0 = None;
    }
}

impl<T> Default for Seldom<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Empty> Deref for Seldom<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match &self.0 {
            Some(part) => part,
            None => T::empty(),
        }
    }
}

impl<T: Empty> DerefMut for Seldom<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default)]
    struct Part(Vec<u8>);
    empty!(Part);

    #[test]
    fn a_part_has_memory_while_it_is_used() {
        let mut part = Seldom::<Part>::default();
        assert!(part.0.is_none() && part.0.as_deref().is_none());
        assert!((*part).0.is_empty());
        assert!(part.0.is_none());
        (*part).0.push(1);
        assert_eq!((*part).0, [1]);
        part.let_go();
        assert!((*part).0.is_empty());
        assert_eq!(size_of::<Seldom<Part>>(), size_of::<usize>());
    }
}
