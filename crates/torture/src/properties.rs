//! The properties that a message is published with, which follow from its name, and what a delivery
//! must show of them: what the broker keeps beside a body must be neither lost nor mixed up.
//!
//! Both protocols tell of properties by the same names here, those of headers of STOMP where it has
//! them.

use crate::random::Random;
use crate::stamp::{DeliveryMode, Id, Stamp};
use crate::topology::{self, KEY, QUEUES, members, route_of, source_of};

/// One property, as text.
pub(crate) type Field = (&'static str, String);

pub(crate) const CONTENT_TYPE: &str = "content-type";
pub(crate) const CORRELATION_ID: &str = "correlation-id";
pub(crate) const MESSAGE_ID: &str = "amqp-message-id";
pub(crate) const TYPE: &str = "type";
pub(crate) const APP_ID: &str = "app-id";
pub(crate) const TIMESTAMP: &str = "timestamp";
pub(crate) const PRIORITY: &str = "priority";
/// Whether it survives a restart, as `true` and `false`.
pub(crate) const PERSISTENT: &str = "persistent";
/// A header that is text.
pub(crate) const WORD: &str = "crash-word";
/// A header that is a number where the protocol has them.
pub(crate) const NUMBER: &str = "crash-number";

/// The header with the name of a message's group.
pub(crate) const GROUP: &str = "JMSXGroupID";

/// What the broker adds to a message that died, in headers that both protocols show: queue, reason,
/// exchange.
pub(crate) const FIRST_DEATH: [&str; 3] = ["x-first-death-queue", "x-first-death-reason", "x-first-death-exchange"];
pub(crate) const LAST_DEATH: [&str; 3] = ["x-last-death-queue", "x-last-death-reason", "x-last-death-exchange"];
/// The story of all deaths, which STOMP does not show: queue, reason, exchange and keys of each.
pub(crate) const STORY: &str = "x-death";
/// How often it died, in the same.
pub(crate) const DEATHS: &str = "x-death count";

/// How often it came back, where its queue counts that.
pub(crate) const RETURNS: &str = "x-delivery-count";

const EXCHANGE: &str = "exchange";
const ROUTING_KEY: &str = "routing key";

/// Values of headers that a codec may stumble over.
const WORDS: [&str; 8] = ["", "plain", "a:b", "line\nnext", "back\\slash", "Grüße", "=;,\"'", "  spaces  "];
const TYPES: [&str; 4] = ["text/plain", "application/json", "application/octet-stream", "text/x-crash; a=b"];
/// A moment that timestamps count from.
const EPOCH: u64 = 1_700_000_000;

/// What a message of this name is published with. Some have fewer properties than others.
pub(crate) fn of(id: Id, mode: DeliveryMode) -> Vec<Field> {
    let mut random = Random::new(u64::from(id.producer) << 32 ^ id.seq);
    // The name tells of the delivery mode, too, so that a delivery alone says what was published.
    let mode = match mode {
        DeliveryMode::Persistent => "kept",
        DeliveryMode::Transient => "passing",
    };
    let mut fields = vec![(CORRELATION_ID, format!("{}-{}-{mode}", id.producer, id.seq))];
    let optional: [Field; 6] = [
        (CONTENT_TYPE, (*random.pick(&TYPES)).to_owned()),
        (MESSAGE_ID, format!("m{}", id.seq)),
        (TYPE, format!("type.{}", id.seq % 7)),
        (APP_ID, format!("app {}", id.producer)),
        (TIMESTAMP, (EPOCH + id.seq).to_string()),
        (WORD, random.pick(&WORDS).repeat(random.within(1..=9) as usize)),
    ];
    fields.extend(optional.into_iter().filter(|_| random.chance(60)));
    fields.push((NUMBER, id.seq.to_string()));
    fields.push((GROUP, format!("group {}", topology::group(id.seq))));
    fields.push((KEY, format!("{}-{}", id.producer, topology::key(id.seq))));
    fields
}

/// What a delivery showed beside the body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) exchange: String,
    pub(crate) key: String,
    /// Those that are named here; all others are none of the load's.
    pub(crate) fields: Vec<Field>,
    /// Whether the protocol tells of all deaths, and not of the first and the last alone.
    pub(crate) has_story: bool,
}

impl Shown {
    /// What a delivery of AMQP from `queue` shows of a persistent message, with these marks.
    #[cfg(test)]
    pub(crate) fn sound(queue: usize, stamp: &Stamp, marks: &[Field]) -> Self {
        let fields = [&[(PERSISTENT, "true".to_owned())], marks].concat();
        Self { fields, has_story: true, ..Self::default() }.expected(queue, stamp)
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| *known == name).map(|(_, text)| text.as_str())
    }

    /// What this delivery from `queue` should have shown.
    fn expected(&self, queue: usize, stamp: &Stamp) -> Self {
        let persistent = self.get(PERSISTENT) == Some("true");
        let mode = if persistent { DeliveryMode::Persistent } else { DeliveryMode::Transient };
        let mut fields = of(stamp.id, mode);
        fields.push((PERSISTENT, persistent.to_string()));
        let ranked = members(stamp.queues).map(|queue| &QUEUES[queue]).find(|queue| queue.max_priority.is_some());
        fields.extend(ranked.map(|queue| (PRIORITY, queue.rank(stamp.id.seq).to_string())));
        // A count beyond the limit is the dead letter's. Where what comes back waits, there is no
        // limit.
        let limit = QUEUES[queue].delivery_limit.or(QUEUES[queue].retry_ms.map(|_| i64::MAX));
        let returns = self.get(RETURNS).and_then(|count| count.parse().ok()).filter(|count| Some(*count) <= limit);
        fields.extend(returns.filter(|count: &i64| *count > 0).map(|count| (RETURNS, count.to_string())));
        let route = route_of(stamp.queues);
        let (mut exchange, mut key) = route.map_or(("", ""), |route| (route.exchange, route.key));
        // What was sent back keeps the story of its death.
        let returned = QUEUES[queue].redriven && self.get(FIRST_DEATH[0]).is_some();
        if let Some(source) = source_of(queue).or(returned.then_some(queue)) {
            fields.extend(self.death_in(source, exchange, key));
            if !returned {
                (exchange, key) = ("", QUEUES[queue].name);
            }
        }
        Self { exchange: exchange.to_owned(), key: key.to_owned(), fields, has_story: self.has_story }
    }

    /// The marks of a death in a queue to which it came by this exchange and key.
    fn death_in(&self, source: usize, exchange: &str, key: &str) -> Vec<Field> {
        let queue = &QUEUES[source];
        let reasons = queue.reasons();
        let reason = reasons.iter().find(|reason| self.get(FIRST_DEATH[1]) == Some(reason)).unwrap_or(&reasons[0]);
        let told = [queue.name, reason, exchange].map(str::to_owned);
        let mut fields: Vec<Field> = FIRST_DEATH.into_iter().zip(told.clone()).collect();
        fields.extend(LAST_DEATH.into_iter().zip(told));
        if self.has_story {
            fields.push((STORY, story(queue.name, reason, exchange, key)));
            // What is sent back may die again, any number of times.
            let often =
                self.get(DEATHS).filter(|count| queue.redriven && count.parse().is_ok_and(|count: u64| count > 0));
            fields.push((DEATHS, often.unwrap_or("1").to_owned()));
        }
        fields
    }

    /// Where these properties differ from what a delivery from `queue` must show, if they do.
    pub(crate) fn difference(&self, queue: usize, stamp: &Stamp) -> Option<String> {
        let expected = self.expected(queue, stamp);
        for (what, shown, published) in
            [(EXCHANGE, &self.exchange, &expected.exchange), (ROUTING_KEY, &self.key, &expected.key)]
        {
            if shown != published {
                return Some(format!("{what} {shown:?}, not {published:?}"));
            }
        }
        let names = expected.fields.iter().chain(&self.fields).map(|(name, _)| *name);
        let changed = names.into_iter().find(|name| self.get(name) != expected.get(name))?;
        Some(format!("{changed} {:?}, not {:?}", self.get(changed), expected.get(changed)))
    }
}

/// One death, as a text.
pub(crate) fn story(queue: &str, reason: &str, exchange: &str, keys: &str) -> String {
    format!("{reason} in {queue:?} from {exchange:?} by {keys:?}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{DEAD, FAN, FAN_A, LIMITED, PLAIN, RANKS, RETRIED, RETRY, WORK, bit};

    /// A sound delivery from `queue` of a message that was published to `queues`.
    fn sound(queue: usize, queues: u32, seq: u64, marks: &[Field]) -> (Stamp, Shown) {
        let stamp = Stamp { id: Id { producer: 7, seq }, transaction: None, queues, due: 0 };
        (stamp, Shown::sound(queue, &stamp, marks))
    }

    #[test]
    fn whatever_is_changed_lost_or_added_is_seen() {
        let died: Vec<Field> = vec![(FIRST_DEATH[0], String::new()), (DEATHS, "3".to_owned())];
        for (queue, queues, marks) in [
            (PLAIN, bit(PLAIN), &[][..]),
            (FAN_A, FAN.queues, &[]),
            (RANKS, bit(RANKS), &[]),
            (DEAD, bit(WORK), &[]),
            (RETRIED, bit(RETRIED), &died),
        ] {
            for seq in 0..20 {
                let (stamp, shown) = sound(queue, queues, seq, marks);
                assert_eq!(shown.difference(queue, &stamp), None);
                let spoil = |change: &dyn Fn(&mut Shown)| {
                    let mut spoilt = shown.clone();
                    change(&mut spoilt);
                    assert!(spoilt.difference(queue, &stamp).is_some(), "{spoilt:?}");
                };
                spoil(&|shown| shown.exchange.push('x'));
                spoil(&|shown| shown.key.push('x'));
                for at in 0..shown.fields.len() {
                    spoil(&|shown| shown.fields[at].1.push('x'));
                    spoil(&|shown| drop(shown.fields.remove(at)));
                }
                spoil(&|shown| shown.fields.push(("expiration", "1".to_owned())));
            }
        }
    }

    #[test]
    fn what_comes_back_is_counted_up_to_the_limit() {
        for (queue, count, sound) in [
            (LIMITED, "1", true),
            (LIMITED, "3", true),
            (LIMITED, "0", false),
            (LIMITED, "4", false),
            (LIMITED, "x", false),
            (RETRY, "40", true),
            (RETRY, "0", false),
            (PLAIN, "1", false),
        ] {
            let (stamp, mut shown) = sound_delivery(queue);
            shown.fields.push((RETURNS, count.to_owned()));
            assert_eq!(shown.difference(queue, &stamp).is_none(), sound, "{count}");
        }
    }

    fn sound_delivery(queue: usize) -> (Stamp, Shown) {
        sound(queue, bit(queue), 1, &[])
    }

    #[test]
    fn neither_another_message_nor_another_mode_nor_an_untold_death_passes() {
        let (stamp, shown) = sound(PLAIN, bit(PLAIN), 1, &[]);
        let (_, other) = sound(PLAIN, bit(PLAIN), 2, &[]);
        assert!(other.difference(PLAIN, &stamp).is_some());
        let mode = |(name, text): &Field| (*name, if *name == PERSISTENT { "false".to_owned() } else { text.clone() });
        let passing = Shown { fields: shown.fields.iter().map(mode).collect(), ..shown };
        assert!(passing.difference(PLAIN, &stamp).is_some_and(|what| what.starts_with(CORRELATION_ID)));
        let (stamp, dead) = sound(DEAD, bit(WORK), 1, &[]);
        let reason = |(name, text): &Field| (*name, text.replace("rejected", "expired"));
        let aged = Shown { fields: dead.fields.iter().map(reason).collect(), ..dead };
        assert!(aged.difference(DEAD, &stamp).is_some(), "nothing dies of age where nothing does");
    }
}
