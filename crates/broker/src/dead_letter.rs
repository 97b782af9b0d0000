//! Where dead messages go: to their queue's dead-letter exchange, as new messages that carry the story of their deaths.
//!
//! Each hop is a group: the settlement in the old queue and the arrivals in the new ones happen together, so a crash
//! neither loses nor doubles the message; the arrivals are visible once the group is durable. A hop that closes a cycle
//! without a rejection in it is not taken, nor one that would multiply a message beyond its share of moves
//! ([`crate::message::marks::MOVES`]).

use std::sync::Arc;

use journal::{Admission, Group, Ticket};

use crate::catalog::arguments::QueueArguments;
use crate::core::Core;
use crate::message::copies::{CC, Copies, named_keys};
use crate::message::marks::{Death, Marks};
use crate::message::{Arena, Head, Message};
use crate::queue::{Dying, Identity, Queue, Reason, Visit};
use crate::routing::Envelope;
use crate::session::publish::{STORED_BESIDES, release_holds};
use crate::session::transaction::{Sealed, hide_arrivals};
use crate::session::turn::{Arrival, Work};

/// Messages moved in one group at most.
const CHUNK: usize = 64;
/// Bytes moved at once while the log is full, but at least one message.
const RESERVED: usize = 64 << 10;
/// What a message is taken to be long that only the disk has.
const LIKELY_BYTES: usize = 4 << 10;
/// Bytes of keys from `CC` that the story of one death tells, so that a long list leaves room for more deaths.
const COPIED_KEYS: usize = 1 << 10;

/// A message as it goes on, where to, and what makes it a duplicate there.
type Hop = (Message, Vec<Arc<Queue>>, Option<Box<Identity>>);

/// Takes the next few of what waits: the oldest messages of the oldest entry.
pub(crate) fn next_postponed(postponed: &mut Vec<Work>) -> Option<(Arc<Queue>, Vec<Dying>)> {
    let Some(Work::DeadLetter { queue, dying }) = postponed.first_mut() else { return None };
    let queue = Arc::clone(queue);
    let mut bytes = 0;
    let fits = dying.iter().take(CHUNK).take_while(|dead| {
        bytes += dead.message.as_ref().map_or(LIKELY_BYTES, Message::cost);
        bytes <= RESERVED
    });
    let count = fits.count().max(1).min(dying.len());
    let chunk: Vec<_> = dying.drain(..count).collect();
    if dying.is_empty() {
        postponed.remove(0);
    }
    Some((queue, chunk))
}

impl Core {
    /// Moves dead messages on, or notes why they must wait.
    pub(crate) fn dead_letter(&self, queue: &Arc<Queue>, dying: Vec<Dying>, work: &mut Vec<Work>) {
        // Not held back by the memory alarm: a move takes no more memory than it gives.
        let mut dying = dying;
        while !dying.is_empty() {
            if self.journal.admission() == Admission::Closed {
                return self.postpone(queue, dying);
            }
            let rest = dying.split_off(dying.len().min(CHUNK));
            self.move_read(queue, std::mem::replace(&mut dying, rest), work);
        }
    }

    /// Moves some, after they have been read if the disk has them. Nothing overtakes what waits for that.
    pub(crate) fn move_read(&self, queue: &Arc<Queue>, chunk: Vec<Dying>, work: &mut Vec<Work>) {
        if queue.mourns() || chunk.iter().any(|dead| dead.message.is_none()) {
            // Who rejected one is answered before it has moved, and must not get it again: that it dies is logged now.
            queue.decide(chunk.iter().filter(|dead| dead.reason == Reason::Rejected), self);
            self.pager.mourn(Arc::clone(queue), chunk);
        } else {
            self.move_chunk(queue, chunk, work);
        }
    }

    /// Reads dead letters and moves them on. All that were asked for before may have left less room than there was; then only
    /// few at a time go on, as they are taken from what waits.
    pub(crate) fn move_unread(&self, queue: &Arc<Queue>, dying: Vec<Dying>, work: &mut Vec<Work>) {
        if dying.len() > RESERVED / LIKELY_BYTES && self.journal.admission() == Admission::Closed {
            self.postpone(queue, dying);
            self.housekeeper.wake();
            return;
        }
        let dying = self.read_dying(queue, dying);
        self.move_chunk(queue, dying, work);
    }

    /// There is no room for new records of this size: the decision is logged, the move waits.
    fn postpone(&self, queue: &Arc<Queue>, dying: Vec<Dying>) {
        queue.decide(dying.iter(), self);
        self.waiting.lock().postponed.push(Work::DeadLetter { queue: Arc::clone(queue), dying });
    }

    /// Moves some whose messages are in memory. Those that the log can't take stay, dying, until a start with a larger one.
    pub(crate) fn move_chunk(&self, queue: &Arc<Queue>, chunk: Vec<Dying>, work: &mut Vec<Work>) {
        let now = self.clock.unix_ms();
        let mut arena = Arena::default();
        let mut arrivals = Vec::with_capacity(chunk.len());
        let mut targets = Vec::with_capacity(chunk.len());
        let (mut leave, mut stay) = (Vec::with_capacity(chunk.len()), Vec::new());
        let arguments = queue.arguments(self);
        for dead in chunk {
            let hop = self.next_hop((queue, &arguments), &dead, now, &mut arena);
            if hop.as_ref().is_some_and(|(message, queues, _)| self.is_too_large(message, queues)) {
                self.tell_too_large(queue, &dead);
                stay.push(dead);
                continue;
            }
            self.totals.dead_lettered[dead.reason as usize].add(1);
            if let Some((message, queues, identity)) = hop {
                let mut arrival = Arrival::new(message, false, 0, 0);
                arrival.identity = identity;
                arrivals.push(arrival);
                targets.push(queues);
            } else {
                self.totals.dead_letters_dropped.add(1);
                if let Some(message) = &dead.message {
                    self.note_unroutable(&queue.vhost, Some(&queue.name), message, now);
                }
            }
            leave.push(dead);
        }
        if !stay.is_empty() {
            // Whoever rejected one must not get it again after a restart.
            queue.decide(stay.iter(), self);
        }
        let durable = leave.iter().any(|dead| dead.durable);
        let mut visit = Visit { core: self, now, work };
        // A crash before it is durable lets the message die once more: had it been delivered, it would come again as new.
        self.move_together(arrivals, &targets, durable, &|group| queue.bury(&leave, group, self), &mut visit);
    }

    /// True for a message that these queues would have in the log, which has become too small for it: it was published when
    /// the log's files were larger.
    pub(crate) fn is_too_large(&self, message: &Message, targets: &[Arc<Queue>]) -> bool {
        let large = message.persistent() && message.block().len() > self.journal.max_body() as usize;
        large && targets.iter().any(|queue| queue.logged())
    }

    /// Tells of a message of `queue` that is too large to move.
    pub(crate) fn tell_too_large(&self, queue: &Queue, dead: &Dying) {
        let (name, vhost, largest) = (&queue.name, &queue.vhost, self.journal.max_body());
        let bytes = dead.message.as_ref().map_or(0, |message| message.block().len());
        self.pager.tell(format!(
            "queue '{name}' in vhost '{vhost}': a message of {bytes} bytes can't move on and waits, since the log takes \
             {largest} at most, less than when it was published; raise journal.max_bytes, or make room on its disk, and \
             start again"
        ));
    }

    /// Messages leave one queue and arrive in others, all in one group: `leave` settles them where they were. They are
    /// visible once that is durable; `durable` says whether the log knows them, or it does from now on.
    pub(crate) fn move_together(
        &self,
        mut arrivals: Vec<Arrival>,
        targets: &[Vec<Arc<Queue>>],
        durable: bool,
        leave: &dyn Fn(Option<Group>),
        visit: &mut Visit<'_>,
    ) {
        let durable = durable || arrivals.iter().any(|arrival| arrival.message().persistent());
        let written = self.write_group(targets);
        let group = durable.then(|| self.journal.appender().begin_group());
        let hidden = hide_arrivals(&mut arrivals, targets, group, visit);
        leave(group);
        let mut ticket = Ticket::NONE;
        if let Some(group) = group {
            let mut appender = self.journal.appender();
            appender.end_group(group);
            ticket = appender.ticket();
        }
        drop(written);
        release_holds(&arrivals, self);
        let sealed = Sealed { ticket, hidden, replies: Vec::new(), committed: None };
        if ticket == Ticket::NONE {
            sealed.reveal(visit);
        } else {
            self.wait_for_sealed(sealed);
        }
    }

    /// The message as it goes on, and where to; `None` when it goes nowhere.
    fn next_hop(
        &self,
        (queue, arguments): (&Queue, &QueueArguments),
        dead: &Dying,
        now: u64,
        arena: &mut Arena,
    ) -> Option<Hop> {
        let exchange = arguments.dead_letter_exchange.as_deref()?;
        let message = dead.message.as_ref()?;
        // A key of the queue's own stands for all that the message had, also at its next death.
        let (key, copies) = match (arguments.dead_letter_routing_key.as_deref(), message.copies()) {
            (None, copies) => (message.routing_key(), copies),
            (Some(key), Copies::None) => (key, Copies::None),
            (Some(key), _) => (key, Copies::Spent),
        };
        let read = || self.dialects.read(message.dialect(), message.properties()).ok();
        let mut marks = self.marks_after(queue, message, dead.reason, now);
        let vhost = self.catalog.vhost(&queue.vhost)?;
        let envelope = Envelope::new(key, copies, &read);
        let mut routing = vhost.tables.read().route(exchange, &envelope).ok()?;
        routing.queues.retain(|target| !marks.is_cycle(&target.name));
        if routing.queues.is_empty() || !marks.share_moves(routing.queues.len()) {
            return None;
        }
        let (queues, identity) = match message.instructed() {
            // What was published with them made sense then.
            true => self.follow(&mut routing, envelope.headers(), (!message.was_delayed()).then_some(now), now).ok()?,
            false => (routing.queues, None),
        };
        let identity = identity.map(|identity| identity.returning(&queues, &|name| marks.was_in(name)));
        let mut encoded = Vec::new();
        marks.encode(&mut encoded);
        if encoded.len() as u64 > STORED_BESIDES / 2 {
            return None;
        }
        let head = Head {
            dialect: message.dialect(),
            persistent: message.persistent(),
            priority: message.priority(),
            published_at: now,
            expiration: None,
            copies,
            instructed: message.instructed(),
            delayed: message.was_delayed(),
            exchange,
            routing_key: key,
            properties: message.properties(),
            marks: &encoded,
        };
        Some((arena.add(&head, message.body()), queues, identity))
    }

    fn marks_after(&self, queue: &Queue, message: &Message, reason: Reason, now: u64) -> Marks {
        let read = || self.dialects.read(message.dialect(), message.properties()).ok();
        // Deaths that a client made up, or brings along from another life, are its own headers.
        let mut marks = message.marks().unwrap_or_default();
        let mut routing_keys = vec![message.routing_key().to_owned()];
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
        marks.record(Death {
            queue: queue.name.to_string(),
            reason,
            exchange: message.exchange().to_owned(),
            routing_keys,
            count: 1,
            time: now / 1000,
            original_expiration: message.expiration(),
        });
        marks
    }
}
