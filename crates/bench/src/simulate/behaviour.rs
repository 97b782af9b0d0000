//! What a simulated broker is told to do: how long it takes, how much it can take, when it stands
//! still, what it does to chosen messages, and what its confirms are worth.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use bench_record::failure::Failure;
use bench_record::span::Span;
use bench_record::statistics::random::Random;

/// What happens to one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is confirmed and never delivered.
    Lose,
    /// It is delivered twice.
    Double,
    /// It is delivered after the next one.
    Overtake,
    /// The last byte of its body changes.
    Flip,
    /// It is refused, and not delivered.
    Refuse,
    /// It is neither confirmed nor delivered.
    Swallow,
    /// It is delivered and confirmed twice.
    ConfirmTwice,
    /// The connection that sent it ends without a word.
    Die,
}

/// How long something takes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) enum Delay {
    /// As long as it takes by itself.
    #[default]
    None,
    /// Always the same.
    Fixed(Duration),
    /// Anything between two spans, equally likely.
    Uniform(Duration, Duration),
    /// Exponential with this mean.
    Exponential(Duration),
}

impl Delay {
    /// The next delay in nanoseconds.
    fn draw(self, random: &mut Random) -> u64 {
        match self {
            Self::None => 0,
            Self::Fixed(span) => span.as_nanos() as u64,
            Self::Uniform(least, most) => {
                least.as_nanos() as u64 + (random.unit() * most.saturating_sub(least).as_nanos() as f64) as u64
            }
            Self::Exponential(mean) => (-random.unit().ln() * mean.as_nanos() as f64) as u64,
        }
    }
}

impl std::str::FromStr for Delay {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let span = |text: &str| text.parse::<Span>().map(|span| span.0);
        if let Some(mean) = text.strip_prefix("exp:") {
            return span(mean).map(Self::Exponential);
        }
        match text.split_once("..") {
            Some((least, most)) => Ok(Self::Uniform(span(least)?, span(most)?)),
            None => span(text).map(Self::Fixed),
        }
    }
}

/// A time in which nothing moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stall {
    pub(crate) length: Duration,
    /// When it begins, after the first publish.
    pub(crate) at: Duration,
}

impl std::str::FromStr for Stall {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let (length, at) = text
            .split_once('@')
            .ok_or_else(|| Failure::new(format!("{text}: a stall is LENGTH@WHEN, such as 1s@3s")))?;
        Ok(Self { length: length.parse::<Span>()?.0, at: at.parse::<Span>()?.0 })
    }
}

/// What is done before a persistent message is confirmed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Promise {
    /// Nothing: it is in memory
    #[default]
    Memory,
    /// It is written to a file, which is not flushed
    Write,
    /// It is written to a file, which is flushed once for all that came together
    Flush,
}

/// The whole program of a broker. By default it is faultless and as fast as it can be.
#[derive(Debug, Clone, Default)]
pub(crate) struct Behaviour {
    /// By number of the publish over all connections, from 1.
    pub(crate) faults: HashMap<u64, Fault>,
    /// From the publish to the delivery.
    pub(crate) delivery: Delay,
    /// From the publish to the confirm.
    pub(crate) confirm: Delay,
    /// Publishes a second; none: as many as it can.
    pub(crate) capacity: Option<f64>,
    pub(crate) stalls: Vec<Stall>,
    pub(crate) promise: Promise,
    /// Where persistent messages are written.
    pub(crate) dir: Option<PathBuf>,
    /// Repeats the delays.
    pub(crate) seed: u64,
}

impl Behaviour {
    /// A broker that treats the publishes with these numbers badly.
    #[cfg(test)]
    pub(crate) fn faulty(faults: &[(u64, Fault)]) -> Self {
        Self { faults: faults.iter().copied().collect(), ..Self::default() }
    }
}

/// When things happen, in nanoseconds of the run's clock.
#[derive(Debug)]
pub(super) struct Timeline {
    delivery: Delay,
    confirm: Delay,
    /// Nanoseconds that one publish takes.
    gap: f64,
    stalls: Vec<Stall>,
    random: Random,
    /// When the first publish came.
    begin: Option<u64>,
    /// When the publishes that have come are done with.
    free: f64,
}

impl Timeline {
    pub(super) fn new(behaviour: &Behaviour) -> Self {
        Self {
            delivery: behaviour.delivery,
            confirm: behaviour.confirm,
            gap: behaviour.capacity.map_or(0.0, |rate| 1e9 / rate),
            stalls: behaviour.stalls.clone(),
            random: Random::new(behaviour.seed),
            begin: None,
            free: 0.0,
        }
    }

    /// When a publish that comes `now` is delivered and when it is confirmed, at the earliest.
    pub(super) fn publish(&mut self, now: u64) -> (u64, u64) {
        self.begin.get_or_insert(now);
        let served = self.moving(self.free.max(now as f64) as u64);
        self.free = self.free.max(served as f64) + self.gap;
        let done = self.free as u64;
        let (delivery, confirm) = (self.delivery.draw(&mut self.random), self.confirm.draw(&mut self.random));
        (self.moving(done + delivery), self.moving(done + confirm))
    }

    /// `at`, or the end of the stall that it lies in.
    pub(super) fn moving(&self, at: u64) -> u64 {
        let Some(begin) = self.begin else { return at };
        self.stalls.iter().fold(at, |at, stall| {
            let from = begin + stall.at.as_nanos() as u64;
            let until = from + stall.length.as_nanos() as u64;
            if (from..until).contains(&at) { until } else { at }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn delays_and_stalls_are_read() {
        let ms = Duration::from_millis;
        assert_eq!("5ms".parse::<Delay>().unwrap(), Delay::Fixed(ms(5)));
        assert_eq!("1ms..2s".parse::<Delay>().unwrap(), Delay::Uniform(ms(1), ms(2000)));
        assert_eq!("exp:2ms".parse::<Delay>().unwrap(), Delay::Exponential(ms(2)));
        assert_eq!("1s@300ms".parse::<Stall>().unwrap(), Stall { length: ms(1000), at: ms(300) });
        assert!("5 parrots".parse::<Delay>().is_err() && "1s".parse::<Stall>().is_err());
    }

    #[test]
    fn what_falls_into_a_stall_happens_at_its_end() {
        let stall = "1s@2s".parse().unwrap();
        let mut time = Timeline::new(&Behaviour { stalls: vec![stall], ..Behaviour::default() });
        assert_eq!(time.publish(50), (50, 50));
        let second = 1000 * MS;
        let ends: Vec<u64> = [1, 2, 3].map(|n| n * second).iter().map(|at| time.moving(50 + at)).collect();
        assert_eq!(ends, [50 + second, 50 + 3 * second, 50 + 3 * second]);
        assert_eq!(time.publish(50 + 2 * second + 7), (50 + 3 * second, 50 + 3 * second));
    }

    #[test]
    fn a_capacity_is_a_queue_before_a_server() {
        let delay = Delay::Fixed(Duration::from_millis(5));
        let mut time = Timeline::new(&Behaviour { capacity: Some(1000.0), delivery: delay, ..Behaviour::default() });
        let due: Vec<(u64, u64)> = [0, 0, 0, 10 * MS].iter().map(|now| time.publish(*now)).collect();
        assert_eq!(due, [(6 * MS, MS), (7 * MS, 2 * MS), (8 * MS, 3 * MS), (16 * MS, 11 * MS)]);
    }

    #[test]
    fn delays_are_drawn_from_what_they_are_called() {
        let mut random = Random::new(1);
        let mut mean =
            |delay: Delay| (0..5000).map(|_| delay.draw(&mut random) as f64).sum::<f64>() / 5000.0 / MS as f64;
        let ms = Duration::from_millis;
        for (delay, expected) in
            [(Delay::Fixed(ms(3)), 3.0), (Delay::Uniform(ms(1), ms(3)), 2.0), (Delay::Exponential(ms(2)), 2.0)]
        {
            let got = mean(delay);
            assert!((got - expected).abs() < 0.1, "{delay:?}: {got}");
        }
    }
}
