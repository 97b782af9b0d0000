//! The exchanges whose topics have values, each with its name once: values have numbers for them.
//!
//! Invariant: an exchange that is here has a number, and no other has the same.

use std::sync::Arc;

use hashbrown::HashMap;
use journal::Owner;

use super::TopicExchange;
use super::order::{At, Order};
use super::values::Values;

/// An exchange as values have it.
#[derive(Debug, Clone)]
pub(super) struct Named {
    pub(super) exchange: TopicExchange,
    pub(super) name: Arc<str>,
    /// What stands for the name in values.
    pub(super) number: u32,
}

/// The topics of an exchange that have values.
#[derive(Debug)]
pub(super) struct Topics {
    pub(super) of: Named,
    pub(super) order: Order,
}

impl Topics {
    /// Where a topic is, and its place; or where it would be.
    pub(super) fn find(&self, topic: &str, values: &Values) -> Result<(At, u32), At> {
        let at = self.order.seek(|place| values.topic(place) < topic);
        self.order.get(at).filter(|place| values.topic(*place) == topic).map(|place| (at, place)).ok_or(at)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Exchanges {
    topics: HashMap<Owner, Topics>,
    /// By their numbers.
    numbered: Vec<Owner>,
    /// Numbers that none has.
    free: Vec<u32>,
}

impl Exchanges {
    pub(super) fn get(&self, exchange: Owner) -> Option<&Topics> {
        self.topics.get(&exchange)
    }

    pub(super) fn get_mut(&mut self, exchange: Owner) -> Option<&mut Topics> {
        self.topics.get_mut(&exchange)
    }

    /// The exchange with a number that a value has.
    pub(super) fn numbered(&self, number: u32) -> Option<&Topics> {
        self.get(*self.numbered.get(number as usize)?)
    }

    /// The topics of an exchange, which is here from now on.
    pub(super) fn enter(&mut self, exchange: TopicExchange, name: &str) -> &mut Topics {
        let Self { topics, numbered, free } = self;
        topics.entry(exchange.id).or_insert_with(|| {
            let number = free.pop().unwrap_or_else(|| {
                numbered.push(exchange.id);
                numbered.len() as u32 - 1
            });
            numbered[number as usize] = exchange.id;
            Topics { of: Named { exchange, name: name.into(), number }, order: Order::default() }
        })
    }

    /// Takes an exchange out, which no value names any more when others come.
    pub(super) fn remove(&mut self, exchange: Owner) -> Option<Topics> {
        let topics = self.topics.remove(&exchange)?;
        self.free.push(topics.of.number);
        Some(topics)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_of_one_exchange_at_a_time() {
        let mut exchanges = Exchanges::default();
        let mut enter = |id, name| {
            let topics = exchanges.enter(TopicExchange { id, durable: true }, name);
            (topics.of.number, topics.of.name.to_string())
        };
        assert_eq!(enter(7, "seven"), (0, "seven".to_owned()));
        assert_eq!(enter(8, "eight"), (1, "eight".to_owned()));
        assert_eq!(enter(7, "seven"), (0, "seven".to_owned()));
        assert!(exchanges.remove(7).is_some());
        assert!(exchanges.remove(7).is_none());
        assert!(exchanges.numbered(0).is_none());
        assert_eq!(exchanges.enter(TopicExchange { id: 9, durable: false }, "nine").of.number, 0);
        let names = [0, 1, 2].map(|number| exchanges.numbered(number).map(|topics| topics.of.name.to_string()));
        assert_eq!(names, [Some("nine".to_owned()), Some("eight".to_owned()), None]);
    }
}
