//! A protocol of lines for tests: each line is an order that makes the connection behave in one of
//! the ways that a driver has to cope with.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Waker;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use wire::{CloseReason, Connection, Doing, Output, Peer, Protocol, ReadState, Recognition};

/// One call of `wake` adds no more than this, nor does it add to an output that is longer.
const WAKE_BYTES: usize = 64 * 1024;

/// Accepts everything; what its connections went through is in `seen`.
#[derive(Clone, Default)]
pub(crate) struct Toy {
    pub(crate) seen: Arc<Mutex<Vec<String>>>,
    /// Set by tests to let a paused connection go on, before they call its waker.
    pub(crate) resume: Arc<AtomicBool>,
    pub(crate) wakers: Arc<Mutex<Vec<Waker>>>,
    /// How often connections rested.
    pub(crate) rested: Arc<AtomicUsize>,
    /// Connections that do not end when the server wants to go down.
    pub(crate) stubborn: bool,
    /// Connections start unauthenticated, and the line `login` changes that.
    pub(crate) strict: bool,
    /// The bytes it is told by, if any.
    pub(crate) opening: &'static [u8],
}

impl Toy {
    pub(crate) fn saw(&self, event: &str) -> usize {
        self.seen.lock().iter().filter(|seen| *seen == event).count()
    }
}

impl Protocol for Toy {
    fn name(&self) -> &'static str {
        if self.opening.is_empty() { "toy" } else { "opening" }
    }

    fn recognise(&self, first: &[u8]) -> Recognition {
        let shared = first.len().min(self.opening.len());
        match (first[..shared] == self.opening[..shared], shared == self.opening.len()) {
            (false, _) => Recognition::No,
            (true, true) => Recognition::Yes,
            (true, false) => Recognition::Incomplete,
        }
    }

    fn accept(&self, peer: Peer, waker: Waker, now: Instant) -> Box<dyn Connection> {
        assert!(peer.is_loopback());
        self.wakers.lock().push(waker.clone());
        let deadline = Some(now + Duration::from_secs(3600));
        let mut output = Output::default();
        output.put(self.opening);
        let state = if self.strict { ReadState::Handshake } else { ReadState::Read };
        let user = peer.certified_user.as_deref().unwrap_or("unknown").to_owned();
        Box::new(ToyConnection {
            toy: self.clone(),
            waker,
            user,
            output,
            state,
            flood: 0,
            deadline,
            last: "",
            waits: false,
        })
    }
}

struct ToyConnection {
    toy: Toy,
    waker: Waker,
    /// The user that the peer's certificate stands for.
    user: String,
    output: Output,
    state: ReadState,
    /// Bytes that wait in the "mailbox".
    flood: usize,
    deadline: Option<Instant>,
    last: &'static str,
    /// Its turns may wait for a program elsewhere.
    waits: bool,
}

impl ToyConnection {
    fn note(&self, event: &str) {
        self.toy.seen.lock().push(event.to_owned());
    }

    /// `None` when the line needs more bytes than there are.
    fn obey(&mut self, line: &str, rest: &[u8], now: Instant) -> Option<usize> {
        let (verb, argument) = line.split_once(' ').unwrap_or((line, ""));
        match verb {
            "echo" => self.output.put(format!("{argument}\n").as_bytes()),
            "flood" => {
                self.flood += argument.parse::<usize>().unwrap();
                self.waker.wake_by_ref();
            }
            "tick" => self.deadline = Some(now + Duration::from_millis(argument.parse().unwrap())),
            "who" => self.output.put(format!("{}\n", self.user).as_bytes()),
            "login" => self.state = ReadState::Read,
            "busy" => {
                self.last = "busy";
                std::thread::sleep(Duration::from_millis(argument.parse().unwrap()));
            }
            "wait" => self.waits = true,
            // Until the test lets it go on.
            "hang" => {
                assert!(wire::waiting::is_allowed(), "on the thread of the sockets");
                self.note("hangs");
                while !self.toy.resume.swap(false, Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            "where" => self.output.put(format!("{}\n", wire::waiting::is_allowed()).as_bytes()),
            "pause" => self.state = ReadState::Pause,
            "whole" => {
                let count: usize = argument.parse().unwrap();
                if rest.len() < count {
                    return None;
                }
                self.output.put(format!("{count}\n").as_bytes());
                return Some(count);
            }
            "give-up" => self.state = ReadState::GivenUp,
            "panic" => panic!("ordered to"),
            "quit" => {
                self.output.put(b"bye\n");
                self.state = ReadState::Closed;
            }
            "answer" => {
                self.output.put(b"bye\n");
                self.state = ReadState::Answered;
            }
            other => panic!("no such order: {other}"),
        }
        Some(0)
    }
}

impl Connection for ToyConnection {
    /// One line a call, so that what is left must be offered again.
    fn receive(&mut self, input: &[u8], now: Instant) -> usize {
        assert!(matches!(self.state, ReadState::Read | ReadState::Handshake));
        let Some(end) = input.iter().position(|byte| *byte == b'\n') else { return 0 };
        let line = String::from_utf8(input[..end].to_vec()).unwrap();
        match self.obey(&line, &input[end + 1..], now) {
            Some(more) => end + 1 + more,
            None => 0,
        }
    }

    fn wake(&mut self, _: Instant) {
        if self.toy.resume.swap(false, Ordering::SeqCst) {
            self.note("resumed");
            self.state = ReadState::Read;
        }
        if self.output.len() < WAKE_BYTES {
            let part = self.flood.min(WAKE_BYTES);
            self.flood -= part;
            self.output.put(&vec![b'x'; part]);
        }
    }

    fn tick(&mut self, _: Instant) {
        self.note("tick");
        self.deadline = None;
        self.output.put(b"tick\n");
    }

    fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    fn output(&mut self) -> &mut Output {
        &mut self.output
    }

    fn read_state(&self) -> ReadState {
        self.state
    }

    fn may_wait(&self) -> bool {
        self.waits
    }

    fn doing(&self) -> Doing<'_> {
        Doing { user: &self.user, vhost: "toys", last: self.last }
    }

    fn rest(&mut self) {
        self.toy.rested.fetch_add(1, Ordering::SeqCst);
    }

    fn close(&mut self, reason: CloseReason, _: Instant) {
        self.note(&format!("{reason:?}"));
        if matches!(self.state, ReadState::Closed | ReadState::Answered) || self.toy.stubborn {
            return;
        }
        if reason != CloseReason::Gone {
            self.output.put(b"closing\n");
        }
        self.state = ReadState::Closed;
    }
}
