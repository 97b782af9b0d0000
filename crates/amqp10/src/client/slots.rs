//! Things with small numbers, which are used again: sessions by channel, links by handle.

/// How many numbers there may be. We tell the peer that its handles are below it.
pub(super) const SLOTS: usize = 65_536;

/// Values by number.
#[derive(Debug)]
pub(super) struct Slots<T>(Vec<Option<T>>);

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Slots<T> {
    /// Puts `value` at the lowest free number, unless that is above `highest`.
    pub(super) fn add(&mut self, value: T, highest: usize) -> Option<u32> {
        let free = self.0.iter().position(Option::is_none).unwrap_or(self.0.len());
        (free <= highest.min(SLOTS - 1)).then(|| {
            self.put(free, value);
            free as u32
        })
    }

    /// Puts `value` at `number`, which is below [`SLOTS`]; else it is dropped.
    pub(super) fn put(&mut self, number: usize, value: T) {
        if number >= SLOTS {
            return;
        }
        if number >= self.0.len() {
            self.0.resize_with(number + 1, || None);
        }
        self.0[number] = Some(value);
    }

    #[inline]
    pub(super) fn get(&mut self, number: usize) -> Option<&mut T> {
        self.0.get_mut(number)?.as_mut()
    }

    pub(super) fn take(&mut self, number: usize) -> Option<T> {
        self.0.get_mut(number)?.take()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flatten()
    }

    /// All numbers that are in use are below it.
    pub(super) fn end(&self) -> u32 {
        self.0.len() as u32
    }
}
