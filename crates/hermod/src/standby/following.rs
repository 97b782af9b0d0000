//! The thread of a standby: it connects to the leader, takes a copy or entries, and begins again
//! when the connection ends.
//!
//! Invariant: nothing that is here is given up, but for a copy that is whole and whose log reads
//! back; and only if the leader says that what comes next has left its log, or the operator said so
//! at the start. Where the two went apart, the thread stops and says so.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use auth::Authority;
use broker::{Broker, OpenError, Standby};
use journal::{Disk, Journal, Progress, RealDisk, Refused, Ticket};
use management::StandbyRow;
use nodes::{Beat, Came, CopyTarget, Credentials, Event, Hello, Identity, Link, Receiver, Refusal, Role, Standing};
use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;

use super::Replace;
use crate::config::Settings;
use crate::exit::{Exit, Failure};
use crate::serve;

/// Bytes that are on their way at most.
const WINDOW: u64 = 4 << 20;
/// Bytes that are taken and not flushed at most.
const UNFLUSHED: u64 = 32 << 20;
/// How long the leader may say nothing.
const SILENCE: Duration = Duration::from_secs(15);
/// How often the leader hears something. Its beats are as old as what it has heard last.
const SAY: Duration = Duration::from_millis(250);
/// How long to wait before the next connection: at first, and at last.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// Which node follows which one, and where.
pub(super) struct Follows {
    pub(super) data: PathBuf,
    pub(super) leader: String,
    pub(super) identity: Identity,
    pub(super) me: Hello,
    pub(super) standing: Standing,
    pub(super) replace: Replace,
}

/// What the thread is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Follow,
    Stop,
    /// Serve with what is here.
    Promote,
    /// Serve when the leader has stopped, and everything is here.
    HandOver,
}

/// What others see of the thread, and tell it.
pub(super) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    promoted: Notify,
}

struct State {
    order: Order,
    /// The users of what is here.
    authority: Option<Arc<Authority>>,
    /// What came of the last order to promote.
    answer: Option<Result<String, String>>,
    row: StandbyRow,
    /// All that the leader had flushed then is here.
    as_of: Option<Instant>,
    heard: Option<Instant>,
}

impl Shared {
    /// How it follows.
    pub(super) fn status(&self) -> StandbyRow {
        let state = self.state.lock();
        let ms = |at: Instant| u64::try_from(at.elapsed().as_millis()).unwrap_or(u64::MAX);
        StandbyRow { lag_ms: state.as_of.map(ms), heard_ms: state.heard.map(ms), ..state.row.clone() }
    }

    /// The users and passwords that came from the leader; none before there is a whole copy.
    pub(super) fn authority(&self) -> Option<Arc<Authority>> {
        self.state.lock().authority.clone()
    }

    /// Tells the thread to promote the node, and waits for what comes of it.
    pub(super) fn order(&self, order: Order) -> Result<String, String> {
        let mut state = self.state.lock();
        if state.order != Order::Follow {
            return Err("it is being promoted, or stops".to_owned());
        }
        (state.order, state.answer) = (order, None);
        self.changed.notify_all();
        loop {
            if let Some(answer) = state.answer.take() {
                return answer;
            }
            self.changed.wait(&mut state);
        }
    }

    fn ordered(&self) -> Order {
        self.state.lock().order
    }

    fn refuse(&self, why: String) {
        let mut state = self.state.lock();
        (state.order, state.answer) = (Order::Follow, Some(Err(why)));
        self.changed.notify_all();
    }

    fn say(&self, change: impl FnOnce(&mut StandbyRow)) {
        change(&mut self.state.lock().row);
    }
}

/// The thread while it runs.
pub(super) struct Following {
    shared: Arc<Shared>,
    thread: JoinHandle<Result<Option<Broker>, Failure>>,
    leader: String,
}

impl Following {
    /// Starts it.
    pub(super) fn start(follows: Follows, settings: &Settings) -> io::Result<Self> {
        let row = StandbyRow {
            node: follows.me.name.clone(),
            leader: follows.leader.clone(),
            state: "connecting".to_owned(),
            term: follows.standing.term,
            ..StandbyRow::default()
        };
        let state = State { order: Order::Follow, authority: None, answer: None, row, as_of: None, heard: None };
        let (state, changed, promoted) = (Mutex::new(state), Condvar::new(), Notify::new());
        let shared = Arc::new(Shared { state, changed, promoted });
        let leader = follows.leader.clone();
        let credentials = Credentials::of(&follows.identity)?;
        let replace = follows.replace == Replace::Yes;
        let of_thread = Arc::clone(&shared);
        let settings = settings.clone();
        let thread = std::thread::Builder::new().name("hermod-following".to_owned());
        let thread = thread.spawn(move || {
            let follower = FollowingThread {
                follows,
                settings,
                shared: Arc::clone(&of_thread),
                credentials,
                standby: None,
                replace,
            };
            let ended = follower.run();
            // However it ends, the others go on.
            let answer = match &ended {
                Ok(Some(_)) => Ok("it serves from now on".to_owned()),
                Ok(None) => Err("it stops".to_owned()),
                Err(failure) => Err(failure.text.clone()),
            };
            of_thread.state.lock().answer = Some(answer);
            of_thread.changed.notify_all();
            of_thread.promoted.notify_one();
            ended
        })?;
        Ok(Self { shared, thread, leader })
    }

    pub(super) fn leader(&self) -> &str {
        &self.leader
    }

    pub(super) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// Ends when the thread does.
    pub(super) fn promoted(&self) -> impl Future<Output = ()> {
        let shared = Arc::clone(&self.shared);
        async move { shared.promoted.notified().await }
    }

    /// Stops following, and closes what is here.
    pub(super) fn stop(self) -> Result<(), Failure> {
        self.shared.state.lock().order = Order::Stop;
        self.shared.changed.notify_all();
        self.join().map(drop)
    }

    /// What became of the node.
    pub(super) fn broker(self) -> Result<Broker, Failure> {
        self.join()?.ok_or_else(|| Exit::Bug.because("the node was not promoted"))
    }

    fn join(self) -> Result<Option<Broker>, Failure> {
        self.thread.join().unwrap_or_else(|_| Err(Exit::Bug.because("the thread that follows has panicked")))
    }
}

/// Why a connection has ended.
enum End {
    /// It is tried again.
    Again(String),
    /// It is not: an operator has to look.
    Stopped(String),
    /// A copy is begun.
    Replace,
    /// The copy is here.
    Copied,
    /// There is an order to look at.
    Ordered,
    /// The leader serves no more, and everything is here.
    HandedOver,
}

struct FollowingThread {
    follows: Follows,
    settings: Settings,
    shared: Arc<Shared>,
    credentials: Credentials,
    /// What is here, once there is a whole copy.
    standby: Option<Standby>,
    /// Whether the next connection asks for a copy.
    replace: bool,
}

/// A connection, and what came over it.
struct Conversation {
    link: Link,
    /// From here its time counts, with which it stamps what it says.
    began: Instant,
    receiver: Receiver,
    target: Option<CopyTarget>,
    taken: u64,
    /// Entries of this connection that are not durable yet, each as its number and its ticket.
    undurable: VecDeque<(u64, Ticket)>,
    reached: u64,
    /// When something was said, and heard.
    said: Instant,
    heard: Instant,
    asked_to_hand_over: bool,
}

impl FollowingThread {
    fn run(mut self) -> Result<Option<Broker>, Failure> {
        if self.follows.data.join("FORMAT").exists() && !self.replace {
            self.open()?;
        }
        let mut back_off = BACK_OFF.0;
        loop {
            match self.shared.ordered() {
                Order::Stop => return self.close().map(|()| None),
                Order::Promote => match self.promote(Some(self.follows.leader.clone())) {
                    Ok(broker) => return Ok(Some(broker)),
                    Err(Unfit::Refused(why)) => self.shared.refuse(why),
                    Err(Unfit::Failed(failure)) => return Err(failure),
                },
                Order::HandOver if self.standby.is_none() => {
                    self.shared.refuse("there is no whole copy here yet, so nothing can be handed over".to_owned());
                }
                Order::Follow | Order::HandOver => {}
            }
            let began = Instant::now();
            match self.follow() {
                End::Ordered => {}
                // The other one knows.
                End::HandedOver => match self.promote(None) {
                    Ok(broker) => return Ok(Some(broker)),
                    Err(Unfit::Refused(why)) => self.shared.refuse(why),
                    Err(Unfit::Failed(failure)) => return Err(failure),
                },
                End::Replace => self.replace = true,
                End::Copied => match self.damage_of_copy()? {
                    None => self.take_copy()?,
                    Some(why) => {
                        self.trouble("stopped", &why);
                        self.rest(Duration::MAX);
                    }
                },
                End::Again(why) => {
                    self.trouble("connecting", &why);
                    if self.shared.ordered() == Order::HandOver {
                        self.shared.refuse(format!("the leader can't hand over: {why}"));
                    }
                    back_off = if began.elapsed() > SILENCE { BACK_OFF.0 } else { (back_off * 2).min(BACK_OFF.1) };
                    self.rest(back_off);
                }
                End::Stopped(why) => {
                    self.trouble("stopped", &why);
                    self.rest(Duration::MAX);
                }
            }
        }
    }

    /// Waits for an order, at most so long.
    fn rest(&self, most: Duration) {
        let mut state = self.shared.state.lock();
        if state.order == Order::Follow {
            match Instant::now().checked_add(most) {
                Some(until) => drop(self.shared.changed.wait_until(&mut state, until)),
                None => self.shared.changed.wait(&mut state),
            }
        }
    }

    fn trouble(&self, state: &str, why: &str) {
        let is_new = self.shared.state.lock().row.trouble != why;
        self.shared.say(|row| (row.state, row.trouble) = (state.to_owned(), why.to_owned()));
        if is_new {
            tracing::warn!(leader = self.follows.leader, "this node does not follow: {why}");
        }
    }

    /// Opens what is here.
    fn open(&mut self) -> Result<(), Failure> {
        let disk = self.disk()?;
        let parts = serve::parts(&self.settings, disk, Arc::<Progress>::default())?;
        let standby = Standby::open_with(parts, |opened, live, owners, on_failure| {
            if let Some(cut) = opened.cut() {
                serve::tell_cut(cut);
            }
            opened.follow(live, owners, on_failure)
        });
        let standby = standby.map_err(|error| {
            let shown = self.follows.data.display();
            let what = match &error {
                OpenError::Journal(journal::OpenError::Damaged { .. }) | OpenError::Damaged(_) => {
                    "; or start this node with --replace, which gives it up for a copy of the leader"
                }
                _ => "",
            };
            Exit::BadData.because(format!("{shown}: {error}{what}"))
        })?;
        standby.scrub(self.settings.store.journal.scrub);
        self.shared.state.lock().authority = Some(standby.authority());
        self.standby = Some(standby);
        self.shared.say(|row| row.whole = true);
        Ok(())
    }

    fn disk(&self) -> Result<RealDisk, Failure> {
        let disk = RealDisk::open(&self.follows.data);
        let shown = self.follows.data.display();
        Ok(disk.map_err(|error| Exit::Io.because(format!("{shown}: {error}")))?.past_the_cache())
    }

    fn close(&mut self) -> Result<(), Failure> {
        let Some(standby) = self.standby.take() else { return Ok(()) };
        self.shared.state.lock().authority = None;
        self.shared.say(|row| row.whole = false);
        standby.close().map_err(|error| Exit::Io.because(format!("the journal cannot be closed: {error}")))
    }

    /// Why the copy may not take the place of what is here: its log does not read back.
    fn damage_of_copy(&self) -> Result<Option<String>, Failure> {
        let folder = nodes::copy_folder(&self.follows.data).and_then(|folder| RealDisk::open(&folder));
        let failed = |error: io::Error| {
            Exit::Io.because(format!("{}: looking at the copy: {error}", self.follows.data.display()))
        };
        let parts = serve::parts(&self.settings, folder.map_err(failed)?, Arc::<Progress>::default())?;
        Ok(match Journal::open(parts.disk, parts.journal, &mut ()) {
            Ok(_) => None,
            Err(journal::OpenError::Damaged { file, offset, what }) => Some(format!(
                "the copy is not taken, since {file} in it is damaged at byte {offset}: {what}; look at the disk of {}, which \
                 sent it so. What was here before is kept",
                self.follows.leader
            )),
            Err(error) => Some(format!("the copy is not taken: {error}. What was here before is kept")),
        })
    }

    /// The copy takes the place of what was here.
    fn take_copy(&mut self) -> Result<(), Failure> {
        self.close()?;
        let data = self.follows.data.clone();
        let failed = |error: io::Error| Exit::Io.because(format!("{}: taking the copy over: {error}", data.display()));
        nodes::swap(&data).map_err(failed)?;
        self.follows.standing.keep(&data).map_err(failed)?;
        self.replace = false;
        self.open()
    }

    /// Follows no longer, in a new term, of which the node at `to_tell` has to hear.
    fn promote(&mut self, to_tell: Option<String>) -> Result<Broker, Unfit> {
        let Some(standby) = self.standby.take_if(|standby| standby.damage().is_none()) else {
            return Err(Unfit::Refused(match &self.standby {
                Some(standby) => standby.damage().unwrap_or_default(),
                None => "there is no whole copy here yet".to_owned(),
            }));
        };
        self.shared.say(|row| row.state = "promoting".to_owned());
        let standing = &mut self.follows.standing;
        standing.term += 1;
        (standing.role, standing.to_tell) = (Role::Serves, to_tell);
        let failed =
            |error: &dyn std::fmt::Display| Unfit::Failed(Exit::Io.because(format!("it is not promoted: {error}")));
        standing.keep(&self.follows.data).map_err(|error| failed(&error))?;
        tracing::info!("this node is promoted; it begins term {}", standing.term);
        standby.promote().map_err(|error| failed(&error))
    }

    /// One connection, to its end.
    fn follow(&mut self) -> End {
        let link = match nodes::connect(&self.follows.leader, &self.credentials) {
            Ok(link) => link,
            Err(error) => return End::Again(format!("{}: {error}", self.follows.leader)),
        };
        let longest = nodes::longest_sent(u32::try_from(self.settings.store.journal.file_bytes).unwrap_or(u32::MAX));
        self.follows.me.term = self.follows.standing.term;
        let mut conversation = Conversation {
            link,
            began: Instant::now(),
            receiver: Receiver::new(&self.follows.me, WINDOW, longest),
            target: None,
            taken: 0,
            undurable: VecDeque::new(),
            reached: 0,
            said: Instant::now(),
            heard: Instant::now(),
            asked_to_hand_over: false,
        };
        match self.converse(&mut conversation) {
            Ok(end) => end,
            Err(error) => End::Again(format!("{}: {error}", self.follows.leader)),
        }
    }

    fn converse(&mut self, with: &mut Conversation) -> io::Result<End> {
        loop {
            match self.shared.ordered() {
                Order::Stop | Order::Promote => return Ok(End::Ordered),
                Order::HandOver if !with.asked_to_hand_over && self.is_following() => {
                    with.receiver.ask_to_hand_over();
                    with.asked_to_hand_over = true;
                }
                Order::Follow | Order::HandOver => {}
            }
            self.report(with);
            let out = with.receiver.take_out();
            with.link.write(&out)?;
            // Confirms of the leader may wait for what is being flushed.
            let patience = if with.undurable.is_empty() { 50 } else { 1 };
            match with.link.read(Duration::from_millis(patience))? {
                Came::Bytes(bytes) => {
                    with.receiver.receive(&bytes);
                    with.heard = Instant::now();
                    self.shared.state.lock().heard = Some(with.heard);
                }
                Came::Nothing if with.heard.elapsed() >= SILENCE => {
                    return Ok(End::Again("the leader has said nothing for 15 seconds".to_owned()));
                }
                Came::Nothing => {}
                Came::End => return Ok(End::Again(format!("{} ended the connection", self.follows.leader))),
            }
            while let Some(event) = with.receiver.next_event().map_err(io::Error::other)? {
                if let Some(end) = self.take(event, with)? {
                    return Ok(end);
                }
            }
        }
    }

    fn is_following(&self) -> bool {
        self.shared.state.lock().row.state == "following"
    }

    /// Says how much is durable, and that the node is alive.
    fn report(&self, with: &mut Conversation) {
        let Some(standby) = self.standby.as_ref().filter(|_| self.is_following()) else { return };
        while with.undurable.pop_front_if(|(_, ticket)| standby.is_durable(*ticket)).is_some() {}
        let reached = with.undurable.front().map_or(with.taken, |(number, _)| number - 1);
        if reached > with.reached || with.said.elapsed() >= SAY {
            with.reached = reached;
            with.said = Instant::now();
            self.tell_damage(standby);
            let stamp = u64::try_from(with.began.elapsed().as_millis()).unwrap_or(u64::MAX);
            with.receiver.reached(reached, stamp);
        }
    }

    /// Says what the scrub has found.
    fn tell_damage(&self, standby: &Standby) {
        standby.take_scrubbed().iter().for_each(|line| tracing::error!("{line}"));
        let damaged = standby.journal_stats().segments.damaged;
        self.shared.say(|row| row.damaged_segments = damaged.into());
    }

    /// Does what an event says. Some when it was the last.
    fn take(&mut self, event: Event, with: &mut Conversation) -> io::Result<Option<End>> {
        match event {
            Event::Greeted(leader) => return self.greet(&leader, with),
            Event::CopyBegins(bytes) => {
                let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(&nodes::copy_folder(&self.follows.data)?)?);
                with.target = Some(CopyTarget::begin(disk, bytes).map_err(io::Error::other)?);
                self.shared.say(|row| {
                    (row.copied_bytes, row.copy_bytes, row.copies) = (0, bytes, row.copies + 1);
                });
            }
            Event::File(name) => target(with)?.file(&name).map_err(io::Error::other)?,
            Event::Piece(offset, bytes) => target(with)?.piece(offset, &bytes).map_err(io::Error::other)?,
            Event::Zeros(offset, length) => target(with)?.zeros(offset, length).map_err(io::Error::other)?,
            Event::CopyEnds => {
                let Some(target) = with.target.take() else {
                    return Err(io::Error::other("a copy without a beginning"));
                };
                target.finish().map_err(io::Error::other)?;
                tracing::info!(leader = self.follows.leader, "the copy is whole");
                return Ok(Some(End::Copied));
            }
            Event::Entry(entry) => return self.apply(&entry, with),
            Event::Horizon(file) => self.standby.iter().for_each(|standby| standby.horizon(file)),
            Event::Beat(beat) => self.beat(&beat, with.began),
            Event::HandedOver => {
                if let Some(standby) = &self.standby {
                    flush(standby, with.undurable.iter().map(|(_, ticket)| *ticket))?;
                }
                return Ok(Some(End::HandedOver));
            }
            Event::Refused(why, words) => return Ok(Some(self.refused(why, words))),
        }
        if let Some(target) = &with.target {
            let (written, _) = target.progress();
            self.shared.say(|row| row.copied_bytes = written);
        }
        Ok(None)
    }

    fn greet(&mut self, leader: &Hello, with: &mut Conversation) -> io::Result<Option<End>> {
        if leader.format != nodes::FORMAT || leader.cluster != self.follows.me.cluster || !with.link.is_of(leader.node)
        {
            return Ok(Some(End::Stopped(format!("{} is no node of this cluster", self.follows.leader))));
        }
        let known = self.follows.standing.term;
        if leader.term < known {
            let what =
                format!("{} serves in term {}, and term {known} has begun: it was replaced", leader.name, leader.term);
            return Ok(Some(End::Stopped(what)));
        }
        if leader.term > known {
            self.follows.standing.term = leader.term;
            // While contents of its own are given up, the role is that of before.
            if self.standby.is_some() {
                self.follows.standing.keep(&self.follows.data)?;
            }
        }
        let begins_copy = self.replace || self.standby.is_none();
        if begins_copy {
            let disk = RealDisk::open(&self.follows.data)?;
            with.receiver.copy(disk.free()?);
        } else if let Some(standby) = &self.standby {
            // The leader takes what is named here to be durable.
            let ends = standby.ends();
            flush(standby, ends.iter().map(|end| Ticket::at(end.log, end.index)))?;
            with.receiver.follow(ends);
        }
        let state = if begins_copy { "copying" } else { "following" };
        tracing::info!(leader = leader.name, term = leader.term, "connected: {state}");
        self.shared.say(|row| {
            (row.state, row.trouble, row.term) = (state.to_owned(), String::new(), leader.term);
        });
        Ok(None)
    }

    fn apply(&mut self, entry: &journal::Entry, with: &mut Conversation) -> io::Result<Option<End>> {
        let Some(standby) = &self.standby else { return Err(io::Error::other("an entry before there is a copy")) };
        match standby.apply(entry) {
            Ok(ticket) => {
                with.taken += 1;
                with.undurable.push_back((with.taken, ticket));
                self.shared.say(|row| row.entries += 1);
            }
            Err(refused @ (Refused::Gap { .. } | Refused::Known { .. })) => return Err(io::Error::other(refused)),
            Err(refused @ Refused::NoBody { .. }) => {
                tracing::warn!("a new copy is begun: {refused}");
                return Ok(Some(End::Replace));
            }
            Err(refused) => return Ok(Some(End::Stopped(refused.to_string()))),
        }
        while standby.lag() > UNFLUSHED && self.shared.ordered() == Order::Follow {
            std::thread::sleep(Duration::from_millis(2));
            self.report(with);
        }
        Ok(None)
    }

    /// A beat was said after the stamp in it, and no more is known: a link that was cut delivers it
    /// late, and entries lie before it. So its age counts from the stamp.
    fn beat(&self, beat: &Beat, began: Instant) {
        let mut state = self.shared.state.lock();
        (state.row.lag_entries, state.row.lag_bytes) = (beat.entries, beat.bytes);
        if beat.age_ms < beat.unix_ms {
            let said = began.checked_add(Duration::from_millis(beat.stamp));
            let as_of = said.and_then(|said| said.checked_sub(Duration::from_millis(beat.age_ms)));
            state.as_of = as_of.or(state.as_of);
        }
    }

    fn refused(&self, why: Refusal, words: String) -> End {
        match why {
            Refusal::Gone => {
                tracing::warn!(leader = self.follows.leader, "a new copy is begun: {words}");
                End::Replace
            }
            Refusal::Apart | Refusal::Stranger | Refusal::Replaced => End::Stopped(format!(
                "{words}; look which of both nodes is right, then start this one with --replace, or promote it"
            )),
            Refusal::NotServing | Refusal::Full | Refusal::Failed => End::Again(words),
        }
    }
}

/// Why a node is not promoted.
enum Unfit {
    /// It goes on following.
    Refused(String),
    /// It can't go on.
    Failed(Failure),
}

/// Waits until everything up to these tickets is flushed.
fn flush(standby: &Standby, tickets: impl Iterator<Item = Ticket>) -> io::Result<()> {
    let until = Instant::now() + SILENCE;
    for ticket in tickets {
        while !standby.is_durable(ticket) {
            if Instant::now() >= until {
                return Err(io::Error::other("what was taken can't be flushed here"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    Ok(())
}

fn target(with: &mut Conversation) -> io::Result<&mut CopyTarget> {
    with.target.as_mut().ok_or_else(|| io::Error::other("a file before the copy begins"))
}
