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

/// Bytes in powers of 1024: `640 B`, `1.5 MiB`, `12 GiB`.
pub(crate) fn size(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    let Some(unit) = (0..units.len()).rev().find(|unit| bytes >> (10 * (unit + 1)) > 0) else {
        return format!("{bytes} B");
    };
    let tenths = (u128::from(bytes) * 10) >> (10 * (unit + 1));
    match (tenths / 10, tenths % 10) {
        (whole, rest) if whole < 10 && rest > 0 => format!("{whole}.{rest} {}", units[unit]),
        (whole, _) => format!("{whole} {}", units[unit]),
    }
}

/// Milliseconds as seconds: `1.250 s`.
pub(crate) fn seconds(milliseconds: u64) -> String {
    format!("{}.{:03} s", milliseconds / 1000, milliseconds % 1000)
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
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (10 << 20, "10 MiB"),
            ((3 << 30) + (300 << 20), "3.2 GiB"),
            (u64::MAX, "16777215 TiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
        assert_eq!(seconds(1_050), "1.050 s");
        assert_eq!(several(1, "queue", "queues"), "1 queue");
        assert_eq!(several(0, "queue", "queues"), "0 queues");
    }
}
