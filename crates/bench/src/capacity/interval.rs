//! One stretch of a load: what moved between two samples, and what it cost.

use serde::Serialize;

use crate::load::sample::Sample;
use bench_record::slice::Cost;
use bench_record::usage::Usage;
use bench_report::table::number;

/// A stretch of a load.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Interval {
    /// How many have moved when it ends, since the load began.
    pub(crate) upto: u64,
    /// How many moved in it.
    pub(crate) count: u64,
    pub(crate) seconds: f64,
    pub(crate) per_s: f64,
    pub(crate) broker: Option<Cost>,
    pub(crate) client: Option<Cost>,
    /// Bytes of the pages that the broker made dirty for each byte of the bodies that moved.
    pub(crate) written_per_byte: Option<f64>,
    /// Bytes that it gave to write calls for each such byte.
    pub(crate) wchar_per_byte: Option<f64>,
    /// Bytes that the machine's disks were given for each such byte, by any program.
    pub(crate) disk_per_byte: Option<f64>,
    /// Cores that neither broker nor client used.
    pub(crate) other_cores: Option<f64>,
}

/// How far a load has come at the instant of a sample.
#[derive(Debug, Clone)]
pub(crate) struct Mark {
    pub(crate) moved: u64,
    pub(crate) sample: Sample,
}

impl Interval {
    /// What happened from `first` to `last`, with bodies of `size` bytes.
    pub(crate) fn between(first: &Mark, last: &Mark, size: usize) -> Self {
        let count = last.moved.saturating_sub(first.moved);
        let nanoseconds = last.sample.at.saturating_sub(first.sample.at).max(1);
        let seconds = nanoseconds as f64 / 1e9;
        let cost =
            |before: Option<Usage>, after: Option<Usage>| Some(Cost::between(&before?, &after?, count as f64, seconds));
        let broker = cost(first.sample.broker, last.sample.broker);
        let bytes = count as f64 * size as f64;
        let per_byte = |written: Option<u64>| Some(written? as f64 / bytes).filter(|_| bytes > 0.0);
        let disk = last.sample.disk_bytes.zip(first.sample.disk_bytes);
        Self {
            upto: last.moved,
            count,
            seconds,
            per_s: count as f64 / seconds,
            broker,
            client: cost(first.sample.client, last.sample.client),
            written_per_byte: per_byte(broker.and_then(|cost| cost.write_bytes)),
            wchar_per_byte: per_byte(broker.and_then(|cost| cost.wchar)),
            disk_per_byte: per_byte(disk.map(|(after, before)| after.saturating_sub(before))),
            other_cores: last.sample.other_cores(&first.sample),
        }
    }

    /// Titles of [`Interval::cells`].
    pub(crate) const TITLES: [&str; 9] =
        ["to", "seconds", "per s", "µs CPU each", "cores", "RSS MiB", "wchar/B", "dirtied/B", "disks/B"];

    /// Its figures for people.
    pub(crate) fn cells(&self) -> [String; 9] {
        let broker = |figure: fn(&Cost) -> f64, digits| absent(self.broker.as_ref().map(figure), digits);
        [
            number(self.upto as f64, 0),
            number(self.seconds, 2),
            number(self.per_s, 0),
            broker(|cost| cost.cpu_us_per_message, 3),
            broker(|cost| cost.cores, 2),
            broker(|cost| mebibytes(cost.resident_bytes), 1),
            absent(self.wchar_per_byte, 3),
            absent(self.written_per_byte, 3),
            absent(self.disk_per_byte, 3),
        ]
    }
}

/// A figure that may not be known.
pub(crate) fn absent(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".to_owned(), |value| number(value, digits))
}

/// Bytes in MiB.
pub(crate) fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / 1_048_576.0
}

/// How the last of several stretches compares with the second: the first still warms up, and a last
/// one that is shorter than half of the others says little.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Drift {
    /// CPU for each of the last over the same of the second.
    pub(crate) cpu: Option<f64>,
    /// The rate of the last over that of the second.
    pub(crate) rate: f64,
    /// Resident bytes that were added from the end of the second to the end of the last.
    pub(crate) resident_bytes: Option<i64>,
}

impl Drift {
    /// Compares; none below three stretches.
    pub(crate) fn of(stretches: &[Interval]) -> Option<Self> {
        let second = stretches.get(1)?;
        let last = stretches.iter().skip(2).rfind(|one| one.count * 2 >= second.count)?;
        let costs = last.broker.zip(second.broker);
        let cpu = costs.map(|(last, second)| last.cpu_us_per_message / second.cpu_us_per_message);
        Some(Self {
            cpu: cpu.filter(|ratio| ratio.is_finite()),
            rate: last.per_s / second.per_s,
            resident_bytes: costs.map(|(last, second)| last.resident_bytes as i64 - second.resident_bytes as i64),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::process::Machine;

    fn mark(moved: u64, at_ms: u64, cpu_ms: u64, written: Option<u64>) -> Mark {
        let cpu_ns = cpu_ms * 1_000_000;
        let broker =
            Some(Usage { cpu_ns, resident: 4096, write_bytes: written, wchar: Some(moved * 300), ..Usage::default() });
        let machine = Some(Machine { busy_ns: cpu_ns + at_ms * 500_000, steal_ns: 0 });
        let sample = Sample { at: at_ms * 1_000_000, broker, machine, ..Sample::default() };
        Mark { moved, sample }
    }

    #[test]
    fn a_stretch_is_the_difference_of_two_samples() {
        let one = Interval::between(&mark(1000, 2000, 10, Some(50)), &mark(3000, 4000, 1010, Some(300_050)), 100);
        assert_eq!((one.upto, one.count, one.seconds, one.per_s), (3000, 2000, 2.0, 1000.0));
        let broker = one.broker.unwrap();
        assert_eq!((broker.cpu_us_per_message, broker.cores, broker.resident_bytes), (500.0, 0.5, 4096));
        assert_eq!((one.written_per_byte, one.wchar_per_byte), (Some(1.5), Some(3.0)));
        assert_eq!(one.other_cores, Some(0.5));
    }

    #[test]
    fn what_is_not_known_is_absent_and_nothing_moved_is_no_division() {
        let still = Interval::between(&mark(5, 0, 0, None), &mark(5, 10, 5, Some(7)), 100);
        assert_eq!((still.written_per_byte, still.wchar_per_byte, still.per_s), (None, None, 0.0));
        let unknown = Mark { moved: 9, sample: Sample { at: 20_000_000, ..Sample::default() } };
        let unknown = Interval::between(&mark(5, 0, 0, None), &unknown, 100);
        assert!(unknown.broker.is_none() && unknown.other_cores.is_none());
        assert_eq!(unknown.cells()[3..], ["-", "-", "-", "-", "-", "-"]);
    }

    #[test]
    fn the_last_whole_stretch_is_held_against_the_second() {
        let marks = [mark(0, 0, 0, None), mark(100, 100, 90, None), mark(200, 200, 100, None)];
        let more = [mark(300, 400, 112, None), mark(310, 401, 200, None)];
        let all: Vec<Mark> = marks.into_iter().chain(more).collect();
        let stretches: Vec<Interval> = all.windows(2).map(|pair| Interval::between(&pair[0], &pair[1], 1)).collect();
        assert_eq!(Drift::of(&stretches[..2]), None);
        let drift = Drift::of(&stretches).unwrap();
        assert!((drift.cpu.unwrap() - 1.2).abs() < 1e-9 && (drift.rate - 0.5).abs() < 1e-9, "{drift:?}");
        assert_eq!(drift.resident_bytes, Some(0));
    }
}
