//! Where the dead letters of a queue go: through an exchange, or to a queue of their own that a
//! rule names.
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
pub(crate) const QUEUE: &str = "x-dead-letter-queue";
/// The queue whose dead letters a queue was made for.
pub(crate) const MADE_FOR: &str = "x-dead-letters-of";
/// It stands for the name of the queue in a rule.
const PLACE: &str = "{queue}";

/// The ways of dead letters, by the reason of their death. Without a way they are dropped.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Ways {
    /// Of all, but for those that have the other way.
    pub(crate) usual: Option<DeadLetters>,
    /// Of messages that expire.
    pub(crate) expired: Option<DeadLetters>,
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
    /// By `x-dead-letter-queue`: the queue that the key names is made when it is needed.
    pub(crate) is_rule: bool,
}

impl DeadLetters {
    /// Through an exchange.
    pub(crate) fn through(exchange: String) -> Self {
        Self { exchange, routing_key: None, is_rule: false }
    }

    /// The queue that is made for them.
    pub(crate) fn made(&self) -> Option<&str> {
        self.routing_key.as_deref().filter(|_| self.is_rule)
    }
}

impl Ways {
    /// The way of messages that die for this reason.
    pub(crate) fn of(&self, reason: Reason) -> Option<&DeadLetters> {
        let expired = self.expired.as_ref().filter(|_| reason == Reason::Expired);
        expired.or(self.usual.as_ref())
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &DeadLetters> {
        self.usual.iter().chain(&self.expired)
    }

    /// The queue that is made for dead letters.
    pub(crate) fn made(&self) -> Option<&str> {
        self.usual.as_ref().and_then(DeadLetters::made)
    }

    /// Parses one of the arguments named here, or says what is wrong with it.
    pub(super) fn take(&mut self, argument: &str, value: &Value, table: &Table) -> Result<(), String> {
        match argument {
            QUEUE => return self.take_rule(value, table),
            MADE_FOR => return self.take_made_for(value, table),
            EXPIRY_EXCHANGE => self.expired = Some(DeadLetters::through(name(value)?)),
            _ => self.usual = Some(DeadLetters::through(name(value)?)),
        }
        Ok(())
    }

    /// Parses `x-dead-letter-queue`. The key is the rule until [`Ways::name_queue`].
    fn take_rule(&mut self, value: &Value, table: &Table) -> Result<(), String> {
        if table.get(EXCHANGE).is_some() {
            return Err(format!("contradicts {EXCHANGE}: declare one of both"));
        }
        let rule = word(value)?;
        check_rule(rule)?;
        self.usual = Some(DeadLetters { exchange: String::new(), routing_key: Some(rule.to_owned()), is_rule: true });
        Ok(())
    }

    /// Parses `x-dead-letters-of`.
    fn take_made_for(&mut self, value: &Value, table: &Table) -> Result<(), String> {
        if table.get(QUEUE).is_some() {
            return Err(format!("contradicts {QUEUE}: a dead-letter queue has none of its own"));
        }
        self.made_for = Some(name(value)?.into());
        Ok(())
    }

    /// The rule becomes the name that it gives for this queue.
    pub(super) fn name_queue(&mut self, queue: &str) {
        if let Some(DeadLetters { routing_key: Some(key), is_rule: true, .. }) = &mut self.usual {
            *key = named(key, queue);
        }
    }
}

/// The name that a rule gives for a queue.
pub(crate) fn named(rule: &str, queue: &str) -> String {
    rule.replacen(PLACE, queue, 1)
}

fn check_rule(rule: &str) -> Result<(), String> {
    if rule.len() > LONGEST_NAME {
        return Err(format!("{} bytes are too long; at most {LONGEST_NAME} are allowed", rule.len()));
    }
    match rule.matches(PLACE).count() {
        1 if rule == PLACE => {
            Err(format!("a queue can't keep its own dead letters; expected more, such as DLQ.{PLACE}"))
        }
        1 => Ok(()),
        0 => Err(format!(
            "expected {PLACE}, which stands for the name of the queue, as in DLQ.{PLACE}; for one queue of all, set \
             {EXCHANGE} and x-dead-letter-routing-key"
        )),
        _ => Err(format!("expected {PLACE} once")),
    }
}

/// Of several sources of arguments, the declared ones count: takes away of `table` what contradicts
/// their way of dead letters.
pub(crate) fn settle_contradictions(declared: &Table, table: &mut Table) {
    let says = |argument: &str| declared.get(argument).is_some();
    let keep_exchange = !says(QUEUE);
    let keep_rule = !says(EXCHANGE) && !says(MADE_FOR);
    table.0.retain(|(name, _)| match name.as_str() {
        EXCHANGE => keep_exchange,
        QUEUE => keep_rule,
        _ => true,
    });
}
