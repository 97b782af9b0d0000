//! The node that serves: it listens for nodes, admits those that show a token, and sends the others
//! what they ask for.
//!
//! Each connection has a thread, since reading the log waits for the disk. Invariant: the number of
//! threads is bounded, for strangers and for followers alike. A follower that says nothing for
//! [`SILENCE`] is let go.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use journal::{Backup, BackupError, Disk, Feed, FeedError, Keeping, Kept, LogEnd, LogId};
use parking_lot::Mutex;

use crate::confirming::{Confirming, Confirms};
use crate::copy::CopySource;
use crate::frames::Frames;
use crate::identity::Identity;
use crate::link::{Came, Credentials, Link};
use crate::message::{FORMAT, Hello, Message, Refusal};
use crate::retained::{AwayNodes, Connected, Doing, FollowerStatus, MOST_FOLLOWERS, NEXT, Retained, Seen};
use crate::sender::{Asked, Filled, Sender};
use crate::strangers::{Admitted, MOST_STRANGERS, Place, Strangers};

/// How long a stranger may take for its handshake, and for its first message.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long a follower may say nothing.
pub const SILENCE: Duration = Duration::from_secs(30);
/// How often the listener looks whether it is to stop.
const PAUSE: Duration = Duration::from_millis(50);
/// How long the log is left alone when nothing was new: at first, and at last.
const REST: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));
/// How long the acknowledgements of a follower are left alone when nothing was new.
const GATHER: Duration = Duration::from_millis(5);
/// The longest rest, where confirms wait for what is sent.
const REST_OF_CONFIRMS: Duration = Duration::from_millis(2);
/// Most bytes of a message of one that has no certificate.
const LONGEST_JOIN: u32 = 1024;

/// What happens to a node that is replaced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replaced {
    /// The node that has taken its place, or is about to.
    pub by: Hello,
    /// Whether it asked for that, and shall have everything.
    pub planned: bool,
}

/// Gives what comes behind these entries: see [`journal::Journal::feed`].
pub type Feeding = dyn Fn(Vec<(LogId, u64)>) -> Feed + Send + Sync;
/// Begins a copy: see [`journal::Journal::backup`].
pub type Copying = dyn Fn(Arc<dyn Disk>) -> Result<Backup, BackupError> + Send + Sync;

/// Keeps a part of the log: see [`journal::Journal::keep`].
pub type Keeper = dyn Fn(Keeping) -> Kept + Send + Sync;

/// What a node that serves has for others.
pub struct Serving {
    /// Who it is.
    pub identity: Identity,
    /// How it greets.
    pub hello: Hello,
    /// See [`journal::Journal::feed`].
    pub feed: Box<Feeding>,
    /// See [`journal::Journal::backup`].
    pub backup: Box<Copying>,
    /// See [`journal::Journal::keep`].
    pub keep: Box<Keeper>,
    /// How many bytes of the log are kept for a follower at most, once it has caught up.
    pub most_kept: u64,
    /// Whether confirms wait for a follower.
    pub confirming: Confirming,
    /// Keeps that another node is promoted, or is about to be, before it returns; and has this one
    /// end. An error is why it can't be kept.
    pub replaced: Box<dyn Fn(Replaced) -> io::Result<()> + Send + Sync>,
    /// Whether this node takes nothing any more.
    pub is_quiet: Box<dyn Fn() -> bool + Send + Sync>,
}

struct Shared {
    serving: Serving,
    credentials: Credentials,
    stop: AtomicBool,
    strangers: Arc<Strangers>,
    refused: AtomicUsize,
    followers: Mutex<Vec<(u64, Connected)>>,
    away: AwayNodes,
    next: AtomicUsize,
    handed_over: AtomicBool,
}

impl Shared {
    /// Keeps the log for a follower that has no copy to catch up with.
    fn retain(&self) -> Retained {
        Retained::new(&self.serving.keep, self.serving.most_kept)
    }
}

/// The followers of a node, as long as it serves.
#[derive(Clone)]
pub struct Followers(Arc<Shared>);

impl Followers {
    /// How far each is, and those that are away.
    pub fn list(&self) -> Vec<FollowerStatus> {
        let now = unix_ms();
        let here: Vec<_> = self.0.followers.lock().iter().map(|(_, one)| one.status(now)).collect();
        here.into_iter().chain(self.0.away.list(now)).collect()
    }

    /// What confirms rest on, and how long the oldest of them has waited.
    pub fn confirms(&self) -> (Confirms, Duration) {
        self.0.serving.confirming.confirms()
    }

    /// How this node greets them.
    pub fn leader(&self) -> &Hello {
        &self.0.serving.hello
    }

    /// Connections that were refused: strangers, and those that were too many.
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed) as u64
    }
}

/// The listener for nodes.
pub struct Listener {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

impl Listener {
    /// Listens on a bound socket.
    ///
    /// # Errors
    /// When there is no thread for it, or the certificate of the node can't be used.
    pub fn start(socket: TcpListener, serving: Serving) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let shared = Arc::new(Shared {
            credentials: Credentials::of(&serving.identity)?,
            serving,
            stop: AtomicBool::new(false),
            strangers: Arc::default(),
            refused: AtomicUsize::new(0),
            followers: Mutex::default(),
            away: AwayNodes::default(),
            next: AtomicUsize::new(0),
            handed_over: AtomicBool::new(false),
        });
        let listening = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("hermod-nodes".to_owned());
        let thread = thread.spawn(move || listen(&listening, &socket))?;
        Ok(Self { shared, thread })
    }

    /// Its followers.
    pub fn followers(&self) -> Followers {
        Followers(Arc::clone(&self.shared))
    }

    /// Whether the node that asked for it has been sent everything, after this one was quiet.
    pub fn has_handed_over(&self) -> bool {
        self.shared.handed_over.load(Ordering::Acquire)
    }

    /// Ends it, and all connections.
    pub fn stop(self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.join();
    }
}

fn listen(shared: &Arc<Shared>, socket: &TcpListener) {
    let mut links: Vec<JoinHandle<()>> = Vec::new();
    while !shared.stop.load(Ordering::Relaxed) {
        links.retain(|link| !link.is_finished());
        shared.away.look();
        shared.serving.confirming.look(Instant::now(), unix_ms());
        match socket.accept() {
            Ok((stream, peer)) => links.extend(admit(shared, stream, peer)),
            Err(error) => {
                if error.kind() != io::ErrorKind::WouldBlock {
                    tracing::warn!("no connection of a node can be taken for now: {error}");
                }
                std::thread::sleep(PAUSE);
            }
        }
    }
    links.into_iter().for_each(|link| drop(link.join()));
}

/// Gives a connection a thread.
fn admit(shared: &Arc<Shared>, stream: TcpStream, peer: SocketAddr) -> Option<JoinHandle<()>> {
    let place = match shared.strangers.admit(&stream, peer) {
        Admitted::Yes(place) => place,
        Admitted::Instead(place) => {
            tell_flood(shared, peer, "another one is ended for it");
            place
        }
        Admitted::No => {
            tell_flood(shared, peer, "it is refused");
            return None;
        }
    };
    let serving = Arc::clone(shared);
    let thread = std::thread::Builder::new().name("hermod-node-link".to_owned());
    let spawned = thread.spawn(move || {
        if let Err(error) = serve(&serving, stream, peer, &place) {
            serving.refused.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(%peer, "the connection of a node ends: {error}");
        }
    });
    spawned.ok()
}

/// Says that there are too many strangers, once for a hundred.
fn tell_flood(shared: &Shared, peer: SocketAddr, what: &str) {
    if shared.refused.fetch_add(1, Ordering::Relaxed).is_multiple_of(100) {
        tracing::warn!(%peer, "a connection to the port of nodes: {what}, since {MOST_STRANGERS} have not said yet who they are");
    }
}

fn serve(shared: &Shared, stream: TcpStream, peer: SocketAddr, stranger: &Place) -> io::Result<()> {
    let mut link = Link::accept(stream, &shared.credentials, HANDSHAKE)?;
    if !link.is_of_a_node() {
        let answer = join(shared, &mut link, peer)?;
        let mut out = Vec::new();
        answer.write(&mut out);
        link.write(&out)?;
        link.close();
        return Ok(());
    }
    let mut conversation = Conversation::new(shared, peer);
    let ended = conversation.run(&mut link, stranger);
    // What the other side should still read: the reason of a refusal, that all was handed over.
    let out = conversation.sender.take_out();
    if ended.is_ok() {
        link.write(&out)?;
        if conversation.handed_over {
            shared.handed_over.store(true, Ordering::Release);
        }
        link.close();
    }
    ended
}

/// Admits the one that has no certificate, if its token is good.
fn join(shared: &Shared, link: &mut Link, peer: SocketAddr) -> io::Result<Message> {
    let (mut frames, until) = (Frames::new(LONGEST_JOIN), Instant::now() + HANDSHAKE);
    let message = loop {
        match frames.next_message().map_err(invalid)? {
            Some(message) => break message,
            None => match link.read(until.saturating_duration_since(Instant::now()))? {
                Came::Bytes(bytes) => frames.push(&bytes),
                Came::Nothing => return Err(io::ErrorKind::TimedOut.into()),
                Came::End => return Err(io::ErrorKind::UnexpectedEof.into()),
            },
        }
    };
    let Message::Join { secret, key } = message else {
        return Err(invalid("it shows no certificate of this cluster, and no token"));
    };
    match shared.serving.identity.admit(&secret, &key, unix_ms() / 1000) {
        Ok(membership) => {
            tracing::info!(%peer, node = %membership.node, "a node joins the cluster by a token");
            Ok(Message::Joined(membership))
        }
        Err(error) => {
            shared.refused.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(%peer, "a node is not let in: {error}");
            Ok(Message::Refused { why: Refusal::Stranger, words: error.to_string() })
        }
    }
}

/// What a follower is sent now.
enum Sends {
    Nothing,
    Copy(Box<CopySource>),
    Entries(Box<Feed>),
}

/// One connection of a node.
struct Conversation<'a> {
    shared: &'a Shared,
    peer: SocketAddr,
    sender: Sender,
    sends: Sends,
    other: Option<Hello>,
    /// What the log keeps for it; none if that was given up.
    retained: Arc<Mutex<Option<Retained>>>,
    /// Its place among the followers.
    place: Option<u64>,
    asked_to_hand_over: bool,
    handed_over: bool,
    heard: Instant,
    rest: Duration,
}

impl Drop for Conversation<'_> {
    fn drop(&mut self) {
        let mut followers = self.shared.followers.lock();
        followers.retain(|(other, _)| Some(*other) != self.place);
        let (Some(hello), Some(retained)) = (self.other.take(), self.retained.lock().take()) else { return };
        // A part of a copy is of no use, and what one connection needs that goes on is kept for it.
        let is_back = followers.iter().any(|(_, other)| other.status.node == hello.node);
        if !is_back && !matches!(self.sends, Sends::Copy(_)) {
            self.shared.away.add(hello, self.peer, retained, self.sender.durable_as_of());
        }
    }
}

impl<'a> Conversation<'a> {
    fn new(shared: &'a Shared, peer: SocketAddr) -> Self {
        let (sender, sends) = (Sender::default(), Sends::Nothing);
        let (heard, rest) = (Instant::now(), REST.0);
        let (asked_to_hand_over, handed_over) = (false, false);
        Self {
            shared,
            peer,
            sender,
            sends,
            other: None,
            retained: Arc::default(),
            place: None,
            asked_to_hand_over,
            handed_over,
            heard,
            rest,
        }
    }

    /// Until one of both ends it.
    fn run(&mut self, link: &mut Link, stranger: &Place) -> io::Result<()> {
        let until = Instant::now() + HANDSHAKE;
        loop {
            if self.answer(link)?.is_some() {
                return Ok(());
            }
            if self.other.is_some() {
                stranger.is_known();
            } else if Instant::now() >= until {
                return Err(invalid("it does not say who it is"));
            }
            let patience = match self.send()? {
                Some(patience) => patience,
                None => return Ok(()),
            };
            link.write(self.sender.out())?;
            self.sender.written();
            if self.shared.stop.load(Ordering::Relaxed) {
                self.sender.refuse(Refusal::Failed, "the node stops");
                return Ok(());
            }
            match patience {
                Duration::ZERO => {}
                patience => match link.read(self.gather(patience))? {
                    Came::Bytes(bytes) => {
                        self.sender.receive(&bytes);
                        self.heard = Instant::now();
                    }
                    Came::Nothing if self.heard.elapsed() >= SILENCE => {
                        return Err(invalid("it has said nothing for 30 seconds"));
                    }
                    Came::Nothing => {}
                    Came::End => return Ok(()),
                },
            }
        }
    }

    /// Does what the other side asks for. Some when that was the last.
    fn answer(&mut self, link: &Link) -> io::Result<Option<()>> {
        while let Some(asked) = self.sender.next_asked().map_err(invalid)? {
            let refused = match asked {
                Asked::Greeted(other) => self.greeted(other, link)?,
                Asked::Copy { free } => self.copy(free),
                Asked::Follow(ends) => self.follow(&ends),
                Asked::HandOver => self.begin_to_hand_over(),
            };
            if let Some((why, words)) = refused {
                tracing::warn!(peer = %self.peer, "a node is refused: {words}");
                self.sender.refuse(why, &words);
                return Ok(Some(()));
            }
        }
        self.shared.serving.confirming.confirm(&self.sender.take_durable());
        Ok(None)
    }

    /// Whether the one that has said who it is may follow.
    fn greeted(&mut self, other: Hello, link: &Link) -> io::Result<Option<(Refusal, String)>> {
        let me = &self.shared.serving.hello;
        if other.format != FORMAT {
            let words = format!("it speaks format {} and this node format {FORMAT}; use one version", other.format);
            return Ok(Some((Refusal::Stranger, words)));
        }
        if other.cluster != me.cluster || !link.is_of(other.node) {
            return Ok(Some((Refusal::Stranger, "its certificate is not that of the node it says it is".to_owned())));
        }
        if other.term > me.term {
            let words =
                format!("{} was promoted in term {}; this node served in term {}", other.name, other.term, me.term);
            let replaced = Replaced { by: other, planned: false };
            (self.shared.serving.replaced)(replaced)?;
            return Ok(Some((Refusal::Replaced, words)));
        }
        if self.shared.followers.lock().len() >= MOST_FOLLOWERS {
            return Ok(Some((Refusal::Full, format!("there are {MOST_FOLLOWERS} followers already"))));
        }
        self.sender.greet(me);
        self.other = Some(other);
        Ok(None)
    }

    fn copy(&mut self, free: u64) -> Option<(Refusal, String)> {
        // What was kept for this node is of no use any more.
        drop(self.other.as_ref().and_then(|other| self.shared.away.take(other)));
        let Serving { keep, most_kept, .. } = &self.shared.serving;
        *self.retained.lock() = Some(Retained::with_copy(keep, *most_kept));
        match CopySource::begin(free, |to| (self.shared.serving.backup)(to)) {
            Ok(copy) => {
                self.take_place(Doing::Copying);
                self.sends = Sends::Copy(Box::new(copy));
                None
            }
            Err(error) => {
                *self.retained.lock() = None;
                Some((Refusal::Failed, format!("there is no copy: {error}")))
            }
        }
    }

    fn follow(&mut self, ends: &[LogEnd]) -> Option<(Refusal, String)> {
        if let Err(error) = self.shared.serving.confirming.begin_behind(ends) {
            return Some((Refusal::Apart, error.to_string()));
        }
        self.take_place(Doing::Following);
        let known = self.other.as_ref().and_then(|other| self.shared.away.take(other)).map(Retained::returned);
        *self.retained.lock() = Some(known.unwrap_or_else(|| self.shared.retain()));
        let known = ends.iter().map(|end| (end.log, end.index)).collect();
        self.sends = Sends::Entries(Box::new((self.shared.serving.feed)(known)));
        None
    }

    fn begin_to_hand_over(&mut self) -> Option<(Refusal, String)> {
        let Some(by) = self.other.clone() else { return Some((Refusal::Failed, "who asks is not known".to_owned())) };
        match (self.shared.serving.replaced)(Replaced { by, planned: true }) {
            Ok(()) => {
                self.asked_to_hand_over = true;
                None
            }
            Err(error) => Some((Refusal::Failed, format!("this node can't hand over: {error}"))),
        }
    }

    /// Sends more. How long to wait for the other side then; none when that was the last.
    fn send(&mut self) -> io::Result<Option<Duration>> {
        let now = unix_ms();
        let filled = match &mut self.sends {
            Sends::Nothing => return Ok(Some(Duration::from_millis(200))),
            Sends::Copy(copy) => match self.sender.copy(copy) {
                Ok(filled) => filled,
                Err(error) => return Ok(self.refuse(Refusal::Failed, &error)),
            },
            Sends::Entries(feed) => {
                // Asked before, so that nothing is appended any more when the feed is looked at.
                let is_quiet = self.asked_to_hand_over && (self.shared.serving.is_quiet)();
                match self.sender.follow(feed, now) {
                    Ok(Filled::UpToDate) if is_quiet && feed.has_all() => {
                        self.sender.hand_over();
                        self.handed_over = true;
                        return Ok(None);
                    }
                    Ok(filled) => filled,
                    Err(error @ FeedError::Gone { .. }) => return Ok(self.refuse(Refusal::Gone, &error)),
                    Err(error @ (FeedError::Ahead { .. } | FeedError::Forked { .. })) => {
                        return Ok(self.refuse(Refusal::Apart, &error));
                    }
                    Err(FeedError::Io(error)) => return Ok(self.refuse(Refusal::Failed, &error)),
                }
            }
        };
        if filled == Filled::Copied {
            self.sends = Sends::Nothing;
        }
        self.retain(filled);
        self.tell();
        Ok(Some(self.patience(filled)))
    }

    /// Lets go of what the follower has, and notes whether what it needs is kept still.
    fn retain(&mut self, filled: Filled) {
        let Sends::Entries(feed) = &self.sends else { return };
        if filled == Filled::UpToDate {
            self.shared.serving.confirming.keeps_up(self.sender.durable_as_of());
        }
        let needed = [self.sender.undurable_from(), feed.needs()].into_iter().flatten().min();
        let mut kept = self.retained.lock();
        match &mut *kept {
            Some(retained) => {
                retained.note(needed, self.sender.progress().1, filled);
                if retained.bytes().is_none() {
                    *kept = None;
                    tracing::warn!(peer = %self.peer, "the log has gone on without a node that follows; {NEXT}");
                }
            }
            None if filled == Filled::UpToDate => *kept = Some(self.shared.retain()),
            None => {}
        }
    }

    fn patience(&mut self, filled: Filled) -> Duration {
        match filled {
            Filled::Enough => self.rest = REST.0,
            Filled::UpToDate => self.rest = (self.rest * 2).min(self.longest_rest()),
            Filled::NoCredit | Filled::Copied => return Duration::from_millis(200),
        }
        if filled == Filled::Enough { Duration::ZERO } else { self.rest }
    }

    /// Lets more come together, where no confirm waits for what is sent: each look costs as much,
    /// however little is new. How long to wait for the other side after that.
    fn gather(&self, patience: Duration) -> Duration {
        let is_up_to_date = matches!(self.sends, Sends::Entries(_)) && patience <= REST.1;
        if !is_up_to_date || self.asked_to_hand_over || self.shared.serving.confirming.waits() {
            return patience;
        }
        let pause = patience.min(GATHER);
        std::thread::sleep(pause);
        patience.saturating_sub(pause).max(REST.0)
    }

    fn longest_rest(&self) -> Duration {
        if self.shared.serving.confirming.waits() { REST_OF_CONFIRMS } else { REST.1 }
    }

    fn refuse(&mut self, why: Refusal, error: &dyn std::fmt::Display) -> Option<Duration> {
        let words = error.to_string();
        tracing::warn!(peer = %self.peer, "a follower can't go on: {words}");
        self.sender.refuse(why, &words);
        if why != Refusal::Failed {
            *self.retained.lock() = None;
        }
        None
    }

    fn take_place(&mut self, doing: Doing) {
        let Some(other) = &self.other else { return };
        if let Err(error) = self.shared.serving.identity.remember(&other.address) {
            tracing::warn!("the address of a follower can't be kept: {error}");
        }
        let place = self.shared.next.fetch_add(1, Ordering::Relaxed) as u64;
        tracing::info!(peer = %self.peer, node = %other.node, name = other.name, ?doing, "a node follows this one");
        let status = FollowerStatus {
            node: other.node,
            name: other.name.clone(),
            address: self.peer,
            doing,
            entries: 0,
            bytes: 0,
            kept_bytes: 0,
            behind_ms: 0,
        };
        let one = Connected { status, seen: Seen::default(), retained: Arc::clone(&self.retained) };
        self.shared.followers.lock().push((place, one));
        self.place = Some(place);
    }

    /// Notes how far the follower is.
    fn tell(&self) {
        let Sends::Entries(feed) = &self.sends else { return };
        let (sent, reached) = self.sender.progress();
        let durable_as_of = self.sender.durable_as_of();
        let mut followers = self.shared.followers.lock();
        if let Some((_, one)) = followers.iter_mut().find(|(place, _)| Some(*place) == self.place) {
            one.seen = Seen { passed: Some(feed.read()), undurable: sent - reached, durable_as_of };
        }
    }
}

fn invalid(what: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_string())
}

/// The time, in milliseconds since 1970.
pub(crate) fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_millis() as u64)
}
