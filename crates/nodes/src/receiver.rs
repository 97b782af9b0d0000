//! The side that follows: it asks another node for a copy or for entries, takes them in order, and
//! says how many bytes more it takes.
//!
//! Invariant: what has come and was not taken yet is bounded by the window and one message. A node
//! that sends more, or something else than was asked for, is not listened to any longer.

use journal::{Entry, LogEnd};

use crate::frames::Frames;
use crate::message::{Beat, Hello, Malformed, Message, Refusal};

/// What comes of the bytes of the node that serves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// It has said who it is. [`Receiver::copy`] or [`Receiver::follow`] goes on.
    Greeted(Hello),
    /// The copy begins, of so many bytes.
    CopyBegins(u64),
    /// The next pieces are of this file.
    File(String),
    /// A piece of it.
    Piece(u64, bytes::Bytes),
    /// So many zeros of it.
    Zeros(u64, u32),
    /// The copy is whole.
    CopyEnds,
    /// The next entry.
    Entry(Entry),
    /// See [`journal::Fed::Horizon`].
    Horizon(u32),
    /// It is alive, and knows that much.
    Beat(Beat),
    /// It does not serve any more, and that was all.
    HandedOver,
    /// It does not go on.
    Refused(Refusal, String),
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Stage {
    Silent,
    Greeted,
    Copying,
    Following,
    Over,
}

/// See the module.
#[derive(Debug)]
pub struct Receiver {
    frames: Frames,
    stage: Stage,
    out: Vec<u8>,
    window: u64,
    /// Bytes that the sender may still send. Below zero by what a message went beyond it.
    allowed: i64,
    /// Bytes that were taken and not asked for again.
    taken: u64,
}

impl Receiver {
    /// Takes messages of `longest` bytes, and `window` bytes before it has taken the first of them;
    /// begins with a greeting.
    pub fn new(me: &Hello, window: u64, longest: u32) -> Self {
        let mut out = Vec::new();
        Message::Hello(me.clone()).write(&mut out);
        Self { frames: Frames::new(longest), stage: Stage::Silent, out, window, allowed: 0, taken: 0 }
    }

    /// Asks for a copy; so many bytes are free for it.
    pub fn copy(&mut self, free: u64) {
        self.begin(&Message::Copy { free }, Stage::Copying);
    }

    /// Asks for the entries behind these ends of logs, which are durable here.
    pub fn follow(&mut self, ends: Vec<LogEnd>) {
        self.begin(&Message::Follow(ends), Stage::Following);
    }

    fn begin(&mut self, wish: &Message, stage: Stage) {
        wish.write(&mut self.out);
        Message::Want(self.window).write(&mut self.out);
        (self.stage, self.allowed) = (stage, self.window.cast_signed());
    }

    /// Says that so many entries of this connection are durable, at this time of the caller's own.
    pub fn reached(&mut self, count: u64, stamp: u64) {
        Message::Reached { count, stamp }.write(&mut self.out);
    }

    /// Asks the other node to stop serving, and to send the rest.
    pub fn ask_to_hand_over(&mut self) {
        Message::HandOver.write(&mut self.out);
    }

    /// Adds bytes that came.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.frames.push(bytes);
    }

    /// The next event. What the one before it brought counts as taken.
    ///
    /// # Errors
    /// What the other node sent against the rules. The connection ends then.
    pub fn next_event(&mut self) -> Result<Option<Event>, Malformed> {
        let Some(message) = self.frames.next_message()? else { return Ok(None) };
        self.charge(message.cost())?;
        let event = match (message, self.stage) {
            (Message::Refused { why, words }, _) => {
                self.stage = Stage::Over;
                Event::Refused(why, words)
            }
            (Message::Hello(hello), Stage::Silent) => {
                self.stage = Stage::Greeted;
                Event::Greeted(hello)
            }
            (Message::CopyBegins { bytes }, Stage::Copying) => Event::CopyBegins(bytes),
            (Message::File(name), Stage::Copying) => Event::File(name),
            (Message::Piece { offset, bytes }, Stage::Copying) => Event::Piece(offset, bytes),
            (Message::Zeros { offset, length }, Stage::Copying) => Event::Zeros(offset, length),
            (Message::CopyEnds, Stage::Copying) => {
                self.stage = Stage::Over;
                Event::CopyEnds
            }
            (Message::Entry(entry), Stage::Following) => Event::Entry(entry),
            (Message::Horizon(file), Stage::Following) => Event::Horizon(file),
            (Message::Beat(beat), Stage::Copying | Stage::Following) => Event::Beat(beat),
            (Message::HandedOver, Stage::Following) => {
                self.stage = Stage::Over;
                Event::HandedOver
            }
            _ => return Err(Malformed("a message that does not belong there")),
        };
        Ok(Some(event))
    }

    /// Takes what is to be written.
    pub fn take_out(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// Counts a message against what the sender may send, and asks for more in time.
    fn charge(&mut self, cost: u64) -> Result<(), Malformed> {
        if cost == 0 {
            return Ok(());
        }
        if self.allowed <= 0 {
            return Err(Malformed("more bytes than were asked for"));
        }
        self.allowed = self.allowed.saturating_sub_unsigned(cost);
        self.taken += cost;
        if self.taken >= self.window / 4 {
            let more = std::mem::take(&mut self.taken);
            Message::Want(more).write(&mut self.out);
            self.allowed = self.allowed.saturating_add_unsigned(more);
        }
        Ok(())
    }
}
