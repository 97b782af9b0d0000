//! Large bodies on their way from a socket into the log: how many there may be at once, and in
//! which order.
//!
//! A body counts with its announced length, from its header until it is durable, or until queues
//! count it where it is not logged. When no more fit, a new one waits in line. One body goes on
//! whatever its size, and a connection that was let in is never stopped before its body's end. So
//! the line always moves.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use parking_lot::Mutex;

use crate::memory::Memory;

/// Bodies up to so many bytes are not counted: a read of a socket brings more, and they are not
/// worth a lock.
pub const LARGE_BODY: u64 = 64 << 10;
/// The part of the memory limit for such bodies. A body may be in memory twice, as message and in
/// the log's buffer.
const SHARE: usize = 4;
/// The upper bound of that: it keeps any disk busy, and bytes that wait in a socket cost nothing.
const MOST: usize = 128 << 20;

/// The order in which claims are granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// At once: the connection has another body under way, and must be read for its end.
    Now,
    /// Before those in `Turn`: the broker waits for this client to make room.
    First,
    /// In turn.
    Turn,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Ingress {
    line: Mutex<Line>,
    /// Bytes that may be under way.
    room: usize,
    memory: Arc<Memory>,
}

#[derive(Debug, Default)]
struct Line {
    /// Bytes of the bodies that were let in.
    used: usize,
    waiting: VecDeque<(Arc<IngressPlace>, Waker)>,
}

#[derive(Debug)]
struct IngressPlace {
    ingress: Arc<Ingress>,
    bytes: usize,
    first: bool,
    granted: AtomicBool,
}

/// The claim of one body, granted or waiting. Dropping it lets the next ones in.
///
/// As a waker it does nothing when it is woken: the journal drops it when its ticket is durable.
#[derive(Debug)]
pub(crate) struct Claim(Arc<IngressPlace>);

impl Ingress {
    pub(crate) fn new(memory: Arc<Memory>) -> Self {
        Self { line: Mutex::default(), room: (memory.limit() / SHARE).min(MOST), memory }
    }

    /// Bytes of the bodies that were let in.
    pub(crate) fn used(&self) -> usize {
        self.line.lock().used
    }

    /// True while a claim waits.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.line.lock().waiting.is_empty()
    }

    /// A claim for a body of `bytes`. If it has to wait, `waker` is woken when it is granted.
    pub(crate) fn claim(self: &Arc<Self>, bytes: usize, order: Order, waker: &Waker) -> Claim {
        let mut line = self.line.lock();
        let granted = order == Order::Now || (line.waiting.is_empty() && self.fits(line.used, bytes));
        let first = order == Order::First;
        let place =
            Arc::new(IngressPlace { ingress: Arc::clone(self), bytes, first, granted: AtomicBool::new(granted) });
        if granted {
            line.used += bytes;
        } else {
            let behind_its_like = line.waiting.partition_point(|(other, _)| other.first);
            let at = if first { behind_its_like } else { line.waiting.len() };
            line.waiting.insert(at, (Arc::clone(&place), waker.clone()));
        }
        Claim(place)
    }

    fn fits(&self, used: usize, bytes: usize) -> bool {
        let free = self.memory.limit().saturating_sub(self.memory.taken());
        used == 0 || used.saturating_add(bytes) <= self.room.min(free)
    }

    fn leave(&self, place: &Arc<IngressPlace>) {
        let mut woken = Vec::new();
        let mut line = self.line.lock();
        if place.granted.load(Ordering::Relaxed) {
            line.used -= place.bytes;
        } else {
            line.waiting.retain(|(other, _)| !Arc::ptr_eq(other, place));
        }
        while line.waiting.front().is_some_and(|(next, _)| self.fits(line.used, next.bytes))
            && let Some((next, waker)) = line.waiting.pop_front()
        {
            line.used += next.bytes;
            next.granted.store(true, Ordering::Relaxed);
            woken.push(waker);
        }
        drop(line);
        woken.into_iter().for_each(Waker::wake);
    }
}

impl Claim {
    /// True once the body may be read.
    pub(crate) fn is_granted(&self) -> bool {
        // The waker is called after this store, and no other read depends on it.
        self.0.granted.load(Ordering::Relaxed)
    }

    /// Keeps the claim until this is dropped.
    pub(crate) fn into_waker(self) -> Waker {
        Waker::from(Arc::new(self))
    }
}

impl Wake for Claim {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.0.ingress.leave(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Housekeeper;

    fn ingress(limit: u64) -> Arc<Ingress> {
        let memory = Memory::new(limit, limit, Arc::new(Housekeeper::default()));
        Arc::new(Ingress::new(Arc::new(memory)))
    }

    /// `+NAME BYTES` claims, with `!` now and `^` first; `-NAME` leaves; `*BYTES` sets the bytes in
    /// queues. Each line has the granted claims that are still there, and the bytes.
    #[test]
    fn bodies_are_let_in_in_turn_as_far_as_there_is_room() {
        let ingress = ingress(400);
        let mut held = 0;
        let mut claims: Vec<(&str, Claim)> = Vec::new();
        for (action, expected) in [
            ("+a 60", "a 60"),
            ("+b 40", "a b 100"),
            ("+c 1", "a b 100"),
            ("+d 90", "a b 100"),
            ("+e 5", "a b 100"),
            ("-a", "b c 41"),
            // The large one is not overtaken by a small one that would fit.
            ("-b", "c d e 96"),
            ("-c", "d e 95"),
            ("!f 200", "d e f 295"),
            ("+g 10", "d e f 295"),
            ("+h 10", "d e f 295"),
            ("^i 10", "d e f 295"),
            ("^j 20", "d e f 295"),
            ("-h", "d e f 295"),
            ("-f", "d e 95"),
            ("-d", "e g i j 45"),
            ("-e", "g i j 40"),
            ("-g", "i j 30"),
            ("*360", "i j 30"),
            ("+k 15", "i j 30"),
            ("-i", "j k 35"),
            ("-j", "k 15"),
            ("-k", "0"),
            // One goes on, whatever its size and however little memory there is.
            ("+l 1000", "l 1000"),
            ("+m 1", "l 1000"),
            ("-l", "m 1"),
            ("-m", "0"),
        ] {
            let (name, bytes) = action[1..].split_once(' ').unwrap_or((&action[1..], "0"));
            let bytes: usize = bytes.parse().unwrap();
            let order = match &action[..1] {
                "!" => Order::Now,
                "^" => Order::First,
                _ => Order::Turn,
            };
            match &action[..1] {
                "-" => claims.retain(|(other, _)| *other != name),
                "*" => {
                    let now = name.parse().unwrap();
                    ingress.memory.changed(held, now);
                    held = now;
                }
                _ => claims.push((name, ingress.claim(bytes, order, Waker::noop()))),
            }
            let mut seen: Vec<String> =
                claims.iter().filter(|(_, c)| c.is_granted()).map(|(n, _)| (*n).to_owned()).collect();
            seen.sort();
            seen.push(ingress.used().to_string());
            assert_eq!(seen.join(" "), expected, "after {action}");
        }
        assert!(!ingress.is_awaited());
    }

    #[test]
    fn a_place_kept_as_a_waker_is_given_back_with_the_last_of_them() {
        let ingress = ingress(400);
        let waker = ingress.claim(100, Order::Turn, Waker::noop()).into_waker();
        let other = waker.clone();
        drop(waker);
        other.wake_by_ref();
        assert_eq!(ingress.used(), 100);
        other.wake();
        assert_eq!(ingress.used(), 0);
    }
}
