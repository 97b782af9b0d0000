//! The ledger of the faults: one line for each run that is worth keeping, in docs/ledger/faults.md.

use std::path::Path;

use crate::ledger;

/// The page, from the workspace's root. Its last lines are the table.
const PAGE: &str = "docs/ledger/faults.md";

/// Appends a run.
pub(super) fn append(root: &Path, commit: &str, fault: &str, seed: u64, figure: &str) -> Result<(), String> {
    ledger::append(root, PAGE, &row(&ledger::today(), commit, fault, seed, figure))
}

fn row(date: &str, commit: &str, fault: &str, seed: u64, figure: &str) -> String {
    // A bar would end the column.
    format!("| {date} | {commit} | {fault} | {seed} | {} |", figure.replace('|', "/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_columns_of_the_page() {
        let row = row("2026-01-01", "abc", "F1-tmpfs", 7, "a | b");
        assert_eq!(row, "| 2026-01-01 | abc | F1-tmpfs | 7 | a / b |");
        let page = std::fs::read_to_string(crate::root().unwrap().join(PAGE)).unwrap();
        let head = page.lines().find(|line| line.starts_with("| date")).unwrap();
        assert_eq!(row.matches('|').count(), head.matches('|').count());
        assert!(page.ends_with("|\n"), "the table is the end of the page");
    }
}
