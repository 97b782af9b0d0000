//! The destinations of a message: the bindings of one exchange, and how its kind matches them.
//!
//! Pure, and by ids only: the caller looks up queues and exchanges. The index of all bindings and
//! the matcher of the kind hold the same bindings at any time. Nothing here depends on the order of
//! a hash map, so the same steps always give the same routes in the same order.

mod binding;
mod direct;
mod envelope;
mod fanout;
mod hash;
mod headers;
mod parts;
mod pattern;
mod reached;
mod sought;
mod targets;
mod topic;

use std::collections::BTreeMap;
use std::ops::Bound;

pub(crate) use self::binding::{Binding, Destination, Load, Tally, Weight};
use self::binding::{BindingIdentity, Paid};
use self::direct::Direct;
pub(crate) use self::envelope::Envelope;
use self::fanout::Fanout;
use self::hash::{Consistent, Modulus};
pub(crate) use self::hash::{HASH_HEADER, HASH_PROPERTY, HashOn, digest};
use self::headers::Headers;
pub(crate) use self::parts::KeyParts;
pub(crate) use self::reached::{Reached, STEPS};
pub(crate) use self::sought::{Look, Sought};
use self::topic::Topic;
use crate::encoding::check_depth;
use crate::error::Error;
use crate::memory::ledger::Declared;
use crate::value::Table;

/// How an exchange chooses among its bindings.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum ExchangeKind {
    /// By the routing key.
    Direct,
    /// All of them.
    Fanout,
    /// By the words of the routing key, with `*` and `#`.
    Topic,
    /// By the message's headers.
    Headers,
    /// One of them, by a hash; the binding key is a weight.
    ConsistentHash,
    /// One of them, by the hash of the routing key modulo their number.
    ModulusHash,
    /// All of them, without duplicates.
    Deduplication,
    /// Like another kind, after a delay.
    Delayed,
}

impl ExchangeKind {
    pub(crate) const ALL: [Self; 8] = [
        Self::Direct,
        Self::Fanout,
        Self::Topic,
        Self::Headers,
        Self::ConsistentHash,
        Self::ModulusHash,
        Self::Deduplication,
        Self::Delayed,
    ];

    /// The kind of this name, as in a declaration.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Its name in declarations.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Fanout => "fanout",
            Self::Topic => "topic",
            Self::Headers => "headers",
            Self::ConsistentHash => "x-consistent-hash",
            Self::ModulusHash => "x-modulus-hash",
            Self::Deduplication => "x-message-deduplication",
            Self::Delayed => "x-delayed-message",
        }
    }
}

/// The bindings of one exchange.
#[derive(Debug)]
pub(crate) struct Bindings {
    /// All of them, those of one destination together. So a destination is removed with its
    /// bindings at no cost to the others. One map, not one for each destination: most have a single
    /// binding, and a map's node has room for many.
    index: BTreeMap<(Destination, BindingIdentity), PaidBinding>,
    matcher: Matcher,
    /// Counts the bindings of the index.
    tally: Tally,
    /// The memory of their keys and arguments.
    text_bytes: u64,
    /// Their memory, with that of the matcher.
    weight: Weight,
}

/// A binding of an exchange, and the user that it counts for.
#[derive(Debug)]
struct PaidBinding {
    binding: Binding,
    _paid: Option<Paid>,
}

/// A binding that passed the checks of its exchange and is counted, but not added yet.
#[derive(Debug)]
pub(crate) struct AdmittedBinding {
    binding: Binding,
    identity: BindingIdentity,
    paid: Option<Paid>,
}

impl AdmittedBinding {
    /// It counts for this user while it is there.
    pub(crate) fn paid_by(self, payer: &Declared) -> Self {
        Self { paid: Some(Paid::new(payer, self.binding.heap_bytes())), ..self }
    }

    pub(crate) fn destination(&self) -> Destination {
        self.binding.destination
    }

    /// Its position, which it has once it is added.
    pub(crate) fn place(&self) -> BindingCursor {
        BindingCursor((self.binding.destination, self.identity.clone()))
    }
}

/// The matcher of the exchange's kind.
#[derive(Debug)]
enum Matcher {
    Direct(Direct),
    Fanout(Fanout),
    Topic(Topic),
    /// Compares with every binding of the index.
    Headers,
    Consistent(Consistent),
    Modulus(Modulus),
}

impl Matcher {
    fn add(&mut self, binding: &Binding) {
        match self {
            Self::Direct(direct) => direct.add(&binding.key, binding.destination),
            Self::Fanout(fanout) => fanout.add(binding.destination),
            Self::Topic(topic) => topic.add(&binding.key, binding.destination),
            Self::Headers => {}
            Self::Consistent(consistent) => consistent.add(kept_weight(binding), binding.destination),
            Self::Modulus(modulus) => modulus.add(binding.destination),
        }
    }

    fn remove(&mut self, binding: &Binding) {
        match self {
            Self::Direct(direct) => direct.remove(&binding.key, binding.destination),
            Self::Fanout(fanout) => fanout.remove(binding.destination),
            Self::Topic(topic) => topic.remove(&binding.key, binding.destination),
            Self::Headers => {}
            Self::Consistent(consistent) => consistent.remove(kept_weight(binding), binding.destination),
            Self::Modulus(modulus) => modulus.remove(binding.destination),
        }
    }

    /// Whether a message follows this binding of a destination that it reaches.
    fn leads_by(&self, binding: &Binding, envelope: &Envelope<'_>) -> bool {
        let mut reached = Reached::within(STEPS);
        match self {
            Self::Direct(_) => return envelope.keys().any(|key| key == &*binding.key),
            Self::Topic(_) => {
                let mut alone = Topic::default();
                alone.add(&binding.key, binding.destination);
                by_each_key(envelope, &mut reached, |key, into| alone.route(key, into));
            }
            Self::Headers => {
                return headers::matches(&binding.arguments, &Headers::of(envelope.headers()), &mut reached);
            }
            Self::Fanout(_) | Self::Consistent(_) | Self::Modulus(_) => return true,
        }
        !reached.is_empty()
    }

    /// Bytes of memory that it takes besides the keys.
    fn heap_bytes(&self) -> u64 {
        if let Self::Topic(topic) = self { topic.heap_bytes() } else { 0 }
    }
}

/// The weight of an accepted binding, whose key is a valid weight.
fn kept_weight(binding: &Binding) -> u64 {
    hash::weight(&binding.key).unwrap_or_default()
}

/// The position of a binding among those of its exchange.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BindingCursor((Destination, BindingIdentity));

impl Bindings {
    /// The empty bindings of an exchange that routes as `kind`; a delayed exchange gives another
    /// kind here. Only a consistent-hash exchange uses `hash_on`. Bindings are counted by `tally`.
    pub(crate) fn new(kind: ExchangeKind, hash_on: HashOn, tally: &Tally) -> Self {
        let matcher = match kind {
            // A delayed exchange gives the kind that it routes as.
            ExchangeKind::Direct | ExchangeKind::Delayed => Matcher::Direct(Direct::default()),
            ExchangeKind::Fanout | ExchangeKind::Deduplication => Matcher::Fanout(Fanout::default()),
            ExchangeKind::Topic => Matcher::Topic(Topic::default()),
            ExchangeKind::Headers => Matcher::Headers,
            ExchangeKind::ConsistentHash => Matcher::Consistent(Consistent::new(hash_on)),
            ExchangeKind::ModulusHash => Matcher::Modulus(Modulus::default()),
        };
        // Each user pays for its own bindings.
        let tally = tally.unpaid();
        let weight = Weight::new(&tally, Load::default());
        Self { index: BTreeMap::new(), matcher, tally, text_bytes: 0, weight }
    }

    /// The part of the messages that a binding with this key concerns; `None` for all. Parts of a
    /// message are those of [`Bindings::parts_of`].
    pub(crate) fn part_of(&self, key: &str) -> Option<u64> {
        match self.matcher {
            Matcher::Direct(_) => Some(digest(key.as_bytes())),
            Matcher::Topic(_) => parts::of_pattern(key),
            _ => None,
        }
    }

    /// The parts of a message with this routing key.
    pub(crate) fn parts_of<'k>(&self, key: &'k KeyParts) -> &'k [u64] {
        match self.matcher {
            Matcher::Direct(_) => &key.whole,
            Matcher::Topic(_) => &key.words,
            _ => &[],
        }
    }

    /// An error of kind `Precondition` when the arguments can't be matched, or are nested too deep
    /// to be stored. Also when the key must be a weight and is none.
    pub(crate) fn check(&self, key: &str, arguments: &Table) -> Result<(), Error> {
        match self.matcher {
            Matcher::Headers => headers::validate(arguments)?,
            Matcher::Consistent(_) => drop(hash::weight(key)?),
            _ => {}
        }
        check_depth(arguments)
    }

    /// Counts a binding that is to be added; `None` when it is there already. An error where
    /// [`Bindings::check`] has one, and when all exchanges together have `limit` bindings already.
    pub(crate) fn admit(&self, binding: Binding, limit: u64) -> Result<Option<AdmittedBinding>, Error> {
        self.check(&binding.key, &binding.arguments)?;
        let identity = BindingIdentity::of(&binding)?;
        if self.index.contains_key(&(binding.destination, identity.clone())) {
            return Ok(None);
        }
        if !self.tally.admit(limit) {
            return Err(Error::precondition(format!("limit of {limit} bindings is reached")));
        }
        Ok(Some(AdmittedBinding { binding, identity, paid: None }))
    }

    /// Adds a binding that [`Bindings::admit`] has counted.
    pub(crate) fn add(&mut self, admitted: AdmittedBinding) {
        let AdmittedBinding { binding, identity, paid } = admitted;
        self.text_bytes += binding.heap_bytes();
        self.matcher.add(&binding);
        self.weigh();
        self.index.insert((binding.destination, identity), PaidBinding { binding, _paid: paid });
    }

    /// Removes a binding: false when it was not there.
    pub(crate) fn remove(&mut self, binding: &Binding) -> bool {
        let Ok(identity) = BindingIdentity::of(binding) else { return false };
        let removed = self.index.remove(&(binding.destination, identity)).is_some();
        if removed {
            self.tally.left(1);
            self.text_bytes -= binding.heap_bytes();
            self.matcher.remove(binding);
            self.weigh();
        }
        removed
    }

    /// Removes and returns all bindings to `destination`. The cost grows with their number only.
    pub(crate) fn remove_destination(&mut self, destination: Destination) -> Vec<Binding> {
        let identities: Vec<_> = self.leading_to(destination).map(|(identity, _)| identity.clone()).collect();
        let removed = identities.into_iter().filter_map(|identity| self.index.remove(&(destination, identity)));
        let removed: Vec<Binding> = removed.map(|entry| entry.binding).collect();
        self.tally.left(removed.len());
        for binding in &removed {
            self.text_bytes -= binding.heap_bytes();
            self.matcher.remove(binding);
        }
        self.weigh();
        removed
    }

    fn weigh(&mut self) {
        self.weight.set(Load { logged: 0, memory: self.text_bytes + self.matcher.heap_bytes() });
    }

    /// What a binding takes at most that is not there yet.
    pub(crate) fn load_of(&self, key: &str, arguments: &Table) -> Load {
        let load = Load::of_binding(key, arguments);
        let nodes = if let Matcher::Topic(_) = self.matcher { topic::heap_bytes_of(key) } else { 0 };
        Load { memory: load.memory + nodes, ..load }
    }

    /// The next bindings behind a position, no more than `most`, and the position of the last.
    pub(crate) fn page(&self, after: Option<&BindingCursor>, most: usize) -> (Vec<&Binding>, Option<BindingCursor>) {
        let from = after.map_or(Bound::Unbounded, |BindingCursor(place)| Bound::Excluded(place));
        let mut last = None;
        let page = self.index.range((from, Bound::Unbounded)).take(most).map(|(place, entry)| {
            last = Some(place);
            &entry.binding
        });
        let page = page.collect();
        (page, last.cloned().map(BindingCursor))
    }

    /// The bindings to `destination`.
    pub(crate) fn to(&self, destination: Destination) -> impl Iterator<Item = &Binding> {
        self.leading_to(destination).map(|(_, binding)| binding)
    }

    /// The same, with their identities.
    fn leading_to(&self, destination: Destination) -> impl Iterator<Item = (&BindingIdentity, &Binding)> {
        let all = self.index.range((destination, BindingIdentity::least())..);
        all.take_while(move |((other, _), _)| *other == destination)
            .map(|((_, identity), entry)| (identity, &entry.binding))
    }

    /// Whether this binding is there.
    pub(crate) fn contains(&self, binding: &Binding) -> bool {
        BindingIdentity::of(binding).is_ok_and(|identity| self.index.contains_key(&(binding.destination, identity)))
    }

    /// Number of bindings.
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// True without bindings.
    pub(crate) fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// All bindings, those of one destination together.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Binding> {
        self.index.values().map(|entry| &entry.binding)
    }

    /// True when a message's own routing key decides alone. Then all messages with one key have one
    /// route.
    pub(crate) fn are_by_key(&self) -> bool {
        match &self.matcher {
            Matcher::Direct(_) | Matcher::Fanout(_) | Matcher::Topic(_) | Matcher::Modulus(_) => true,
            Matcher::Headers => false,
            Matcher::Consistent(consistent) => consistent.is_by_key(),
        }
    }

    /// The bindings that lead a message to `destination`: each is asked alone, by the matcher of
    /// the kind. Where a hash chooses, all bindings to it lead there.
    pub(crate) fn that_lead(&self, envelope: &Envelope<'_>, destination: Destination) -> Vec<&Binding> {
        self.to(destination).filter(|binding| self.matcher.leads_by(binding, envelope)).collect()
    }

    /// Adds the destinations of a message while steps are left.
    pub(crate) fn route(&self, envelope: &Envelope<'_>, into: &mut Reached) {
        match &self.matcher {
            Matcher::Direct(direct) => by_each_key(envelope, into, |key, into| direct.route(key, into)),
            Matcher::Fanout(fanout) => fanout.route(into),
            Matcher::Topic(topic) => by_each_key(envelope, into, |key, into| topic.route(key, into)),
            Matcher::Headers => self.route_by_headers(envelope, into),
            Matcher::Consistent(consistent) => consistent.route(envelope, into),
            Matcher::Modulus(modulus) => modulus.route(envelope.key(), into),
        }
    }

    fn route_by_headers(&self, envelope: &Envelope<'_>, into: &mut Reached) {
        if self.index.is_empty() || !into.charge(envelope.headers().len()) {
            return;
        }
        let headers = Headers::of(envelope.headers());
        let mut last = None;
        for PaidBinding { binding, .. } in self.index.values() {
            // Bindings of one destination are together.
            if last != Some(binding.destination) && headers::matches(&binding.arguments, &headers, into) {
                last = Some(binding.destination);
                into.add(binding.destination);
            }
            if into.is_spent() {
                return;
            }
        }
    }
}

/// Routes by each of a message's keys in turn while steps are left.
fn by_each_key(envelope: &Envelope<'_>, into: &mut Reached, route: impl Fn(&str, &mut Reached)) {
    for key in envelope.keys() {
        route(key, into);
        if into.is_spent() {
            return;
        }
    }
}

impl Drop for Bindings {
    /// The bindings go with their exchange.
    fn drop(&mut self) {
        self.tally.left(self.len());
    }
}

#[cfg(test)]
mod tests;
