//! What a stranger may send within a WebSocket: the head of a handshake and messages, each of 16
//! KiB at most.
//!
//! The library above gathers a message whole, and makes room for a frame when it is announced. So
//! frames are counted here, as their bytes pass: a head that announces too much is not passed on.
//! Once the peer has authenticated nothing is looked at.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::stream::Stream;
use crate::upgrade;

/// Most bytes of a head, and of a message, before the log-in.
const STRANGERS: u64 = 16 * 1024;
/// The longest head of a frame (RFC 6455, 5.2): two bytes, a length of eight, a mask of four.
const LONGEST_HEAD: usize = 14;

/// A stream whose peer is looked at until it is known.
#[derive(Debug)]
pub(crate) struct Screened {
    stream: Stream,
    screen: Screen,
    /// What has come of the handshake.
    head: Vec<u8>,
    /// What was read of the handshake before it was known to be one, and waits to be read again.
    unread: Vec<u8>,
}

#[derive(Debug)]
enum Screen {
    /// The handshake, of which so many bytes may still come.
    Handshake(u64),
    /// Messages of a stranger.
    Messages(Frames),
    /// Anything.
    Off,
}

/// Where in a message a stranger is.
#[derive(Debug, Default)]
struct Frames {
    /// What has come of the head of a frame.
    head: [u8; LONGEST_HEAD],
    have: usize,
    /// Bytes of the frame that are still to come behind its head.
    left: u64,
    /// Bytes of the frames of this message.
    gathered: u64,
}

impl Screened {
    /// A peer that has not shaken hands; `unread` is what has come from it already.
    pub(crate) fn new(stream: Stream, unread: Vec<u8>) -> Self {
        Self { stream, screen: Screen::Handshake(STRANGERS), head: Vec::new(), unread }
    }

    /// What comes now are messages.
    pub(crate) fn shook_hands(&mut self) {
        self.screen = Screen::Messages(Frames::default());
        self.head = Vec::new();
    }

    /// The peer has authenticated.
    pub(crate) fn trust(&mut self) {
        self.screen = Screen::Off;
    }

    /// Answers a head that opens no WebSocket, and fails then.
    fn look_at_head(&mut self, bytes: &[u8], cx: &mut Context<'_>) -> io::Result<()> {
        if !matches!(self.screen, Screen::Handshake(_)) {
            return Ok(());
        }
        self.head.extend_from_slice(bytes);
        let Some(answer) = upgrade::refusal(&self.head) else { return Ok(()) };
        // It is short and the first that is sent: the system has room for it, or the peer has gone.
        let _ = Pin::new(&mut self.stream).poll_write(cx, answer.as_bytes());
        let _ = Pin::new(&mut self.stream).poll_flush(cx);
        Err(io::Error::new(io::ErrorKind::InvalidData, "it is no handshake by GET of version 13"))
    }

    /// What it lies upon.
    pub(crate) fn beneath(&self) -> &Stream {
        &self.stream
    }
}

impl Screen {
    /// False when the bytes are more than may come.
    fn pass(&mut self, bytes: &[u8]) -> bool {
        match self {
            Self::Handshake(left) => left.checked_sub(bytes.len() as u64).map(|rest| *left = rest).is_some(),
            Self::Messages(frames) => frames.pass(bytes),
            Self::Off => true,
        }
    }
}

impl Frames {
    fn pass(&mut self, mut bytes: &[u8]) -> bool {
        while let Some((&first, behind)) = bytes.split_first() {
            if self.left > 0 {
                let here = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
                self.left -= here as u64;
                bytes = &bytes[here..];
                continue;
            }
            self.head[self.have] = first;
            self.have += 1;
            bytes = behind;
            if !self.end_head() {
                return false;
            }
        }
        true
    }

    /// Begins the frame if its head is complete. False when it is too long.
    fn end_head(&mut self) -> bool {
        if self.have < 2 {
            return true;
        }
        let (opcode, masked, short) = (self.head[0] & 0x0F, self.head[1] & 0x80 != 0, self.head[1] & 0x7F);
        let width = match short {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        if self.have < 2 + width + if masked { 4 } else { 0 } {
            return true;
        }
        let long = self.head[2..2 + width].iter().fold(0, |length, byte| length << 8 | u64::from(*byte));
        let length = if width == 0 { u64::from(short) } else { long };
        // A message begins with any code but that of a continuation; those from 8 on are no part of
        // one.
        if matches!(opcode, 1..=7) {
            self.gathered = 0;
        }
        if opcode < 8 {
            self.gathered = self.gathered.saturating_add(length);
        }
        (self.have, self.left) = (0, length);
        length.max(self.gathered) <= STRANGERS
    }
}

impl AsyncRead for Screened {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, space: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = space.filled().len();
        if self.unread.is_empty() {
            ready!(Pin::new(&mut self.stream).poll_read(cx, space))?;
        } else {
            let count = self.unread.len().min(space.remaining());
            space.put_slice(&self.unread[..count]);
            self.unread.drain(..count);
        }
        let bytes = &space.filled()[before..];
        if self.screen.pass(bytes) {
            return Poll::Ready(self.look_at_head(bytes, cx));
        }
        Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, "more than 16 KiB before the log-in")))
    }
}

impl AsyncWrite for Screened {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A masked frame with this first byte that says it has `length` bytes.
    fn head(first: u8, length: u64) -> Vec<u8> {
        let mut bytes = vec![first];
        match length {
            0..126 => bytes.push(0x80 | length as u8),
            126..65_536 => bytes.extend([0xFE, (length >> 8) as u8, length as u8]),
            _ => {
                bytes.push(0xFF);
                bytes.extend(length.to_be_bytes());
            }
        }
        bytes.extend([1, 2, 3, 4]);
        bytes
    }

    fn frame(first: u8, length: u64) -> Vec<u8> {
        [head(first, length), vec![b'x'; length as usize]].concat()
    }

    #[test]
    fn messages_pass_up_to_a_size_however_they_are_cut() {
        let (text, part, rest, end, ping) = (0x81, 0x01, 0x00, 0x80, 0x89);
        for (bytes, passes) in [
            (frame(text, 0), true),
            (frame(text, 125), true),
            (frame(text, STRANGERS), true),
            (head(text, STRANGERS + 1), false),
            (head(text, 1 << 20), false),
            (head(text, u64::MAX), false),
            (head(ping, STRANGERS + 1), false),
            ([frame(part, STRANGERS - 1), frame(ping, 125), frame(end, 1)].concat(), true),
            ([frame(part, STRANGERS), head(end, 1)].concat(), false),
            ([frame(part, 9000), frame(rest, 7000), head(rest, 7000)].concat(), false),
            // A message that has ended is held no longer.
            ([frame(text, STRANGERS), frame(text, STRANGERS), frame(part, STRANGERS)].concat(), true),
        ] {
            for step in [1, 7, bytes.len()] {
                let mut screen = Screen::Messages(Frames::default());
                assert_eq!(
                    bytes.chunks(step).all(|piece| screen.pass(piece)),
                    passes,
                    "{:?} by {step}",
                    &bytes[..10.min(bytes.len())]
                );
            }
        }
    }

    #[test]
    fn a_handshake_is_short_and_who_is_known_sends_anything() {
        let mut screen = Screen::Handshake(STRANGERS);
        assert!(screen.pass(&[b'x'; STRANGERS as usize]) && !screen.pass(b"x"));
        assert!(Screen::Off.pass(&head(0x81, u64::MAX)));
    }
}
