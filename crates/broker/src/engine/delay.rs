//! Buckets of messages that are not due: makes them, sorts them before their time, and moves
//! messages that are due.
//!
//! The pager sorts and moves, since it may wait for the disk: one page of a bucket, or one group of
//! messages, in each step. A move is a group: the settlement in the bucket and the arrival in the
//! queue happen together. So a crash neither loses nor doubles the message. Messages move in the
//! order of their due times, over all buckets of their queue.

use std::sync::Arc;

use journal::{Admission, Owner, Reference};

use crate::arguments::QueueArguments;
use crate::catalog::Routing;
use crate::engine::{Engine, Move};
use crate::error::Error;
use crate::message::scheduling::Instructions;
use crate::message::{Arena, Head, Message};
use crate::queue::arrival::{Arrival, Work};
use crate::queue::facts as queue_facts;
use crate::queue::{Bucket, Dying, MessageIdentity, Queue, QueueParts, Span, ToSort, Visit};
use crate::routing::Envelope;
use crate::value::Table;

/// Messages moved in one group at most.
const CHUNK: usize = 256;
/// The same, while the log has room for little.
const RESERVED: usize = 4;
/// While a queue has more due times in memory than this, it sorts no further bucket.
const MOST_SORTED: usize = 1 << 18;
/// A step that failed is tried again after so many milliseconds.
const LATER: u64 = 50;
/// Messages that are read together for their due times.
const READ_AT_ONCE: usize = 512;

/// The result of one step.
#[derive(PartialEq, Eq)]
enum Moved {
    Nothing,
    Some,
    /// The log takes no message now.
    Later,
}

/// The queues of a message, and its identity for deduplication there.
pub(crate) type Followed = (Vec<Arc<Queue>>, Option<Box<MessageIdentity>>);

/// An entry that is due: its time, the index of its bucket, and its number.
type Due = (u64, usize, u64);

impl Engine {
    /// The bucket of `queue` for a message that is due at `due`; the queue itself if it is gone.
    pub(crate) fn bucket(&self, queue: &Arc<Queue>, due: u64, now: u64) -> Arc<Queue> {
        let span = Span::of(due, now);
        if let Some(bucket) = queue.delays.lock().buckets.get(&span) {
            return Arc::clone(bucket);
        }
        let Some(vhost) = self.catalog.vhost(&queue.vhost) else { return Arc::clone(queue) };
        let mut tables = vhost.tables.write();
        let mut delays = queue.delays.lock();
        if delays.closed || tables.is_ended() {
            return Arc::clone(queue);
        }
        if let Some(bucket) = delays.buckets.get(&span) {
            return Arc::clone(bucket);
        }
        let bucket = self.new_bucket(queue, self.owner(queue.log()), span, now);
        if bucket.logged() {
            queue_facts::log_bucket(&mut self.journal.appender(queue.log()), bucket.id, queue.id, span);
        }
        tables.insert_bucket(Arc::clone(&bucket));
        delays.buckets.insert(span, Arc::clone(&bucket));
        drop(delays);
        drop(tables);
        self.watch(&bucket);
        bucket
    }

    /// A new bucket of `queue` that is not yet in its list.
    pub(crate) fn new_bucket(&self, queue: &Arc<Queue>, owner: u64, span: Span, now: u64) -> Arc<Queue> {
        Queue::new(QueueParts {
            id: owner,
            vhost: Arc::clone(&queue.vhost),
            name: Arc::clone(&queue.name),
            durable: queue.logged(),
            exclusive_to: None,
            auto_delete: false,
            arguments: QueueArguments::default(),
            declared: Table::default(),
            tally: self.catalog.bindings.clone(),
            bucket: Some(Bucket { of: Arc::downgrade(queue), owner: queue.id, span }),
            now,
        })
    }

    /// One step for a queue with delayed messages: sorts a page of a bucket whose time is near, and
    /// moves messages that are due. Called by the pager.
    pub(crate) fn release_due(&self, queue: &Arc<Queue>, work: &mut Vec<Work>) {
        queue.delays.lock().asked = false;
        let now = self.clock.unix_ms();
        let mut near = queue.buckets();
        near.retain(|bucket| bucket.bucket.as_ref().is_some_and(|bucket| bucket.span.is_near(now)));
        let sorting = self.sort_some(&near);
        let moved = self.move_due(queue, &near, now, work);
        near.retain(|bucket| !(bucket.is_spent(now, self) && self.end_bucket(queue, bucket)));
        if sorting || moved == Moved::Some {
            self.pager.release(queue);
            return;
        }
        let mut visit = Visit { context: self, now, work };
        for bucket in near {
            // Messages that are due could not be moved, or wait for room in memory.
            let at = bucket.looks_at(self).map_or(now + LATER, |at| if at <= now { now + LATER } else { at });
            bucket.look_at(at, &mut visit);
        }
    }

    /// Sorts one page of the earliest unsorted bucket. True if there is more to do.
    fn sort_some(&self, near: &[Arc<Queue>]) -> bool {
        let sorted: usize = near.iter().map(|bucket| bucket.sorted_count(self)).sum();
        let first = near.iter().filter_map(|bucket| bucket.first_due(self)).min();
        for bucket in near {
            // Earlier due messages can go first, and make room.
            let can_wait = first < bucket.begins();
            let from = match bucket.to_sort(self) {
                ToSort::Nothing => continue,
                ToSort::All if sorted > MOST_SORTED && can_wait => return false,
                ToSort::All => 0,
                ToSort::Page(page) => page,
            };
            let Some(page) = bucket.page_to_sort(from, self) else {
                bucket.sorted_to(None, &[], self);
                return true;
            };
            // The due times of all later arrivals are noted as they come.
            bucket.sorted_to(Some(page), &[], self);
            let damage = self.place(bucket, page).err();
            let mut found: Vec<_> =
                bucket.in_memory(page, self).iter().map(|(seq, message)| (self.due_of(message), *seq)).collect();
            let on_disk = bucket.on_disk(page, self);
            // The page was placed, and may have become absent again since. It is then looked at
            // once more.
            let mut whole = damage.is_some() || on_disk.is_some();
            damage.into_iter().for_each(|damage| self.pager.tell(damage));
            for piece in on_disk.unwrap_or_default().chunks(READ_AT_ONCE) {
                whole &= self.read_what_can_be(bucket, piece, &mut |seq, message| {
                    found.push((self.due_of(&message), seq));
                });
            }
            bucket.sorted_to(Some(if whole { page + 1 } else { page }), &found, self);
            return true;
        }
        false
    }

    /// Reads messages. Unreadable ones are reported and stay where they are. False if some were
    /// moved meanwhile, so that their places must be looked up again.
    fn read_what_can_be(&self, bucket: &Queue, wanted: &[Reference], found: &mut dyn FnMut(u64, Message)) -> bool {
        let (mut whole, mut rest) = (true, wanted);
        while !rest.is_empty() {
            let (read, damage) = self.read_up_to_damage(bucket, rest);
            let failed = read.len() < rest.len();
            whole &= !failed || damage.is_some();
            damage.into_iter().for_each(|damage| self.pager.tell(damage));
            rest = &rest[read.len() + usize::from(failed)..];
            read.into_iter().for_each(|(one, message)| found(one.seq, message));
        }
        whole
    }

    /// Moves the first messages that are due.
    fn move_due(&self, queue: &Arc<Queue>, near: &[Arc<Queue>], now: u64, work: &mut Vec<Work>) -> Moved {
        let limit = match self.journal.admission() {
            Admission::Closed if self.journal.stats().used_bytes >= self.journal.stats().max_bytes => 0,
            // A move frees as much as it appends, if not at once.
            Admission::Closed => RESERVED,
            _ => CHUNK,
        };
        // Messages of unsorted buckets may be due before the sorted ones.
        let unsorted = near.iter().filter(|bucket| bucket.to_sort(self) != ToSort::Nothing);
        let until = unsorted.filter_map(|bucket| bucket.begins()?.checked_sub(1)).fold(now, u64::min);
        let mut due: Vec<Due> = Vec::new();
        for (index, bucket) in near.iter().enumerate() {
            due.extend(bucket.due_by(until, CHUNK, self).into_iter().map(|(at, seq)| (at, index, seq)));
        }
        due.sort_unstable();
        if due.is_empty() || limit == 0 {
            return if due.is_empty() { Moved::Nothing } else { Moved::Later };
        }
        due.truncate(limit);
        let taken = self.take_due(near, &due);
        self.move_taken(queue, near, &due, taken, now, work);
        if limit == CHUNK { Moved::Some } else { Moved::Later }
    }

    /// Takes these entries out of their buckets, with their messages.
    fn take_due(&self, near: &[Arc<Queue>], due: &[Due]) -> Vec<(usize, Dying)> {
        let mut taken = Vec::with_capacity(due.len());
        for (index, bucket) in near.iter().enumerate() {
            let of_this: Vec<_> = due.iter().filter(|due| due.1 == index).map(|(at, _, seq)| (*at, *seq)).collect();
            if of_this.is_empty() {
                continue;
            }
            let dying = self.read_dying(bucket, self.take_placed(bucket, of_this));
            taken.extend(dying.into_iter().map(|dead| (index, dead)));
        }
        taken
    }

    /// Takes these entries out of a bucket. While other pages are placed, the sweep may make one
    /// absent again before its entries are taken. It is then placed once more, since a later due
    /// time must not overtake an earlier one.
    fn take_placed(&self, bucket: &Arc<Queue>, mut due: Vec<(u64, u64)>) -> Vec<Dying> {
        let mut taken = Vec::with_capacity(due.len());
        let mut damaged = Vec::new();
        while !due.is_empty() {
            for page in bucket.pages_to_place(&due, self) {
                if let Err(damage) = self.place(bucket, page) {
                    self.pager.tell(damage);
                    damaged.push(page);
                }
            }
            taken.extend(bucket.take_due(&mut due, &damaged, self));
        }
        taken
    }

    fn move_taken(
        &self,
        queue: &Arc<Queue>,
        near: &[Arc<Queue>],
        order: &[Due],
        mut taken: Vec<(usize, Dying)>,
        now: u64,
        work: &mut Vec<Work>,
    ) {
        // In the order of their due times, not of their buckets.
        let place = |index: usize, seq: u64| order.iter().position(|due| (due.1, due.2) == (index, seq));
        taken.sort_by_cached_key(|(index, dying)| place(*index, dying.seq));
        let messages = taken.iter().filter_map(|(_, dying)| dying.message.as_ref());
        let mut arena = Arena::of_few(messages.map(Message::cost).sum());
        let mut arrivals = Vec::with_capacity(taken.len());
        taken.retain(|(index, dying)| {
            let Some(message) = &dying.message else { return false };
            let awake = awake(message, now, &mut arena);
            if self.is_too_large(&awake, std::slice::from_ref(queue)) {
                self.tell_too_large(&near[*index], dying);
                return false;
            }
            let mut arrival = Arrival::of_broker(awake);
            arrival.identity = self.identity_at(queue, message);
            arrivals.push(arrival);
            true
        });
        let targets = vec![vec![Arc::clone(queue)]; arrivals.len()];
        let are_logged = taken.iter().any(|(_, dying)| dying.durable);
        let leave = |group| {
            for (index, bucket) in near.iter().enumerate() {
                let gone: Vec<u64> = taken.iter().filter(|(of, _)| *of == index).map(|(_, dying)| dying.seq).collect();
                if !gone.is_empty() {
                    bucket.depart(&gone, group, self);
                }
            }
        };
        let moved = Move { log: queue.log(), arrivals, targets: &targets, are_logged };
        self.move_together(moved, &leave, &mut Visit { context: self, now, work });
    }

    /// The queues of a message with instructions, or their buckets where it is not due yet; and its
    /// identity for deduplication. Without `published_at` its delay is over.
    pub(crate) fn apply_scheduling(
        &self,
        routing: &mut Routing,
        headers: &Table,
        published_at: Option<u64>,
        now: u64,
    ) -> Result<Followed, Error> {
        let instructions = Instructions::read(headers)?;
        if let Some(published_at) = published_at {
            instructions.check_due(headers, published_at)?;
        }
        let identity = MessageIdentity::of(&instructions, &routing.queues, std::mem::take(&mut routing.gates));
        let delay = if routing.delayed.is_empty() { None } else { Instructions::exchange_delay(headers)? };
        let delayed = std::mem::take(&mut routing.delayed);
        let due_later = |destination: Owner| {
            let delay = delay.filter(|_| delayed.contains(&destination));
            published_at.and_then(|published_at| instructions.due(published_at, delay)).filter(|due| *due > now)
        };
        let mut queues = std::mem::take(&mut routing.queues);
        for queue in &mut queues {
            if let Some(due) = due_later(queue.id) {
                *queue = self.bucket(queue, due, now);
            }
        }
        // A message waits in a queue, and these have none.
        routing.direct.retain(|subscriber| due_later(subscriber.id).is_none());
        Ok((queues, identity))
    }

    /// The identity of a message in `queue`. The exchanges in front of the queue are looked up
    /// again, as they are now.
    fn identity_at(&self, queue: &Arc<Queue>, message: &Message) -> Option<Box<MessageIdentity>> {
        if !message.instructed() {
            return None;
        }
        let read = || self.dialects.read_message(message).ok();
        let envelope = Envelope::new(message.routing_key(), message.copies(), &read);
        let instructions = Instructions::read(envelope.headers()).ok().filter(|read| read.id.is_some())?;
        let vhost = self.catalog.vhost(&queue.vhost)?;
        let routing = vhost.tables.read().route(message.exchange(), &envelope);
        let gates = routing.map(|routing| routing.gates).unwrap_or_default();
        let identity = MessageIdentity::of(&instructions, std::slice::from_ref(queue), gates)?;
        // A dead letter that was delayed on its return is no duplicate of itself.
        let annotations = message.annotations().unwrap_or_default();
        Some(identity.returning(std::slice::from_ref(queue), &annotations.queues()))
    }

    /// Ends a bucket that is empty and whose span is over. False if it is not.
    fn end_bucket(&self, queue: &Arc<Queue>, bucket: &Arc<Queue>) -> bool {
        let Some(vhost) = self.catalog.vhost(&queue.vhost) else { return true };
        let mut tables = vhost.tables.write();
        let mut inner = bucket.lock(self);
        if inner.live() > 0 {
            return false;
        }
        if !inner.is_deleted() {
            bucket.end(&mut inner, self);
        }
        drop(inner);
        tables.remove_bucket(bucket);
        if let Some(own) = &bucket.bucket {
            queue.delays.lock().buckets.remove(&own.span);
        }
        true
    }
}

/// The message as it enters its queue: its time to live begins now, and its delay is over.
fn awake(message: &Message, now: u64, arena: &mut Arena) -> Message {
    let annotations = message.marks_bytes();
    let head = Head {
        dialect: message.dialect(),
        persistent: message.persistent(),
        priority: message.given_priority(),
        published_at: now,
        expiration: message.expiration(),
        copies: message.copies(),
        instructed: message.instructed(),
        delayed: true,
        exchange: message.exchange(),
        routing_key: message.routing_key(),
        properties: message.properties(),
        annotations,
        publisher: message.publisher(),
    };
    arena.add(&head, message.body())
}
