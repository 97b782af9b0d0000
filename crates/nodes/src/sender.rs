//! The side that serves: it sends another node a copy of all there is, then the entries of its
//! logs, as many bytes as that one takes.
//!
//! Invariant: nothing is sent beyond what the other node said that it takes, except the rest of the
//! message that reaches this bound; and only what is flushed here. What waits to be written is
//! bounded by [`OUT`] and one message, what is not durable there by [`MOST_UNCONFIRMED`] entries.

use std::collections::{HashMap, VecDeque};

use journal::{Fed, Feed, FeedError, LogEnd, LogId};

use crate::copy::{CopyError, CopySource};
use crate::frames::{Frames, LONGEST_ASKED};
use crate::message::{Beat, Hello, Malformed, Message, Refusal};

/// Bytes that are gathered before they are written.
const OUT: usize = 256 << 10;
/// Most entries that are sent and not durable there.
const MOST_UNCONFIRMED: usize = 1 << 16;
/// How often a beat is sent at least, in milliseconds.
const BEAT_MS: u64 = 500;

/// What the other node asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Asked {
    /// It has said who it is. [`Sender::greet`] or [`Sender::refuse`] answers.
    Greeted(Hello),
    /// A copy; so many bytes are free there.
    Copy {
        /// The bytes.
        free: u64,
    },
    /// The entries behind these ends.
    Follow(Vec<LogEnd>),
    /// That this node stops serving, and sends the rest.
    HandOver,
}

/// Why nothing more is put out for now.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Filled {
    /// There is enough to write.
    Enough,
    /// The other node takes no more.
    NoCredit,
    /// There is nothing to send.
    UpToDate,
    /// The copy is whole.
    Copied,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Stage {
    /// Before its greeting.
    Silent,
    /// Before its wish.
    Greeted,
    Copying,
    Following,
}

/// See the module.
#[derive(Debug)]
pub struct Sender {
    frames: Frames,
    stage: Stage,
    out: Vec<u8>,
    /// Bytes that the other node still takes. Below zero by what the last message went beyond it.
    credit: i64,
    sent: u64,
    reached: u64,
    /// When the other node said so, by its own time.
    stamp: u64,
    /// What is not durable there, each as its number, its log and the index of that.
    unconfirmed: VecDeque<(u64, LogId, u64)>,
    /// The files here of what is not durable there, each with the number of the first entry in it.
    files: VecDeque<(u64, u32)>,
    /// When the feed was looked at, and what was flushed then.
    noted: Option<(u64, u64)>,
    /// All that was flushed then has been sent.
    as_of: u64,
    /// What was sent then, if it is not durable at the other node yet.
    undurable: Option<(u64, u64)>,
    /// All that was flushed then is durable there.
    durable_as_of: u64,
    /// When the last beat was sent.
    beat_at: u64,
}

impl Default for Sender {
    fn default() -> Self {
        Self {
            frames: Frames::new(LONGEST_ASKED),
            stage: Stage::Silent,
            out: Vec::new(),
            credit: 0,
            sent: 0,
            reached: 0,
            stamp: 0,
            unconfirmed: VecDeque::new(),
            files: VecDeque::new(),
            noted: None,
            as_of: 0,
            undurable: None,
            durable_as_of: 0,
            beat_at: 0,
        }
    }
}

impl Sender {
    /// Adds bytes that came from the other node.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.frames.push(bytes);
    }

    /// What it asks for next.
    ///
    /// # Errors
    /// What it sent against the rules. The connection ends then.
    pub fn next_asked(&mut self) -> Result<Option<Asked>, Malformed> {
        while let Some(message) = self.frames.next_message()? {
            match (message, self.stage) {
                (Message::Hello(hello), Stage::Silent) => {
                    self.stage = Stage::Greeted;
                    return Ok(Some(Asked::Greeted(hello)));
                }
                (Message::Copy { free }, Stage::Greeted) => {
                    self.stage = Stage::Copying;
                    return Ok(Some(Asked::Copy { free }));
                }
                (Message::Follow(ends), Stage::Greeted) => {
                    self.stage = Stage::Following;
                    return Ok(Some(Asked::Follow(ends)));
                }
                (Message::HandOver, Stage::Following) => return Ok(Some(Asked::HandOver)),
                (Message::Want(bytes), Stage::Copying | Stage::Following) => {
                    self.credit = self.credit.saturating_add_unsigned(bytes);
                }
                (Message::Reached { count, stamp }, Stage::Following)
                    if self.reached <= count && count <= self.sent =>
                {
                    (self.reached, self.stamp) = (count, stamp);
                    while self.files.get(1).is_some_and(|(first, _)| *first <= count + 1) {
                        self.files.pop_front();
                    }
                    self.note_durable();
                }
                _ => return Err(Malformed("a message that does not belong there")),
            }
        }
        Ok(None)
    }

    /// Says who this is.
    pub fn greet(&mut self, me: &Hello) {
        Message::Hello(me.clone()).write(&mut self.out);
    }

    /// Ends the conversation.
    pub fn refuse(&mut self, why: Refusal, words: &str) {
        Message::Refused { why, words: words.to_owned() }.write(&mut self.out);
    }

    /// Says that this node serves no more, and that all has been sent.
    pub fn hand_over(&mut self) {
        Message::HandedOver.write(&mut self.out);
    }

    /// Puts out more of what `feed` has. `now` is the time, in milliseconds since 1970.
    ///
    /// # Errors
    /// Why it has no more. [`Sender::refuse`] says that.
    pub fn follow(&mut self, feed: &mut Feed, now: u64) -> Result<Filled, FeedError> {
        let filled = self.fill(feed, now);
        let is_new = matches!(filled, Ok(Filled::UpToDate)) && self.as_of > self.beat_at;
        if self.beat_at + BEAT_MS <= now || is_new && !self.out.is_empty() {
            self.beat(feed, now);
        }
        filled
    }

    fn fill(&mut self, feed: &mut Feed, now: u64) -> Result<Filled, FeedError> {
        loop {
            self.look(feed, now);
            if self.out.len() >= OUT {
                return Ok(Filled::Enough);
            }
            if self.credit <= 0 || self.unconfirmed.len() >= MOST_UNCONFIRMED {
                return Ok(Filled::NoCredit);
            }
            match feed.pull()? {
                Fed::Entry(entry) => {
                    self.sent += 1;
                    let LogEnd { log, index, .. } = entry.end();
                    self.unconfirmed.push_back((self.sent, log, index));
                    if self.files.back().is_none_or(|(_, file)| *file != entry.file()) {
                        self.files.push_back((self.sent, entry.file()));
                    }
                    self.put(&Message::Entry(entry));
                }
                Fed::Horizon(file) => self.put(&Message::Horizon(file)),
                Fed::Nothing => {
                    self.look(feed, now);
                    return Ok(Filled::UpToDate);
                }
            }
        }
    }

    /// Puts out more of a copy.
    ///
    /// # Errors
    /// Why there is no more.
    pub fn copy(&mut self, copy: &mut CopySource) -> Result<Filled, CopyError> {
        while self.out.len() < OUT {
            if self.credit <= 0 {
                return Ok(Filled::NoCredit);
            }
            match copy.pull()? {
                Some(message) => self.put(&message),
                None => return Ok(Filled::Copied),
            }
        }
        Ok(Filled::Enough)
    }

    /// Entries that were sent, and of these how many are durable at the other node.
    pub fn progress(&self) -> (u64, u64) {
        (self.sent, self.reached)
    }

    /// The ends of what has become durable at the other node since this was asked last.
    pub fn take_durable(&mut self) -> Vec<(LogId, u64)> {
        let mut ends = HashMap::new();
        while let Some((_, log, index)) = self.unconfirmed.pop_front_if(|(number, ..)| *number <= self.reached) {
            ends.insert(log, index);
        }
        ends.into_iter().collect()
    }

    /// The oldest file here with an entry that was sent and is not durable there.
    pub fn undurable_from(&self) -> Option<u32> {
        self.files.front().filter(|_| self.reached < self.sent).map(|(_, file)| *file)
    }

    /// All that was flushed at that time has been sent, in milliseconds since 1970.
    pub fn as_of(&self) -> u64 {
        self.as_of
    }

    /// All that was flushed at that time is durable at the other node.
    pub fn durable_as_of(&self) -> u64 {
        self.durable_as_of
    }

    /// What is to be written.
    pub fn out(&self) -> &[u8] {
        &self.out
    }

    /// All of that is written. Its memory is for what comes next, unless it was one large message.
    pub fn written(&mut self) {
        self.out.clear();
        self.out.shrink_to(2 * OUT);
    }

    /// Takes what is to be written.
    pub fn take_out(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    fn note_durable(&mut self) {
        if let Some((at, _)) = self.undurable.take_if(|(_, sent)| *sent <= self.reached) {
            self.durable_as_of = at;
        }
    }

    fn put(&mut self, message: &Message) {
        self.credit = self.credit.saturating_sub_unsigned(message.cost());
        message.write(&mut self.out);
    }

    /// Notes whether all has been sent that was flushed when this was noted last.
    fn look(&mut self, feed: &Feed, now: u64) {
        if let Some((at, _)) = self.noted.take_if(|(_, flushed)| *flushed <= feed.passed()) {
            self.as_of = at;
            self.undurable.get_or_insert((at, self.sent));
            self.note_durable();
        }
        self.noted.get_or_insert_with(|| (now, feed.flushed()));
    }

    fn beat(&mut self, feed: &Feed, now: u64) {
        let behind = feed.behind();
        // Before the first round all of the time is missing.
        let age_ms = now.saturating_sub(self.as_of);
        let (entries, bytes) = (behind.entries, behind.bytes);
        let beat = Beat { unix_ms: now, age_ms, entries, bytes, stamp: self.stamp };
        Message::Beat(beat).write(&mut self.out);
        self.beat_at = now;
    }
}
