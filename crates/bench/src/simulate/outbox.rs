//! What a connection still has to say and when: pieces in order, each not before its time.

use std::collections::VecDeque;
use std::io::Write;
use std::net::TcpStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use amqp091::codec::frame::HEARTBEAT;

use machine::clock::now;
use machine::wait::sharpen_timer;

/// Most bytes written with one call.
const MOST: usize = 256 * 1024;

/// The pieces of one connection.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    pending: Mutex<Pending>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Pending {
    /// Due times and bytes; due times never go back.
    pieces: VecDeque<(u64, Vec<u8>)>,
    closing: bool,
    /// Silence after which the peer would miss a heartbeat.
    heartbeat: Option<Duration>,
}

impl Outbox {
    fn pending(&self) -> MutexGuard<'_, Pending> {
        // Nothing panics under this lock, and half a change would be a whole piece anyway.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what `write` appends, to go out at `due` or as soon as what is before it.
    pub(super) fn put(&self, due: u64, write: impl FnOnce(&mut Vec<u8>)) {
        let mut pending = self.pending();
        match pending.pieces.back_mut() {
            Some((last, bytes)) if *last >= due && bytes.len() < MOST => write(bytes),
            _ => {
                let mut bytes = Vec::new();
                write(&mut bytes);
                pending.pieces.push_back((due, bytes));
            }
        }
        self.changed.notify_one();
    }

    /// Says something at least every `span`.
    pub(super) fn beat(&self, span: Duration) {
        self.pending().heartbeat = Some(span);
        self.changed.notify_one();
    }

    /// Ends the connection once everything is said.
    pub(super) fn close(&self) {
        self.pending().closing = true;
        self.changed.notify_one();
    }

    /// Takes what is due, waiting for it. None: nothing will ever come.
    fn take(&self) -> Option<Vec<u8>> {
        let mut pending = self.pending();
        loop {
            let (at, mut bytes) = (now(), Vec::new());
            while bytes.len() < MOST
                && let Some((_, piece)) = pending.pieces.pop_front_if(|(due, _)| *due <= at)
            {
                if bytes.is_empty() { bytes = piece } else { bytes.extend_from_slice(&piece) }
            }
            if !bytes.is_empty() {
                return Some(bytes);
            }
            let next = pending.pieces.front().map(|(due, _)| Duration::from_nanos(due - at));
            pending = match (next, pending.heartbeat) {
                (None, _) if pending.closing => return None,
                (Some(span), _) => self.wait(pending, span).0,
                (None, Some(span)) => {
                    let (mut pending, silent) = self.wait(pending, span);
                    if silent && pending.pieces.is_empty() && !pending.closing {
                        pending.pieces.push_back((0, HEARTBEAT.to_vec()));
                    }
                    pending
                }
                (None, None) => self.changed.wait(pending).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Waits for a change; true when none came in time.
    fn wait<'a>(&self, pending: MutexGuard<'a, Pending>, span: Duration) -> (MutexGuard<'a, Pending>, bool) {
        let (pending, result) = self.changed.wait_timeout(pending, span).unwrap_or_else(PoisonError::into_inner);
        (pending, result.timed_out())
    }
}

/// Writes everything when it is due, until the connection ends.
pub(super) fn write(outbox: Arc<Outbox>, mut stream: TcpStream) {
    sharpen_timer();
    while let Some(bytes) = outbox.take() {
        if stream.write_all(&bytes).is_err() {
            break;
        }
    }
    // The reader of a connection that can't be written to must notice too.
    let _ = stream.shutdown(std::net::Shutdown::Both);
}
