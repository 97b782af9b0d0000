//! Limits that need more than one setting.

use crate::outcome::Outcome;

/// The largest message, and the files of the journal that have room for it.
pub(crate) fn largest_message(line: usize, name: &str, bytes: u64, outcome: &mut Outcome<'_>) {
    const DEFAULT_FILE: u64 = 64 << 20;
    const LARGEST_FILE: u64 = 1 << 30;
    // A body takes at most three quarters of a file.
    let file = (bytes.saturating_mul(4) / 3).saturating_add(1 << 20).checked_next_power_of_two().unwrap_or(u64::MAX);
    let (bytes, file) = match file {
        small if small <= DEFAULT_FILE => (bytes, None),
        file if file <= LARGEST_FILE => (bytes, Some(file)),
        _ => {
            outcome.warn(format!("{name}: messages of more than 512 MiB are not taken"));
            (512 << 20, Some(LARGEST_FILE))
        }
    };
    if let Some(file) = file {
        outcome.put("journal.file_bytes", file.to_string());
        outcome.put("journal.max_bytes", (file * 8).max(1 << 30).to_string());
        outcome.warn(format!(
            "{name}: so large a message needs larger files of the journal, which takes up to {} MiB of disk: a lower \
             limits.max_message_size is better if no message is as large",
            (file * 8).max(1 << 30) >> 20
        ));
    }
    outcome.set(line, name, "limits.max_message_size", bytes.to_string());
}
