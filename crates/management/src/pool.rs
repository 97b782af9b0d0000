//! Work off the loop: work that takes a lock of the data path, waits for the disk, or grows with
//! the number of objects.
//!
//! The loop that serves connections only moves bytes, so that a health check is answered at once
//! whatever else is under way. Each kind of work has a number of places, and each user a share of
//! them. Without a free place, work waits in line: first for the user's share, then for a place.
//!
//! Work that takes a processor and not the disk has one of them at most ([`Pool::turn`]): sixteen
//! publishes to thousands of queues each would leave little to the threads of the data path.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use auth::waiting;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// A look-up of something by its name.
    Look,
    /// Building a list, or a sum over one.
    List,
    /// A change, which waits for the disk.
    Change,
    /// Any work for a user whose rights a program elsewhere decides about: it may wait for that.
    Elsewhere,
}

/// Places of each kind, and how many of them one user may have.
const PLACES: [(usize, usize); 4] = [(8, 4), (2, 1), (48, 16), (8, 2)];
/// Connections that the control socket serves at a time. Each has a thread, because most answers
/// wait for the disk or grow with the number of objects.
pub(crate) const OF_CONTROL: usize = 8;
/// Threads for all places, one for strangers' figures, and those of the control socket.
pub(crate) const THREADS: usize = 8 + 2 + 48 + 8 + 1 + OF_CONTROL;

/// See the module.
#[derive(Debug)]
pub(crate) struct Pool {
    kinds: [Kind; 4],
    turn: Mutex<()>,
    turns: AtomicU64,
}

#[derive(Debug)]
struct Kind {
    places: Arc<Semaphore>,
    share: usize,
    /// The shares of users whose work runs or waits.
    users: Mutex<HashMap<String, Arc<Semaphore>>>,
}

/// A place while work runs in it.
#[derive(Debug)]
struct Entered {
    _own: OwnedSemaphorePermit,
    _place: OwnedSemaphorePermit,
}

impl Default for Pool {
    fn default() -> Self {
        let kind = |(places, share)| Kind { places: Arc::new(Semaphore::new(places)), share, users: Mutex::default() };
        Self { kinds: PLACES.map(kind), turn: Mutex::default(), turns: AtomicU64::new(0) }
    }
}

impl Pool {
    /// Waits for a turn with the broker, which ends when the result is dropped. A publish has one
    /// until it is in its queues, and waits for its answer without. Fetches have one until it is
    /// full, or they wait for the disk.
    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turns.fetch_add(1, Ordering::Relaxed);
        // A panic leaves nothing behind here.
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many turns there have been.
    pub(crate) fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }

    /// Runs work when there is a place for it. If its request goes away, work that waits is not
    /// started, and work that runs is finished.
    ///
    /// # Errors
    /// If the work panicked, or the server is stopping.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        kind: Work,
        user: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, String> {
        let entered = self.kinds[kind as usize].enter(user).await.ok_or("the server ends")?;
        let done = tokio::task::spawn_blocking(move || {
            let done = if kind == Work::Elsewhere { waiting::allowed(work) } else { work() };
            drop(entered);
            done
        });
        done.await.map_err(|error| error.to_string())
    }
}

impl Kind {
    async fn enter(&self, user: &str) -> Option<Entered> {
        let own = self.of(user).acquire_owned().await.ok()?;
        let place = Arc::clone(&self.places).acquire_owned().await.ok()?;
        Some(Entered { _own: own, _place: place })
    }

    /// The user's share. Users without work are forgotten, so the table does not grow with their
    /// number.
    fn of(&self, user: &str) -> Arc<Semaphore> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        users.retain(|_, share| Arc::strong_count(share) > 1);
        Arc::clone(users.entry(user.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(self.share))))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::channel;

    use super::*;

    /// One user builds a list that does not end, and waits with more. A list for another user is
    /// built meanwhile, and look-ups go on.
    #[test]
    fn who_asks_for_much_waits_for_itself() {
        let runtime =
            tokio::runtime::Builder::new_current_thread().max_blocking_threads(THREADS).enable_time().build().unwrap();
        let pool = Arc::new(Pool::default());
        runtime.block_on(async {
            let (end, ended) = channel::<()>();
            let (begin, mut begun) = tokio::sync::mpsc::unbounded_channel();
            let busy = Arc::clone(&pool);
            let first = tokio::spawn(async move {
                let work = move || {
                    begin.send(()).unwrap();
                    let _ = ended.recv();
                };
                busy.run(Work::List, "greedy", work).await
            });
            begun.recv().await.unwrap();
            let waiting: Vec<_> = (0..60)
                .map(|_| {
                    let pool = Arc::clone(&pool);
                    tokio::spawn(async move { pool.run(Work::List, "greedy", || ()).await })
                })
                .collect();
            tokio::task::yield_now().await;
            assert_eq!(pool.run(Work::List, "other", || 1).await, Ok(1));
            assert_eq!(pool.run(Work::Look, "greedy", || 2).await, Ok(2));
            assert!(waiting.iter().all(|task| !task.is_finished()));
            end.send(()).unwrap();
            first.await.unwrap().unwrap();
            for task in waiting {
                assert_eq!(task.await.unwrap(), Ok(()));
            }
            assert_eq!(pool.run(Work::List, "last", || 3).await, Ok(3));
            let users = pool.kinds[Work::List as usize].users.lock().unwrap();
            assert!(users.len() <= 1, "nothing is kept of who has gone");
        });
    }

    #[test]
    fn one_has_a_turn_at_a_time() {
        let (pool, held) = (Pool::default(), AtomicBool::new(false));
        let taken = || {
            let _turn = pool.turn();
            assert!(!held.swap(true, Ordering::SeqCst), "two have a turn");
            std::thread::yield_now();
            held.store(false, Ordering::SeqCst);
        };
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..100).for_each(|_| taken()));
            }
        });
    }

    #[test]
    fn there_is_a_thread_for_each_place() {
        assert_eq!(PLACES.iter().map(|(places, _)| places).sum::<usize>() + 1 + OF_CONTROL, THREADS);
    }

    #[tokio::test]
    async fn work_that_panics_gives_its_place_back() {
        let pool = Pool::default();
        for _ in 0..3 {
            let done: Result<(), _> = pool.run(Work::List, "user", || panic!("ordered to")).await;
            assert!(done.unwrap_err().contains("panic"));
        }
    }
}
