//! The optional features of a queue, and the moments at which they act on its entries.
//!
//! A feature is one file with its own state. At each of five moments the queue calls one function
//! here, which calls every feature that takes part, in a fixed order. A feature that is off costs
//! a look at an empty option.

use std::collections::BTreeMap;
use std::sync::Arc;

use journal::{Group, Owner};

use crate::arguments::QueueArguments;
use crate::memory::ledger::Declared;
use crate::message::Message;
use crate::queue::consumers::Consumers;
use crate::queue::deduplication::Ids;
use crate::queue::filter::Views;
use crate::queue::lane::Purged;
use crate::queue::last_value::Values;
use crate::queue::message_groups::Groups;
use crate::queue::rare::Rare;
use crate::queue::{
    Bucket, Consumer, Dues, EntryAnnotations, ExactlyOnce, Inner, Keyed, Lanes, MessageIdentity, Queue, QueueContext,
};
use crate::queue::{Reason, RememberedId, Returns, State, Visit, Waiters, reason_code};
use crate::routing::Load;
use crate::value::Table;

/// See the module.
#[derive(Debug)]
pub(super) struct Features {
    /// The consumer that each group belongs to.
    pub(super) groups: Option<Box<Groups>>,
    /// The ids of messages that the queue has taken.
    pub(super) ids: Ids,
    /// The keys of entries, where only the last value of each is kept.
    pub(super) values: Values,
    /// Entries that were returned and wait before they are delivered again.
    pub(super) waiting: Option<Box<Waiters>>,
    /// What consumers noted on entries that they gave back.
    pub(super) annotations: Option<Box<EntryAnnotations>>,
    /// What the client of its subscription and the broker hand over exactly once.
    pub(super) exactly_once: Option<Box<ExactlyOnce>>,
    /// When messages are due; of a bucket only.
    pub(super) dues: Option<Box<Dues>>,
    /// Deaths whose decision is logged and whose move waits for room.
    pub(super) decided: Rare<BTreeMap<u64, Reason>>,
}

/// A new entry, as the features see it.
pub(super) struct Entered<'a> {
    pub(super) number: u64,
    pub(super) durable: bool,
    /// Its id for deduplication, if it has one.
    pub(super) identity: Option<&'a MessageIdentity>,
    /// Its key, where the queue keeps last values.
    pub(super) key: Option<Arc<[u8]>>,
    /// The group of its reference in the log.
    pub(super) group: Option<Group>,
}

impl Features {
    /// Those of a new queue.
    pub(super) fn new(arguments: &QueueArguments, bucket: Option<&Bucket>, now: u64) -> Self {
        Self {
            groups: arguments.grouping.map(|grouping| Box::new(Groups::new(grouping))),
            ids: Ids::new(arguments.intake.deduplication),
            values: Values::default(),
            waiting: None,
            annotations: None,
            exactly_once: None,
            dues: bucket
                .map(|bucket| Box::new(if bucket.span.is_near(now) { Dues::sorted() } else { Dues::default() })),
            decided: Rare::default(),
        }
    }

    /// A new entry has its number: what belongs to it is logged in its group.
    #[inline]
    pub(super) fn entered(&mut self, entered: Entered<'_>, queue: &Queue, visit: &Visit<'_>) {
        if let Some(identity) = entered.identity {
            self.ids.entered(identity, &entered, queue, visit);
        }
        if entered.key.is_some() {
            self.values.entered(entered, queue, visit);
        }
    }

    /// An entry is in a state from which it does not return to consumers: done or dying.
    #[inline]
    pub(super) fn left(&mut self, number: u64, state: State) {
        if state == State::Done {
            self.ids.left(number);
            if let Some(decided) = self.decided.made_mut() {
                decided.remove(&number);
            }
            if let Some(annotations) = &mut self.annotations {
                annotations.left(number);
            }
        }
        self.values.left(number);
        if let Some(waiting) = &mut self.waiting {
            waiting.left(number);
        }
    }

    /// What consumers noted on an entry.
    #[inline]
    pub(super) fn noted(&self, number: u64) -> Option<Arc<Table>> {
        self.annotations.as_ref().and_then(|annotations| annotations.get(number))
    }

    /// A message of an entry with what consumers noted on it.
    #[inline]
    pub(super) fn show_noted(&self, number: u64, message: Message) -> Message {
        match self.noted(number) {
            Some(noted) => message.noted(&noted),
            None => message,
        }
    }

    /// Ready entries are gone. `is_live` knows those that are there.
    pub(super) fn purged(&mut self, is_live: &dyn Fn(u64) -> bool) {
        self.ids.purged(is_live);
        self.values.purged(is_live);
        if let Some(annotations) = &mut self.annotations {
            annotations.retain(is_live);
        }
        if let Some(dues) = &mut self.dues {
            dues.purged();
        }
    }

    /// The queue is deleted.
    pub(super) fn ended(&mut self) {
        self.groups = None;
        self.ids.ended();
        self.values.ended();
        self.waiting = None;
        self.annotations = None;
        self.exactly_once = None;
        if let Some(dues) = &mut self.dues {
            dues.purged();
        }
        self.decided = Rare::default();
    }

    /// Their memory, in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        let groups = self.groups.as_ref().map_or(0, |groups| groups.heap_bytes());
        let dues = self.dues.as_ref().map_or(0, |dues| dues.heap_bytes());
        let annotations = self.annotations.as_ref().map_or(0, |annotations| annotations.heap_bytes());
        let exactly_once = self.exactly_once.as_ref().map_or(0, |all| all.heap_bytes());
        self.ids.heap_bytes() + self.values.heap_bytes() + dues + groups + annotations + exactly_once
    }
}

/// The facts of a restatement about a queue's entries.
pub(crate) struct Remains<'a> {
    pub(crate) returns: Vec<(u64, Returns)>,
    /// Each with the code of its reason.
    pub(crate) decided: Vec<(u64, u8)>,
    /// Each with its due time.
    pub(crate) waiting: Vec<(u64, u64)>,
    pub(crate) annotations: Option<&'a EntryAnnotations>,
    pub(crate) exactly_once: Option<&'a ExactlyOnce>,
}

/// What is in the log of a bundle, with places. The ids have their scope.
pub(crate) struct RestatedBundle<'a> {
    pub(crate) ids: Option<(Owner, Vec<(u64, &'a RememberedId)>)>,
    pub(crate) keys: Option<Vec<(u64, &'a Keyed)>>,
}

impl Inner {
    /// Ready entries have been taken out of their lanes.
    pub(super) fn purged(&mut self, purged: &mut Purged, context: &QueueContext) {
        self.free_spilled_of(&mut purged.freed, context);
        self.accounting.purged(purged);
        self.features.purged(&|number| self.lanes.is_live(number));
        self.paging.forget_damage();
    }

    /// The end of the queue is logged: everything goes. Returns its consumers.
    pub(super) fn ended(&mut self) -> Vec<Consumer> {
        self.lanes = Lanes::new();
        self.accounting.ended();
        self.unsettled = 0;
        self.features.ended();
        self.bindings.clear();
        self.weight.set(Load::default());
        let mut consumers = self.consumers.made_mut().map(Consumers::clear).unwrap_or_default();
        consumers.extend(self.views.made_mut().into_iter().flat_map(Views::clear));
        consumers
    }

    /// The facts of a restatement besides declaration, bindings and lanes: how often entries were
    /// returned, which deaths are decided, which entries wait, and what was noted on them.
    pub(crate) fn restated(&self) -> Remains<'_> {
        let Features { decided, waiting, annotations, exactly_once, .. } = &self.features;
        Remains {
            returns: self.lanes.returns(),
            decided: decided.iter().map(|(seq, reason)| (*seq, reason_code(*reason))).collect(),
            waiting: waiting.iter().flat_map(|waiting| waiting.iter()).collect(),
            annotations: annotations.as_deref(),
            exactly_once: exactly_once.as_deref(),
        }
    }

    /// The user that the queue counts for.
    pub(crate) fn declared_by(&self) -> Option<&str> {
        self.weight.payer().map(Declared::user)
    }

    /// The facts of a bundle in a restatement.
    pub(crate) fn restated_bundle(&self, bundle: Owner) -> RestatedBundle<'_> {
        let Features { ids, values, .. } = &self.features;
        RestatedBundle { ids: ids.restated(bundle), keys: values.restated(bundle) }
    }
}
