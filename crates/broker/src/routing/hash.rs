//! Hashing exchanges: each message goes to one destination, chosen by a hash, so messages with the
//! same hash stay together.
//!
//! The choice is a pure function of the hashed value and the set of bindings. The order of the
//! bindings, a restart or another machine do not change it. The hash functions must never change,
//! since they decide where the messages of one key lie.

use std::collections::BTreeMap;
use std::f64::consts::LN_2;
use std::sync::OnceLock;

use super::binding::Destination;
use super::envelope::Envelope;
use super::reached::Reached;
use crate::encoding::write_table;
use crate::error::Error;
use crate::message::id::Id;
use crate::value::{Table, Value, seconds_of_ms};

/// The argument of a consistent-hash exchange that names the header to hash.
pub(crate) const HASH_HEADER: &str = "hash-header";
/// The argument of a consistent-hash exchange that names the property to hash.
pub(crate) const HASH_PROPERTY: &str = "hash-property";

/// The greatest weight of a binding. It costs nothing; the bound keeps sums of weights exact.
const WEIGHT_MAX: i64 = u32::MAX as i64;

/// The value that an exchange hashes. All messages without it go to one destination.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) enum HashOn {
    /// The routing key; of several the message's own.
    #[default]
    RoutingKey,
    /// The header of this name.
    Header(String),
    /// This property.
    CorrelationId,
    /// This property.
    MessageId,
    /// This property.
    Timestamp,
}

impl HashOn {
    /// The value that a consistent-hash exchange with these arguments hashes, or the error in them.
    /// The texts are those of RabbitMQ's plugin, which has none for a value that is not text.
    pub(crate) fn of(arguments: &Table) -> Result<Self, String> {
        let text = |name: &str| match arguments.get(name) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(_) => Err(format!("{name} must be a text")),
        };
        match (text(HASH_HEADER)?, text(HASH_PROPERTY)?) {
            (None, None) => Ok(Self::RoutingKey),
            (Some(header), None) => Ok(Self::Header(header.clone())),
            (None, Some(property)) => match property.as_str() {
                "correlation_id" => Ok(Self::CorrelationId),
                "message_id" => Ok(Self::MessageId),
                "timestamp" => Ok(Self::Timestamp),
                other => Err(format!("Unsupported property: {other}")),
            },
            (Some(_), Some(_)) => Err("hash-header and hash-property are mutually exclusive".to_owned()),
        }
    }

    fn digest(&self, envelope: &Envelope<'_>) -> u64 {
        let id = |id: &Option<Id>| id.as_ref().map_or(0, |id| digest(&id.as_bytes()));
        match self {
            Self::RoutingKey => digest(envelope.key().as_bytes()),
            Self::Header(name) => envelope.headers().get(name).map_or(0, digest_value),
            Self::CorrelationId => id(&envelope.properties().correlation_id),
            Self::MessageId => id(&envelope.properties().message_id),
            Self::Timestamp => {
                envelope.properties().timestamp.map_or(0, |time| digest(&seconds_of_ms(time).to_le_bytes()))
            }
        }
    }
}

/// FNV-1a of 64 bits (Fowler, Noll, Vo). `mix` makes up for its weak upper bits.
pub(crate) fn digest(bytes: &[u8]) -> u64 {
    const OFFSET: u64 = 0xCBF2_9CE4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01B3;
    mix(bytes.iter().fold(OFFSET, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME)))
}

/// Integers of all widths are one class, and so are text and bytes: values that a headers exchange
/// finds equal hash alike.
fn digest_value(value: &Value) -> u64 {
    if let Some(number) = value.as_integer() {
        return digest(&number.to_le_bytes());
    }
    match value {
        Value::Text(text) => digest(text.as_bytes()),
        Value::Bytes(bytes) => digest(bytes),
        other => {
            let mut bytes = Vec::new();
            match write_table(&mut bytes, &Table(vec![(String::new(), other.clone())])) {
                Ok(()) => digest(&bytes),
                // Nested too deep: all such values hash alike.
                Err(_) => 0,
            }
        }
    }
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): each bit of the input changes half the
/// bits of the output.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Consistent hashing by weighted rendezvous (Thaler, Ravishankar 1998; Schindelhauer, Schomaker
/// 2005).
///
/// For each key, each destination draws a waiting time from a hash of both, exponential with its
/// weight as the rate; the shortest wins. So a destination gets keys in proportion to its weight. A
/// new one takes its share evenly from all others, and one that goes leaves all other keys where
/// they are. A message costs one draw for each destination.
#[derive(Debug, Default)]
pub(super) struct Consistent {
    on: HashOn,
    /// The sums of the weights, since several bindings may lead to one destination.
    weights: BTreeMap<Destination, u64>,
}

impl Consistent {
    pub(super) fn new(on: HashOn) -> Self {
        Self { on, weights: BTreeMap::new() }
    }

    pub(super) fn is_by_key(&self) -> bool {
        self.on == HashOn::RoutingKey
    }

    pub(super) fn add(&mut self, weight: u64, destination: Destination) {
        *self.weights.entry(destination).or_default() += weight;
    }

    pub(super) fn remove(&mut self, weight: u64, destination: Destination) {
        if let Some(sum) = self.weights.get_mut(&destination) {
            *sum = sum.saturating_sub(weight);
            if *sum == 0 {
                self.weights.remove(&destination);
            }
        }
    }

    pub(super) fn route(&self, envelope: &Envelope<'_>, into: &mut Reached) {
        if self.weights.is_empty() || !into.charge(self.weights.len()) {
            return;
        }
        let key = self.on.digest(envelope);
        let draws = self.weights.iter().map(|(destination, weight)| (draw(key, *destination, *weight), destination));
        let chosen = draws.min_by(|(one, _), (other, _)| one.total_cmp(other));
        into.extend(chosen.map(|(_, destination)| *destination).into_iter());
    }
}

/// The weight in a binding key, or the error in it, in the words of RabbitMQ's plugin.
pub(super) fn weight(key: &str) -> Result<u64, Error> {
    let digits = key.strip_prefix(['+', '-']).unwrap_or(key);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Error::precondition(format!("The binding key must be an integer: <<\"{key}\">>")));
    }
    match key.parse::<i64>() {
        Ok(number) if (1..=WEIGHT_MAX).contains(&number) => Ok(number.unsigned_abs()),
        Ok(number) if number > WEIGHT_MAX => Err(too_heavy()),
        Err(_) if !key.starts_with('-') => Err(too_heavy()),
        _ => Err(Error::precondition("The binding key must be greater than 0")),
    }
}

fn too_heavy() -> Error {
    Error::precondition(format!("The binding key must not be greater than {WEIGHT_MAX}"))
}

/// `-ln(u) / weight` for a number `u` above 0 and up to 1 that depends on the key and the
/// destination alone.
fn draw(key: u64, destination: Destination, weight: u64) -> f64 {
    // An exchange and a queue never have the same number.
    let id = destination.id();
    let bits = (mix(key ^ mix(id)) >> 11) + 1;
    (53.0 * LN_2 - logarithm(bits)) / weight as f64
}

/// The natural logarithm, by a series: the last bits of the standard library's differ between
/// machines.
fn logarithm(number: u64) -> f64 {
    let power = number.max(1).ilog2();
    let mantissa = number as f64 / (1u64 << power) as f64;
    // ln(m) = 2·artanh((m-1)/(m+1)); with m below 2 the terms left out are under a millionth.
    let t = (mantissa - 1.0) / (mantissa + 1.0);
    let square = t * t;
    let series = [11.0, 9.0, 7.0, 5.0, 3.0, 1.0].into_iter().fold(0.0, |sum, odd| sum * square + 1.0 / odd);
    f64::from(power) * LN_2 + 2.0 * t * series
}

/// The routing key's hash modulo the number of destinations, in the order of their numbers. It is
/// evener than consistent hashing, and one step for any number of destinations. When their number
/// changes, nearly all keys move.
#[derive(Debug, Default)]
pub(super) struct Modulus {
    /// How many bindings each has.
    bindings: BTreeMap<Destination, usize>,
    /// The keys of `bindings`, gathered by the first message after a change.
    sorted: OnceLock<Box<[Destination]>>,
}

impl Modulus {
    pub(super) fn add(&mut self, destination: Destination) {
        *self.bindings.entry(destination).or_default() += 1;
        self.sorted = OnceLock::new();
    }

    pub(super) fn remove(&mut self, destination: Destination) {
        if let Some(count) = self.bindings.get_mut(&destination) {
            *count -= 1;
            if *count == 0 {
                self.bindings.remove(&destination);
            }
            self.sorted = OnceLock::new();
        }
    }

    pub(super) fn route(&self, key: &str, into: &mut Reached) {
        let sorted = self.sorted.get_or_init(|| self.bindings.keys().copied().collect());
        if !sorted.is_empty() {
            let place = digest(key.as_bytes()) % sorted.len() as u64;
            into.add(sorted[place as usize]);
        }
    }
}

#[cfg(test)]
mod tests;
