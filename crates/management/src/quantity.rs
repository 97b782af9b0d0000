//! Numbers and spans of time in sentences.

use std::time::Duration;

/// Space between groups of digits that does not break.
pub(crate) const THIN: char = '\u{202f}';

/// `1 234 567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3 * THIN.len_utf8());
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(THIN);
        }
        text.push(digit);
    }
    text
}

/// A span in its two largest units: `2 d 4 h`.
pub(crate) fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    let parts = [("d", seconds / 86_400), ("h", seconds / 3600 % 24), ("min", seconds / 60 % 60), ("s", seconds % 60)];
    let Some(first) = parts.iter().position(|(_, number)| *number > 0) else { return "0 s".to_owned() };
    let two = parts[first..].iter().take(2).filter(|(_, number)| *number > 0);
    two.map(|(unit, number)| format!("{number} {unit}")).collect::<Vec<_>>().join(" ")
}

/// A span of milliseconds, such as `2 d 4 h`, or `300 ms` if it is short.
pub(crate) fn lasting(milliseconds: u64) -> String {
    if milliseconds < 1000 { format!("{milliseconds} ms") } else { span(Duration::from_millis(milliseconds)) }
}

/// `1 queue`, `2 queues`.
pub(crate) fn several(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_and_numbers_read_well() {
        for (seconds, text) in
            [(0, "0 s"), (59, "59 s"), (60, "1 min"), (3_725, "1 h 2 min"), (86_400, "1 d"), (1_000_000, "11 d 13 h")]
        {
            assert_eq!(span(Duration::from_secs(seconds)), text);
        }
        assert_eq!(several(1, "queue", "queues"), "1 queue");
        assert_eq!(several(0, "queue", "queues"), "0 queues");
    }
}
