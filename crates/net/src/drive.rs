//! The life of one connection: the only async loop of the data path.
//!
//! A turn does what was ordered, what is due and what arrived, and writes the answer at once, in
//! the same task. Turns follow each other while there is something to do; after a budget the task
//! yields, so that the others run. Reading goes on while the kernel refuses output: how much may
//! wait is the protocol's business, for how long is ours.

use std::future::{Future, poll_fn};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::sync::oneshot;
use wire::{CloseReason, Connection, Doing, Output, Peer, ReadState};

use crate::aside::{Acts, Aside, Talk};
use crate::detect::Opened;
use crate::flush::{Flushed, poll_flush};
use crate::handshake::Handshakes;
use crate::heavy::{Heavy, Place, after_others};
use crate::input::{Input, TURN_BYTES};
use crate::linger;
use crate::registry::{Listed, Registration};
use crate::settings::Settings;
use crate::stream::Stream;
use crate::timer::Timer;

/// Turns in a row before other connections get theirs.
const TURNS: usize = 16;
/// How long turns may follow each other, however little they move: few bytes can be much work.
const SLICE: Duration = Duration::from_millis(10);
/// Turns that take longer than this hold up all other connections of their thread, so the log tells
/// of them.
const LONG: Duration = Duration::from_millis(100);
/// Bytes that a connection may read before others get their turn. With half of it, a third of the
/// work is to wake peers where messages are large. With twice of it others wait longer, and only
/// messages of 256 KiB gain.
const BUDGET: usize = 2 * TURN_BYTES;
/// After this long without traffic a connection rests: it gives its buffers back.
const IDLE: Duration = Duration::from_secs(1);
/// Output of this size is written before more input is taken.
const ENOUGH_OUTPUT: usize = 256 * 1024;

/// What a connection may still move before others get their turn.
///
/// A written byte counts half. Where all are busy, publishers and consumers have as many turns. If
/// a queue could lose no more in a turn than comes in, one that fell behind would never catch up.
#[derive(Debug)]
struct Budget {
    /// Of bytes read.
    left: usize,
    /// When it ends at the latest.
    ends: Instant,
}

impl Budget {
    fn full(now: Instant) -> Self {
        Self { left: BUDGET, ends: now + SLICE }
    }

    fn read(&mut self, count: usize) {
        self.left = self.left.saturating_sub(count);
    }

    fn wrote(&mut self, count: usize) {
        self.left = self.left.saturating_sub(count.div_ceil(2));
    }

    fn is_used_up(&self, now: Instant) -> bool {
        self.left == 0 || self.is_over(now)
    }

    fn is_over(&self, now: Instant) -> bool {
        now >= self.ends
    }
}

/// How a connection ended.
#[derive(Debug)]
enum End {
    /// As the protocol has it: we end it.
    Finished,
    /// As the protocol has it: the peer ends it.
    Answered,
    /// The peer closed its side.
    PeerClosed,
    /// The protocol takes the peer for dead.
    GivenUp,
    /// Ended without ceremony, on order.
    Cut,
    /// The socket failed.
    Failed(io::Error),
    /// The peer took nothing of what waited for it for too long.
    SlowReader,
    /// The protocol insists on more bytes than may wait.
    TooLarge,
    /// The protocol or the broker panicked.
    Panicked,
}

/// What a connection has left when it lets others run.
#[derive(Debug)]
enum Left {
    /// Nothing to do until it is woken.
    Nothing,
    /// More to do at once.
    More,
    /// Nothing ever: it has ended.
    Over(End),
}

/// Runs one accepted connection to its end.
pub(crate) async fn drive(
    socket: TcpStream,
    handshakes: Arc<Handshakes>,
    registration: Registration,
    settings: Arc<Settings>,
    (heavy, aside): (Arc<Heavy>, Option<Arc<Aside>>),
) {
    let listed = registration.listed.clone();
    poll_fn(|cx| {
        listed.wakeup().set_task(cx.waker());
        Poll::Ready(())
    })
    .await;
    // In a box, which goes with the handshake: its states would stay a part of the task.
    let Some(opened) = Box::pin(handshakes.open(socket, &listed)).await else { return };
    let Opened { stream: mut socket, certified_user, input, protocol } = opened;
    registration.speaks(protocol.name());
    let encrypted = socket.is_encrypted();
    let listed_peer = listed.peer().clone();
    let certified_user = certified_user.or_else(|| listed_peer.certified_user.clone());
    let peer = Peer { certified_user, encrypted, ..listed_peer };
    let accept = || protocol.accept(peer, Waker::from(listed.wakeup().clone()), Instant::now());
    let mut owner = None;
    let end = match catch_unwind(AssertUnwindSafe(accept)) {
        Err(_) => End::Panicked,
        Ok(connection) => {
            let fresh = !input.is_empty();
            let talk = Talk { connection, input, fresh };
            let mut drive = Drive::new(&mut socket, &registration, &settings, talk, (Place::new(heavy), aside));
            let end = poll_fn(|cx| {
                // What a panic leaves half-done is dropped with the connection right after.
                catch_unwind(AssertUnwindSafe(|| drive.poll(cx))).unwrap_or(Poll::Ready(End::Panicked))
            })
            .await;
            drive.leave().await;
            owner = Owner::of(&drive);
            // The broker's side ends here, before the socket lingers.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(drive)));
            end
        }
    };
    log(&listed, &end, owner.as_ref());
    match end {
        End::Finished => linger::end(&mut socket).await,
        End::Answered => linger::leave_to_peer(&mut socket, &listed, settings.linger).await,
        End::PeerClosed => {}
        _ => socket.end_by_reset(),
    }
}

/// One connection and its socket.
struct Drive<'a> {
    socket: &'a mut Stream,
    registration: &'a Registration,
    listed: &'a Listed,
    settings: &'a Settings,
    talk: Talk,
    /// Where it stands if there is too much to do for all.
    place: Place,
    /// The threads that it may wait on, if some connections may.
    aside: Option<Arc<Aside>>,
    /// It is on one of those. What is in `talk` stands in for it until it is back.
    away: Option<oneshot::Receiver<Talk>>,
    /// The peer has authenticated.
    established: bool,
    /// The last `wake` may have left something: call it again once its output is written.
    woken: bool,
    /// Since when the kernel has taken none of the output.
    stalled: Option<Instant>,
    /// When bytes last moved, while buffers are held.
    busy: Option<Instant>,
    timer: Timer,
}

impl<'a> Drive<'a> {
    fn new(
        socket: &'a mut Stream,
        registration: &'a Registration,
        settings: &'a Settings,
        talk: Talk,
        (place, aside): (Place, Option<Arc<Aside>>),
    ) -> Self {
        Self {
            socket,
            registration,
            listed: &registration.listed,
            settings,
            talk,
            place,
            aside,
            away: None,
            established: false,
            woken: false,
            stalled: None,
            busy: Some(Instant::now()),
            timer: Timer::default(),
        }
    }

    /// Takes turns until there is nothing to do, the budget is used up, or the connection has
    /// ended.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        if !self.place.may_run(cx.waker()) {
            return Poll::Pending;
        }
        let began = Instant::now();
        let mut budget = Budget::full(began);
        crate::spin::worked();
        let left = self.take_turns(&mut budget, began, cx);
        let ended = Instant::now();
        let took = ended.duration_since(began);
        match left {
            Left::Nothing | Left::Over(_) => self.place.ran(took),
            Left::More if self.place.ran_and_has_more(took, cx.waker()) => {}
            Left::More if budget.is_over(ended) => after_others(cx.waker()),
            Left::More => cx.waker().wake_by_ref(),
        }
        if took >= LONG {
            self.tell_long(took, BUDGET - budget.left);
        }
        match left {
            Left::Over(end) => Poll::Ready(end),
            Left::Nothing | Left::More => Poll::Pending,
        }
    }

    fn take_turns(&mut self, budget: &mut Budget, began: Instant, cx: &mut Context<'_>) -> Left {
        let mut now = began;
        for _ in 0..TURNS {
            match self.turn(budget, now, cx) {
                Err(end) => return Left::Over(end),
                Ok(true) => {}
                Ok(false) => {
                    self.give_back(now);
                    if self.timer.poll_until(self.next_deadline(), now, cx).is_pending() {
                        return Left::Nothing;
                    }
                }
            }
            now = Instant::now();
            if budget.is_used_up(now) {
                break;
            }
        }
        Left::More
    }

    /// What took so long is told and counted.
    fn tell_long(&self, took: Duration, moved: usize) {
        self.registration.count_long_turn();
        let (connection, peer, protocol) = (self.listed.id(), self.listed.peer().remote, self.listed.protocol());
        let (milliseconds, Doing { user, vhost, last }) = (took.as_millis(), self.talk.connection.doing());
        tracing::warn!(
            connection, %peer, protocol, user, vhost, last, milliseconds, moved,
            "other connections had to wait: what this one asked for took long"
        );
    }

    /// One turn. True when there may be more to do at once.
    fn turn(&mut self, budget: &mut Budget, now: Instant, cx: &mut Context<'_>) -> Result<bool, End> {
        let acted = match &self.aside {
            None => self.act(budget, now, cx)?,
            Some(aside) => {
                let aside = aside.clone();
                match self.poll_back(now, cx)? {
                    Poll::Pending => return Ok(false),
                    // What it has answered goes out before it is handed more.
                    Poll::Ready(true) => true,
                    Poll::Ready(false) if !self.talk.connection.may_wait() => self.act(budget, now, cx)?,
                    Poll::Ready(false) if self.hand_over(&aside, budget, now, cx)? => return Ok(true),
                    Poll::Ready(false) => false,
                }
            }
        };
        let wrote = self.write_output(budget, now, cx)?;
        self.count_buffers();
        let written = self.talk.connection.output().is_empty() && self.stalled.is_none();
        match self.talk.connection.read_state() {
            ReadState::Closed if written => return Err(End::Finished),
            ReadState::Answered if written => return Err(End::Answered),
            ReadState::GivenUp => return Err(End::GivenUp),
            ReadState::Read if !self.established => {
                self.established = true;
                self.registration.established();
                self.talk.input.trust(self.settings.input_limit);
                self.socket.trust();
            }
            _ => {}
        }
        Ok(acted | wrote)
    }

    /// What was ordered, what is due and what has arrived. True if that was something.
    fn act(&mut self, budget: &mut Budget, now: Instant, cx: &mut Context<'_>) -> Result<bool, End> {
        let acted = self.take_orders(now)? | self.run_timers(now)?;
        Ok(acted | self.take_input(budget, now, cx)?)
    }

    fn take_orders(&mut self, now: Instant) -> Result<bool, End> {
        let orders = self.listed.wakeup().take();
        if orders.cut() {
            return Err(End::Cut);
        }
        if orders.close() {
            self.talk.connection.close(self.listed.reason(), now);
        }
        if orders.wake() || self.woken {
            self.woken = true;
            self.talk.connection.wake(now);
        }
        let acted = orders.close() || self.woken;
        self.talk.fresh |= acted && !self.talk.input.is_empty();
        Ok(acted)
    }

    fn run_timers(&mut self, now: Instant) -> Result<bool, End> {
        self.check_reader(now)?;
        if self.talk.connection.deadline().is_none_or(|deadline| now < deadline) {
            return Ok(false);
        }
        self.talk.connection.tick(now);
        self.talk.fresh |= !self.talk.input.is_empty();
        Ok(true)
    }

    fn check_reader(&self, now: Instant) -> Result<(), End> {
        let is_slow = self.stalled.is_some_and(|since| now >= since + self.settings.write_timeout);
        if is_slow { Err(End::SlowReader) } else { Ok(()) }
    }

    /// Offers the protocol what waits, after reading more if it has refused that already.
    fn take_input(&mut self, budget: &mut Budget, now: Instant, cx: &mut Context<'_>) -> Result<bool, End> {
        if !self.fill(budget, now, cx)? {
            return Ok(false);
        }
        let (ends, is_aside_there) = (budget.ends, self.aside.is_some());
        self.talk.offer(now, |talk| {
            talk.connection.output().len() >= ENOUGH_OUTPUT
                || (talk.fresh && Instant::now() >= ends)
                // From here on it has its turns elsewhere.
                || (is_aside_there && talk.connection.may_wait())
        });
        Ok(true)
    }

    /// Reads if the protocol has refused what waits. True if there is something to offer.
    fn fill(&mut self, budget: &mut Budget, now: Instant, cx: &mut Context<'_>) -> Result<bool, End> {
        if !self.talk.reads() {
            return Ok(false);
        }
        if !self.talk.fresh {
            if self.talk.input.is_full() {
                return Err(End::TooLarge);
            }
            match self.talk.input.poll_read(self.socket, cx) {
                Poll::Pending => return Ok(false),
                Poll::Ready(Ok(0)) => return Err(End::PeerClosed),
                Poll::Ready(Ok(count)) => self.arrived(count, budget, now),
                Poll::Ready(Err(error)) => return Err(End::Failed(error)),
            }
        }
        Ok(true)
    }

    /// Hands the connection to a thread where it may wait, if there is something to do. False if
    /// there is nothing.
    fn hand_over(
        &mut self,
        aside: &Aside,
        budget: &mut Budget,
        now: Instant,
        cx: &mut Context<'_>,
    ) -> Result<bool, End> {
        let orders = self.listed.wakeup().take();
        if orders.cut() {
            return Err(End::Cut);
        }
        self.check_reader(now)?;
        self.woken |= orders.wake();
        let acts = Acts {
            close: orders.close().then(|| self.listed.reason()),
            wake: self.woken,
            tick: self.talk.connection.deadline().is_some_and(|deadline| now >= deadline),
            offer: self.fill(budget, now, cx)?,
        };
        if acts.is_none() {
            return Ok(false);
        }
        self.send_away(aside, acts)?;
        Ok(true)
    }

    fn send_away(&mut self, aside: &Aside, acts: Acts) -> Result<(), End> {
        aside.serve().map_err(End::Failed)?;
        let user = self.talk.connection.doing().user.to_owned();
        let stands_in = Talk { connection: Box::new(Absent::default()), input: Input::new(), fresh: false };
        let talk = std::mem::replace(&mut self.talk, stands_in);
        self.away = Some(aside.send(&user, talk, acts));
        Ok(())
    }

    /// Waits for the connection to come back. True if it has just come.
    fn poll_back(&mut self, now: Instant, cx: &mut Context<'_>) -> Result<Poll<bool>, End> {
        let Some(away) = &mut self.away else { return Ok(Poll::Ready(false)) };
        match Pin::new(away).poll(cx) {
            Poll::Pending if self.listed.wakeup().is_cut() => Err(End::Cut),
            Poll::Pending => self.check_reader(now).map(|()| Poll::Pending),
            Poll::Ready(Ok(talk)) => {
                (self.talk, self.away) = (talk, None);
                Ok(Poll::Ready(true))
            }
            Poll::Ready(Err(_)) => {
                self.away = None;
                Err(End::Panicked)
            }
        }
    }

    /// Ends the broker's side of a connection that may wait: where it may.
    async fn leave(&mut self) {
        let Some(aside) = self.aside.clone() else { return };
        self.come_back().await;
        if self.talk.connection.may_wait() && self.send_away(&aside, Acts::gone()).is_ok() {
            self.come_back().await;
        }
    }

    async fn come_back(&mut self) {
        if let Some(away) = self.away.take()
            && let Ok(talk) = away.await
        {
            self.talk = talk;
        }
    }

    fn arrived(&mut self, count: usize, budget: &mut Budget, now: Instant) {
        self.listed.count_in(count);
        self.busy = Some(now);
        self.talk.fresh = true;
        budget.read(count);
    }

    /// Writes what waits. True when the connection has to be asked for more.
    fn write_output(&mut self, budget: &mut Budget, now: Instant, cx: &mut Context<'_>) -> Result<bool, End> {
        let output = self.talk.connection.output();
        let waiting = output.len();
        // Within TLS the socket may hold what the output no longer does.
        if waiting == 0 && self.stalled.is_none() {
            self.woken = false;
            return Ok(false);
        }
        let Flushed { written, outcome } = poll_flush(self.socket, output, cx);
        if written > 0 {
            self.listed.count_out(written);
            self.busy = Some(now);
            budget.wrote(written);
        }
        match outcome {
            Poll::Ready(Err(error)) => Err(End::Failed(error)),
            Poll::Ready(Ok(())) => {
                // The protocol may have held something back while the output was long. Now it is
                // told that there is room.
                self.woken |= self.stalled.take().is_some() || waiting >= ENOUGH_OUTPUT;
                Ok(self.woken)
            }
            Poll::Pending => {
                self.woken = false;
                if written > 0 || self.stalled.is_none() {
                    self.stalled = Some(now);
                }
                Ok(false)
            }
        }
    }

    /// Gives the buffers back when nothing has moved for a while.
    fn give_back(&mut self, now: Instant) {
        if self.busy.is_some_and(|busy| now >= busy + IDLE) {
            self.busy = None;
            self.talk.input.shrink();
            self.talk.connection.rest();
            self.count_buffers();
        }
    }

    /// Tells the registry what the connection of a stranger takes.
    #[inline]
    fn count_buffers(&mut self) {
        if !self.established {
            self.registration.buffers(self.talk.input.room() + self.talk.connection.output().len());
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let stalled = self.stalled.map(|since| since + self.settings.write_timeout);
        let idle = self.busy.map(|busy| busy + IDLE);
        [self.talk.connection.deadline(), stalled, idle].into_iter().flatten().min()
    }
}

impl Drop for Drive<'_> {
    /// However the task ends, also when the runtime drops it, the protocol hears that nothing
    /// reaches the peer any more.
    fn drop(&mut self) {
        let began = Instant::now();
        self.talk.connection.close(CloseReason::Gone, began);
        let took = began.elapsed();
        if took >= LONG {
            self.tell_long(took, 0);
        }
    }
}

/// Stands in for a connection that is away: nothing is read and nothing is written.
#[derive(Default)]
struct Absent(Output);

impl Connection for Absent {
    fn receive(&mut self, _: &[u8], _: Instant) -> usize {
        0
    }

    fn wake(&mut self, _: Instant) {}

    fn tick(&mut self, _: Instant) {}

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn output(&mut self) -> &mut Output {
        &mut self.0
    }

    fn read_state(&self) -> ReadState {
        ReadState::Pause
    }

    fn doing(&self) -> Doing<'_> {
        Doing::default()
    }

    fn close(&mut self, _: CloseReason, _: Instant) {}
}

/// Whose a connection was, and what it did last.
struct Owner {
    user: String,
    vhost: String,
    last: &'static str,
}

impl Owner {
    /// `None` if its peer has not logged in.
    fn of(drive: &Drive<'_>) -> Option<Self> {
        let Doing { user, vhost, last } = drive.talk.connection.doing();
        drive.established.then(|| Self { user: user.to_owned(), vhost: vhost.to_owned(), last })
    }
}

impl End {
    /// Which side ended the connection, and why.
    fn told(&self) -> (&'static str, &'static str) {
        match self {
            Self::Finished => ("broker", "closed by the broker"),
            // After a close of the client or an error of the broker, whose line comes before.
            Self::Answered => ("protocol", "closed as its protocol has it, by a close or an error"),
            Self::PeerClosed => ("client", "the socket was closed without a close of its protocol"),
            Self::GivenUp => ("broker", "the client was silent for too long"),
            Self::Cut => ("broker", "cut off at the end of the server"),
            Self::Failed(_) => ("network", "the socket failed"),
            Self::SlowReader => ("broker", "the client read too slowly"),
            Self::TooLarge => ("broker", "the client sent too large a unit"),
            Self::Panicked => ("broker", "a panic"),
        }
    }
}

/// Logs the end of a connection. Those of strangers are told at debug level only, because any peer
/// that reaches the port can cause them.
fn log(listed: &Listed, end: &End, owner: Option<&Owner>) {
    let (connection, peer, protocol) = (listed.id(), listed.peer().remote, listed.protocol());
    let (by, reason) = end.told();
    let error = match end {
        End::Failed(error) => Some(tracing::field::display(error)),
        _ => None,
    };
    match owner {
        Some(Owner { user, vhost, last }) => {
            let (received, sent, seconds) = listed.moved();
            tracing::info!(
                connection, %peer, protocol, user, vhost, by, reason, error, last, received, sent, seconds,
                "connection closed"
            );
        }
        None => tracing::debug!(connection, %peer, protocol, by, reason, error, "connection closed before a log-in"),
    }
    match end {
        End::Finished | End::Answered | End::PeerClosed | End::GivenUp | End::Cut | End::Failed(_) => {}
        End::SlowReader => tracing::warn!(
            connection, %peer, protocol,
            "connection closed: the peer read nothing of what waited for it within tcp.write_timeout"
        ),
        End::TooLarge => tracing::warn!(
            connection, %peer, protocol,
            "connection closed: it sent a unit larger than any that is allowed"
        ),
        End::Panicked => tracing::error!(
            connection, %peer, protocol,
            "connection closed after a panic in its code; please report this with the lines before it"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_task<A, B, C, D, E, F>(_: impl FnOnce(A, B, C, D, E) -> F) -> usize {
        size_of::<F>()
    }

    /// How many bytes a connection moves until others get their turn.
    fn moved(piece: usize, spend: fn(&mut Budget, usize)) -> usize {
        let now = Instant::now();
        let (mut budget, mut moved) = (Budget::full(now), 0);
        while !budget.is_used_up(now) {
            spend(&mut budget, piece);
            moved += piece;
        }
        moved
    }

    /// With equal turns a queue of 64 KiB messages grew to a gibibyte while its consumer took all
    /// it was given.
    #[test]
    fn a_turn_takes_out_twice_what_it_lets_in() {
        for piece in [1000, 4096, 65_536] {
            let (read, wrote) = (moved(piece, Budget::read), moved(piece, Budget::wrote));
            assert!(read >= BUDGET && wrote >= 2 * BUDGET, "{piece}: {read} in, {wrote} out");
            assert!(wrote < 2 * BUDGET + piece, "{piece}: others wait while {wrote} go out");
        }
        // A message larger than the budget goes out at once, like one that comes in.
        assert_eq!(moved(4 << 20, Budget::wrote), 4 << 20);
    }

    /// Ten thousand idle connections hold ten thousand of it. A buffer to discard into once lay in
    /// it, which few need and only at their end.
    #[test]
    fn a_connection_carries_no_buffer_in_its_task() {
        assert!(size_of_task(drive) < 1500, "{} bytes", size_of_task(drive));
    }
}
