//! When each message of an open loop is meant to leave. The schedule never waits for the broker: a
//! message that goes out late keeps its intended time, so that a stall is charged to every message
//! that it delayed.

use bench_record::arrivals::Arrivals;
use bench_record::statistics::random::Random;

/// Length of one burst and the silence behind it, nanoseconds.
const PERIOD: f64 = 1e9;
/// The share of it in which messages are sent.
const BURST: f64 = 0.2;

/// The intended send times of one producer.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    arrivals: Arrivals,
    /// Mean nanoseconds between messages.
    gap: f64,
    /// Intended time of the next message, nanoseconds.
    next: f64,
    /// When the burst began, nanoseconds.
    burst: f64,
    random: Random,
}

impl Schedule {
    /// A schedule of `rate` messages a second that begins at `begin`, shifted by `share` (0 to 1)
    /// of its first gap so that several producers of one run do not send at the same instants.
    pub(crate) fn new(arrivals: Arrivals, rate: f64, begin: u64, share: f64, seed: u64) -> Self {
        let gap = 1e9 / rate;
        Self { arrivals, gap, next: begin as f64 + gap * share, burst: begin as f64, random: Random::new(seed) }
    }

    /// When the next message is meant to leave, in nanoseconds of the run's clock.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.next as u64
    }

    /// Goes on to the message after it.
    #[inline]
    pub(crate) fn advance(&mut self) {
        self.next += match self.arrivals {
            Arrivals::Uniform => self.gap,
            Arrivals::Poisson => -self.random.unit().ln() * self.gap,
            Arrivals::Bursts => self.gap * BURST,
        };
        if self.arrivals == Arrivals::Bursts {
            // What is left of the last gap counts in the next burst, so that the mean rate holds
            // exactly.
            while self.next >= self.burst + PERIOD * BURST {
                self.burst += PERIOD;
                self.next += PERIOD * (1.0 - BURST);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(mut schedule: Schedule, count: usize) -> Vec<u64> {
        let mut take = || {
            let next = schedule.next();
            schedule.advance();
            next
        };
        (0..count).map(|_| take()).collect()
    }

    #[test]
    fn uniform_gaps_are_equal_and_producers_interleave() {
        assert_eq!(times(Schedule::new(Arrivals::Uniform, 1000.0, 5, 0.0, 0), 3), [5, 1_000_005, 2_000_005]);
        assert_eq!(times(Schedule::new(Arrivals::Uniform, 1000.0, 0, 0.5, 0), 2), [500_000, 1_500_000]);
    }

    #[test]
    fn bursts_have_the_mean_rate_and_their_silences() {
        for rate in [3.0, 1000.0, 1234.5] {
            let at = times(Schedule::new(Arrivals::Bursts, rate, 7, 0.0, 0), (rate * 20.0) as usize + 1);
            let seconds = (at[at.len() - 1] - at[0]) as f64 / 1e9;
            assert!((seconds - 20.0).abs() <= 1.0, "{rate}: {seconds}");
            let in_burst = |time: &u64| (time - 7) % 1_000_000_000 <= 200_000_000;
            assert!(at.iter().all(in_burst), "{rate}");
        }
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_the_deviation_of_an_exponential() {
        let at = times(Schedule::new(Arrivals::Poisson, 1000.0, 0, 0.0, 3), 20_001);
        let gaps: Vec<f64> = at.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e6).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
        assert!((mean - 1.0).abs() < 0.03 && (deviation - 1.0).abs() < 0.05, "mean {mean}, deviation {deviation}");
    }
}
