//! Which other queue gets copies of what a queue gets. It is asked while a message is routed, when
//! no queue is locked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::arguments::copies::CopyRule;

/// The rule of a queue, beside its lock.
#[derive(Debug, Default)]
pub(super) struct Copying {
    /// There is a rule: without one, nothing is locked.
    is_on: AtomicBool,
    /// A leaf of the lock order.
    rule: Mutex<Option<Arc<CopyRule>>>,
}

impl Copying {
    pub(super) fn by(rule: Option<Arc<CopyRule>>) -> Self {
        let copying = Self::default();
        copying.set(rule);
        copying
    }

    /// Replaces the rule. Messages that are being routed may still go by the one before.
    pub(super) fn set(&self, rule: Option<Arc<CopyRule>>) {
        let is_on = rule.is_some();
        *self.rule.lock() = rule;
        self.is_on.store(is_on, Ordering::Release);
    }

    #[inline]
    pub(super) fn rule(&self) -> Option<Arc<CopyRule>> {
        if !self.is_on.load(Ordering::Acquire) {
            return None;
        }
        self.rule.lock().clone()
    }
}
