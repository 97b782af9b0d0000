//! The threads that TLS handshakes run on. A signature with an RSA key takes milliseconds, and
//! anybody who reaches the port can ask for one: on a thread of the sockets everybody else would
//! wait for it.
//!
//! A handshake takes a step whenever its socket has something for it. Those that could take one
//! wait in a line that serves networks in turn, so that one with many of them holds up its own.
//! Invariants: a handshake is in the line once at most, is on one thread at most, and takes no step
//! once nobody waits for what it comes to.

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
pub(crate) struct Greeters {
    line: Arc<Line>,
}

impl Greeters {
    /// Starts `threads` threads, of whose steps `most` may wait.
    pub(crate) fn start(threads: usize, most: usize) -> io::Result<Self> {
        // Made before the first thread: those that were started end with it when another cannot be.
        let greeters = Self { line: Line::new(most) };
        for number in 0..threads.max(1) {
            let line = Arc::clone(&greeters.line);
            std::thread::Builder::new().name(format!("hermod-tls-{number}")).spawn(move || {
                while let Some(greeting) = line.pop() {
                    greeting.step();
                }
            })?;
        }
        Ok(greeters)
    }

    /// What a handshake with a peer of that address comes to. It is given up when nobody waits for
    /// it any more.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        from: IpAddr,
        handshake: impl Future<Output = io::Result<T>> + Send + 'static,
    ) -> io::Result<T> {
        let (told, outcome) = oneshot::channel();
        // Nobody may wait for it any more: then it is of no use to anybody.
        let work = async move { drop(told.send(handshake.await)) };
        let _guest = Guest::arrives(&self.line, from, Box::pin(work));
        outcome.await.unwrap_or_else(|_| Err(io::Error::other("it was given up: too many wait, or the server stops")))
    }
}

impl Drop for Greeters {
    fn drop(&mut self) {
        self.line.close();
    }
}

/// Who waits for a handshake. It ends when that one waits no longer.
struct Guest(Arc<Greeting>);

impl Guest {
    fn arrives(line: &Arc<Line>, from: IpAddr, work: Work) -> Self {
        let greeting = Greeting { from, line: Arc::clone(line), state: Mutex::new(State::Asleep(work)) };
        let greeting = Arc::new(greeting);
        greeting.wake_by_ref();
        Self(greeting)
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.0.give_up();
    }
}

/// A handshake under way.
struct Greeting {
    from: IpAddr,
    line: Arc<Line>,
    state: Mutex<State>,
}

/// What it does.
enum State {
    /// Waits for its socket, which wakes it.
    Asleep(Work),
    /// Waits in the line.
    Waiting(Work),
    /// Takes a step; `woken` says that there is something for another.
    Stepping { woken: bool },
    /// Has come to its end, or was given up.
    Over,
}

impl Greeting {
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
                self.line.push(self);
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

impl Wake for Greeting {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Over) {
            State::Asleep(work) => {
                *state = State::Waiting(work);
                drop(state);
                self.line.push(self);
            }
            State::Stepping { .. } => *state = State::Stepping { woken: true },
            other => *state = other,
        }
    }
}

/// Handshakes that could take a step.
struct Line {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
}

struct Waiting {
    greetings: InTurn<Arc<Greeting>>,
    closed: bool,
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Line").field("waiting", &self.waiting.lock().greetings.len()).finish_non_exhaustive()
    }
}

impl Line {
    fn new(most: usize) -> Arc<Self> {
        let waiting = Waiting { greetings: InTurn::new(most), closed: false };
        Arc::new(Self { waiting: Mutex::new(waiting), arrived: Condvar::new() })
    }

    /// Puts one in; what has no place then is given up.
    fn push(&self, greeting: &Arc<Greeting>) {
        let mut waiting = self.waiting.lock();
        let given_up = match waiting.closed {
            true => Some(Arc::clone(greeting)),
            false => waiting.greetings.push(greeting.from, Arc::clone(greeting)),
        };
        drop(waiting);
        self.arrived.notify_one();
        if let Some(greeting) = given_up {
            greeting.give_up();
        }
    }

    /// Waits for one; `None` when there will be none any more.
    fn pop(&self) -> Option<Arc<Greeting>> {
        let mut waiting = self.waiting.lock();
        while !waiting.closed {
            if let Some(next) = waiting.greetings.pop() {
                return Some(next);
            }
            self.arrived.wait(&mut waiting);
        }
        None
    }

    fn close(&self) {
        let mut waiting = self.waiting.lock();
        waiting.closed = true;
        let left: Vec<_> = std::iter::from_fn(|| waiting.greetings.pop()).collect();
        drop(waiting);
        self.arrived.notify_all();
        left.iter().for_each(|greeting| greeting.give_up());
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

    fn arrives(line: &Arc<Line>, from: &str, work: Work) -> Guest {
        Guest::arrives(line, from.parse().unwrap(), work)
    }

    /// Has all take a step that could, one after the other.
    fn step_all(line: &Line, steps: &Receiver<&'static str>) -> Vec<&'static str> {
        loop {
            let Some(next) = line.waiting.lock().greetings.pop() else { break };
            next.step();
        }
        steps.try_iter().collect()
    }

    #[test]
    fn networks_are_served_in_turn() {
        let (told, steps) = channel();
        let line = Line::new(100);
        let names =
            [("10.0.0.1", "a1"), ("10.0.0.1", "a2"), ("10.0.0.1", "a3"), ("10.0.0.2", "b"), ("2001:db8::1", "c")];
        let guests = names.map(|(from, name)| arrives(&line, from, endless(name, &told)));
        assert_eq!(step_all(&line, &steps), ["a1", "b", "c", "a2", "a3"]);
        // Woken twice, one step; who sleeps takes none.
        for place in [1, 1, 3] {
            guests[place].0.wake_by_ref();
        }
        assert_eq!(step_all(&line, &steps), ["a2", "b"]);
    }

    /// Its socket may have something for the next step while this one is taken.
    #[test]
    fn who_is_woken_during_a_step_takes_another() {
        let (told, steps) = channel();
        let line = Line::new(100);
        let mut first = true;
        let work = poll_fn(move |context| {
            told.send("step").unwrap();
            if std::mem::take(&mut first) {
                context.waker().wake_by_ref();
            }
            Poll::Pending
        });
        let guest = arrives(&line, "10.0.0.1", Box::pin(work));
        assert_eq!(step_all(&line, &steps), ["step"; 2]);
        guest.0.wake_by_ref();
        assert_eq!(step_all(&line, &steps), ["step"]);
    }

    /// What is given up lets go of its socket at once, wherever it is, and takes no step any more.
    #[test]
    fn who_leaves_is_not_served() {
        let (told, steps) = channel();
        let line = Line::new(100);
        let [waits, sleeps] = ["waits", "sleeps"].map(|name| arrives(&line, "10.0.0.1", endless(name, &told)));
        drop(told);
        let waker = Waker::from(Arc::clone(&sleeps.0));
        drop(waits);
        assert_eq!(step_all(&line, &steps), ["sleeps"]);
        drop(sleeps);
        waker.wake();
        assert_eq!(step_all(&line, &steps), [""; 0]);
        assert!(steps.recv().is_err(), "nothing is left of either");
    }

    /// While it takes a step, too: that is its last.
    #[test]
    fn who_leaves_during_a_step_takes_no_other() {
        let line = Line::new(100);
        let guest: Arc<Mutex<Option<Guest>>> = Arc::default();
        let leaving = Arc::clone(&guest);
        let work = poll_fn(move |context| {
            drop(leaving.lock().take());
            context.waker().wake_by_ref();
            Poll::Pending
        });
        *guest.lock() = Some(arrives(&line, "10.0.0.1", Box::pin(work)));
        line.waiting.lock().greetings.pop().unwrap().step();
        assert!(line.waiting.lock().greetings.is_empty());
        assert_eq!(Arc::strong_count(&guest), 1, "the work is gone");
    }

    #[test]
    fn a_panic_ends_its_own_handshake_only() {
        let (told, steps) = channel();
        let line = Line::new(100);
        let _first = arrives(&line, "10.0.0.1", Box::pin(async { panic!("a test of what follows") }));
        let _second = arrives(&line, "10.0.0.1", endless("second", &told));
        assert_eq!(step_all(&line, &steps), ["second"]);
    }

    #[test]
    fn when_the_line_is_full_the_network_with_the_most_makes_room() {
        let (told, steps) = channel();
        let line = Line::new(2);
        let guests = [("10.0.0.1", "a1"), ("10.0.0.1", "a2"), ("10.0.0.2", "b")];
        let guests = guests.map(|(from, name)| arrives(&line, from, endless(name, &told)));
        assert_eq!(step_all(&line, &steps), ["a1", "b"]);
        assert!(matches!(*guests[1].0.state.lock(), State::Over));
    }

    #[test]
    fn nobody_waits_for_what_is_given_up_for_the_end_of_the_threads() {
        let greeters = Greeters { line: Line::new(2) };
        let line = Arc::clone(&greeters.line);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let from = IpAddr::from([10, 0, 0, 1]);
        let ends = async { tokio::join!(greeters.run(from, pending::<io::Result<()>>()), async { line.close() }).0 };
        assert!(runtime.block_on(ends).is_err());
        assert!(runtime.block_on(greeters.run(from, pending::<io::Result<()>>())).is_err(), "and nobody comes later");
    }
}
