//! Which destinations a message goes to: the bindings of one exchange and how its kind matches them.
//!
//! Pure, and by ids only: queues and exchanges are looked up by whoever asks. The index of all bindings and the
//! matcher of the kind hold the same bindings at any time. Nothing here depends on the order of a hash map, so that
//! the same steps always give the same routes in the same order.

mod binding;
mod direct;
mod fanout;
mod headers;
mod pattern;
mod targets;
mod topic;

use std::collections::BTreeMap;

use self::binding::Identity;
pub(crate) use self::binding::{Binding, Destination};
use self::direct::Direct;
use self::fanout::Fanout;
use self::topic::Topic;
use crate::error::Error;
use crate::message::value::Table;

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
}

impl ExchangeKind {
    /// The kind of this name, as in a declaration.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        [Self::Direct, Self::Fanout, Self::Topic, Self::Headers].into_iter().find(|kind| kind.name() == name)
    }

    /// Its name in declarations.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Fanout => "fanout",
            Self::Topic => "topic",
            Self::Headers => "headers",
        }
    }
}

/// The bindings of one exchange.
#[derive(Debug)]
pub(crate) struct Bindings {
    /// All of them, those of one destination together, so that a destination goes with its bindings at no cost to the
    /// others. One map, not one for each destination: most have a single binding, and a map's node has room for many.
    index: BTreeMap<(Destination, Identity), Binding>,
    matcher: Matcher,
}

/// What the exchange's kind routes by.
#[derive(Debug)]
enum Matcher {
    Direct(Direct),
    Fanout(Fanout),
    Topic(Topic),
    /// Compares with every binding of the index.
    Headers,
}

impl Matcher {
    fn add(&mut self, binding: &Binding) {
        match self {
            Self::Direct(direct) => direct.add(&binding.key, binding.destination),
            Self::Fanout(fanout) => fanout.add(binding.destination),
            Self::Topic(topic) => topic.add(&binding.key, binding.destination),
            Self::Headers => {}
        }
    }

    fn remove(&mut self, binding: &Binding) {
        match self {
            Self::Direct(direct) => direct.remove(&binding.key, binding.destination),
            Self::Fanout(fanout) => fanout.remove(binding.destination),
            Self::Topic(topic) => topic.remove(&binding.key, binding.destination),
            Self::Headers => {}
        }
    }
}

impl Bindings {
    /// No bindings yet.
    pub(crate) fn new(kind: ExchangeKind) -> Self {
        let matcher = match kind {
            ExchangeKind::Direct => Matcher::Direct(Direct::default()),
            ExchangeKind::Fanout => Matcher::Fanout(Fanout::default()),
            ExchangeKind::Topic => Matcher::Topic(Topic::default()),
            ExchangeKind::Headers => Matcher::Headers,
        };
        Self { index: BTreeMap::new(), matcher }
    }

    /// Adds a binding: false when it was there already. An error of kind `Precondition` when the arguments can't be
    /// matched by or are nested too deep to be kept.
    pub(crate) fn insert(&mut self, binding: Binding) -> Result<bool, Error> {
        if let Matcher::Headers = self.matcher {
            headers::validate(&binding.arguments)?;
        }
        let place = (binding.destination, Identity::of(&binding)?);
        if self.index.contains_key(&place) {
            return Ok(false);
        }
        self.matcher.add(&binding);
        self.index.insert(place, binding);
        Ok(true)
    }

    /// Removes a binding: false when it was not there.
    pub(crate) fn remove(&mut self, binding: &Binding) -> bool {
        let Ok(identity) = Identity::of(binding) else { return false };
        let removed = self.index.remove(&(binding.destination, identity)).is_some();
        if removed {
            self.matcher.remove(binding);
        }
        removed
    }

    /// Removes and gives back all bindings that lead to `destination`, at a cost that grows with their number only.
    pub(crate) fn remove_destination(&mut self, destination: Destination) -> Vec<Binding> {
        let identities: Vec<_> = self.leading_to(destination).map(|(identity, _)| identity.clone()).collect();
        let removed: Vec<Binding> =
            identities.into_iter().filter_map(|identity| self.index.remove(&(destination, identity))).collect();
        for binding in &removed {
            self.matcher.remove(binding);
        }
        removed
    }

    /// The bindings that lead to `destination`.
    fn leading_to(&self, destination: Destination) -> impl Iterator<Item = (&Identity, &Binding)> {
        let all = self.index.range((destination, Identity::least())..);
        all.take_while(move |((other, _), _)| *other == destination).map(|((_, identity), binding)| (identity, binding))
    }

    /// Whether this binding is there.
    pub(crate) fn contains(&self, binding: &Binding) -> bool {
        Identity::of(binding).is_ok_and(|identity| self.index.contains_key(&(binding.destination, identity)))
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
        self.index.values()
    }

    /// Appends each destination of a message with this routing key. One destination may come several times.
    ///
    /// `headers` gives the message's headers, or none when it has none; it is called at most once, and only where
    /// the kind looks at them.
    pub(crate) fn route(&self, key: &str, headers: &mut dyn FnMut() -> Option<Table>, into: &mut Vec<Destination>) {
        match &self.matcher {
            Matcher::Direct(direct) => direct.route(key, into),
            Matcher::Fanout(fanout) => fanout.route(into),
            Matcher::Topic(topic) => topic.route(key, into),
            Matcher::Headers => self.route_by_headers(headers, into),
        }
    }

    fn route_by_headers(&self, headers: &mut dyn FnMut() -> Option<Table>, into: &mut Vec<Destination>) {
        if self.is_empty() {
            return;
        }
        let headers = headers().unwrap_or_default();
        for binding in self.index.values().filter(|binding| headers::matches(&binding.arguments, &headers)) {
            // Those of one destination lie together.
            if into.last() != Some(&binding.destination) {
                into.push(binding.destination);
            }
        }
    }
}

#[cfg(test)]
mod tests;
