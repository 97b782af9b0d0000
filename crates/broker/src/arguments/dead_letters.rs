//! Where the dead letters of a queue go: through an exchange, or to a queue of their own that a
//! rule names. What expires may have another way than the rest, of either kind, or none.
//!
//! A rule has the name of the queue in it, and more. So no queue is its own dead-letter queue, and
//! no two queues share one.

use super::{LONGEST_NAME, name, word};
use crate::message::annotations::Reason;
use crate::value::{Table, Value};

/// The exchange that dead letters go through.
pub(super) const EXCHANGE: &str = "x-dead-letter-exchange";
/// The exchange that expired messages go through.
pub(super) const EXPIRY_EXCHANGE: &str = "x-expiry-exchange";
/// The rule that names a dead-letter queue.
pub(super) const QUEUE: &str = "x-dead-letter-queue";
/// The rule that names a queue for expired messages. Empty: they are dropped.
pub(super) const EXPIRY_QUEUE: &str = "x-expiry-queue";
/// The queue whose dead letters a queue was made for.
pub(crate) const MADE_FOR: &str = "x-dead-letters-of";
/// It stands for the name of the queue in a rule.
const PLACE: &str = "{queue}";

/// A rule that names queues, and what it excludes.
struct Rule {
    argument: &'static str,
    /// The exchange that the same messages would go through otherwise.
    exchange: &'static str,
    /// The key for that exchange.
    key: &'static str,
    /// What the names that it gives may begin with.
    example: &'static str,
}

const RULES: [Rule; 2] = [
    Rule { argument: QUEUE, exchange: EXCHANGE, key: "x-dead-letter-routing-key", example: "DLQ." },
    Rule { argument: EXPIRY_QUEUE, exchange: EXPIRY_EXCHANGE, key: "x-expiry-routing-key", example: "EXP." },
];

/// The ways of dead letters, by the reason of their death. Without a way they are dropped.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Ways {
    /// Of all, but for those that have the other way.
    pub(crate) usual: Option<DeadLetters>,
    /// Of messages that expire.
    pub(crate) expired: Option<DeadLetters>,
    /// Messages that expire have none: they are dropped.
    pub(crate) drops_expired: bool,
    /// `x-dead-letters-of`: the queue whose dead letters this one was made for.
    pub(crate) made_for: Option<Box<str>>,
}

/// The way of dead letters.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct DeadLetters {
    /// `x-dead-letter-exchange` or `x-expiry-exchange`; the empty name is the default exchange.
    pub(crate) exchange: String,
    /// `x-dead-letter-routing-key` or `x-expiry-routing-key`; `None` keeps the message's own keys.
    pub(crate) routing_key: Option<String>,
    /// By `x-dead-letter-queue` or `x-expiry-queue`: the queue of the key is made when needed.
    pub(crate) is_rule: bool,
}

impl DeadLetters {
    /// Through an exchange.
    pub(crate) fn through(exchange: String) -> Self {
        Self { exchange, routing_key: None, is_rule: false }
    }

    /// To a queue of their own. The key is the rule until [`Ways::name_queues`].
    fn by(rule: &Rule, value: &Value, table: &Table) -> Result<Self, String> {
        if table.get(rule.exchange).is_some() {
            return Err(format!("contradicts {}: declare one of both", rule.exchange));
        }
        let names = word(value)?;
        rule.check(names)?;
        Ok(Self { exchange: String::new(), routing_key: Some(names.to_owned()), is_rule: true })
    }

    /// The queue that is made for them.
    pub(crate) fn made(&self) -> Option<&str> {
        self.routing_key.as_deref().filter(|_| self.is_rule)
    }
}

impl Ways {
    /// The way of messages that die for this reason.
    pub(crate) fn of(&self, reason: Reason) -> Option<&DeadLetters> {
        match reason {
            Reason::Expired if self.drops_expired => None,
            Reason::Expired => self.expired.as_ref().or(self.usual.as_ref()),
            _ => self.usual.as_ref(),
        }
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &DeadLetters> {
        self.usual.iter().chain(&self.expired)
    }

    /// The queues that are made for dead letters.
    pub(crate) fn made(&self) -> impl Iterator<Item = &str> {
        self.all().filter_map(DeadLetters::made)
    }

    /// Parses one of the arguments named here, or says what is wrong with it.
    pub(super) fn take(&mut self, argument: &str, value: &Value, table: &Table) -> Result<(), String> {
        match argument {
            QUEUE => self.usual = Some(DeadLetters::by(&RULES[0], value, table)?),
            EXPIRY_QUEUE if value.as_text() == Some("") && table.get(EXPIRY_EXCHANGE).is_none() => {
                self.drops_expired = true;
            }
            EXPIRY_QUEUE => self.expired = Some(DeadLetters::by(&RULES[1], value, table)?),
            MADE_FOR => return self.take_made_for(value, table),
            EXPIRY_EXCHANGE => self.expired = Some(DeadLetters::through(name(value)?)),
            _ => self.usual = Some(DeadLetters::through(name(value)?)),
        }
        Ok(())
    }

    /// Parses `x-dead-letters-of`.
    fn take_made_for(&mut self, value: &Value, table: &Table) -> Result<(), String> {
        if let Some(rule) = RULES.iter().find(|rule| table.get(rule.argument).is_some()) {
            return Err(format!("contradicts {}: a dead-letter queue has none of its own", rule.argument));
        }
        self.made_for = Some(name(value)?.into());
        Ok(())
    }

    /// The rules become the names that they give for this queue.
    pub(super) fn name_queues(&mut self, queue: &str) {
        for way in self.usual.iter_mut().chain(&mut self.expired).filter(|way| way.is_rule) {
            way.routing_key.iter_mut().for_each(|key| *key = named(key, queue));
        }
    }
}

/// The name that a rule gives for a queue.
pub(crate) fn named(rule: &str, queue: &str) -> String {
    rule.replacen(PLACE, queue, 1)
}

impl Rule {
    fn check(&self, names: &str) -> Result<(), String> {
        if names.len() > LONGEST_NAME {
            return Err(format!("{} bytes are too long; at most {LONGEST_NAME} are allowed", names.len()));
        }
        let Self { exchange, key, example, .. } = self;
        match names.matches(PLACE).count() {
            1 if names == PLACE => {
                Err(format!("a queue can't keep its own dead letters; expected more, such as {example}{PLACE}"))
            }
            1 => Ok(()),
            0 => Err(format!(
                "expected {PLACE}, which stands for the name of the queue, as in {example}{PLACE}; for one queue of all, \
                 set {exchange} and {key}"
            )),
            _ => Err(format!("expected {PLACE} once")),
        }
    }
}

/// The exchanges of dead letters that `table` does not have and that another source of arguments
/// may name: no rule here stands in their place.
pub(super) fn exchanges_of_others(table: &Table) -> impl Iterator<Item = &'static str> {
    let free = |rule: &&Rule| [rule.exchange, rule.argument].iter().all(|name| table.get(name).is_none());
    RULES.iter().filter(free).map(|rule| rule.exchange)
}

/// Of several sources of arguments, the declared ones count: takes away of `table` what contradicts
/// their way of dead letters.
pub(crate) fn settle_contradictions(declared: &Table, table: &mut Table) {
    let says = |argument: &str| declared.get(argument).is_some();
    for rule in &RULES {
        let (keeps_exchange, keeps_rule) = (!says(rule.argument), !says(rule.exchange) && !says(MADE_FOR));
        table.0.retain(|(name, _)| match name {
            name if name == rule.exchange => keeps_exchange,
            name if name == rule.argument => keeps_rule,
            _ => true,
        });
    }
}
