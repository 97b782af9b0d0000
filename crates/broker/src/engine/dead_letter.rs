//! Dead letters: messages that move to their queue's dead-letter exchange, as new messages with the
//! history of their deaths.
//!
//! Each hop is a group: the settlement in the old queue and the arrivals in the new ones happen
//! together. So a crash neither loses nor doubles the message, and the arrivals are visible once
//! the group is durable. A hop is not taken if it closes a cycle without a rejection in it, or
//! would exceed the message's moves ([`crate::message::annotations::MOVES`]).
//!
//! Invariant: a run ends with the message that spends its [`Budget`]. While memory is full,
//! messages move to several queues as long as memory does not grow by it, and otherwise in one run
//! in a second. The rest waits ([`crate::engine::dead_letter::postponed`]), and the reason of each
//! death is logged first unless a start finds it out by itself.

mod made;
pub(crate) mod postponed;

use std::sync::Arc;

use journal::{Admission, Group, Ticket};

use crate::arguments::QueueArguments;
use crate::arguments::dead_letters::DeadLetters;
use crate::catalog::Unrouted;
use crate::engine::bounds::{STEPS_PER_ENTRY, STORED_BESIDES, TURN_ENTRIES};
use crate::engine::dead_letter::postponed::{LIKELY_BYTES, Pick};
use crate::engine::sealed::{Sealed, hide_arrivals, release_holds};
use crate::engine::{Engine, Move};
use crate::message::annotations::{Annotations, Death, merge};
use crate::message::cc::{CC, Copies, named_keys};
use crate::message::{Arena, Head, Message};
use crate::queue::arrival::{Arrival, Work};
use crate::queue::dropped::{MissingTarget, Nowhere};
use crate::queue::{Dying, MessageIdentity, Queue, Reason, Visit};
use crate::routing::{Envelope, STEPS};

/// Messages moved in one group at most.
const CHUNK: usize = 64;
/// Bytes moved at once while the log is full, but at least one message.
const RESERVED: usize = 64 << 10;
/// Bytes of keys from `CC` in the history of one death, so that a long list leaves room for more
/// deaths.
const COPIED_KEYS: usize = 1 << 10;

/// The message of the next hop, its queues, and its identity for deduplication there.
type Hop = (Message, Vec<Arc<Queue>>, Option<Box<MessageIdentity>>);

/// So many deaths are logged before the queue and the log are free for others in between.
const DECIDED_AT_ONCE: usize = 1000;

/// Messages moved in one group, and entries of a run, while memory is full: copies leave it before
/// there are more.
const CHUNK_WHILE_FULL: usize = 16;
const ENTRIES_WHILE_FULL: usize = 2000;
/// The part of the memory limit by which memory may grow while it is full, for copies that die.
const GROWTH: usize = 16;
/// The bytes by which it may grow at least, which some chunks with all their copies take.
const LEAST_GROWTH: usize = 1 << 20;

/// Whether a run moves messages to several queues, which takes more memory than it frees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Several {
    /// They wait.
    Wait,
    /// While memory is not full.
    WithRoom,
    /// The same, and then as far as [`postponed`] allows.
    Asking,
    /// Even if memory is full.
    Always,
}

/// How many more entries a run may make of dead letters: as many as a turn. Its last message may
/// exceed it.
#[derive(Debug)]
pub(crate) struct Budget {
    left: usize,
    /// Some message has moved, or will when it has been read.
    has_moved: bool,
    several: Several,
    /// Once these are durable, all that moved is in its queues.
    reached: Vec<Ticket>,
}

impl Budget {
    pub(crate) fn of_a_run() -> Self {
        Self { left: TURN_ENTRIES, has_moved: false, several: Several::WithRoom, reached: Vec::new() }
    }

    fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// True when postponed dead letters can go on at once: this run moved some and has spent its
    /// budget.
    fn goes_on(&self) -> bool {
        self.is_spent() && self.has_moved
    }

    /// What moved is in its queues once this is durable.
    fn reach(&mut self, ticket: Ticket) {
        match self.reached.last_mut() {
            Some(last) if last.log() == ticket.log() => *last = ticket,
            _ if ticket.is_none() => {}
            _ => self.reached.push(ticket),
        }
    }

    fn charge(&mut self, entries: usize) {
        self.left = self.left.saturating_sub(entries.max(1));
    }
}

/// The dead letters of a chunk whose exchange or queue is not there.
#[derive(Debug, Default)]
struct Missing {
    count: u64,
    last: Option<MissingTarget>,
}

impl Missing {
    #[cold]
    fn note(&mut self, why: Nowhere, way: Option<&DeadLetters>, message: &Message, now: u64) {
        let Some(way) = way else { return };
        let key = way.routing_key.as_deref().unwrap_or_else(|| message.routing_key());
        if let Some(missing) = MissingTarget::of(why, (&way.exchange, key), now) {
            self.count += 1;
            self.last = Some(missing);
        }
    }
}

/// Logs that these die, so that a start does not bring them back. Expired ones need no record.
fn decide_all(queue: &Queue, dying: &[Dying], engine: &Engine) {
    for some in dying.chunks(DECIDED_AT_ONCE) {
        queue.decide(some.iter().filter(|dead| dead.reason != Reason::Expired), engine);
    }
}

impl Engine {
    /// Moves dead messages on, or postpones them.
    pub(crate) fn dead_letter(&self, queue: &Arc<Queue>, dying: Vec<Dying>, budget: &mut Budget, work: &mut Vec<Work>) {
        let mut dying = dying;
        let mut waits = self.postponed.lock().has(queue) || self.lacks_queue(queue);
        while !waits && !dying.is_empty() && !budget.is_spent() && self.journal.admission() != Admission::Closed {
            let rest = dying.split_off(dying.len().min(CHUNK));
            let mut left = self.move_read(queue, std::mem::replace(&mut dying, rest), budget, work);
            waits = !left.is_empty();
            left.append(&mut dying);
            dying = left;
        }
        if !dying.is_empty() {
            self.postpone(queue, dying);
            self.go_on_soon(budget);
        }
    }

    /// Dead letters that wait for room are tried from time to time. Those that wait for the next
    /// run are tried after the other work.
    fn go_on_soon(&self, budget: &Budget) {
        if budget.goes_on() {
            self.housekeeper.wake();
        }
    }

    /// Moves some of the postponed dead letters on. True when more can go on.
    ///
    /// Half of the run is for messages that go to one queue, each queue in turn: none of them waits
    /// for all copies of another. The other half is for all, those first that can have the fewest
    /// copies.
    pub(crate) fn retry_postponed(&self, work: &mut Vec<Work>) -> bool {
        let mut budget = Budget::of_a_run();
        if self.journal.admission() == Admission::Closed {
            self.retry_reserved(&mut budget, work);
            return false;
        }
        budget.several = Several::Wait;
        self.retry(Pick::Unsplit, TURN_ENTRIES / 2, &mut budget, work);
        budget.several = Several::Asking;
        if self.memory.is_full() {
            budget.left = budget.left.min(ENTRIES_WHILE_FULL);
        } else {
            self.postponed.lock().has_room();
        }
        let are_copies_there = self.postponed.lock().are_copies_there(|ticket| self.journal.is_durable(ticket));
        if are_copies_there {
            self.retry(Pick::FewestCopies, 0, &mut budget, work);
            self.postponed.lock().moved(&budget.reached);
        }
        budget.goes_on()
    }

    /// Moves postponed ones on until so much of the budget is left.
    fn retry(&self, pick: Pick, keep: usize, budget: &mut Budget, work: &mut Vec<Work>) {
        let mut stuck = Vec::new();
        while budget.left > keep && self.journal.admission() != Admission::Closed {
            let count = if self.memory.is_full() { CHUNK_WHILE_FULL } else { CHUNK };
            let next = self.postponed.lock().next(pick, count, usize::MAX);
            let Some((turn, chunk)) = next else { break };
            let left =
                if self.must_wait(&turn.queue) { chunk } else { self.move_read(&turn.queue, chunk, budget, work) };
            if left.is_empty() {
                self.postponed.lock().end_turn(turn);
            } else {
                self.postponed.lock().keep(&turn, left);
                stuck.push(turn);
            }
            // What dies of these goes before the next.
            self.run_work_within(budget, work, &mut |_| {});
        }
        stuck.into_iter().for_each(|turn| self.postponed.lock().end_turn(turn));
    }

    /// True while no dead letter of a queue can move. Only one batch of a queue is read from the
    /// disk at a time, and the rest waits until it has moved.
    fn must_wait(&self, queue: &Arc<Queue>) -> bool {
        queue.awaits_read() || self.lacks_queue(queue)
    }

    /// Moves a few on while the log is full. They may be all that keeps its oldest file, and then
    /// no room would ever come by itself. A move frees as much as it appends, if not at once. So it
    /// is taken from the reserve while there is one.
    fn retry_reserved(&self, budget: &mut Budget, work: &mut Vec<Work>) {
        let journal = self.journal.stats();
        if journal.used_bytes >= journal.max_bytes {
            return;
        }
        budget.several = Several::Asking;
        let mut postponed = self.postponed.lock();
        let unsplit = postponed.next(Pick::Unsplit, CHUNK, RESERVED);
        let next = unsplit.or_else(|| postponed.next(Pick::FewestCopies, CHUNK, RESERVED));
        drop(postponed);
        let Some((turn, chunk)) = next else { return };
        let left = if self.must_wait(&turn.queue) { chunk } else { self.move_read(&turn.queue, chunk, budget, work) };
        let mut postponed = self.postponed.lock();
        postponed.keep(&turn, left);
        postponed.end_turn(turn);
    }

    /// Whether a message may go to several queues, which takes more memory than it frees. Postponed
    /// messages may be all that fills the memory, and nothing else would make room. So they go on
    /// while copies leave as fast as they come, and once in a while all the same.
    fn may_take_more(&self, budget: &mut Budget, now: u64) -> bool {
        match budget.several {
            Several::Wait => return false,
            Several::Always => return true,
            Several::WithRoom | Several::Asking if !self.memory.is_full() => return true,
            Several::WithRoom => return false,
            Several::Asking => {}
        }
        let mut postponed = self.postponed.lock();
        let growth = (self.memory.limit() / GROWTH).max(LEAST_GROWTH);
        if postponed.may_grow(self.memory.total(), growth, now) {
            return true;
        }
        if postponed.has_run_while_full(now) {
            budget.several = Several::Always;
        }
        budget.several == Several::Always
    }

    /// Moves some, after a read if only the disk has them; none overtakes those that wait for a
    /// read. Returns those that have to wait.
    fn move_read(
        &self,
        queue: &Arc<Queue>,
        chunk: Vec<Dying>,
        budget: &mut Budget,
        work: &mut Vec<Work>,
    ) -> Vec<Dying> {
        if queue.awaits_read() || chunk.iter().any(|dead| dead.message.is_none()) {
            // A rejection is answered before the message has moved, and its consumer must not get
            // it again. So this death is logged now.
            queue.decide(chunk.iter().filter(|dead| dead.reason == Reason::Rejected), self);
            budget.charge(chunk.len());
            budget.has_moved = true;
            self.pager.await_read(Arc::clone(queue), chunk);
            return Vec::new();
        }
        self.move_chunk(queue, chunk, budget, work)
    }

    /// Reads dead letters and moves them on. Earlier reads may have left less room than there was;
    /// then all of them are postponed, and few at a time go on. Returns whether any have moved.
    pub(crate) fn move_unread(&self, queue: &Arc<Queue>, dying: Vec<Dying>, work: &mut Vec<Work>) -> bool {
        let many = dying.len() > RESERVED / LIKELY_BYTES && self.journal.admission() == Admission::Closed;
        if many {
            self.postpone_unread(queue, dying);
            self.housekeeper.wake();
            return false;
        }
        let mut budget = Budget { several: Several::Asking, ..Budget::of_a_run() };
        let read = self.read_dying(queue, dying.clone());
        let left = self.move_chunk(queue, read, &mut budget, work);
        if let Some(first) = left.first() {
            // Postpones them as they were before the read: a message that is on disk must not wait
            // in memory.
            self.postpone_unread(queue, dying.into_iter().skip_while(|dead| dead.seq != first.seq).collect());
        }
        budget.has_moved
    }

    /// Postpones dead letters that could not move, and takes those that wait for a read behind them
    /// along. All of these are older than the ones that wait already.
    fn postpone_unread(&self, queue: &Arc<Queue>, mut dying: Vec<Dying>) {
        decide_all(queue, &dying, self);
        let mut postponed = self.postponed.lock();
        dying.extend(self.pager.take_awaiting_read(queue));
        postponed.push_front(queue, dying);
    }

    /// Postpones the move, and logs the decision.
    fn postpone(&self, queue: &Arc<Queue>, dying: Vec<Dying>) {
        decide_all(queue, &dying, self);
        self.postponed.lock().push(queue, dying);
    }

    /// Moves some whose messages are in memory. Those that the log can't take stay, dying, until a
    /// start with a larger one. Returns the last ones of the chunk, which have to wait. Either the
    /// budget is spent, or memory is full and the next one goes to several queues, which takes more
    /// memory than it frees.
    fn move_chunk(
        &self,
        queue: &Arc<Queue>,
        chunk: Vec<Dying>,
        budget: &mut Budget,
        work: &mut Vec<Work>,
    ) -> Vec<Dying> {
        let now = self.clock.unix_ms();
        let mut arena = Arena::of_few(chunk.iter().filter_map(|dead| dead.message.as_ref()).map(Message::cost).sum());
        let mut arrivals = Vec::with_capacity(chunk.len());
        let mut targets = Vec::with_capacity(chunk.len());
        let (mut leave, mut stay) = (Vec::with_capacity(chunk.len()), Vec::new());
        let arguments = queue.arguments(self);
        let (mut wait, mut missing) = (Vec::new(), Missing::default());
        let mut chunk = chunk.into_iter();
        while let Some(dead) = chunk.next() {
            let stays = budget.is_spent() || !self.has_queue_for(queue, &arguments, dead.reason, now);
            let hop = (!stays).then(|| self.next_hop((queue, &arguments), &dead, now, &mut arena, budget));
            let takes_more = |hop: &Result<Hop, _>| hop.as_ref().is_ok_and(|(_, queues, _)| queues.len() > 1);
            let Some(hop) = hop.filter(|hop| !takes_more(hop) || self.may_take_more(budget, now)) else {
                wait.push(dead);
                wait.extend(chunk);
                break;
            };
            if hop.as_ref().is_ok_and(|(message, queues, _)| self.is_too_large(message, queues)) {
                self.tell_too_large(queue, &dead);
                stay.push(dead);
                continue;
            }
            self.totals.deaths.dead_lettered[dead.reason as usize].add(1);
            match hop {
                Ok((message, queues, identity)) => {
                    let mut arrival = Arrival::of_broker(message);
                    arrival.identity = identity;
                    arrivals.push(arrival);
                    targets.push(queues);
                }
                Err(why) => {
                    self.totals.deaths.dead_letters_dropped[why.kind()].add(1);
                    if let Some(message) = &dead.message {
                        missing.note(why, arguments.dead_letters.of(dead.reason), message, now);
                        self.note_unroutable(&queue.vhost, Some((&queue.name, why)), message, now);
                    }
                }
            }
            leave.push(dead);
        }
        if let Some(last) = missing.last {
            queue.note_missing(missing.count, last, self);
        }
        if !stay.is_empty() {
            // A consumer that rejected one must not get it again after a restart.
            queue.decide(stay.iter(), self);
        }
        let are_logged = leave.iter().any(|dead| dead.durable);
        let mut visit = Visit { context: self, now, work };
        // A crash before the group is durable lets the message die once more. Had it been
        // delivered, it would come again as new.
        if !leave.is_empty() {
            budget.has_moved = true;
            let leave = |group| queue.settle_dead(&leave, group, self);
            let moved = Move { log: queue.log(), arrivals, targets: &targets, are_logged };
            budget.reach(self.move_together(moved, &leave, &mut visit));
        }
        wait
    }

    /// True for a durable message that is larger than the log now allows. It was published when the
    /// log's files were larger.
    pub(crate) fn is_too_large(&self, message: &Message, targets: &[Arc<Queue>]) -> bool {
        let large = message.persistent() && message.block().len() > self.journal.max_body() as usize;
        large && targets.iter().any(|queue| queue.logged())
    }

    /// Reports a message of `queue` that is too large to move.
    pub(crate) fn tell_too_large(&self, queue: &Queue, dead: &Dying) {
        let (name, vhost, largest) = (&queue.name, &queue.vhost, self.journal.max_body());
        let bytes = dead.message.as_ref().map_or(0, |message| message.block().len());
        self.pager.tell(format!(
            "queue '{name}' in vhost '{vhost}': a message of {bytes} bytes can't move on and waits, since the log takes \
             {largest} at most, less than when it was published; raise journal.max_bytes, or make room on its disk, and \
             start again"
        ));
    }

    /// Messages leave one queue and arrive in others of the same log, all in one group; `leave`
    /// settles them in the old one. They are visible once the group is durable. Returns the group's
    /// ticket.
    pub(crate) fn move_together(
        &self,
        moved: Move<'_>,
        leave: &dyn Fn(Option<Group>),
        visit: &mut Visit<'_>,
    ) -> Ticket {
        let Move { log, mut arrivals, targets, are_logged } = moved;
        let durable = are_logged || arrivals.iter().any(|arrival| arrival.message().persistent());
        let written = self.write_group(log, targets);
        let group = durable.then(|| self.journal.appender(log).begin_group());
        let hidden = hide_arrivals(&mut arrivals, targets, group, visit);
        leave(group);
        let mut ticket = Ticket::NONE;
        if let Some(group) = group {
            let mut appender = self.journal.appender(log);
            appender.end_group(group);
            ticket = appender.ticket();
        }
        drop(written);
        release_holds(&arrivals, log, self);
        let sealed = Sealed { hidden, ..Sealed::nothing(ticket) };
        if ticket.is_none() {
            sealed.reveal(visit);
        } else {
            self.wait_for_sealed(sealed);
        }
        ticket
    }

    /// The message of the next hop and its queues, or why it goes nowhere.
    fn next_hop(
        &self,
        (queue, arguments): (&Queue, &QueueArguments),
        dead: &Dying,
        now: u64,
        arena: &mut Arena,
        budget: &mut Budget,
    ) -> Result<Hop, Nowhere> {
        budget.charge(1);
        let way = arguments.dead_letters.of(dead.reason).ok_or(Nowhere::NoWay)?;
        let message = dead.message.as_ref().ok_or(Nowhere::NoWay)?;
        // A routing key of the queue's arguments replaces all keys of the message, also at its next
        // death.
        let (key, copies) = match (way.routing_key.as_deref(), message.copies()) {
            (None, copies) => (message.routing_key(), copies),
            (Some(key), Copies::None) => (key, Copies::None),
            (Some(key), _) => (key, Copies::Spent),
        };
        let read = || self.dialects.read_message(message).ok();
        let mut annotations = self.marks_after(queue, message, dead, now);
        let vhost = self.catalog.vhost(&queue.vhost).ok_or(Nowhere::NoWay)?;
        let envelope = Envelope::new(key, copies, &read);
        let routed = vhost.tables.read().route(&way.exchange, &envelope);
        let (steps, entries) = routed.as_ref().map_or((STEPS, 0), |routing| (routing.steps, routing.queues.len()));
        budget.charge(entries + steps as usize / STEPS_PER_ENTRY);
        let mut routing = routed.map_err(|why| match why {
            Unrouted::NoExchange => Nowhere::NoExchange,
            Unrouted::TooMuch { .. } => Nowhere::OutOfSteps,
        })?;
        if routing.queues.is_empty() {
            return Err(Nowhere::NoQueue);
        }
        {
            let cycles = annotations.cycles();
            routing.queues.retain(|target| !cycles.contains(&*target.name));
        }
        if routing.queues.is_empty() {
            return Err(Nowhere::Circle);
        }
        if !annotations.share_moves(routing.queues.len()) {
            return Err(Nowhere::OutOfMoves);
        }
        let (queues, identity) = match message.instructed() {
            // Its instructions were valid when it was published.
            true => {
                let published_at = (!message.was_delayed()).then_some(now);
                self.apply_scheduling(&mut routing, envelope.headers(), published_at, now)
                    .map_err(|_| Nowhere::NoWay)?
            }
            false => (routing.queues, None),
        };
        let identity = identity.map(|identity| identity.returning(&queues, &annotations.queues()));
        let encoded = encoded(&annotations).ok_or(Nowhere::NoWay)?;
        let head = Head {
            dialect: message.dialect(),
            persistent: message.persistent(),
            priority: message.given_priority(),
            published_at: now,
            expiration: None,
            copies,
            instructed: message.instructed(),
            delayed: message.was_delayed(),
            exchange: &way.exchange,
            routing_key: key,
            properties: message.properties(),
            annotations: &encoded,
            publisher: message.publisher(),
        };
        Ok((arena.add(&head, message.body()), queues, identity))
    }

    fn marks_after(&self, queue: &Queue, message: &Message, dead: &Dying, now: u64) -> Annotations {
        let read = || self.dialects.read_message(message).ok();
        // A history that a client wrote, or that comes from another broker, is a plain header.
        let mut annotations = message.annotations().unwrap_or_default();
        // A long key is kept of the first death alone, which a redrive goes back to.
        let key = message.routing_key();
        let keeps_key = key.len() <= COPIED_KEYS || annotations.deaths.is_empty();
        let mut routing_keys = if keeps_key { vec![key.to_owned()] } else { Vec::new() };
        if message.copies() == Copies::Named
            && let Some(properties) = read()
        {
            let mut left = COPIED_KEYS;
            let fits = |key: &&str| {
                let fits = key.len() <= left;
                left -= key.len().min(left);
                fits
            };
            routing_keys.extend(named_keys(&properties.headers, CC).take_while(fits).map(str::to_owned));
        }
        annotations.record(Death {
            queue: queue.name.to_string(),
            reason: dead.reason,
            exchange: message.exchange().to_owned(),
            routing_keys,
            count: 1,
            time: now / 1000,
            original_expiration: message.expiration(),
        });
        if let Some(said) = &dead.said {
            annotations.say(said);
        }
        if let Some(noted) = &dead.noted {
            merge(&mut annotations.noted, noted);
        }
        annotations
    }
}

/// The annotations as they are stored; `None` if they are too long for that. A publish has left
/// room for the long key of the first death, and for what a consumer said.
fn encoded(annotations: &Annotations) -> Option<Vec<u8>> {
    let mut encoded = Vec::new();
    annotations.encode(&mut encoded);
    let keys = annotations.deaths.iter().flat_map(|death| &death.routing_keys);
    let long: usize = keys.map(String::len).filter(|length| *length > COPIED_KEYS).sum();
    let beside = long + annotations.said.as_ref().map_or(0, String::len);
    ((encoded.len() - beside) as u64 <= STORED_BESIDES / 2).then_some(encoded)
}
