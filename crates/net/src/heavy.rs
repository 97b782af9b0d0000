//! The line of heavy connections: those whose turns take most of a slice, one poll like the other.
//!
//! Invariant: each I/O thread runs one of them, then all that are ready, then the next. So another
//! connection waits for one slice, however many are heavy; and they are served first come, first
//! served. A connection that is not heavy neither waits here nor touches what is shared.
//!
//! All heavy ones share one slice of a thread in each round. A second slice would make each other
//! connection wait for two. One slice is also no less than any other connection gets of a round.
//! Where no other is ready, rounds follow each other at once, so the line leaves no thread idle.
//! Each heavy one goes to the end of the line with each slice, so all have equal shares.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use parking_lot::Mutex;

/// A connection is heavy from here on: the time of its last poll, and half of what counted before.
/// One poll of a whole slice is not enough: the system may have run others meanwhile.
const HEAVY: Duration = Duration::from_millis(15);

/// States of a [`Waiting`]. Only the first one changes.
const WAITS: u8 = 0;
const GRANTED: u8 = 1;
const GONE: u8 = 2;

/// A heavy connection in the line.
#[derive(Debug)]
struct Waiting {
    state: AtomicU8,
    task: Waker,
}

impl Waiting {
    fn new(state: u8, task: &Waker) -> Arc<Self> {
        Arc::new(Self { state: AtomicU8::new(state), task: task.clone() })
    }

    fn is_granted(&self) -> bool {
        self.state.load(Ordering::Acquire) == GRANTED
    }

    /// Leaves the first state. False if it was left before.
    fn becomes(&self, state: u8) -> bool {
        self.state.compare_exchange(WAITS, state, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

#[derive(Debug)]
struct Line {
    /// Permits that can be had at once.
    free: usize,
    waiting: VecDeque<Arc<Waiting>>,
}

/// All heavy connections of the I/O threads, with a permit for each thread.
#[derive(Debug)]
pub(crate) struct Heavy {
    line: Mutex<Line>,
    /// Permits that were given back and wait for the sockets to be looked at.
    returned: AtomicUsize,
}

impl Heavy {
    pub(crate) fn new(io_threads: usize) -> Arc<Self> {
        let line = Line { free: io_threads, waiting: VecDeque::new() };
        Arc::new(Self { line: Mutex::new(line), returned: AtomicUsize::new(0) })
    }

    /// Takes a permit, or a place in the line.
    fn enter(&self, task: &Waker) -> Arc<Waiting> {
        let mut line = self.line.lock();
        if line.free > 0 {
            line.free -= 1;
            return Waiting::new(GRANTED, task);
        }
        let waiting = Waiting::new(WAITS, task);
        line.waiting.push_back(waiting.clone());
        waiting
    }

    /// Gives a permit back. The next one gets it once the others have had their turns.
    fn give_back(self: &Arc<Self>) {
        self.returned.fetch_add(1, Ordering::AcqRel);
        after_others(&Waker::from(self.clone()));
    }

    /// Hands a permit to the first that still waits.
    fn hand_on(&self) {
        let mut line = self.line.lock();
        while let Some(waiting) = line.waiting.pop_front() {
            if waiting.becomes(GRANTED) {
                drop(line);
                return waiting.task.wake_by_ref();
            }
        }
        line.free += 1;
    }
}

impl Wake for Heavy {
    /// The runtime wakes once for several permits that came back to one thread.
    fn wake(self: Arc<Self>) {
        for _ in 0..self.returned.swap(0, Ordering::AcqRel) {
            self.hand_on();
        }
    }
}

/// Has the runtime wake `task` once all that were ready have run, and the sockets were looked at.
/// One that wakes itself is run again before that, up to 60 times.
pub(crate) fn after_others(task: &Waker) {
    // It says that there is more to do, and has the runtime wake the task later.
    let _ = pin!(tokio::task::yield_now()).poll(&mut Context::from_waker(task));
}

/// A connection's place among the others.
#[derive(Debug)]
pub(crate) struct Place {
    heavy: Arc<Heavy>,
    /// What its polls took: half of it counts at the next one.
    recent: Duration,
    /// Its place in the line, or its permit.
    waiting: Option<Arc<Waiting>>,
}

impl Place {
    pub(crate) fn new(heavy: Arc<Heavy>) -> Self {
        Self { heavy, recent: Duration::ZERO, waiting: None }
    }

    fn is_heavy(&self) -> bool {
        self.recent >= HEAVY
    }

    /// Whether the connection may run now. If not, its task is woken when it may.
    #[inline]
    pub(crate) fn may_run(&mut self, task: &Waker) -> bool {
        if self.waiting.is_none() && !self.is_heavy() {
            return true;
        }
        self.waiting.get_or_insert_with(|| self.heavy.enter(task)).is_granted()
    }

    /// The connection has run for so long, and has nothing to do at once.
    #[inline]
    pub(crate) fn ran(&mut self, took: Duration) {
        self.recent = self.recent / 2 + took;
        if self.waiting.take().is_some() {
            self.heavy.give_back();
        }
    }

    /// The connection has run for so long, and has more to do: it is woken when it may run. True
    /// if it is heavy; otherwise the caller has to wake it.
    pub(crate) fn ran_and_has_more(&mut self, took: Duration, task: &Waker) -> bool {
        self.recent = self.recent / 2 + took;
        let held = self.waiting.take().is_some();
        if self.is_heavy() {
            // Behind those that wait: its own permit comes back after that.
            let waiting = self.waiting.insert(self.heavy.enter(task));
            if waiting.is_granted() {
                after_others(task);
            }
        }
        if held {
            self.heavy.give_back();
        }
        self.is_heavy()
    }
}

impl Drop for Place {
    /// Also a permit that came too late is given back.
    fn drop(&mut self) {
        if self.waiting.take().is_some_and(|waiting| !waiting.becomes(GONE)) {
            self.heavy.give_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use tokio::task::yield_now;

    use super::*;

    const SLICE: Duration = Duration::from_millis(10);

    fn waker() -> Waker {
        Waker::noop().clone()
    }

    /// A place whose connection has become heavy.
    fn heavy(line: &Arc<Heavy>) -> Place {
        let mut place = Place::new(line.clone());
        place.ran(HEAVY);
        place
    }

    /// What ran in which order on one thread: `heavy` connections that have work for three slices
    /// after they have become heavy, and one that always has a little to do.
    fn order(heavy: usize) -> Vec<usize> {
        let ran = Arc::new(Mutex::new(Vec::new()));
        let line = Heavy::new(0);
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(async {
            let tasks: Vec<_> = (0..heavy)
                .map(|number| {
                    let (ran, mut place, mut left) = (ran.clone(), self::heavy(&line), 3);
                    tokio::spawn(poll_fn(move |cx| {
                        if !place.may_run(cx.waker()) {
                            return Poll::Pending;
                        }
                        ran.lock().push(number);
                        left -= 1;
                        if left == 0 {
                            place.ran(SLICE);
                            return Poll::Ready(());
                        }
                        assert!(place.ran_and_has_more(SLICE, cx.waker()), "it stays heavy");
                        Poll::Pending
                    }))
                })
                .collect();
            // All stand in the line before the first one runs.
            yield_now().await;
            line.hand_on();
            while !tasks.iter().all(tokio::task::JoinHandle::is_finished) {
                ran.lock().push(usize::MAX);
                yield_now().await;
            }
        });
        assert_eq!(line.line.lock().free, 1, "no permit is lost");
        Arc::into_inner(ran).expect("all tasks have ended").into_inner()
    }

    /// Eight connections that took their whole slices once cost the ninth one eight slices a round.
    #[test]
    fn one_heavy_connection_runs_between_two_turns_of_another_one_however_many_there_are() {
        for heavy in [1, 2, 8] {
            let ran = order(heavy);
            assert!(ran.windows(2).all(|two| two.contains(&usize::MAX)), "{ran:?}");
            let slices: Vec<usize> = ran.into_iter().filter(|number| *number != usize::MAX).collect();
            let in_turn: Vec<usize> = (0..3).flat_map(|_| 0..heavy).collect();
            assert_eq!(slices, in_turn, "first come, first served");
        }
    }

    #[test]
    fn one_long_poll_makes_no_connection_heavy_but_most_of_a_slice_each_time_does() {
        for (took, expected) in [(4, None), (7, None), (8, Some(4)), (10, Some(2)), (20, Some(1))] {
            let mut place = Place::new(Heavy::new(1));
            let polls = (1..20).find(|_| {
                assert!(place.may_run(&waker()), "{took}");
                place.ran(Duration::from_millis(took));
                place.is_heavy()
            });
            assert_eq!(polls, expected, "{took} ms");
        }
        let mut place = heavy(&Heavy::new(1));
        place.ran(Duration::ZERO);
        assert!(!place.is_heavy(), "it is forgotten");
    }

    #[test]
    fn who_is_not_heavy_touches_nothing_that_is_shared() {
        let line = Heavy::new(1);
        let mut place = Place::new(line.clone());
        let _locked = line.line.lock();
        assert!(place.may_run(&waker()));
        assert!(!place.ran_and_has_more(SLICE, &waker()));
        place.ran(Duration::ZERO);
        assert!(place.may_run(&waker()));
    }

    /// The runtime wakes one waker once, however often it was asked to.
    #[test]
    fn permits_that_come_back_together_are_handed_on_each() {
        let line = Heavy::new(2);
        let mut places: Vec<Place> = (0..4).map(|_| heavy(&line)).collect();
        let run: Vec<bool> = places.iter_mut().map(|place| place.may_run(&waker())).collect();
        assert_eq!(run, [true, true, false, false]);
        line.returned.fetch_add(2, Ordering::AcqRel);
        line.clone().wake();
        let run: Vec<bool> = places[2..].iter_mut().map(|place| place.may_run(&waker())).collect();
        assert_eq!(run, [true, true]);
        places.iter_mut().for_each(|place| place.waiting = None);
        line.line.lock().free = 2;
    }

    #[test]
    fn who_ends_in_the_line_or_with_a_permit_leaves_none_behind() {
        let line = Heavy::new(1);
        let [mut first, mut second, mut third] = [0; 3].map(|_| heavy(&line));
        assert!(first.may_run(&waker()));
        assert!(!second.may_run(&waker()) && !third.may_run(&waker()));
        drop(second);
        drop(first);
        assert!(third.may_run(&waker()), "the one that had gone was passed over");
        let mut fourth = heavy(&line);
        assert!(!fourth.may_run(&waker()));
        third.ran(SLICE);
        // It was handed the permit, and ends before it has run.
        drop(fourth);
        assert_eq!(line.line.lock().free, 1);
    }
}
