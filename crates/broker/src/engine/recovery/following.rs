//! The rebuilt state while records come one after the other: what is declared and alive at each
//! moment, what a record frees, and what is restated.
//!
//! Invariant: entries are kept of declared queues alone, and of them it is known exactly which are
//! not settled. What is dropped is forgotten at once.

use std::collections::BTreeMap;

use journal::{Appender, Bits, Chunk, LogId, Owner, Reference};

use super::{Entries, OfQueues, Rebuilt, Replayed};
use crate::catalog::definitions::definition_bytes;
use crate::catalog::retained::{RetainedFact, log_retained};
use crate::catalog::system::System;
use crate::engine::pages::ReadChunk;
use crate::queue::facts as queue_facts;
use crate::queue::{Remains, RestatedBundle};
use crate::store::facts;

impl Replayed {
    /// Says again what there is about an owner.
    pub(crate) fn restate(&self, owner: Owner, appender: &mut Appender<'_>) {
        match self.system.restated(owner, &self.authority) {
            Some(said) => said.log(None, appender),
            None => self.rebuilt.restate(owner, appender),
        }
    }
}

impl Rebuilt {
    /// Drops records without an owner, and finds out what is alive. Counts it by the file of its
    /// body.
    pub(crate) fn begin_following(&mut self, system: &System, read: &ReadChunk<'_>) -> BTreeMap<u32, u64> {
        self.end_with_vhosts(system);
        let Self { queues, of_queues: OfQueues { buckets, .. }, entries, lost, lost_segments, .. } = self;
        buckets.retain(|_, (queue, _)| queues.contains_key(queue));
        let mut live = BTreeMap::new();
        entries.retain(|owner, entries| {
            let queue = buckets.get(owner).map_or(*owner, |(queue, _)| *queue);
            if !queues.contains_key(&queue) {
                return false;
            }
            let Entries { pages, positions, .. } = entries;
            let damaged = |segment| lost_segments.contains_key(&segment);
            let unreadable = pages.resolve(&|page| positions.next_of_page(page), read, &damaged);
            if !unreadable.is_none() {
                lost.insert(queue, unreadable);
            }
            pages.count_files(&mut |file, count| *live.entry(file).or_default() += count);
            true
        });
        live
    }

    /// Whether entries of an owner count.
    pub(crate) fn takes_entries(&self, owner: Owner) -> bool {
        let queue = self.of_queues.buckets.get(&owner).map_or(owner, |(queue, _)| *queue);
        self.queues.contains_key(&queue)
    }

    /// Counts what a settlement frees, before it is applied.
    pub(crate) fn freed(
        &mut self,
        owner: Owner,
        runs: &[(u64, u64)],
        read: &ReadChunk<'_>,
        into: &mut dyn FnMut(u32, u64),
    ) {
        let Some(entries) = self.entries.get_mut(&owner) else { return };
        runs.iter().for_each(|(first, count)| entries.pages.freed(*first, *count, read, into));
    }

    /// Forgets the entries of an owner that ends, and counts what that frees.
    pub(crate) fn end_entries(&mut self, owner: Owner, into: &mut dyn FnMut(u32, u64)) {
        let Some(entries) = self.entries.remove(&owner) else { return };
        entries.pages.count_files(into);
        let bundles = entries.seen.bundles().chain(entries.latest.bundles());
        for bundle in bundles {
            self.of_queues.bundles.remove(&bundle);
        }
    }

    /// Forgets all in a vhost that ends, and counts what that frees. Its owners take no records any
    /// more.
    pub(crate) fn end_vhost(&mut self, vhost: Owner, into: &mut dyn FnMut(u32, u64)) {
        let mut gone: Vec<Owner> = Vec::new();
        gone.extend(self.queues.extract_if(.., |_, fact| fact.vhost == vhost).map(|(owner, _)| owner));
        gone.extend(self.exchanges.extract_if(.., |_, fact| fact.vhost == vhost).map(|(owner, _)| owner));
        gone.extend(self.definitions.extract_if(.., |_, (key, _)| key.vhost == vhost).map(|(owner, _)| owner));
        let queues = &self.queues;
        gone.extend(
            self.of_queues.buckets.extract_if(.., |_, (queue, _)| !queues.contains_key(queue)).map(|(owner, _)| owner),
        );
        let home = LogId::of(vhost);
        if home != LogId::SYSTEM {
            gone.extend(self.messages.retained.keys().copied().filter(|bundle| LogId::of(*bundle) == home));
        }
        gone.extend(self.messages.wills.extract_if(.., |_, will| will.vhost == vhost).map(|(owner, _)| owner));
        for owner in gone {
            self.bound.remove(&owner);
            self.subscriptions.remove(&owner);
            self.messages.retained.remove(&owner);
            self.end_entries(owner, into);
            self.ended.owners.insert(owner);
        }
    }

    /// An owner was dropped: nothing of it comes any more, so that need not be kept in mind.
    pub(crate) fn forget_dropped(&mut self, owner: Owner) {
        self.ended.any = true;
        self.ended.owners.remove(&owner);
    }

    /// A bundle was added to: of ids, more are not kept than any limit allows.
    pub(crate) fn bound_ids(&mut self, bundle: Owner) {
        let Some(entries) = self.of_queues.bundles.get(&bundle).and_then(|queue| self.entries.get_mut(queue)) else {
            return;
        };
        if let Some((scope, _)) = entries.seen.logged(bundle) {
            entries.seen.forget_beyond_any_limit(scope);
        }
    }

    /// The entries of an owner whose bodies lie in a file of the log.
    pub(crate) fn referenced(&self, owner: Owner, file: u32, found: &mut Vec<Reference>) {
        if let Some(entries) = self.entries.get(&owner) {
            entries.pages.referenced(file, found);
        }
    }

    /// Which entries of a page are not settled.
    pub(crate) fn unsettled(&self, owner: Owner, page: u64, bits: &mut Bits) {
        if let Some(entries) = self.entries.get(&owner) {
            entries.pages.unsettled(page, bits);
        }
    }

    /// See [`journal::Owners::moved`].
    pub(crate) fn moved(&mut self, owner: Owner, page: u64, from: &[u32], chunk: Chunk, listed: &[Reference]) -> u64 {
        self.entries.get_mut(&owner).map_or(0, |entries| entries.pages.moved(page, from, chunk, listed))
    }

    fn restate(&self, owner: Owner, appender: &mut Appender<'_>) {
        if let Some(values) = self.messages.retained.get(&owner) {
            // One restatement in each turn of the log is enough, as for the ids below.
            appender.supersede(owner);
            for (place, RetainedFact { exchange, set_by, block }) in values {
                let value: (&[&[u8]], _) = (&[block.bytes()], set_by.as_deref().unwrap_or_default());
                log_retained(appender, owner, (*place, *exchange), value);
            }
        } else if let Some(will) = self.messages.wills.get(&owner) {
            will.log(appender, owner);
        } else if let Some(queue) = self.of_queues.bundles.get(&owner) {
            self.restate_bundle(owner, *queue, appender);
        } else if let Some((key, fields)) = self.definitions.get(&owner) {
            let bytes = definition_bytes(key, fields);
            debug_assert!(bytes.is_ok(), "a definition that was read can't be stored");
            bytes.iter().for_each(|bytes| appender.fact(None, owner, facts::DEFINITION, &[bytes]));
        } else if self.takes_entries(owner) {
            self.restate_queue(owner, appender);
        } else {
            if let Some(fact) = self.exchanges.get(&owner) {
                fact.log(appender, None, owner);
            }
            for bound in self.bound.get(&owner).into_iter().flatten() {
                queue_facts::log_binding(appender, None, owner, facts::BIND, bound);
            }
        }
    }

    fn restate_bundle(&self, bundle: Owner, queue: Owner, appender: &mut Appender<'_>) {
        let Some(Entries { seen, latest, .. }) = self.entries.get(&queue) else { return };
        let RestatedBundle { ids, keys } = RestatedBundle { ids: seen.logged(bundle), keys: latest.logged(bundle) };
        if ids.is_none() && keys.is_none() {
            return;
        }
        appender.supersede(bundle);
        if let Some((scope, ids)) = ids {
            queue_facts::log_seen(appender, None, bundle, (queue, scope), &ids);
        }
        if let Some(keys) = keys {
            queue_facts::log_keyed(appender, None, bundle, queue, &keys);
        }
    }

    fn restate_queue(&self, owner: Owner, appender: &mut Appender<'_>) {
        match (self.of_queues.buckets.get(&owner), self.queues.get(&owner)) {
            (Some((queue, span)), _) => queue_facts::log_bucket(appender, owner, *queue, *span),
            (None, Some(fact)) => fact.log(appender, None, owner),
            (None, None) => {}
        }
        let bound = self.bound.get(&owner).map_or(&[][..], Vec::as_slice);
        let none = Entries::default();
        let Entries { pages, positions, returns, dying, waiting, annotations, exactly_once, .. } =
            self.entries.get(&owner).unwrap_or(&none);
        let lanes: Vec<_> = positions.iter().map(|(lane, position)| pages.lane_facts(lane, position)).collect();
        let remains = Remains {
            returns: returns.iter().map(|(seq, returns)| (*seq, *returns)).collect(),
            decided: dying.iter().map(|(seq, code)| (*seq, *code)).collect(),
            waiting: waiting.iter().map(|(seq, due)| (*seq, *due)).collect(),
            annotations: Some(annotations),
            exactly_once: Some(exactly_once),
        };
        queue_facts::log_state(appender, owner, bound, &lanes, &remains);
        if let Some(subscription) = self.subscriptions.get(&owner) {
            subscription.log(appender, None, owner);
        }
    }
}
