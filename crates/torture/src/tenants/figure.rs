//! What came of one attack: a row of the table, its bounds, and its line in the ledger.

use std::io::Write;
use std::path::Path;

use super::house::Sample;
use super::neighbour::Times;
use crate::ledger::today;

/// The page, from the workspace's root. Its last lines are the table.
const PAGE: &str = "docs/ledger/tenants.md";
/// The head of the table.
pub(super) const HEAD: &str = "| date | commit | attack | threads | quiet p50 / p99 / max ms | attacked p50 / p99 / max ms | after p99 ms | peak of limit MiB | grown MiB | counted MiB | declared MiB | long turns | load | missed |";
/// The most that a round trip of 99 in 100 may take, or as many times its quiet time.
const ROUND_TRIP: u64 = 100_000;
const TIMES_QUIET: u64 = 10;
/// What is counted may be off by so much: a part of what the process has grown by, and what a
/// process grows by anyway.
const PART: u64 = 4;
const ANYWAY: u64 = 16 << 20;
const MIB: u64 = 1 << 20;

/// The figures of one attack.
pub(super) struct Figure {
    pub(super) attack: &'static str,
    pub(super) threads: u64,
    /// The neighbour alone, beside the attack, and alone again.
    pub(super) quiet: Times,
    pub(super) during: Times,
    /// Confirms and deliveries alone, beside the attack.
    pub(super) parts: [Times; 2],
    pub(super) after: Times,
    /// The most memory that the process had, and its limit, in bytes.
    pub(super) peak: u64,
    pub(super) limit: u64,
    /// Memory before the attack, and the most of each part of it.
    pub(super) base: Sample,
    /// When the process was largest.
    pub(super) top: Sample,
    /// Turns over 100 ms: of connections and of the housekeeping.
    pub(super) long_turns: [u64; 2],
    /// What the attack did.
    pub(super) tally: String,
    /// What went wrong besides.
    pub(super) trouble: Vec<String>,
    /// What the broker's log tells of long turns.
    pub(super) told: Vec<String>,
    pub(super) load: String,
}

impl Figure {
    /// What the process has grown by, what of it the broker counts as memory, and what as declared.
    fn growth(&self) -> [u64; 3] {
        [
            self.top.resident.saturating_sub(self.base.resident),
            self.top.counted.saturating_sub(self.base.counted),
            self.top.declared.saturating_sub(self.base.declared),
        ]
    }

    /// The bounds that it misses, in words.
    pub(super) fn missed(&self) -> Vec<String> {
        let [grown, counted, declared] = self.growth();
        let mut missed = self.trouble.clone();
        if self.during.p99 > ROUND_TRIP.max(TIMES_QUIET * self.quiet.p99) {
            missed.push("time".to_owned());
        }
        if self.peak > self.limit + self.limit / PART {
            missed.push("memory".to_owned());
        }
        if grown.abs_diff(counted + declared) > grown / PART + ANYWAY {
            missed.push("count".to_owned());
        }
        missed
    }

    /// What the other user waited for beside the attack.
    pub(super) fn apart(&self) -> String {
        let [confirms, deliveries] = self.parts.map(three);
        format!("{} messages; confirms {confirms} ms, deliveries {deliveries} ms", self.during.count)
    }

    /// A row of the table.
    pub(super) fn row(&self, commit: &str) -> String {
        let [grown, counted, declared] = self.growth().map(|bytes| bytes / MIB);
        let missed = self.missed();
        let missed = if missed.is_empty() { "none".to_owned() } else { format!("**{}**", missed.join("; ")) };
        let cells = [
            today(),
            commit.to_owned(),
            self.attack.to_owned(),
            self.threads.to_string(),
            three(self.quiet),
            three(self.during),
            ms(self.after.p99),
            format!("{} of {}", self.peak / MIB, self.limit / MIB),
            grown.to_string(),
            counted.to_string(),
            declared.to_string(),
            format!("{} + {}", self.long_turns[0], self.long_turns[1]),
            self.load.clone(),
            missed,
        ];
        // A bar or the end of a line would end the column.
        format!("| {} |", cells.map(|cell| cell.replace(['|', '\n'], "/")).join(" | "))
    }

    /// Appends the row to the ledger.
    pub(super) fn append(&self, root: &Path, commit: &str) -> Result<(), String> {
        let path = root.join(PAGE);
        let page = std::fs::File::options().append(true).open(&path);
        page.and_then(|mut page| writeln!(page, "{}", self.row(commit)))
            .map_err(|error| format!("cannot write to {}: {error}", path.display()))
    }
}

fn ms(micros: u64) -> String {
    format!("{:.1}", micros as f64 / 1000.0)
}

/// Median, 99 of 100, and the most.
fn three(times: Times) -> String {
    format!("{} / {} / {}", ms(times.median), ms(times.p99), ms(times.most))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure() -> Figure {
        let times = |p99| Times { count: 1000, median: 500, p99, most: 2 * p99 };
        let sample = |resident, counted| Sample { resident: resident * MIB, counted: counted * MIB, declared: 0 };
        Figure {
            attack: "A1",
            threads: 3,
            quiet: times(2000),
            during: times(90_000),
            parts: [times(90_000); 2],
            after: times(2000),
            peak: 300 * MIB,
            limit: 256 * MIB,
            base: sample(12, 0),
            top: sample(250, 200),
            long_turns: [1, 2],
            tally: String::new(),
            trouble: Vec::new(),
            told: Vec::new(),
            load: "1.0".to_owned(),
        }
    }

    #[test]
    fn a_row_has_the_columns_of_the_page() {
        let row = figure().row("abc");
        assert!(row.ends_with("| 238 | 200 | 0 | 1 + 2 | 1.0 | none |"), "{row}");
        let page = std::fs::read_to_string(crate::root().unwrap().join(PAGE)).unwrap();
        let head = page.lines().find(|line| line.starts_with("| date")).unwrap();
        assert_eq!(head, HEAD);
        assert_eq!(row.matches('|').count(), HEAD.matches('|').count());
        assert!(page.ends_with("|\n"), "the table is the end of the page");
    }

    #[test]
    fn each_bound_is_missed_by_name() {
        let missed = |change: fn(&mut Figure)| {
            let mut figure = figure();
            change(&mut figure);
            figure.missed()
        };
        assert!(missed(|_| {}).is_empty());
        assert_eq!(missed(|figure| figure.during.p99 = 101_000), ["time"]);
        assert!(
            missed(|figure| (figure.during.p99, figure.quiet.p99) = (101_000, 11_000)).is_empty(),
            "a slow machine"
        );
        assert_eq!(missed(|figure| figure.peak = 321 * MIB), ["memory"]);
        assert_eq!(missed(|figure| figure.top.counted = 150 * MIB), ["count"]);
        assert_eq!(missed(|figure| figure.top.counted = 330 * MIB), ["count"], "more than there is");
        assert!(missed(|figure| figure.top.declared = 50 * MIB).is_empty());
        assert_eq!(missed(|figure| figure.trouble.push("gone".to_owned())), ["gone"]);
    }
}
