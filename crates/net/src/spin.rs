//! A moment of looking for work before the thread of the sockets goes to sleep. To wake a thread
//! costs more than most requests do, above all where the core was given back to a hypervisor. A
//! client that waits for each answer asks again sooner than that.
//!
//! Invariants: where looking leads to nothing it is left off. A look in vain quadruples the number
//! of sleeps before the next one. A look that found something takes an eighth off it. So looks go
//! on only where some nine of ten find something. And a look keeps no other thread from the core.

use std::cell::Cell;
use std::future::poll_fn;
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The most sleeps between two looks in vain.
const MOST_SLEEPS: u32 = 64;

thread_local! {
    static WORKED: Cell<bool> = const { Cell::new(false) };
}

/// Something was done on this thread since it last ran out of work.
pub(crate) fn worked() {
    WORKED.set(true);
}

/// Whether to look for work, and until when.
#[derive(Debug)]
struct Looks {
    /// How long a look takes at most.
    limit: Duration,
    /// When this look ends; none: the thread sleeps.
    until: Option<Instant>,
    /// Sleeps after a look in vain.
    sleeps: u32,
    /// How many of them are left.
    left: u32,
}

impl Looks {
    fn new(limit: Duration) -> Self {
        Self { limit, until: None, sleeps: 0, left: 0 }
    }

    /// There was something to do since the last look, and the thread has run out of it.
    fn found_work(&mut self, now: Instant) {
        if self.until.take().is_some() {
            self.sleeps -= self.sleeps.div_ceil(8);
        }
        self.until = (self.left == 0).then(|| now + self.limit);
        self.left = self.left.saturating_sub(1);
    }

    /// There is nothing to do. True to look once more, false to sleep.
    fn looks(&mut self, now: Instant) -> bool {
        match self.until {
            Some(until) if now < until => true,
            Some(_) => {
                self.until = None;
                self.sleeps = (self.sleeps * 4).clamp(2, MOST_SLEEPS);
                self.left = self.sleeps;
                false
            }
            None => false,
        }
    }
}

/// Keeps the one thread of a runtime awake while it looks.
#[derive(Debug)]
pub(crate) struct Spin {
    looks: Mutex<Looks>,
    /// Of the task whose being woken makes the runtime ask the sockets again instead of sleeping.
    waker: Mutex<Option<Waker>>,
}

impl Spin {
    /// Looks for `limit` at most each time.
    pub(crate) fn new(limit: Duration) -> Self {
        Self { looks: Mutex::new(Looks::new(limit)), waker: Mutex::default() }
    }

    /// The thread is about to sleep.
    pub(crate) fn before_sleep(&self) {
        let (worked, now) = (WORKED.replace(false), Instant::now());
        let mut looks = self.looks.lock();
        if worked {
            looks.found_work(now);
        }
        let again = looks.looks(now);
        drop(looks);
        if !again {
            return;
        }
        // Another thread that waits for this core would else wait until the scheduler takes it
        // away: a few milliseconds.
        thread::yield_now();
        if let Some(waker) = &*self.waker.lock() {
            waker.wake_by_ref();
        }
    }

    /// The task that is woken. It never ends by itself.
    pub(crate) async fn stay_awake(&self) {
        poll_fn(|cx| {
            *self.waker.lock() = Some(cx.waker().clone());
            Poll::<()>::Pending
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_micros(50);

    /// Lets work come `gap` after the thread ran out of it, for each of `gaps`; returns how often
    /// it looked and how often it slept.
    fn play(gaps: impl IntoIterator<Item = Duration>) -> (usize, usize) {
        let (mut looks, mut now, mut found, mut slept) = (Looks::new(LIMIT), Instant::now(), 0, 0);
        for gap in gaps {
            let comes = now + gap;
            looks.found_work(now);
            let mut looking = looks.looks(now);
            while looking && now < comes {
                now += Duration::from_micros(1);
                looking = looks.looks(now);
            }
            if looking {
                found += 1
            } else {
                slept += 1
            }
            now = comes.max(now);
        }
        (found, slept)
    }

    #[test]
    fn a_peer_that_asks_again_at_once_never_finds_the_thread_asleep() {
        assert_eq!(play([LIMIT / 2; 1000]), (1000, 0));
    }

    #[test]
    fn where_work_comes_seldom_hardly_any_look_is_taken() {
        let (mut looks, mut now, mut looked) = (Looks::new(LIMIT), Instant::now(), 0);
        for _ in 0..1000 {
            looks.found_work(now);
            if looks.looks(now) {
                looked += 1;
                assert!(!looks.looks(now + LIMIT), "a look is never longer than its limit");
            }
            now += Duration::from_millis(1);
        }
        assert!((10..=20).contains(&looked), "{looked}");
    }

    /// A confirm that waits for the disk lies between two requests: every other look is in vain,
    /// and costs more than the others bring in.
    #[test]
    fn where_every_other_look_is_in_vain_it_is_left_off() {
        let (found, slept) = play((0..1000).map(|at| if at % 2 == 0 { LIMIT / 2 } else { LIMIT * 4 }));
        assert!(found < 60 && found + slept == 1000, "{found} {slept}");
    }

    /// Independent clients, as in an open loop: what comes by chance within the limit pays for no
    /// looking.
    #[test]
    fn where_two_of_three_looks_find_something_it_is_left_off() {
        let (found, slept) = play((0..3000).map(|at| if at % 3 == 0 { LIMIT * 4 } else { LIMIT / 2 }));
        assert!(found < 200 && found + slept == 3000, "{found} {slept}");
    }

    #[test]
    fn one_late_request_does_not_end_it() {
        let (found, slept) = play((0..1000).map(|at| if at % 50 == 49 { LIMIT * 4 } else { LIMIT / 2 }));
        assert!(found > 850 && found + slept == 1000, "{found} {slept}");
    }
}
