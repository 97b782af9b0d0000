//! The subscriptions of one session, found by the topic of a message (section 4.7 of MQTT 5).
//!
//! A message is in the session's queue once, however many filters it matches. Which they are is
//! found here, when it is delivered: one PUBLISH has the highest quality and all identifiers.

use std::collections::HashMap;

use super::seldom::{Seldom, empty};
use crate::codec::{Options, QoS};

/// A subscription without its filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Subscription {
    pub(super) options: Options,
    /// The number that the client gave to it.
    pub(super) id: Option<u32>,
    /// The number of its consumer without a queue; 0 if the session's queue gets its messages.
    pub(super) direct: u32,
}

impl Subscription {
    /// Whether the client has asked for the same.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        (self.options, self.id) == (other.options, other.id)
    }
}

/// A level of filters with wildcards.
#[derive(Debug, Default)]
struct Node {
    /// The subscription whose filter ends here.
    own: Option<Subscription>,
    /// The subscription whose filter ends with `#` below this.
    rest: Option<Subscription>,
    /// In boxes, because a map of one has room for several.
    levels: HashMap<Box<str>, Box<Node>>,
    /// The level `+`.
    any: Option<Box<Node>>,
}

empty!(Node);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Filters {
    /// Those without wildcards, by the one topic that each matches. Most sessions have no others.
    exact: HashMap<Box<str>, Subscription>,
    /// Those with wildcards, level by level.
    wildcards: Seldom<Node>,
    /// How many these are.
    wildcard_count: usize,
    /// The number of the last consumer without a queue.
    directs: u32,
}

fn has_wildcards(filter: &str) -> bool {
    filter.contains(['+', '#'])
}

/// The filters that a message matches.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Matched {
    /// The highest of their qualities; `None` if there are none.
    pub(super) qos: Option<QoS>,
    /// Whether one of them keeps the flag RETAIN.
    pub(super) retain_as_published: bool,
    /// Their identifiers.
    pub(super) ids: Vec<u32>,
    /// The lowest number of their consumers without a queue.
    pub(super) direct: Option<u32>,
}

/// Whose message it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Publisher {
    /// The client that would get it.
    Own,
    /// Another one.
    Other,
}

impl Matched {
    /// One subscription alone.
    pub(super) fn of(subscription: &Subscription) -> Self {
        let mut matched = Self::default();
        matched.add(subscription, Publisher::Other);
        matched
    }

    /// No subscription, for a message that others have put into the session's queue: it has its own
    /// quality.
    pub(super) fn on_purpose() -> Self {
        Self { qos: Some(QoS::ExactlyOnce), ..Self::default() }
    }

    /// A shared subscription alone. Its filter is that behind the name of the group, and a wildcard
    /// at its front matches no topic that begins with `$` either.
    pub(super) fn of_share(filter: &str, subscription: &Subscription, topic: &str) -> Self {
        let is_hidden = topic.starts_with('$') && filter.starts_with(['#', '+']);
        if is_hidden { Self::default() } else { Self::of(subscription) }
    }

    fn add(&mut self, subscription: &Subscription, by: Publisher) {
        if by == Publisher::Own && subscription.options.no_local {
            return;
        }
        self.qos = self.qos.max(Some(subscription.options.qos));
        self.retain_as_published |= subscription.options.retain_as_published;
        self.ids.extend(subscription.id);
        let direct = Some(subscription.direct).filter(|direct| *direct != 0);
        self.direct = [self.direct, direct].into_iter().flatten().min();
    }
}

impl Node {
    fn is_empty(&self) -> bool {
        self.own.is_none() && self.rest.is_none() && self.levels.is_empty() && self.any.is_none()
    }

    /// The place of the subscription whose filter has these levels below this node.
    fn place(&mut self, filter: &str) -> &mut Option<Subscription> {
        let mut node = self;
        for level in filter.split('/') {
            match level {
                "#" => return &mut node.rest,
                "+" => node = node.any.get_or_insert_default(),
                _ => node = node.levels.entry(level.into()).or_default(),
            }
        }
        &mut node.own
    }

    fn get(&self, filter: &str) -> Option<&Subscription> {
        let mut node = self;
        for level in filter.split('/') {
            match level {
                "#" => return node.rest.as_ref(),
                "+" => node = node.any.as_ref()?,
                _ => node = node.levels.get(level)?,
            }
        }
        node.own.as_ref()
    }

    /// Removes the subscription with this filter, and the nodes that only it needs.
    fn remove(&mut self, filter: Option<&str>) -> Option<Subscription> {
        let Some(filter) = filter else { return self.own.take() };
        let (level, below) = filter.split_once('/').map_or((filter, None), |(level, below)| (level, Some(below)));
        match level {
            "#" => self.rest.take(),
            "+" => {
                let removed = self.any.as_mut()?.remove(below);
                self.any.take_if(|any| any.is_empty());
                removed
            }
            _ => {
                let node = self.levels.get_mut(level)?;
                let removed = node.remove(below);
                if node.is_empty() {
                    self.levels.remove(level);
                }
                removed
            }
        }
    }

    fn visit(&self, topic: Option<&str>, visit: &mut dyn FnMut(&Subscription)) {
        // `a/#` matches `a`, too.
        self.rest.iter().for_each(&mut *visit);
        let Some(topic) = topic else { return self.own.iter().for_each(visit) };
        let (level, below) = topic.split_once('/').map_or((topic, None), |(level, below)| (level, Some(below)));
        if let Some(node) = self.levels.get(level) {
            node.visit(below, visit);
        }
        if let Some(node) = &self.any {
            node.visit(below, visit);
        }
    }
}

impl Filters {
    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.exact.len() + self.wildcard_count
    }

    /// A number for a consumer without a queue.
    pub(super) fn next_direct(&mut self) -> u32 {
        self.directs += 1;
        self.directs
    }

    /// The subscription with this filter.
    pub(super) fn get(&self, filter: &str) -> Option<&Subscription> {
        if has_wildcards(filter) { self.wildcards.get(filter) } else { self.exact.get(filter) }
    }

    /// Adds a subscription, in place of the one with the same filter. Returns that.
    pub(super) fn put(&mut self, filter: &str, subscription: Subscription) -> Option<Subscription> {
        if !has_wildcards(filter) {
            return self.exact.insert(filter.into(), subscription);
        }
        let before = self.wildcards.place(filter).replace(subscription);
        self.wildcard_count += usize::from(before.is_none());
        before
    }

    /// Removes a subscription.
    pub(super) fn remove(&mut self, filter: &str) -> Option<Subscription> {
        if !has_wildcards(filter) {
            return self.exact.remove(filter);
        }
        self.wildcards.get(filter)?;
        let removed = self.wildcards.remove(Some(filter))?;
        self.wildcard_count -= 1;
        if self.wildcard_count == 0 {
            self.wildcards.let_go();
        }
        Some(removed)
    }

    /// The subscriptions that a message of this topic matches. A wildcard at the front matches no
    /// topic that begins with `$` [MQTT-4.7.2-1].
    pub(super) fn matching(&self, topic: &str, by: Publisher) -> Matched {
        let mut matched = Matched::default();
        let mut add = |subscription: &Subscription| matched.add(subscription, by);
        self.exact.get(topic).into_iter().for_each(&mut add);
        if self.wildcard_count == 0 {
            return matched;
        }
        if topic.starts_with('$') {
            let (level, below) = topic.split_once('/').map_or((topic, None), |(level, below)| (level, Some(below)));
            if let Some(node) = self.wildcards.levels.get(level) {
                node.visit(below, &mut add);
            }
        } else {
            self.wildcards.visit(Some(topic), &mut add);
        }
        matched
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subscription(id: u32) -> Subscription {
        Subscription { id: Some(id), ..Subscription::default() }
    }

    #[test]
    fn filters_of_the_specification() {
        for (filter, topic, matches) in [
            ("sport/tennis/player1/#", "sport/tennis/player1", true),
            ("sport/tennis/player1/#", "sport/tennis/player1/ranking", true),
            ("sport/#", "sport", true),
            ("#", "a/b", true),
            ("#", "/", true),
            ("sport/tennis/+", "sport/tennis/player1", true),
            ("sport/tennis/+", "sport/tennis/player1/ranking", false),
            ("sport/+", "sport", false),
            ("sport/+", "sport/", true),
            ("+/+", "/finance", true),
            ("/+", "/finance", true),
            ("+", "/finance", false),
            ("#", "$SYS/a", false),
            ("+/monitor/Clients", "$SYS/monitor/Clients", false),
            ("$SYS/#", "$SYS/", true),
            ("$SYS/monitor/+", "$SYS/monitor/Clients", true),
            ("a", "a/", false),
            ("a/b", "a/b", true),
        ] {
            let mut filters = Filters::default();
            assert_eq!(filters.put(filter, subscription(1)), None);
            assert_eq!(filters.matching(topic, Publisher::Other).qos.is_some(), matches, "{filter} {topic}");
            assert_eq!(filters.get(filter), Some(&subscription(1)));
            assert_eq!(filters.remove(filter), Some(subscription(1)));
            assert!(filters.wildcards.is_empty() && filters.count() == 0, "{filter}");
            assert_eq!(filters.remove(filter), None);
        }
    }

    #[test]
    fn a_message_has_the_highest_quality_and_all_identifiers() {
        let mut filters = Filters::default();
        let with = |qos, id| Subscription { options: Options { qos, ..Options::default() }, ..subscription(id) };
        filters.put("a/#", with(QoS::AtMostOnce, 1));
        filters.put("a/b", with(QoS::AtLeastOnce, 2));
        filters.put("+/b", Subscription { id: None, ..with(QoS::AtMostOnce, 0) });
        filters.put("x", with(QoS::ExactlyOnce, 3));
        let mut matched = filters.matching("a/b", Publisher::Other);
        matched.ids.sort_unstable();
        assert_eq!((matched.qos, matched.ids), (Some(QoS::AtLeastOnce), vec![1, 2]));
        assert_eq!(filters.put("a/b", with(QoS::AtMostOnce, 4)), Some(with(QoS::AtLeastOnce, 2)));
        assert_eq!((filters.count(), filters.matching("a/b", Publisher::Other).qos), (4, Some(QoS::AtMostOnce)));
    }

    #[test]
    fn what_the_client_published_itself_is_left_out_where_it_asks_for_that() {
        let mut filters = Filters::default();
        let no_local = Options { no_local: true, ..Options::default() };
        filters.put("a", Subscription { options: no_local, ..subscription(1) });
        assert_eq!(filters.matching("a", Publisher::Own), Matched::default());
        filters.put("#", subscription(2));
        assert_eq!(filters.matching("a", Publisher::Own).ids, [2]);
        assert_eq!(filters.matching("a", Publisher::Other).ids.len(), 2);
    }
}
