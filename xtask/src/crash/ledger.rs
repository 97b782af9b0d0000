//! The ledger: one line for each run that is worth keeping, in docs/ledger/crash.md.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::checker::Counts;

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
        let path = root.join(PAGE);
        let row = self.row(&today());
        let page = std::fs::File::options().append(true).open(&path);
        page.and_then(|mut page| writeln!(page, "{row}"))
            .map_err(|error| format!("cannot write to {}: {error}", path.display()))
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let counts = self.counts;
        write!(
            f,
            "seed {}: {} kills; {} published, {} confirmed, {} delivered ({} of them again), {} settlements fenced, \
             {} transactions committed, {} died of age, {} redriven, {} refused, {} worn out; {} lost, {} violations; restart p50 {} ms, p99 {} ms",
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
            counts.refused,
            counts.tired,
            counts.lost,
            counts.violations,
            self.restart(50),
            self.restart(99)
        )
    }
}

/// The commit that is checked out; a plus says that the sources have been changed since.
pub(crate) fn commit(root: &Path) -> Result<String, String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).current_dir(root).output();
        let output = output.map_err(|error| format!("cannot run git: {error}"))?;
        Ok::<_, String>(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let name = git(&["rev-parse", "--short", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no", "--", "crates", "Cargo.lock"])?;
    Ok(if changed.is_empty() { name } else { format!("{name}+") })
}

/// The date of today, in UTC.
pub(crate) fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    date(seconds / 86_400)
}

/// The date that lies so many days after 1970-01-01 (Howard Hinnant's civil_from_days, for dates
/// from then on).
fn date(days: u64) -> String {
    let shifted = days + 719_468;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + shifted / 146_097 * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        for (days, expected) in [
            (0, "1970-01-01"),
            (59, "1970-03-01"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (20_454, "2026-01-01"),
        ] {
            assert_eq!(date(days), expected);
        }
    }

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
