//! The threads that TLS handshakes run on. A signature with an RSA key takes milliseconds, and any
//! peer that reaches the port can ask for one. On a thread of the sockets all others would wait.
//!
//! A handshake takes a step whenever its socket has something for it. Handshakes that could take a
//! step wait in a queue. It serves networks in turn, so a network with many handshakes delays only
//! its own. Invariants: a handshake is in the queue at most once, is on at most one thread, and
//! takes no step once its connection has stopped waiting for it.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;
use wire::InTurn;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The threads, until it is dropped.
#[derive(Debug)]
pub(crate) struct HandshakeThreads {
    queue: Arc<HandshakeQueue>,
}

impl HandshakeThreads {
    /// Starts `threads` threads, of whose steps `most` may wait.
    pub(crate) fn start(threads: usize, most: usize) -> io::Result<Self> {
        // Made before the first thread: those that were started end with it when another cannot be.
        let started = Self { queue: HandshakeQueue::new(most) };
        for number in 0..threads.max(1) {
            let queue = Arc::clone(&started.queue);
            std::thread::Builder::new().name(format!("hermod-tls-{number}")).spawn(move || {
                while let Some(handshake) = queue.pop() {
                    handshake.step();
                }
            })?;
        }
        Ok(started)
    }

    /// Runs a handshake with a peer of that address. It is given up when the caller stops waiting.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        from: IpAddr,
        handshake: impl Future<Output = io::Result<T>> + Send + 'static,
    ) -> io::Result<T> {
        let (told, outcome) = oneshot::channel();
        // An error says that the caller has stopped waiting: the outcome is of no use then.
        let work = async move { drop(told.send(handshake.await)) };
        let _gives_up = GivesUp::arrives(&self.queue, from, Box::pin(work));
        outcome.await.unwrap_or_else(|_| Err(io::Error::other("it was given up: too many wait, or the server stops")))
    }
}

impl Drop for HandshakeThreads {
    fn drop(&mut self) {
        self.queue.close();
    }
}

/// Held by the connection that waits for a handshake. Dropping it gives the handshake up.
struct GivesUp(Arc<QueuedHandshake>);

impl GivesUp {
    fn arrives(queue: &Arc<HandshakeQueue>, from: IpAddr, work: Work) -> Self {
        let handshake = QueuedHandshake { from, queue: Arc::clone(queue), state: Mutex::new(State::Asleep(work)) };
        let handshake = Arc::new(handshake);
        handshake.wake_by_ref();
        Self(handshake)
    }
}

impl Drop for GivesUp {
    fn drop(&mut self) {
        self.0.give_up();
    }
}

/// A handshake under way.
struct QueuedHandshake {
    from: IpAddr,
    queue: Arc<HandshakeQueue>,
    state: Mutex<State>,
}

/// What it does.
enum State {
    /// Waits for its socket, which wakes it.
    Asleep(Work),
    /// Waits in the queue.
    Waiting(Work),
    /// Takes a step; `woken` says that there is something for another.
    Stepping { woken: bool },
    /// Has come to its end, or was given up.
    Over,
}

impl QueuedHandshake {
    /// Takes a step, unless it was given up.
    fn step(self: &Arc<Self>) {
        let Some(mut work) = self.begin() else { return };
        let waker = Waker::from(Arc::clone(self));
        let mut context = Context::from_waker(&waker);
        // A panic ends its own connection: what it leaves half-done is dropped right after.
        match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(&mut context))) {
            Ok(Poll::Pending) => self.pause(work),
            Ok(Poll::Ready(())) | Err(_) => *self.state.lock() = State::Over,
        }
    }

    fn begin(&self) -> Option<Work> {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Stepping { woken: false }) {
            State::Waiting(work) => Some(work),
            other => {
                *state = other;
                None
            }
        }
    }

    /// Its step is done, and not its last.
    fn pause(self: &Arc<Self>, work: Work) {
        let mut state = self.state.lock();
        match *state {
            State::Stepping { woken: false } => *state = State::Asleep(work),
            State::Stepping { woken: true } => {
                *state = State::Waiting(work);
                drop(state);
                self.queue.push(self);
            }
            // Given up meanwhile.
            _ => {}
        }
    }

    fn give_up(&self) {
        let former = std::mem::replace(&mut *self.state.lock(), State::Over);
        // Its socket is closed here, behind the lock: that may wake it.
        drop(former);
    }
}

impl Wake for QueuedHandshake {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Over) {
            State::Asleep(work) => {
                *state = State::Waiting(work);
                drop(state);
                self.queue.push(self);
            }
            State::Stepping { .. } => *state = State::Stepping { woken: true },
            other => *state = other,
        }
    }
}

/// Handshakes that could take a step.
struct HandshakeQueue {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
}

struct Waiting {
    handshakes: InTurn<Arc<QueuedHandshake>>,
    closed: bool,
}

impl std::fmt::Debug for HandshakeQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HandshakeQueue").field("waiting", &self.waiting.lock().handshakes.len()).finish_non_exhaustive()
    }
}

impl HandshakeQueue {
    fn new(most: usize) -> Arc<Self> {
        let waiting = Waiting { handshakes: InTurn::new(most), closed: false };
        Arc::new(Self { waiting: Mutex::new(waiting), arrived: Condvar::new() })
    }

    /// Puts one in; what has no place then is given up.
    fn push(&self, handshake: &Arc<QueuedHandshake>) {
        let mut waiting = self.waiting.lock();
        let given_up = match waiting.closed {
            true => Some(Arc::clone(handshake)),
            false => waiting.handshakes.push(handshake.from, Arc::clone(handshake)),
        };
        drop(waiting);
        self.arrived.notify_one();
        if let Some(handshake) = given_up {
            handshake.give_up();
        }
    }

    /// Waits for one; `None` when there will be none any more.
    fn pop(&self) -> Option<Arc<QueuedHandshake>> {
        let mut waiting = self.waiting.lock();
        while !waiting.closed {
            if let Some(next) = waiting.handshakes.pop() {
                return Some(next);
            }
            self.arrived.wait(&mut waiting);
        }
        None
    }

    fn close(&self) {
        let mut waiting = self.waiting.lock();
        waiting.closed = true;
        let left: Vec<_> = std::iter::from_fn(|| waiting.handshakes.pop()).collect();
        drop(waiting);
        self.arrived.notify_all();
        left.iter().for_each(|handshake| handshake.give_up());
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, poll_fn};
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// A handshake without end that tells of each step.
    fn endless(name: &'static str, told: &Sender<&'static str>) -> Work {
        let told = told.clone();
        Box::pin(poll_fn(move |_| {
            told.send(name).unwrap();
            Poll::Pending
        }))
    }

    fn arrives(queue: &Arc<HandshakeQueue>, from: &str, work: Work) -> GivesUp {
        GivesUp::arrives(queue, from.parse().unwrap(), work)
    }

    /// Has all take a step that could, one after the other.
    fn step_all(queue: &HandshakeQueue, steps: &Receiver<&'static str>) -> Vec<&'static str> {
        loop {
            let Some(next) = queue.waiting.lock().handshakes.pop() else { break };
            next.step();
        }
        steps.try_iter().collect()
    }

    #[test]
    fn networks_are_served_in_turn() {
        let (told, steps) = channel();
        let queue = HandshakeQueue::new(100);
        let names =
            [("10.0.0.1", "a1"), ("10.0.0.1", "a2"), ("10.0.0.1", "a3"), ("10.0.0.2", "b"), ("2001:db8::1", "c")];
        let held = names.map(|(from, name)| arrives(&queue, from, endless(name, &told)));
        assert_eq!(step_all(&queue, &steps), ["a1", "b", "c", "a2", "a3"]);
        // Woken twice, one step; who sleeps takes none.
        for place in [1, 1, 3] {
            held[place].0.wake_by_ref();
        }
        assert_eq!(step_all(&queue, &steps), ["a2", "b"]);
    }

    /// Its socket may have something for the next step while this one is taken.
    #[test]
    fn a_handshake_woken_during_a_step_takes_another() {
        let (told, steps) = channel();
        let queue = HandshakeQueue::new(100);
        let mut first = true;
        let work = poll_fn(move |context| {
            told.send("step").unwrap();
            if std::mem::take(&mut first) {
                context.waker().wake_by_ref();
            }
            Poll::Pending
        });
        let held = arrives(&queue, "10.0.0.1", Box::pin(work));
        assert_eq!(step_all(&queue, &steps), ["step"; 2]);
        held.0.wake_by_ref();
        assert_eq!(step_all(&queue, &steps), ["step"]);
    }

    /// What is given up lets go of its socket at once, wherever it is, and takes no step any more.
    #[test]
    fn a_handshake_given_up_takes_no_step() {
        let (told, steps) = channel();
        let queue = HandshakeQueue::new(100);
        let [waits, sleeps] = ["waits", "sleeps"].map(|name| arrives(&queue, "10.0.0.1", endless(name, &told)));
        drop(told);
        let waker = Waker::from(Arc::clone(&sleeps.0));
        drop(waits);
        assert_eq!(step_all(&queue, &steps), ["sleeps"]);
        drop(sleeps);
        waker.wake();
        assert_eq!(step_all(&queue, &steps), [""; 0]);
        assert!(steps.recv().is_err(), "nothing is left of either");
    }

    /// While it takes a step, too: that is its last.
    #[test]
    fn a_handshake_given_up_during_a_step_takes_no_other() {
        let queue = HandshakeQueue::new(100);
        let held: Arc<Mutex<Option<GivesUp>>> = Arc::default();
        let leaving = Arc::clone(&held);
        let work = poll_fn(move |context| {
            drop(leaving.lock().take());
            context.waker().wake_by_ref();
            Poll::Pending
        });
        *held.lock() = Some(arrives(&queue, "10.0.0.1", Box::pin(work)));
        queue.waiting.lock().handshakes.pop().unwrap().step();
        assert!(queue.waiting.lock().handshakes.is_empty());
        assert_eq!(Arc::strong_count(&held), 1, "the work is gone");
    }

    #[test]
    fn a_panic_ends_its_own_handshake_only() {
        let (told, steps) = channel();
        let queue = HandshakeQueue::new(100);
        let _first = arrives(&queue, "10.0.0.1", Box::pin(async { panic!("a test of what follows") }));
        let _second = arrives(&queue, "10.0.0.1", endless("second", &told));
        assert_eq!(step_all(&queue, &steps), ["second"]);
    }

    #[test]
    fn when_the_line_is_full_the_network_with_the_most_makes_room() {
        let (told, steps) = channel();
        let queue = HandshakeQueue::new(2);
        let held = [("10.0.0.1", "a1"), ("10.0.0.1", "a2"), ("10.0.0.2", "b")];
        let held = held.map(|(from, name)| arrives(&queue, from, endless(name, &told)));
        assert_eq!(step_all(&queue, &steps), ["a1", "b"]);
        assert!(matches!(*held[1].0.state.lock(), State::Over));
    }

    #[test]
    fn no_connection_waits_for_a_handshake_once_the_threads_end() {
        let handshake_threads = HandshakeThreads { queue: HandshakeQueue::new(2) };
        let queue = Arc::clone(&handshake_threads.queue);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let from = IpAddr::from([10, 0, 0, 1]);
        let ends =
            async { tokio::join!(handshake_threads.run(from, pending::<io::Result<()>>()), async { queue.close() }).0 };
        assert!(runtime.block_on(ends).is_err());
        assert!(
            runtime.block_on(handshake_threads.run(from, pending::<io::Result<()>>())).is_err(),
            "and no other comes later"
        );
    }
}
