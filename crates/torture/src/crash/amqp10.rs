//! Clients of AMQP 1.0 over kills of the broker and losses of their connections.
//!
//! One sends, settled and unsettled, to a queue and to a topic; one settles what comes from the
//! queue, and from where its dead letters go, with every outcome; one sends and takes in
//! transactions over two queues; one has a durable and a shared durable subscription of the topic.
//! What they know of each message is in the books, which outlive the broker.

mod books;
mod peer;

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Scope;
use std::time::{Duration, Instant};

use amqp10::client::{Ending, LinkId};

use self::books::{Books, Fate, PLACES, Place, Settling, Tally};
use self::peer::{Answer, GLANCE, Heard, Peer, Wish, name_of};
use crate::random::Random;
use crate::stage::Stage;
use crate::talk::Broken;

/// Messages that the sender leaves unanswered.
const WINDOW: usize = 32;
/// Deliveries of a link that its client leaves unsettled.
const CREDIT: u32 = 8;
/// Messages that a drain asks for at a time.
const DRAIN: u32 = 256;
/// Rounds of a drain in which nothing comes, until there is nothing.
const QUIET: u32 = 3;
/// How long a drain may take until it can attach, and until a round is over.
const PATIENCE: Duration = Duration::from_secs(60);
/// A client leaves after so many turns, on average.
const TURNS: u64 = 300;
/// The container that has the subscriptions.
const SUBSCRIBER: &str = "crash-ten-subscriber";
/// What the sender and the drain need of the subscriptions.
const NEWS: [Place; 2] = [Place::Own, Place::Shared];

/// The load, and what it knows.
#[derive(Debug)]
pub(crate) struct Amqp10Load {
    port: u16,
    books: Mutex<Books>,
    connections: AtomicU64,
    /// At the drain before the last, and at the last; none before the start.
    before: Mutex<[Option<Tally>; 2]>,
}

/// What a client receives.
struct Receiving {
    connection: u64,
    links: Vec<(LinkId, Place)>,
    /// Its deliveries that are not settled.
    held: Vec<(LinkId, u32, Place, u64)>,
    /// Settlements that are not answered.
    asked: HashMap<u32, Settling>,
}

impl Receiving {
    fn new(connection: u64, links: Vec<(LinkId, Place)>) -> Self {
        Self { connection, links, held: Vec::new(), asked: HashMap::new() }
    }

    /// Allows each link as much as its client has room for.
    fn grant(&self, peer: &mut Peer) -> Result<(), Broken> {
        for (link, _) in &self.links {
            let held = self.held.iter().filter(|(from, ..)| from == link).count() as u32;
            peer.grant(*link, CREDIT.saturating_sub(held))?;
        }
        Ok(())
    }

    /// Takes a delivery, or an answer.
    fn take(&mut self, books: &mut Books, heard: &Heard) -> Result<(), Broken> {
        match heard {
            Heard::Delivered(link, id, number, marks) => {
                let place = self.links.iter().find(|(other, _)| other == link).map(|(_, place)| *place);
                let place = place.ok_or_else(|| Broken::Refused("a delivery of no link".to_owned()))?;
                books.delivered(self.connection, place, *number, *marks).map_err(Broken::Refused)?;
                self.held.push((*link, *id, place, *number));
            }
            Heard::Settled(ids) => {
                ids.clone().filter_map(|id| self.asked.remove(&id)).for_each(|ticket| books.echoed(ticket));
            }
            Heard::Answered(..) | Heard::Drained(_) => {}
        }
        Ok(())
    }

    /// Settles the delivery that it holds at this index.
    fn settle(&mut self, peer: &mut Peer, books: &mut Books, at: usize, fate: Fate) -> Result<(), Broken> {
        let (_, id, place, number) = self.held.swap_remove(at);
        if let Some(ticket) = books.settle(place, number, fate) {
            self.asked.insert(id, ticket);
        }
        peer.settle(id, fate)
    }
}

impl Amqp10Load {
    pub(crate) fn new(port: u16) -> Self {
        let (books, before) = (Mutex::default(), Mutex::new([None, Some(Tally::default())]));
        Self { port, books, connections: AtomicU64::new(0), before }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the queues that links do not make, and the subscriptions.
    pub(crate) fn declare(&self, stage: &Stage) -> Result<(), String> {
        stage.control(|control| control.declare_counting(&name_of(Place::Dead), None))?;
        let dead = name_of(Place::Dead);
        stage.control(|control| control.declare_counting(&name_of(Place::Work), Some(&dead)))?;
        self.with_all_links(|_, _, _| Ok(())).map_err(|broken| format!("AMQP 1.0: {broken}"))
    }

    /// The broker was killed, and all clients have left.
    pub(crate) fn killed(&self) {
        self.books().killed();
    }

    /// Plays all its clients, until the broker dies, or until then.
    pub(crate) fn play<'s>(&'s self, scope: &'s Scope<'s, '_>, stage: &'s Stage, random: &mut Random, until: Instant) {
        let clients = [Self::publish, Self::consume, Self::subscribe, Self::transact];
        for (number, client) in clients.into_iter().enumerate() {
            let mut random = random.fork(number as u64);
            scope.spawn(move || client(self, stage, &mut random, until));
        }
    }

    /// Sends, until the broker dies, or until then.
    fn publish(&self, stage: &Stage, random: &mut Random, until: Instant) {
        self.go_on(stage, until, "crash-ten-sender", &[], |peer, _| {
            let open = peer.sender("open", Place::Work)?;
            let settled = peer.sender("settled", Place::Work)?;
            let news = peer.sender("news", Place::Own)?;
            let links = [open, open, settled, news];
            let mut waiting: HashMap<(LinkId, u64), u64> = HashMap::new();
            while goes_on(stage, until, random) {
                while waiting.len() < WINDOW && !random.chance(10) {
                    let link = *random.pick(&links);
                    let places: &[Place] = if link == news { &NEWS } else { &[Place::Work] };
                    let number = self.books().send(places, None);
                    let at = peer.send(link, number, if link == settled { Wish::None } else { Wish::Answer }, None)?;
                    if link != settled {
                        waiting.insert((link, at), number);
                    }
                }
                for heard in peer.exchange()? {
                    let Heard::Answered(link, numbers, answer) = heard else { continue };
                    demand_accepted(&answer)?;
                    let places: &[Place] = if link == news { &NEWS } else { &[Place::Work] };
                    let answered = numbers.filter_map(|at| waiting.remove(&(link, at)));
                    answered.for_each(|number| self.books().accepted(places, number));
                }
            }
            Ok(())
        });
    }

    /// Settles what comes from the queue and from where its dead letters go.
    fn consume(&self, stage: &Stage, random: &mut Random, until: Instant) {
        let places = [Place::Work, Place::Dead];
        self.go_on(stage, until, "crash-ten-consumer", &places, |peer, connection| {
            let mut links = Vec::new();
            for place in places {
                let rest = if random.chance(50) { Fate::Failed } else { Fate::Released };
                links.push((peer.receiver(&name_of(place), place, rest)?, place));
            }
            self.receive(stage, random, until, peer, Receiving::new(connection, links))
        });
    }

    /// Settles what comes to the subscriptions.
    fn subscribe(&self, stage: &Stage, random: &mut Random, until: Instant) {
        self.go_on(stage, until, SUBSCRIBER, &NEWS, |peer, connection| {
            let mut links = Vec::new();
            for (name, place) in [("own", Place::Own), ("shared|1", Place::Shared), ("shared|2", Place::Shared)] {
                links.push((peer.receiver(name, place, Fate::Failed)?, place));
            }
            let ids: Vec<LinkId> = links.iter().map(|(id, _)| *id).collect();
            self.receive(stage, random, until, peer, Receiving::new(connection, links))?;
            if random.chance(50) {
                self.books().left(connection, &NEWS);
                peer.suspend(&ids)?;
            }
            Ok(())
        });
    }

    /// Settles for a while.
    fn receive(
        &self,
        stage: &Stage,
        random: &mut Random,
        until: Instant,
        peer: &mut Peer,
        mut receiving: Receiving,
    ) -> Result<(), Broken> {
        receiving.grant(peer)?;
        while goes_on(stage, until, random) {
            let all = peer.exchange()?;
            let mut books = self.books();
            all.iter().try_for_each(|heard| receiving.take(&mut books, heard))?;
            while !receiving.held.is_empty() && !random.chance(25) {
                let at = random.below(receiving.held.len() as u64) as usize;
                receiving.settle(peer, &mut books, at, some_fate(random))?;
            }
            drop(books);
            if !all.is_empty() {
                receiving.grant(peer)?;
            }
        }
        Ok(())
    }

    /// Sends to two queues and takes from them, in transactions.
    fn transact(&self, stage: &Stage, random: &mut Random, until: Instant) {
        let places = [Place::Left, Place::Right];
        self.go_on(stage, until, "crash-ten-transactor", &places, |peer, connection| {
            let mut links = Vec::new();
            for place in places {
                links.push((peer.receiver(&format!("from {place:?}"), place, Fate::Failed)?, place));
            }
            let coordinator = peer.coordinator()?;
            let mut senders = Vec::new();
            for place in places {
                senders.push((peer.sender(&format!("to {place:?}"), place)?, place));
            }
            let receiving = Receiving::new(connection, links);
            let mut transactor = Transactor { load: self, peer, receiving, senders, coordinator };
            while goes_on(stage, until, random) && transactor.play(random)? == Then::Stay {}
            Ok(())
        });
    }

    /// Connects again and again. The books are told of an end before the socket is dropped.
    fn go_on(
        &self,
        stage: &Stage,
        until: Instant,
        container: &str,
        places: &[Place],
        mut talk: impl FnMut(&mut Peer, u64) -> Result<(), Broken>,
    ) {
        while !stage.is_dying() && Instant::now() < until {
            let connection = self.connections.fetch_add(1, Ordering::Relaxed);
            let outcome = Peer::open(self.port, container).and_then(|mut peer| {
                let outcome = talk(&mut peer, connection);
                self.books().left(connection, places);
                outcome
            });
            match outcome {
                Ok(()) => {}
                // The broker's death may be seen here first.
                Err(Broken::Lost(_)) => std::thread::sleep(GLANCE),
                Err(broken @ Broken::Refused(_)) if !stage.is_dying() => {
                    return stage.report(container, &broken);
                }
                Err(Broken::Refused(_)) => return,
            }
        }
    }

    /// The broker lives, and no client is there: all comes that there is, and nothing is missing.
    ///
    /// # Errors
    /// If something is, or if nothing was done since the drain before the last.
    pub(crate) fn drain(&self) -> Result<(), String> {
        let drained = self.with_all_links(|peer, connection, links| {
            let mut receiving = Receiving::new(connection, links.to_vec());
            let mut quiet = 0;
            while quiet < QUIET {
                quiet = if self.drain_once(peer, &mut receiving)? == 0 { quiet + 1 } else { 0 };
                std::thread::sleep(GLANCE);
            }
            self.books().finish().map_err(Broken::Refused)
        });
        drained.map_err(|broken| format!("AMQP 1.0: {broken}"))
    }

    /// A load that does nothing proves nothing. On a busy machine the lives between two drains can
    /// be too short for what is rare, so two of them count together.
    pub(crate) fn alive(&self) -> Result<(), String> {
        let now = self.books().tally;
        let mut tallies = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        let [before, last] = *tallies;
        *tallies = [last, Some(now)];
        let Some(before) = before else { return Ok(()) };
        let idle = now.each().into_iter().zip(before.each()).find(|((_, now), (_, before))| now == before);
        idle.map_or(Ok(()), |((what, _), _)| {
            Err(format!("AMQP 1.0: nothing was {what} since the drain before the last"))
        })
    }

    /// Takes all that there is now. Returns how much that was.
    fn drain_once(&self, peer: &mut Peer, receiving: &mut Receiving) -> Result<usize, Broken> {
        let mut open = BTreeSet::new();
        for (at, (link, _)) in receiving.links.iter().enumerate() {
            peer.fetch(*link, DRAIN)?;
            open.insert(at);
        }
        let (end, mut count) = (Instant::now() + PATIENCE, 0);
        while !open.is_empty() || !receiving.asked.is_empty() {
            if Instant::now() > end {
                return Err(Broken::Refused(format!("a drain did not end within {PATIENCE:?}")));
            }
            for heard in peer.exchange()? {
                if let Heard::Drained(link) = heard {
                    open.retain(|at| receiving.links[*at].0 != link);
                }
                receiving.take(&mut self.books(), &heard)?;
            }
            while !receiving.held.is_empty() {
                receiving.settle(peer, &mut self.books(), 0, Fate::Accepted)?;
                count += 1;
            }
        }
        Ok(count)
    }

    /// Attaches to all places, does this, and detaches without an end of the subscriptions.
    fn with_all_links(
        &self,
        action: impl Fn(&mut Peer, u64, &[(LinkId, Place)]) -> Result<(), Broken>,
    ) -> Result<(), Broken> {
        let end = Instant::now() + PATIENCE;
        let (mut peer, links) = loop {
            match self.all_links() {
                Err(Broken::Lost(_)) if Instant::now() < end => std::thread::sleep(GLANCE),
                outcome => break outcome?,
            }
        };
        let connection = self.connections.fetch_add(1, Ordering::Relaxed);
        let outcome = action(&mut peer, connection, &links);
        self.books().left(connection, &PLACES);
        outcome?;
        let ids: Vec<LinkId> = links.iter().map(|(id, _)| *id).collect();
        peer.suspend(&ids)
    }

    fn all_links(&self) -> Result<(Peer, Vec<(LinkId, Place)>), Broken> {
        let mut peer = Peer::open(self.port, SUBSCRIBER)?;
        let mut links = Vec::new();
        for place in PLACES {
            let name = match place {
                Place::Own => "own".to_owned(),
                Place::Shared => "shared|1".to_owned(),
                other => format!("{other:?}"),
            };
            links.push((peer.receiver(&name, place, Fate::Released)?, place));
        }
        Ok((peer, links))
    }
}

/// Whether a transactor goes on behind a transaction.
#[derive(Debug, PartialEq, Eq)]
enum Then {
    Stay,
    Leave,
}

/// A client that sends and takes in transactions.
struct Transactor<'a> {
    load: &'a Amqp10Load,
    peer: &'a mut Peer,
    receiving: Receiving,
    senders: Vec<(LinkId, Place)>,
    coordinator: LinkId,
}

impl Transactor<'_> {
    /// Plays one transaction.
    fn play(&mut self, random: &mut Random) -> Result<Then, Broken> {
        self.receiving.grant(self.peer)?;
        self.peer.declare(self.coordinator)?;
        let answer = self.answer()?;
        let Answer::Declared(name) = answer else {
            return Err(Broken::Refused(format!("a declare was answered by {answer:?}")));
        };
        let id = self.load.books().begin(self.receiving.connection);
        for _ in 0..random.within(0..=3) {
            let (link, place) = *random.pick(&self.senders);
            let number = self.load.books().send(&[place], Some(id));
            let wish = if random.chance(30) { Wish::None } else { Wish::Answer };
            self.peer.send(link, number, wish, Some(&name))?;
        }
        for _ in 0..random.within(0..=4) {
            let Some((_, delivery, place, number)) = self.receiving.held.pop() else { break };
            self.load.books().accept_in(id, place, number);
            self.peer.accept_in(delivery, &name)?;
        }
        match random.below(100) {
            0..5 => {
                self.hear()?;
                return Ok(Then::Leave);
            }
            5..25 => {
                let undone = self.load.books().ask_rollback(id);
                self.end(&name, Ending::Rollback)?;
                self.load.books().rolled_back(&undone);
            }
            _ => {
                self.load.books().ask_commit(id);
                self.end(&name, Ending::Commit)?;
                self.load.books().committed(id);
            }
        }
        Ok(Then::Stay)
    }

    fn end(&mut self, name: &[u8], ending: Ending) -> Result<(), Broken> {
        self.peer.discharge(self.coordinator, name, ending)?;
        demand_accepted(&self.answer()?)
    }

    /// Waits for the coordinator's answer.
    fn answer(&mut self) -> Result<Answer, Broken> {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if let Some(answer) = self.hear()? {
                return Ok(answer);
            }
        }
        Err(Broken::Refused(format!("no answer of the coordinator within {PATIENCE:?}")))
    }

    /// Hears what there is, of which the coordinator's answer is returned.
    fn hear(&mut self) -> Result<Option<Answer>, Broken> {
        let mut found = None;
        for heard in self.peer.exchange()? {
            match heard {
                Heard::Answered(link, _, answer) if link == self.coordinator => found = Some(answer),
                Heard::Answered(_, _, answer) => demand_accepted(&answer)?,
                other => self.receiving.take(&mut self.load.books(), &other)?,
            }
        }
        Ok(found)
    }
}

fn demand_accepted(answer: &Answer) -> Result<(), Broken> {
    if *answer == Answer::Accepted {
        return Ok(());
    }
    Err(Broken::Refused(format!("something was not accepted: {answer:?}")))
}

fn goes_on(stage: &Stage, until: Instant, random: &mut Random) -> bool {
    !stage.is_dying() && Instant::now() < until && random.below(TURNS) > 0
}

fn some_fate(random: &mut Random) -> Fate {
    match random.below(100) {
        0..55 => Fate::Accepted,
        55..65 => Fate::Released,
        65..75 => Fate::Rejected,
        75..85 => Fate::Failed,
        85..90 => Fate::Elsewhere,
        _ => Fate::Noted(random.within(1..=1_000_000)),
    }
}

impl std::fmt::Display for Amqp10Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tally = self.books().tally;
        let parts: Vec<String> = tally.each().iter().map(|(what, count)| format!("{count} {what}")).collect();
        write!(f, "AMQP 1.0: {}", parts.join(", "))
    }
}
