//! The turns of a connection, the same for every protocol: input within a budget, then the broker's
//! answers while the output is short, with the pauses, signs of life and timeouts around them.
//!
//! A protocol takes frames and writes events ([`Conversation`]); [`Turns`] makes that the driver's
//! contract ([`Connection`]). Nothing is taken while the peer leaves too many answers unread.

use std::cell::Cell;
use std::task::Waker;
use std::time::Instant;

use broker::{Broker, Client, Flow};
use wire::{CloseReason, Connection, Doing, Output, Peer, ReadState, waiting};

use crate::entrance::{Entrance, Words};
use crate::keep_alive::{Due, KeepAlive};

/// A turn ends after this many bytes of input, so that other connections get their turns.
const TURN_BYTES: usize = 256 * 1024;
/// A turn ends after this many frames.
const TURN_FRAMES: usize = 10_000;
/// Deliveries are taken from the broker only while the output has fewer bytes than this.
const OUTPUT_ENOUGH: usize = 256 * 1024;
/// Input is not taken while the peer has left this many bytes of answers unread.
const UNREAD_ANSWERS: usize = 1024 * 1024;

/// What a connection keeps in every phase and every protocol.
pub struct Line {
    /// Who is at the other end.
    pub peer: Peer,
    /// Wakes the connection.
    pub waker: Waker,
    /// The signs of life; none are agreed on at first.
    pub keep_alive: KeepAlive,
    /// When the present phase ends at the latest: the handshake, or the wait for a last answer.
    pub phase_ends: Option<Instant>,
    words: &'static Words,
    /// User and vhost of the client that has left.
    was: Option<(Box<str>, Box<str>)>,
    /// A program elsewhere decides about the user's operations. Set at the log-in.
    may_wait: Cell<bool>,
}

impl Line {
    /// A connection that has received nothing and must be open by `phase_ends`.
    pub fn new(peer: Peer, waker: Waker, words: &'static Words, phase_ends: Instant, now: Instant) -> Self {
        let (keep_alive, phase_ends, may_wait) = (KeepAlive::none(now), Some(phase_ends), Cell::new(false));
        Self { peer, waker, keep_alive, phase_ends, words, was: None, may_wait }
    }

    /// The peer on its way to the broker.
    pub fn entrance<'c>(&'c self, broker: &'c Broker) -> Entrance<'c> {
        Entrance { broker, peer: &self.peer, waker: &self.waker, words: self.words, may_wait: &self.may_wait }
    }

    /// Remembers whose connection it was, for the log; its client ends.
    pub fn leave(&mut self, client: Client) {
        self.was = Some((client.user().into(), client.vhost().into()));
    }
}

/// A conversation, to be changed.
pub struct Parts<'c> {
    /// See [`Line`].
    pub line: &'c mut Line,
    /// The client of the broker, while there is one.
    pub client: Option<&'c mut Client>,
    /// What waits for the peer.
    pub output: &'c mut Output,
}

/// A conversation, to be looked at.
pub struct View<'c> {
    /// See [`Line`].
    pub line: &'c Line,
    /// The client of the broker, while there is one.
    pub client: Option<&'c Client>,
    /// What waits for the peer.
    pub output: &'c Output,
    /// What the protocol's own state allows.
    pub state: ReadState,
}

impl View<'_> {
    /// Whether the protocol takes another frame in this turn.
    #[inline]
    fn takes_input(&self) -> bool {
        matches!(self.state, ReadState::Read | ReadState::Handshake) && self.output.answers() <= UNREAD_ANSWERS
    }

    /// A question that had to wait ends the turn, too: the answers so far go out, and signs of
    /// life.
    fn is_turn_full(&self) -> bool {
        self.client.is_some_and(Client::is_turn_full) || (self.line.may_wait.get() && waiting::has_waited())
    }

    fn reads(&self) -> bool {
        self.takes_input() && self.client.is_none_or(|client| client.flow() == Flow::Run)
    }

    fn is_over(&self) -> bool {
        matches!(self.state, ReadState::Answered | ReadState::Closed | ReadState::GivenUp)
    }
}

/// Why this side must end a conversation.
#[derive(Debug)]
pub enum End {
    /// The phase has taken too long.
    Late,
    /// The peer has given no sign of life.
    Silent,
    /// The driver asks for it.
    Asked(CloseReason),
}

/// The server side of one connection in one protocol.
pub trait Conversation: Send {
    /// A sign of life, as it is sent.
    const BEAT: &'static [u8];

    /// Everything that a turn changes.
    fn parts(&mut self) -> Parts<'_>;
    /// The same, unchanged.
    fn view(&self) -> View<'_>;
    /// The name of the frame that was taken last; empty before the first.
    fn last(&self) -> &'static str;
    /// Takes the first frame of `input`, and returns its bytes. 0 if more bytes, or something that
    /// is waited for, must come first: then the frame is offered again.
    fn take(&mut self, input: &[u8], now: Instant) -> usize;
    /// Writes what the client reports, about `room` bytes, and answers whatever has been waited for
    /// and come. True if the client has more.
    fn report(&mut self, room: usize, now: Instant) -> bool;
    /// Ends the conversation, with a last word if the peer can hear it. It is not over yet.
    fn end(&mut self, why: End, now: Instant);
    /// Gives back what it keeps for the next frames, besides its parts: see [`Connection::rest`].
    fn rest(&mut self) {}
}

/// A conversation as the driver sees it.
pub struct Turns<C>(pub C);

impl<C: Conversation> Turns<C> {
    /// Ends a turn: the broker gets what was gathered, and the output gets what the broker reports.
    /// True if the broker has more and the output has room.
    fn end_turn(&mut self, now: Instant) -> bool {
        let Parts { client, output, .. } = self.0.parts();
        if let Some(client) = client {
            client.end_turn(now);
        }
        // This runs with a full output, too, because it does what is due by time. Otherwise the
        // deadline would stay in the past while the peer does not read.
        let room = OUTPUT_ENOUGH.saturating_sub(output.len());
        let more = self.0.report(room, now);
        let Parts { line, output, .. } = self.0.parts();
        if !output.is_empty() {
            line.keep_alive.sent(now);
        }
        more && room > 0
    }

    fn wake_again(&mut self) {
        self.0.parts().line.waker.wake_by_ref();
    }
}

impl<C: Conversation> Connection for Turns<C> {
    fn receive(&mut self, input: &[u8], now: Instant) -> usize {
        if !self.0.view().reads() {
            return 0;
        }
        self.0.parts().line.keep_alive.offered(input.len(), now);
        let (mut taken, mut frames) = (0, 0);
        while taken < TURN_BYTES.min(input.len()) && frames < TURN_FRAMES && self.0.view().takes_input() {
            match self.0.take(&input[taken..], now) {
                0 => break,
                count => taken += count,
            }
            frames += 1;
            if self.0.view().is_turn_full() {
                break;
            }
        }
        let waited = !self.0.view().takes_input();
        let more = self.end_turn(now);
        let reads = self.0.view().reads();
        // The driver calls `wake` only after output that `wake` itself produced. It offers input
        // again only after a turn that took some, or after `wake`.
        if more || (taken == 0 && waited && reads) {
            self.wake_again();
        }
        self.0.parts().line.keep_alive.left(if reads { input.len() - taken } else { 0 });
        taken
    }

    fn wake(&mut self, now: Instant) {
        if self.end_turn(now) && self.0.view().output.is_empty() {
            self.wake_again();
        }
    }

    fn tick(&mut self, now: Instant) {
        let view = self.0.view();
        if view.is_over() {
            return;
        }
        let reads = view.reads();
        let Parts { line, client, output } = self.0.parts();
        if line.phase_ends.is_some_and(|end| now >= end) {
            return self.0.end(End::Late, now);
        }
        if !reads {
            line.keep_alive.not_read(now);
        }
        match line.keep_alive.due(now) {
            Due::Nothing => {}
            Due::GiveUp => return self.0.end(End::Silent, now),
            Due::Send => {
                if output.is_empty() {
                    output.put(C::BEAT);
                }
                line.keep_alive.sent(now);
            }
        }
        if client.and_then(|client| client.next_deadline()).is_some_and(|at| now >= at) && self.end_turn(now) {
            self.wake_again();
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let view = self.0.view();
        if view.is_over() {
            return None;
        }
        let client = view.client.and_then(Client::next_deadline);
        [view.line.phase_ends, view.line.keep_alive.deadline(), client].into_iter().flatten().min()
    }

    fn output(&mut self) -> &mut Output {
        self.0.parts().output
    }

    fn read_state(&self) -> ReadState {
        let view = self.0.view();
        if view.is_over() || view.reads() { view.state } else { ReadState::Pause }
    }

    fn may_wait(&self) -> bool {
        self.0.view().line.may_wait.get()
    }

    fn doing(&self) -> Doing<'_> {
        let View { line, client, .. } = self.0.view();
        let was = line.was.as_ref().map(|(user, vhost)| (&**user, &**vhost));
        let (user, vhost) = client.map(|client| (client.user(), client.vhost())).or(was).unwrap_or_default();
        Doing { user, vhost, last: self.0.last() }
    }

    fn rest(&mut self) {
        let Parts { client, output, .. } = self.0.parts();
        output.shrink();
        client.into_iter().for_each(Client::rest);
        self.0.rest();
    }

    fn close(&mut self, reason: CloseReason, now: Instant) {
        if self.0.view().is_over() {
            return;
        }
        if reason != CloseReason::Gone {
            self.end_turn(now);
        }
        self.0.end(End::Asked(reason), now);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;
    use std::time::Duration;

    use super::*;

    const WORDS: Words = Words {
        protocol: "bytes",
        login_refused: "refused",
        names_mechanism: false,
        refused: "refused",
        opened: "opened",
    };

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Each byte is a frame: `.` is nothing, `a` is answered by 1000 bytes, `w` waits until it is
    /// offered for the second time.
    struct Bytes {
        line: Line,
        output: Output,
        state: ReadState,
        waits: bool,
        last: &'static str,
        ends: Vec<&'static str>,
    }

    impl Conversation for Bytes {
        const BEAT: &'static [u8] = b"beat";

        fn parts(&mut self) -> Parts<'_> {
            Parts { line: &mut self.line, client: None, output: &mut self.output }
        }

        fn view(&self) -> View<'_> {
            let state = if self.waits { ReadState::Pause } else { self.state };
            View { line: &self.line, client: None, output: &self.output, state }
        }

        fn last(&self) -> &'static str {
            self.last
        }

        fn take(&mut self, input: &[u8], _: Instant) -> usize {
            match input[0] {
                b'a' => {
                    self.output.put(&[0; 1000]);
                    self.output.count_answer(1000);
                }
                b'w' if self.last != "wait" => {
                    (self.waits, self.last) = (true, "wait");
                    return 0;
                }
                _ => {}
            }
            1
        }

        fn report(&mut self, _: usize, _: Instant) -> bool {
            self.waits = false;
            false
        }

        fn end(&mut self, why: End, _: Instant) {
            self.ends.push(match why {
                End::Late => "late",
                End::Silent => "silent",
                End::Asked(_) => "asked",
            });
            self.state = ReadState::Closed;
        }
    }

    fn bytes(now: Instant) -> (Turns<Bytes>, Arc<Count>) {
        let count = Arc::new(Count::default());
        let address = "127.0.0.1:1".parse().expect("an address");
        let peer = Peer { remote: address, local: address, encrypted: false, certified_user: None };
        let ends = now + Duration::from_secs(10);
        let line = Line::new(peer, Waker::from(count.clone()), &WORDS, ends, now);
        let (output, state) = (Output::default(), ReadState::Read);
        (Turns(Bytes { line, output, state, waits: false, last: "", ends: Vec::new() }), count)
    }

    #[test]
    fn a_turn_takes_so_many_frames() {
        let now = Instant::now();
        let (mut turns, count) = bytes(now);
        assert_eq!(turns.receive(&[b'.'; 3 * TURN_FRAMES], now), TURN_FRAMES);
        assert_eq!(count.0.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_peer_that_reads_no_answers_is_not_read_until_it_has_read_them() {
        let now = Instant::now();
        let (mut turns, _) = bytes(now);
        let answered = UNREAD_ANSWERS / 1000 + 1;
        assert_eq!(turns.receive(&[b'a'; 2000], now), answered);
        assert_eq!((turns.read_state(), turns.receive(b"a", now)), (ReadState::Pause, 0));
        turns.output().advance(1000 * answered - 1);
        assert_eq!(turns.read_state(), ReadState::Pause);
        turns.output().advance(1);
        assert_eq!((turns.read_state(), turns.receive(b"a", now)), (ReadState::Read, 1));
    }

    /// Nothing else would have the driver offer it.
    #[test]
    fn a_frame_that_waited_for_this_turn_only_is_offered_again() {
        let now = Instant::now();
        let (mut turns, count) = bytes(now);
        assert_eq!((turns.receive(b"w", now), count.0.load(Ordering::Relaxed)), (0, 1));
        assert_eq!((turns.receive(b"w", now), count.0.load(Ordering::Relaxed)), (1, 1));
    }

    #[test]
    fn what_ends_is_asked_to_end_once() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let interval = Some(Duration::from_secs(4));
        type Acts = fn(&mut Turns<Bytes>, Instant);
        let cases: [(&str, u64, Acts); 3] = [
            ("late", 10, |turns, now| turns.tick(now)),
            ("silent", 8, |turns, now| turns.tick(now)),
            ("asked", 1, |turns, now| turns.close(CloseReason::Gone, now)),
        ];
        for (why, seconds, act) in cases {
            let (mut turns, _) = bytes(start);
            if why == "silent" {
                turns.0.line.keep_alive.agree(None, interval, start);
            }
            turns.tick(at(seconds - 1));
            assert!(turns.0.ends.is_empty(), "{why}");
            act(&mut turns, at(seconds));
            act(&mut turns, at(seconds));
            turns.close(CloseReason::Shutdown, at(seconds));
            assert_eq!((&turns.0.ends[..], turns.deadline()), (&[why][..], None));
        }
    }

    #[test]
    fn a_sign_of_life_is_sent_only_if_nothing_else_waits() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let (mut turns, _) = bytes(start);
        turns.0.line.keep_alive.agree(Some(Duration::from_secs(2)), None, start);
        turns.tick(at(1));
        turns.tick(at(2));
        assert_eq!(turns.output().take(), b"beat");
    }
}
