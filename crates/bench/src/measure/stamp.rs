//! What a body carries so that its receiver can tell who sent it, which one it is, when it was
//! meant to leave and whether any byte changed. How much fits depends on the size; every byte
//! behind the stamp is compared with a known pattern.

use bench_record::check::{COUNTER_DIGITS, Check};
use bench_record::scenario::{Payload, Scenario};
use bench_record::statistics::random::{Random, mix};

/// First bytes of a full stamp: "HMB1".
const MAGIC: u32 = 0x484d_4231;
/// Sequence numbers have 48 bits.
const NUMBER_BITS: u32 = 48;
/// Seed of the pattern that fills bodies: random bytes, so that compression helps no broker.
const PATTERN_SEED: u64 = 0x4845_524d_4f44;
const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// What a body says about itself; what did not fit is 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) producer: u16,
    /// Counts a producer's messages from 1.
    pub(crate) number: u64,
    /// When it was meant to be sent, nanoseconds of the run's clock.
    pub(crate) intended: u64,
    /// When it was given to the socket.
    pub(crate) sent: u64,
}

/// How a body differs from every body that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Damage {
    /// Its length is not the length of this run's bodies.
    Length,
    /// Its stamp is not one of this run's.
    Stamp,
    /// A byte behind the stamp changed.
    Filling,
}

/// Makes and reads the bodies of one run.
#[derive(Debug, Clone)]
pub(crate) struct Bodies {
    run: u32,
    check: Check,
    pattern: Vec<u8>,
    /// The last numbers have shorter bodies: those above the first of these, and how long they are.
    short: Option<(u64, usize)>,
}

impl Bodies {
    /// Bodies of `size` bytes that belong to `run`.
    pub(crate) fn new(run: u32, size: usize) -> Self {
        let mut random = Random::new(PATTERN_SEED);
        let pattern = (0..size.div_ceil(8)).flat_map(|_| random.draw().to_le_bytes()).take(size).collect();
        Self { run, check: Check::of(size), pattern, short: None }
    }

    /// The bodies of `scenario`, which belong to `run`.
    pub(crate) fn of(scenario: &Scenario, run: u32) -> Self {
        let mut bodies = Self::new(run, scenario.message.size);
        if scenario.message.payload != Payload::Random {
            bodies.pattern.fill(0);
        }
        bodies.check = scenario.check_of_bodies();
        bodies.short = scenario.message.tail.map(|tail| (scenario.quota(0).saturating_sub(tail.messages), tail.size));
        bodies
    }

    /// How long the body with this number is.
    #[inline]
    pub(crate) fn length(&self, number: u64) -> usize {
        match self.short {
            Some((longest, size)) if number > longest => size,
            _ => self.pattern.len(),
        }
    }

    /// What can be checked in these bodies.
    pub(crate) fn check(&self) -> Check {
        self.check
    }

    /// A body to be stamped again and again.
    pub(crate) fn blank(&self) -> Vec<u8> {
        self.pattern.clone()
    }

    /// Writes `stamp` to the front of `body`, which must come from [`Bodies::blank`].
    #[inline]
    pub(crate) fn write(&self, body: &mut [u8], stamp: &Stamp) {
        if self.check == Check::Counter {
            let mut rest = stamp.number;
            for digit in body[..COUNTER_DIGITS].iter_mut().rev() {
                *digit = DIGITS[(rest % 16) as usize];
                rest /= 16;
            }
            return;
        }
        let name = u64::from(stamp.producer) << NUMBER_BITS | stamp.number;
        if let Some((head, rest)) = body.split_first_chunk_mut::<16>() {
            head[..8].copy_from_slice(&name.to_be_bytes());
            head[8..].copy_from_slice(&stamp.intended.to_be_bytes());
            if let Some(tail) = rest.first_chunk_mut::<24>() {
                tail[..8].copy_from_slice(&stamp.sent.to_be_bytes());
                tail[8..12].copy_from_slice(&MAGIC.to_be_bytes());
                tail[12..16].copy_from_slice(&self.run.to_be_bytes());
                tail[16..].copy_from_slice(&self.seal(name, stamp.intended, stamp.sent).to_be_bytes());
            }
        } else if let Some(head) = body.first_chunk_mut::<8>() {
            *head = name.to_be_bytes();
        }
    }

    /// Reads the stamp of a received body and compares every other byte with what was sent.
    #[inline]
    pub(crate) fn read(&self, body: &[u8]) -> Result<Stamp, Damage> {
        if body.len() != self.pattern.len() && self.short.is_none_or(|(_, size)| size != body.len()) {
            return Err(Damage::Length);
        }
        let at = self.check.length();
        if body[at..] != self.pattern[at..body.len()] {
            return Err(Damage::Filling);
        }
        if self.check == Check::Counter {
            return read_counter(body);
        }
        let word =
            |at: usize| body.get(at..).and_then(|rest| rest.first_chunk::<8>()).map_or(0, |b| u64::from_be_bytes(*b));
        let name = if self.check == Check::Counted { 0 } else { word(0) };
        let mut stamp = Stamp {
            producer: (name >> NUMBER_BITS) as u16,
            number: name & ((1 << NUMBER_BITS) - 1),
            ..Stamp::default()
        };
        if matches!(self.check, Check::Full | Check::Timed) {
            stamp.intended = word(8);
        }
        if self.check == Check::Full {
            stamp.sent = word(16);
            let belongs = word(24) == u64::from(MAGIC) << 32 | u64::from(self.run);
            if !belongs || word(32) != self.seal(name, stamp.intended, stamp.sent) {
                return Err(Damage::Stamp);
            }
        }
        if body.len() != self.length(stamp.number) { Err(Damage::Length) } else { Ok(stamp) }
    }

    /// A word that changes with every bit of the stamp. It guards against accidents, not against
    /// forgers.
    #[inline]
    fn seal(&self, name: u64, intended: u64, sent: u64) -> u64 {
        mix(mix(mix(u64::from(self.run) ^ name).wrapping_add(intended)).wrapping_add(sent))
    }
}

/// The number in the first digits of a body: its producer is the only one.
fn read_counter(body: &[u8]) -> Result<Stamp, Damage> {
    let mut number = 0;
    for digit in &body[..COUNTER_DIGITS] {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return Err(Damage::Stamp),
        };
        number = number * 16 + u64::from(value);
    }
    if number == 0 { Err(Damage::Stamp) } else { Ok(Stamp { number, ..Stamp::default() }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench_record::scenario::Tail;
    use proptest::prelude::*;

    const STAMP: Stamp = Stamp { producer: 7, number: 123_456_789, intended: 99, sent: 101 };

    fn written(size: usize) -> (Bodies, Vec<u8>) {
        let bodies = Bodies::new(5, size);
        let mut body = bodies.blank();
        bodies.write(&mut body, &STAMP);
        (bodies, body)
    }

    #[test]
    fn what_fits_comes_back() {
        let cases = [
            (0, Stamp::default()),
            (7, Stamp::default()),
            (8, Stamp { intended: 0, sent: 0, ..STAMP }),
            (15, Stamp { intended: 0, sent: 0, ..STAMP }),
            (16, Stamp { sent: 0, ..STAMP }),
            (39, Stamp { sent: 0, ..STAMP }),
            (40, STAMP),
            (64, STAMP),
            (5000, STAMP),
        ];
        for (size, expected) in cases {
            let (bodies, body) = written(size);
            assert_eq!(body.len(), size);
            assert_eq!(bodies.read(&body), Ok(expected), "{size}");
        }
    }

    /// run, size, producer, number, intended, sent and the body; the worker's own test reads the
    /// same file.
    const VECTORS: &str = include_str!("../../jvm/src/test/resources/stamps.txt");

    #[test]
    fn bodies_are_those_of_the_worker() {
        let (mut written, stamps) =
            (String::new(), [STAMP, Stamp { producer: 65_535, number: 1, intended: 1 << 62, sent: 7 }]);
        for (run, size) in [0, 7, 8, 15, 16, 39, 40, 47, 64, 100].into_iter().enumerate() {
            let (run, stamp) = (u32::MAX - run as u32, stamps[run % 2]);
            let bodies = Bodies::new(run, size);
            let mut body = bodies.blank();
            bodies.write(&mut body, &stamp);
            let Stamp { producer, number, intended, sent } = stamp;
            let hex: String = body.iter().map(|byte| format!("{byte:02x}")).collect();
            written.push_str(&format!("{run} {size} {producer} {number} {intended} {sent} {hex}\n"));
        }
        let vectors: Vec<&str> = VECTORS.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(vectors, written.lines().collect::<Vec<_>>(), "{written}");
    }

    #[test]
    fn any_changed_bit_of_a_full_body_is_noticed() {
        let (bodies, body) = written(64);
        for bit in 0..body.len() * 8 {
            let mut bad = body.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let expected = if bit < 40 * 8 { Damage::Stamp } else { Damage::Filling };
            assert_eq!(bodies.read(&bad), Err(expected), "bit {bit}");
        }
    }

    #[test]
    fn a_counter_is_six_digits_and_its_padding_is_looked_at() {
        for size in [6, 50] {
            let scenario = Scenario::default().with(|s| {
                (s.message.size, s.message.payload) = (size, Payload::Counter);
            });
            let bodies = Bodies::of(&scenario, 5);
            let mut body = bodies.blank();
            for (number, digits) in [(1, b"000001"), (4711, b"001267"), (0x00ff_ffff, b"ffffff"), (0x12ab, b"0012ab")] {
                bodies.write(&mut body, &Stamp { number, ..STAMP });
                assert_eq!(&body[..6], digits);
                assert_eq!(bodies.read(&body), Ok(Stamp { number, ..Stamp::default() }));
            }
            for bad in *b"x/:`gAF " {
                body[2] = bad;
                assert_eq!(bodies.read(&body), Err(Damage::Stamp));
            }
            body[size - 1] = b'x';
            assert_eq!(bodies.read(&body), Err(if size == 6 { Damage::Stamp } else { Damage::Filling }));
        }
    }

    #[test]
    fn the_last_messages_may_be_shorter_and_only_they() {
        let tail = Some(Tail { messages: 2, size: 100 });
        let scenario = Scenario::default().with(|s| {
            (s.message.size, s.message.tail, s.message.payload) = (400, tail, Payload::Zero);
            s.length.messages = Some(5);
        });
        let bodies = Bodies::of(&scenario, 5);
        for (number, length) in [(1, 400), (3, 400), (4, 100), (5, 100)] {
            assert_eq!(bodies.length(number), length);
            let mut body = bodies.blank();
            bodies.write(&mut body, &Stamp { number, ..STAMP });
            assert_eq!(bodies.read(&body[..length]), Ok(Stamp { number, ..STAMP }));
            assert_eq!(bodies.read(&body[..500 - length]), Err(Damage::Length));
        }
    }

    #[test]
    fn other_lengths_and_other_runs_are_refused() {
        let (bodies, body) = written(64);
        (0..64).for_each(|cut| assert_eq!(bodies.read(&body[..cut]), Err(Damage::Length)));
        assert_eq!(Bodies::new(6, 64).read(&body), Err(Damage::Stamp));
    }

    proptest! {
        #[test]
        fn any_stamp_comes_back(producer: u16, number in 0u64..1 << NUMBER_BITS, intended: u64, sent: u64, size in 40usize..200) {
            let bodies = Bodies::new(1, size);
            let mut body = bodies.blank();
            let stamp = Stamp { producer, number, intended, sent };
            bodies.write(&mut body, &stamp);
            prop_assert_eq!(bodies.read(&body), Ok(stamp));
        }

        #[test]
        fn any_bytes_can_be_read(body: Vec<u8>) {
            let _ = Bodies::new(1, body.len()).read(&body);
        }
    }
}
