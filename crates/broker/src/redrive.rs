//! Redriving: moves dead letters back to their origin for an operator.
//!
//! Each chunk moves like a dead letter, as a group: the entries leave the queue and arrive in
//! others together. So a crash neither loses nor doubles a message. A redrive ends at the last
//! entry that was there when it began, so a message that dies once more meanwhile is not moved
//! again.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use journal::{Admission, Owner, PAGE};

use crate::broker::Broker;
use crate::browse::Browse;
use crate::catalog::Vhost;
use crate::engine::{Engine, Move};
use crate::error::Error;
use crate::message::annotations::{Annotations, Death};
use crate::message::cc::Copies;
use crate::message::{Arena, Head, Message};
use crate::queue::arrival::Arrival;
use crate::queue::{Coming, Queue, Seized, Visit};
use crate::routing::Envelope;

/// Messages, and bytes of them, that are moved in one group at most.
const CHUNK: usize = 64;
const CHUNK_BYTES: usize = 1 << 20;

/// The result of a redrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Redriven {
    /// Messages that were moved back, or would be.
    pub moved: u64,
    /// Messages that never died.
    pub alive: u64,
    /// Messages whose queue is gone, and whose exchange routes them nowhere.
    pub homeless: u64,
    /// Messages for which their queue is too full, or the log too small.
    pub refused: u64,
    /// The rest was not moved because the disk has no room.
    pub out_of_room: bool,
}

/// Whether dead letters are moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedriveMode {
    /// They are counted, and stay.
    DryRun,
    /// They move.
    Move,
}

/// A message that will be moved back.
struct RedriveEntry {
    seq: u64,
    message: Message,
    durable: bool,
    targets: Vec<Arc<Queue>>,
}

impl Broker {
    /// Moves the dead letters of a queue back to the queue in which each died first. If that is
    /// gone, the exchange of the publish routes it.
    ///
    /// # Errors
    /// As [`Broker::browse`]. Messages that were moved before stay moved.
    pub fn redrive(
        &self,
        browse: &Browse<'_>,
        mode: RedriveMode,
        wanted: &dyn Fn() -> bool,
    ) -> Result<Redriven, Error> {
        let engine = &self.engine;
        let (queue, selector) = engine.find(browse.vhost, browse.queue, browse.selector)?;
        let vhost = engine.catalog.vhost(browse.vhost);
        let vhost = vhost.ok_or_else(|| Error::not_found(format!("no vhost '{}'", browse.vhost)))?;
        let mut redriven = Redriven::default();
        let mut returns = RedriveBatch { list: Vec::new(), bytes: 0, arena: Arena::default(), coming: HashMap::new() };
        let mut taken = 0;
        engine.walk(&queue, selector.as_ref(), wanted, &mut |glimpse, message| {
            if taken == browse.limit || redriven.out_of_room {
                return Ok(false);
            }
            let Some((message, targets)) = way_back(engine, &vhost, &queue, &message, &mut returns.arena) else {
                let homeless = message.is_marked();
                *(if homeless { &mut redriven.homeless } else { &mut redriven.alive }) += 1;
                return Ok(true);
            };
            let coming = |target: &Queue| returns.coming.get(&target.id).copied().unwrap_or_default();
            let is_full = targets.iter().any(|target| target.would_refuse(coming(target), engine));
            if is_full || engine.is_too_large(&message, &targets) {
                redriven.refused += 1;
                return Ok(true);
            }
            targets.iter().for_each(|target| returns.coming.entry(target.id).or_default().add(&message));
            taken += 1;
            if mode == RedriveMode::DryRun {
                redriven.moved += 1;
                return Ok(true);
            }
            returns.bytes += message.cost();
            returns.list.push(RedriveEntry { seq: glimpse.seq, message, durable: glimpse.durable, targets });
            if returns.list.len() >= CHUNK || returns.bytes >= CHUNK_BYTES {
                returns.bytes = 0;
                returns.coming.clear();
                bring_back(engine, &queue, std::mem::take(&mut returns.list), &mut redriven)?;
            }
            Ok(true)
        })?;
        bring_back(engine, &queue, returns.list, &mut redriven)?;
        Ok(redriven)
    }
}

/// The messages of one move.
struct RedriveBatch {
    list: Vec<RedriveEntry>,
    bytes: usize,
    arena: Arena,
    /// The messages on their way to each queue; in a dry run all of them.
    coming: HashMap<Owner, Coming>,
}

/// The message as it was published, and the queues that it goes back to. `None` if it never
/// died, or has nowhere to go.
fn way_back(
    engine: &Engine,
    vhost: &Vhost,
    queue: &Queue,
    message: &Message,
    arena: &mut Arena,
) -> Option<(Message, Vec<Arc<Queue>>)> {
    let mut annotations = message.annotations()?;
    let first = annotations.first.clone()?;
    let death = first_death(&annotations)?;
    let keys = death.routing_keys.clone();
    let key = keys.first().map_or("", String::as_str);
    let tables = vhost.tables.read();
    let mut targets: Vec<_> = tables.queue(&first.queue).cloned().into_iter().collect();
    if targets.is_empty() {
        let mut known = HashSet::new();
        for key in &keys {
            let routed = tables.route(&first.exchange, &Envelope::new(key, Copies::None, &|| None));
            let queues = routed.into_iter().flat_map(|routed| routed.queues);
            targets.extend(queues.filter(|queue| known.insert(queue.id)));
        }
    }
    drop(tables);
    targets.retain(|target| target.id != queue.id);
    if targets.is_empty() {
        return None;
    }
    annotations.carry();
    let mut encoded = Vec::new();
    annotations.encode(&mut encoded);
    let head = Head {
        dialect: message.dialect(),
        persistent: message.persistent(),
        priority: message.given_priority(),
        published_at: engine.clock.unix_ms(),
        expiration: None,
        copies: if message.copies() == Copies::None { Copies::None } else { Copies::Spent },
        instructed: message.instructed(),
        delayed: message.was_delayed(),
        exchange: &first.exchange,
        routing_key: key,
        properties: message.properties(),
        annotations: &encoded,
        publisher: message.publisher(),
    };
    Some((arena.add(&head, message.body()), targets))
}

/// Moves these messages, those that are still there.
fn bring_back(
    engine: &Engine,
    queue: &Arc<Queue>,
    returns: Vec<RedriveEntry>,
    redriven: &mut Redriven,
) -> Result<(), Error> {
    if returns.is_empty() {
        return Ok(());
    }
    if engine.journal.admission() == Admission::Closed {
        redriven.out_of_room = true;
        return Ok(());
    }
    let (mut seized, mut arrivals, mut targets, mut durable) = (Vec::new(), Vec::new(), Vec::new(), false);
    // The walk may have left a page since, and made it small again.
    for page in returns.chunk_by(|one, next| one.seq / PAGE == next.seq / PAGE) {
        engine.place(queue, page[0].seq / PAGE).map_err(Error::internal)?;
    }
    for one in returns {
        if seize(engine, queue, one.seq) {
            durable |= one.durable;
            seized.push(one.seq);
            arrivals.push(Arrival::of_broker(one.message));
            targets.push(one.targets);
        }
    }
    redriven.moved += seized.len() as u64;
    engine.totals.deaths.redriven.add(seized.len() as u64);
    let mut work = Vec::new();
    let mut visit = Visit { context: engine, now: engine.clock.unix_ms(), work: &mut work };
    let leave = |group| queue.let_go_of_moved(&seized, group, engine);
    let moved = Move { log: queue.log(), arrivals, targets: &targets, are_logged: durable };
    engine.move_together(moved, &leave, &mut visit);
    engine.run_work(&mut work);
    Ok(())
}

/// Takes an entry out; the sweep may have made its page absent again since. False if it is
/// gone, or its place is unknown, which is reported.
fn seize(engine: &Engine, queue: &Arc<Queue>, seq: u64) -> bool {
    loop {
        match queue.seize(seq, engine) {
            Seized::Taken => return true,
            Seized::Gone => return false,
            Seized::Absent => {
                if let Err(damage) = engine.place(queue, seq / PAGE) {
                    engine.pager.tell(damage);
                    return false;
                }
            }
        }
    }
}

/// The annotation of the first death of all.
fn first_death(annotations: &Annotations) -> Option<&Death> {
    let first = annotations.first.as_ref()?;
    annotations
        .deaths
        .iter()
        .find(|death| death.queue == first.queue && death.reason == first.reason)
        .or(annotations.deaths.last())
}
