//! The times of a queue, and its end: when it was used, when its timer fires, and whether it is
//! deleted.
//!
//! All times are in milliseconds since 1970.

/// See the module.
#[derive(Debug)]
pub(super) struct Lifetime {
    is_deleted: bool,
    had_consumer: bool,
    /// When the timer for this queue will fire.
    timer_at: u64,
    /// When it was last used, for its own expiry.
    used_at: u64,
    /// When anything last happened to it.
    active_at: u64,
    /// How long its subscription outlives its last consumer.
    expires: Option<u64>,
    /// This visit has dropped as much as it may, and more must go.
    has_more: bool,
}

impl Lifetime {
    /// Of a new queue.
    pub(super) fn new(now: u64) -> Self {
        let (timer_at, used_at, active_at) = (u64::MAX, now, now);
        Self { is_deleted: false, had_consumer: false, timer_at, used_at, active_at, expires: None, has_more: false }
    }

    #[inline]
    pub(super) fn is_deleted(&self) -> bool {
        self.is_deleted
    }

    /// The queue is deleted.
    pub(super) fn end(&mut self) {
        self.is_deleted = true;
    }

    /// True when the queue has had a consumer.
    pub(super) fn had_consumer(&self) -> bool {
        self.had_consumer
    }

    /// A consumer is there.
    pub(super) fn note_consumer(&mut self) {
        self.had_consumer = true;
    }

    /// Its subscription outlives its last consumer by this many milliseconds.
    pub(super) fn expire_after(&mut self, expires: Option<u64>) {
        self.expires = expires;
    }

    /// See [`Self::expire_after`].
    pub(super) fn expires(&self) -> Option<u64> {
        self.expires
    }

    /// When the queue was last used, for its own expiry.
    pub(super) fn used_at(&self) -> u64 {
        self.used_at
    }

    /// The queue is used.
    pub(super) fn touch(&mut self, now: u64) {
        self.used_at = now;
    }

    /// When anything last happened to it.
    pub(super) fn active_at(&self) -> u64 {
        self.active_at
    }

    /// Something happens to it.
    #[inline]
    pub(super) fn act(&mut self, now: u64) {
        self.active_at = now;
    }

    /// This visit has dropped as much as it may, and more must go: the timer fires at once.
    pub(super) fn note_more(&mut self) {
        self.has_more = true;
    }

    /// True when more must go than this visit has dropped.
    pub(super) fn has_more(&self) -> bool {
        self.has_more
    }

    /// The same, and forgets it.
    pub(super) fn take_more(&mut self) -> bool {
        std::mem::take(&mut self.has_more)
    }

    /// Sets the timer to `at`. False if it fires no later anyway.
    pub(super) fn arm(&mut self, at: u64) -> bool {
        let is_earlier = at < self.timer_at;
        if is_earlier {
            self.timer_at = at;
        }
        is_earlier
    }

    /// The timer that was set for `at` has fired. False if an earlier one replaced it.
    pub(super) fn fire(&mut self, at: u64) -> bool {
        let is_set = self.timer_at == at;
        if is_set {
            self.disarm();
        }
        is_set
    }

    /// Forgets the timer. It may still fire, and then finds nothing to do.
    pub(super) fn disarm(&mut self) {
        self.timer_at = u64::MAX;
    }
}
