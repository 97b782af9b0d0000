//! The journal's questions and the broker's answers. It asks which entries have their bodies in a
//! file, and which of a page are not settled. It asks for a restatement of the facts in its oldest
//! file, and tells where moved bodies lie.
//!
//! An entry's body and its reference need no restating: the journal keeps them, or lists them in an
//! index. The later facts are restated: settled numbers that an index may list, how often entries
//! came back, and which deaths are decided.

use std::sync::{Arc, Weak};

use journal::{Bits, Chunk, LogId, Owner, Owners, Reference, Restatement};
use parking_lot::{Condvar, MappedMutexGuard, Mutex, MutexGuard};

use crate::catalog::facts as catalog_facts;
use crate::engine::Engine;
use crate::engine::follow::Followed;
use crate::engine::pages;
use crate::queue::facts as queue_facts;
use crate::queue::facts::LaneFacts;
use crate::queue::{Lane, Queue, RestatedBundle};
use crate::store::facts;

/// What answers the journal's questions.
#[derive(Default)]
enum Answering {
    /// Nothing does yet, and the questions wait.
    #[default]
    Nothing,
    /// What was followed so far.
    Followed(Arc<Followed>),
    Engine(Weak<Engine>),
}

impl Answering {
    fn followed(&mut self) -> Option<&mut Arc<Followed>> {
        match self {
            Self::Followed(followed) => Some(followed),
            Self::Engine(_) | Self::Nothing => None,
        }
    }
}

/// Answers the journal's questions: once the broker has filled its queues, or while it follows
/// another.
#[derive(Default)]
pub(crate) struct Restater {
    answering: Mutex<Answering>,
    known: Condvar,
}

impl Restater {
    pub(crate) fn answer_for(&self, engine: &Arc<Engine>) {
        *self.answering.lock() = Answering::Engine(Arc::downgrade(engine));
        self.known.notify_all();
    }

    /// Answers from what is followed.
    pub(crate) fn answer_from(&self, followed: &Arc<Followed>) {
        *self.answering.lock() = Answering::Followed(Arc::clone(followed));
        self.known.notify_all();
    }

    /// Lets questions wait until the broker can answer. One that is being answered is waited for.
    pub(crate) fn pause(&self) {
        *self.answering.lock() = Answering::Nothing;
    }

    /// What answers. Until something does the journal's background thread waits, since a wrong
    /// answer would cost messages.
    fn known(&self) -> Known<'_> {
        let mut answering = self.answering.lock();
        loop {
            if let Answering::Engine(engine) = &*answering
                && let Some(engine) = engine.upgrade()
            {
                return Known::Engine(engine);
            }
            answering = match MutexGuard::try_map(answering, Answering::followed) {
                Ok(followed) => return Known::Followed(followed),
                Err(answering) => answering,
            };
            self.known.wait(&mut answering);
        }
    }
}

/// What answers now.
enum Known<'a> {
    /// Locked until it has answered: it may become a broker then.
    Followed(MappedMutexGuard<'a, Arc<Followed>>),
    Engine(Arc<Engine>),
}

impl Owners for Restater {
    fn restate(&self, owners: &[Owner], restatement: &Restatement<'_>) -> Vec<Owner> {
        match self.known() {
            Known::Followed(followed) => followed.restate(owners, restatement),
            Known::Engine(engine) => {
                owners.iter().for_each(|owner| restate_one(&engine, *owner, restatement));
                Vec::new()
            }
        }
    }

    fn referenced(&self, owner: Owner, file: u32, found: &mut Vec<Reference>) {
        match self.known() {
            Known::Followed(followed) => followed.referenced(owner, file, found),
            Known::Engine(engine) => {
                if let Some(queue) = queue_of(&engine, owner) {
                    queue.lock(&engine).referenced(file, found);
                }
            }
        }
    }

    fn unsettled(&self, owner: Owner, page: u64, bits: &mut Bits) {
        match self.known() {
            Known::Followed(followed) => followed.unsettled(owner, page, bits),
            Known::Engine(engine) => {
                if let Some(queue) = queue_of(&engine, owner) {
                    queue.lock(&engine).unsettled_of(page, bits);
                }
            }
        }
    }

    fn moved(&self, owner: Owner, page: u64, from: &[u32], chunk: Chunk, entries: &[Reference]) -> u64 {
        match self.known() {
            Known::Followed(followed) => followed.moved(owner, page, from, chunk, entries),
            Known::Engine(engine) => {
                queue_of(&engine, owner).map_or(0, |queue| queue.lock(&engine).moved(page, from, chunk, entries))
            }
        }
    }
}

fn queue_of(engine: &Engine, owner: Owner) -> Option<Arc<Queue>> {
    engine.catalog.vhosts().into_iter().find_map(|vhost| vhost.tables.read().queue_by_id(owner).cloned())
}

/// The table's read lock excludes every declaration, the queue's lock every entry, and the groups'
/// lock every half of a group. So the restated facts are true at their place in the log.
fn restate_one(engine: &Engine, owner: Owner, restatement: &Restatement<'_>) {
    let log = LogId::of(owner);
    if restate_retained(engine, owner, restatement) {
        return;
    }
    let _whole = engine.groups.of(log).write();
    if restate_ids(engine, owner, restatement) {
        return;
    }
    let system = engine.system.lock();
    if let Some(said) = system.restated(owner, &engine.authority) {
        said.log(None, &mut restatement.appender(log));
        return;
    }
    drop(system);
    for vhost in engine.catalog.vhosts() {
        let tables = vhost.tables.read();
        if tables.is_ended() {
            // Its end is in the log, and no record of it may follow.
            continue;
        }
        if let Some(queue) = tables.queue_by_id(owner).filter(|queue| queue.logged()) {
            let mut inner = queue.lock(engine);
            if !inner.is_deleted() {
                let lanes: Vec<_> = inner.lanes_mut().map(facts_of).collect();
                let mut appender = restatement.appender(log);
                match &queue.bucket {
                    None => queue.fact(vhost.id, inner.declared_by()).log(&mut appender, None, owner),
                    Some(bucket) => queue_facts::log_bucket(&mut appender, owner, bucket.owner, bucket.span),
                }
                let bound = inner.bindings.as_slice();
                queue_facts::log_state(&mut appender, owner, bound, &lanes, &inner.restated());
                if let Some(subscription) = tables.subscriptions.of_queue(owner) {
                    subscription.log(&mut appender, None, owner);
                }
            }
            return;
        }
        if let Some(exchange) = tables.exchange_by_id(owner).filter(|exchange| exchange.durable) {
            let mut appender = restatement.appender(log);
            if !exchange.predeclared {
                exchange.fact(vhost.id).log(&mut appender, None, owner);
            }
            for bound in exchange.bound.as_slice() {
                queue_facts::log_binding(&mut appender, None, owner, facts::BIND, bound);
            }
            return;
        }
        if engine.restate_will(&vhost, owner, restatement) {
            return;
        }
        if let Some(task) = tables.tasks.by_id(owner) {
            task.log(&task.progress.lock(), None, &mut restatement.appender(log));
            return;
        }
        if let Some(shovel) = tables.shovels.by_id(owner) {
            shovel.log(None, &mut restatement.appender(log));
            return;
        }
        if let Some((kind, policy)) = tables.policies.by_id(owner) {
            catalog_facts::log_policy(&mut restatement.appender(log), None, vhost.id, kind, policy);
            return;
        }
    }
}

/// Restates the retained messages of a bundle; false if the owner is no such bundle. Its lock comes
/// before that of the groups.
fn restate_retained(engine: &Engine, bundle: Owner, restatement: &Restatement<'_>) -> bool {
    let log = LogId::of(bundle);
    let homes = engine.catalog.vhosts().into_iter().filter(|vhost| vhost.log() == log && vhost.retained.is_used());
    homes.into_iter().any(|vhost| vhost.retained.lock().restate(bundle, restatement, log))
}

/// Restates the ids or keys of a bundle; false if the owner is no bundle. A bundle without ids is
/// forgotten here.
fn restate_ids(engine: &Engine, bundle: Owner, restatement: &Restatement<'_>) -> bool {
    let Some(queue) = engine.id_bundles.lock().get(&bundle).copied() else { return false };
    let said = queue_of(engine, queue).is_some_and(|queue| {
        let inner = queue.lock(engine);
        let RestatedBundle { ids, keys } = inner.restated_bundle(bundle);
        if ids.is_none() && keys.is_none() {
            return false;
        }
        let mut appender = restatement.appender(LogId::of(bundle));
        // One restatement in each turn of the log is enough, however many files mention it.
        appender.supersede(bundle);
        if let Some((scope, ids)) = ids {
            queue_facts::log_seen(&mut appender, None, bundle, (queue.id, scope), &ids);
        }
        if let Some(keys) = keys {
            queue_facts::log_keyed(&mut appender, None, bundle, queue.id, &keys);
        }
        true
    });
    if !said {
        engine.id_bundles.lock().remove(&bundle);
    }
    true
}

fn facts_of(lane: &mut Lane) -> LaneFacts {
    let (position, settled) = (lane.position(), lane.settled_runs());
    let accounted = pages::accounted(position.0, &settled, &mut |page, bits| lane.unsettled(page, bits));
    LaneFacts { position, accounted, settled }
}
