//! The ledger of the kills: one line for each run that is worth keeping, in docs/ledger/crash.md.

use std::path::Path;
use std::time::Duration;

use crate::checker::Counts;
use crate::ledger;

/// The page, from the workspace's root. Its last lines are the table.
const PAGE: &str = "docs/ledger/crash.md";

/// What a run did.
#[derive(Debug, Clone, Default)]
pub(crate) struct Summary {
    /// What was tested.
    pub(crate) commit: String,
    pub(crate) seed: u64,
    pub(crate) cycles: u64,
    pub(crate) counts: Counts,
    /// How long each start took until connections were accepted.
    pub(crate) restarts: Vec<Duration>,
}

impl Summary {
    /// The start that `percent` of 100 were not slower than, in milliseconds.
    fn restart(&self, percent: usize) -> u128 {
        let mut sorted = self.restarts.clone();
        sorted.sort_unstable();
        let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
        sorted.get(at).map_or(0, Duration::as_millis)
    }

    fn row(&self, date: &str) -> String {
        let Counts { attempted, confirmed, delivered, redelivered, fenced, transactions, lost, violations, .. } =
            self.counts;
        format!(
            "| {date} | {} | {} | {} | {attempted} | {confirmed} | {delivered} | {redelivered} | {fenced} | \
             {transactions} | {lost} | {violations} | {} / {} |",
            self.commit,
            self.seed,
            self.cycles,
            self.restart(50),
            self.restart(99)
        )
    }

    /// Appends the run to the page.
    pub(crate) fn append(&self, root: &Path) -> Result<(), String> {
        ledger::append(root, PAGE, &self.row(&ledger::today()))
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let counts = self.counts;
        write!(
            f,
            "seed {}: {} kills; {} published, {} confirmed, {} delivered ({} of them again), {} settlements fenced, \
             {} transactions committed, {} died of age, {} redriven, {} kept, {} refused, {} worn out; {} lost, {} violations; restart p50 {} ms, p99 {} ms",
            self.seed,
            self.cycles,
            counts.attempted,
            counts.confirmed,
            counts.delivered,
            counts.redelivered,
            counts.fenced,
            counts.transactions,
            counts.expired,
            counts.redriven,
            counts.kept,
            counts.refused,
            counts.tired,
            counts.lost,
            counts.violations,
            self.restart(50),
            self.restart(99)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_columns_of_the_page() {
        let mut summary = Summary { commit: "abc".to_owned(), seed: 7, cycles: 3, ..Summary::default() };
        summary.restarts = (1..=100).rev().map(Duration::from_millis).collect();
        let row = summary.row("2026-01-01");
        assert!(row.starts_with("| 2026-01-01 | abc | 7 | 3 |") && row.ends_with("| 50 / 99 |"), "{row}");
        let page = std::fs::read_to_string(crate::root().unwrap().join(PAGE)).unwrap();
        let head = page.lines().find(|line| line.starts_with("| date")).unwrap();
        assert_eq!(row.matches('|').count(), head.matches('|').count());
        assert!(page.ends_with("|\n"), "the table is the end of the page");
    }
}
