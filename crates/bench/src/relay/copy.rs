//! The loop that copies: read up to 256 KiB from each socket that has something, write at the end
//! of the turn.
//!
//! What is read from one end waits in the other's buffer; a full buffer stops the reading, so
//! nothing is ever lost.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use super::log::Log;
use super::{Pair, is_pause};
use machine::wait::{Ready, wait_any};

/// Bytes read in one turn, and most bytes waiting for one socket.
const TURN: usize = 256 * 1024;
/// How soon a new pair is noticed while others are copied.
const NOTICE: Duration = Duration::from_millis(20);

/// A socket and the bytes on their way into it.
struct End {
    stream: TcpStream,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// They came in this turn.
    fresh: bool,
}

impl End {
    fn new(stream: TcpStream) -> std::io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream, buffer: vec![0; TURN], start: 0, end: 0, fresh: false })
    }

    fn waits(&self) -> bool {
        self.start < self.end
    }

    /// What came for this socket in this turn.
    fn fresh(&self) -> &[u8] {
        if self.fresh { &self.buffer[self.start..self.end] } else { &[] }
    }

    /// Reads once from `from` into the bytes for this socket. False: that end is gone.
    fn fill(&mut self, from: &mut TcpStream) -> bool {
        match from.read(&mut self.buffer[self.end..]) {
            Ok(0) => false,
            Ok(count) => {
                self.end += count;
                self.fresh = true;
                true
            }
            Err(error) => is_pause(error.kind()),
        }
    }

    /// Writes what the socket takes. False: this end is gone.
    fn flush(&mut self) -> bool {
        self.fresh = false;
        if !self.waits() {
            return true;
        }
        match self.stream.write(&self.buffer[self.start..self.end]) {
            Ok(count) => self.start += count,
            Err(error) if is_pause(error.kind()) => {}
            Err(_) => return false,
        }
        if !self.waits() {
            (self.start, self.end) = (0, 0);
        }
        true
    }
}

/// Copies between the pairs that come through `inbox`, until no more pairs can come.
/// `log` forces what producers send to a disk before it goes on.
pub(super) fn copy_pairs(inbox: &Receiver<Pair>, mut log: Option<Log>) {
    let mut pairs: Vec<[End; 2]> = Vec::new();
    let mut ready = Vec::new();
    loop {
        let next =
            if pairs.is_empty() { inbox.recv().map_err(|_| TryRecvError::Disconnected) } else { inbox.try_recv() };
        match next {
            Ok((producer, consumer)) => {
                if let (Ok(producer), Ok(consumer)) = (End::new(producer), End::new(consumer)) {
                    pairs.push([producer, consumer]);
                }
            }
            Err(TryRecvError::Disconnected) => return,
            Err(TryRecvError::Empty) => {}
        }
        if turn(&mut pairs, &mut ready, log.as_mut()).is_err() {
            return;
        }
    }
}

/// One turn over all pairs; those with a lost end are closed.
fn turn(pairs: &mut Vec<[End; 2]>, ready: &mut Vec<Ready>, log: Option<&mut Log>) -> std::io::Result<()> {
    let wanted: Vec<_> = pairs
        .iter()
        .flat_map(|[left, right]| {
            // Only read what the other end can hold; only wait for writing where something waits.
            [(&left.stream, !right.waits(), left.waits()), (&right.stream, !left.waits(), right.waits())]
        })
        .collect();
    wait_any(&wanted, Some(NOTICE), ready)?;
    drop(wanted);
    let mut states = ready.chunks_exact(2);
    pairs.retain_mut(|[left, right]| {
        let Some(&[at_left, at_right]) = states.next() else { return true };
        let read = |ready: Ready, from: &mut End, to: &mut End| !ready.read || to.waits() || to.fill(&mut from.stream);
        read(at_left, left, right) && read(at_right, right, left)
    });
    if let Some(log) = log {
        // Bytes for a consumer come from its producer.
        log.force(pairs.iter().map(|[_, right]| right.fresh()))?;
    }
    pairs.retain_mut(|[left, right]| left.flush() && right.flush());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Shutdown, TcpListener};

    fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    #[test]
    fn bytes_go_both_ways_unchanged_and_an_end_closes_its_pair() {
        let dir = tempfile::tempdir().unwrap();
        carries(None);
        carries(Some(Log::create(dir.path()).unwrap()));
    }

    fn carries(log: Option<Log>) {
        let (sender, inbox) = std::sync::mpsc::channel();
        let copier = std::thread::spawn(move || copy_pairs(&inbox, log));
        let ((mut producer, far_producer), (mut consumer, far_consumer)) = (connected(), connected());
        sender.send((far_producer, far_consumer)).unwrap();

        let sent: Vec<u8> = (0..3_000_000u32).flat_map(u32::to_le_bytes).collect();
        let expected = sent.clone();
        let mut writing = producer.try_clone().unwrap();
        let writer = std::thread::spawn(move || writing.write_all(&sent).unwrap());
        let mut received = vec![0; expected.len()];
        consumer.read_exact(&mut received).unwrap();
        assert!(received == expected);
        writer.join().unwrap();

        consumer.write_all(b"back").unwrap();
        let mut back = [0; 4];
        producer.read_exact(&mut back).unwrap();
        assert_eq!(&back, b"back");

        producer.shutdown(Shutdown::Both).unwrap();
        assert_eq!(consumer.read(&mut back).unwrap(), 0);
        drop(sender);
        copier.join().unwrap();
    }
}
