//! Which alarms are up, and what they allow.

use std::sync::atomic::{AtomicU8, Ordering};
use std::task::Waker;
use std::time::Instant;

use journal::Admission;
use parking_lot::Mutex;

use crate::alarms::{AlarmsUp, Allowance, DISK, MEMORY, Told, Watch};
use crate::engine::Engine;
use crate::engine::disk_watch::{DiskBounds, DiskWatch};
use crate::settings::{DiskLimits, Switch};

/// The limits of the disk, the alarms that are up by hand, and the clients that wait for a change.
#[derive(Debug)]
pub(crate) struct Alarms {
    disk: DiskWatch,
    by_hand: AtomicU8,
    watch: Mutex<Watch>,
    told: Mutex<Told>,
}

impl Alarms {
    /// None is up by hand.
    pub(crate) fn new(limits: DiskLimits) -> Self {
        Self {
            disk: DiskWatch::new(limits),
            by_hand: AtomicU8::new(0),
            watch: Mutex::default(),
            told: Mutex::default(),
        }
    }
}

impl Engine {
    /// Sets the limits of the disk.
    pub(crate) fn set_disk_limits(&self, change: impl FnOnce(&mut DiskLimits)) {
        self.alarms.disk.change(change);
        self.look_at_disk(Instant::now());
        self.housekeeper.wake();
    }

    /// Looks at the disk if it is time to. Returns when to look again.
    pub(crate) fn look_at_disk(&self, now: Instant) -> Option<Instant> {
        self.alarms.disk.look(now, || self.journal.disk_use())
    }

    /// The limits of the disk in bytes, as of the last look.
    pub(crate) fn disk_bounds(&self) -> DiskBounds {
        self.alarms.disk.bounds()
    }

    fn alarms_now(&self) -> u8 {
        let memory = if self.memory.is_full() { MEMORY } else { 0 };
        let has_room = self.journal.admission() == Admission::Open && self.alarms.disk.allowance() == Allowance::All;
        let disk = if has_room { 0 } else { DISK };
        memory | disk | self.alarms.by_hand.load(Ordering::Relaxed)
    }

    /// Raises or clears alarms by hand.
    pub(crate) fn force_alarms(&self, which: u8, switch: Switch) {
        match switch {
            Switch::On => self.alarms.by_hand.fetch_or(which, Ordering::Relaxed),
            Switch::Off => self.alarms.by_hand.fetch_and(!which, Ordering::Relaxed),
        };
        self.housekeeper.wake();
    }

    /// The publishes that are allowed now.
    pub(crate) fn allowance(&self) -> Allowance {
        self.allowance_beside(0)
    }

    /// The same for a client that holds so many bytes itself: they are there already.
    pub(crate) fn allowance_beside(&self, own: usize) -> Allowance {
        let limit = self.memory.limit();
        let used = self.memory.taken().saturating_sub(own);
        let memory = if limit > 0 && used <= limit {
            Allowance::All
        } else if limit > 0 && used <= limit + limit / 8 {
            Allowance::Consuming
        } else {
            Allowance::None
        };
        let disk = match self.journal.admission() {
            Admission::Open => Allowance::All,
            Admission::Headroom => Allowance::Consuming,
            Admission::Closed => Allowance::None,
        };
        let by_hand = match self.alarms.by_hand.load(Ordering::Relaxed) {
            0 => Allowance::All,
            // No client could make room, so none is let in.
            _ => Allowance::None,
        };
        memory.max(disk).max(self.alarms.disk.allowance()).max(by_hand)
    }

    /// The alarms in words, `None` when there are none.
    pub(crate) fn alarm_text(&self) -> Option<&'static str> {
        match self.alarms_now() {
            0 => None,
            MEMORY => Some("low on memory"),
            DISK => Some("low on disk"),
            _ => Some("low on memory & disk"),
        }
    }

    pub(crate) fn alarms_up(&self) -> AlarmsUp {
        let now = self.alarms_now();
        AlarmsUp { memory: now & MEMORY != 0, disk: now & DISK != 0 }
    }

    /// Wakes `waker` at the next look at the alarms, and schedules that look.
    pub(crate) fn when_alarms_change(&self, waker: &Waker) {
        let polled = {
            let mut watch = self.alarms.watch.lock();
            if !watch.waiting.iter().any(|other| other.will_wake(waker)) {
                watch.waiting.push(waker.clone());
            }
            std::mem::replace(&mut watch.polled, true)
        };
        if !polled {
            self.housekeeper.wake();
        }
    }

    /// Wakes all that wait for a change. True when the housekeeping must look again too, since a
    /// client that was woken may go on waiting.
    pub(crate) fn announce_alarms(&self, now: Instant) -> bool {
        let tells = self.tell_alarms(now);
        let waiting = {
            let mut watch = self.alarms.watch.lock();
            watch.polled = !watch.waiting.is_empty();
            std::mem::take(&mut watch.waiting)
        };
        let woken = !waiting.is_empty();
        waiting.into_iter().for_each(Waker::wake);
        woken || tells
    }

    /// Bytes of memory that are counted besides those of `memory`: messages that arrive,
    /// declarations, and the log's.
    pub(crate) fn counted_elsewhere(&self) -> usize {
        let kept = self.catalog.bindings.load().memory + self.journal.bytes_in_memory();
        self.ingress.used().saturating_add(usize::try_from(kept).unwrap_or(usize::MAX))
    }

    /// Writes a line to the log when other alarms are up than the last one said. One that comes and
    /// goes between two lines has none. True while there may be something to say soon.
    fn tell_alarms(&self, now: Instant) -> bool {
        let up = self.alarms_now();
        let (turned, last) = {
            let mut told = self.alarms.told.lock();
            (told.turn(up, now), told.up)
        };
        let Some((rose, passed)) = turned else { return up != 0 || up != last };
        let by_hand = self.alarms.by_hand.load(Ordering::Relaxed);
        let (memory, limit, disk) = (self.memory.taken(), self.memory.limit(), self.journal.stats());
        let (log, free, bounds) = (disk.used_bytes, disk.free_bytes, self.disk_bounds());
        if rose & MEMORY != 0 {
            let (user, held) = self.memory.users().heaviest().unwrap_or_default();
            ::tracing::warn!(
                memory,
                uncounted = self.memory.uncounted(self.counted_elsewhere()),
                limit,
                by_hand = by_hand & MEMORY != 0,
                heaviest_user = %user,
                held_by_user = held,
                "memory alarm rises: publishers wait until consumers have made room (hermod status, docs/manual/alarms.md)"
            );
        }
        if rose & DISK != 0 {
            ::tracing::warn!(
                log,
                most = disk.max_bytes,
                free,
                least_free = bounds.least_free,
                stored = bounds.stored,
                most_stored = bounds.most_stored,
                by_hand = by_hand & DISK != 0,
                "disk alarm rises: publishers wait until consumers have made room (hermod status, docs/manual/alarms.md)"
            );
        }
        if passed & MEMORY != 0 {
            ::tracing::info!(memory, limit, "memory alarm passes: publishers go on");
        }
        if passed & DISK != 0 {
            ::tracing::info!(log, most = disk.max_bytes, free, "disk alarm passes: publishers go on");
        }
        true
    }
}
