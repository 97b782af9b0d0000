//! Numbers and times as the page shows them: thousands apart by a narrow space that does not break,
//! units beside them.

use super::super::table;
use bench_record::statistics::spread::Spread;

/// What stands between thousands.
const NARROW_SPACE: &str = "\u{202f}";
/// Suffixes of decimal and of binary thousands.
const DECIMAL: [(&str, f64); 4] = [("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0)];
const BINARY: [(&str, f64); 4] = [("Gi", 1_073_741_824.0), ("Mi", 1_048_576.0), ("Ki", 1024.0), ("", 1.0)];

/// A measured figure: three significant digits at least.
pub(super) fn amount(value: f64) -> String {
    apart(&table::significant(value))
}

/// A count.
pub(super) fn count(value: impl TryInto<u64>) -> String {
    apart(&table::number(value.try_into().map_or(f64::NAN, |value: u64| value as f64), 0))
}

/// A number of things, the word in the singular or the plural.
pub(super) fn counted(number: usize, [one, many]: [&str; 2]) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// A figure as a study printed it: no digit more or less, up to three decimals.
pub(super) fn printed(value: f64) -> String {
    let text = table::number(value, 3);
    apart(text.trim_end_matches('0').trim_end_matches('.'))
}

/// The interval of a figure, or its range where blocks were too few for one.
pub(super) fn extent(spread: &Spread) -> Option<String> {
    match (spread.interval, spread.values.len()) {
        (Some((low, high)), _) => Some(format!("{}–{}", amount(low), amount(high))),
        (None, 0 | 1) => None,
        (None, several) => Some(format!("{}–{}, range of {several}", amount(spread.min), amount(spread.max))),
    }
}

/// A ratio with its interval.
pub(super) fn ratio(value: f64, interval: Option<(f64, f64)>) -> String {
    let text = format!("{}×", amount(value));
    interval.map_or_else(|| text.clone(), |(low, high)| format!("{text} [{}–{}]", amount(low), amount(high)))
}

/// A number for an axis: `20k`, `1.5M`.
pub(super) fn short(value: f64) -> String {
    scaled(value, &DECIMAL)
}

/// Bytes for an axis or a variable: `64`, `1Ki`, `10k` where it is a round number of decimal
/// thousands.
pub(super) fn bytes(value: f64) -> String {
    if value >= 1000.0 && value % 1000.0 == 0.0 { scaled(value, &DECIMAL) } else { scaled(value, &BINARY) }
}

/// A size in words: `64 B`, `256 KiB`, `10 kB`.
pub(super) fn size(value: f64) -> String {
    let text = bytes(value);
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    format!("{digits} {}B", &text[digits.len()..])
}

fn scaled(value: f64, steps: &[(&str, f64)]) -> String {
    let (suffix, step) = steps.iter().find(|(_, step)| value.abs() >= *step).unwrap_or(&("", 1.0));
    let text = format!("{:.3}", value / step);
    format!("{}{suffix}", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Mebibytes.
pub(super) fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", amount(bytes as f64 / 1_048_576.0))
}

/// A moment in UTC from seconds since 1970: `2026-11-21 19:05`.
pub(super) fn moment(unix: u64) -> String {
    let (days, seconds) = (unix / 86_400, unix % 86_400);
    let (year, month, day) = date(days);
    format!("{year}-{month:02}-{day:02} {:02}:{:02}", seconds / 3600, seconds / 60 % 60)
}

/// The Gregorian date of a day counted from 1970-01-01, by eras of 400 years that begin in March.
fn date(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, in_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (in_era - in_era / 1460 + in_era / 36_524 - in_era / 146_096) / 365;
    let in_year = in_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * in_year + 2) / 153;
    let day = in_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// A short length of time: `40 ms`, `4.80 s`.
pub(super) fn brief(seconds: f64) -> String {
    if seconds < 1.0 { format!("{:.0} ms", seconds * 1000.0) } else { format!("{} s", amount(seconds)) }
}

fn apart(text: &str) -> String {
    text.replace(' ', NARROW_SPACE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_exact() {
        let cases = [
            (amount(52_310.4), "52\u{202f}310"),
            (amount(2.346), "2.35"),
            (printed(232.7), "232.7"),
            (printed(1_000_000.0), "1\u{202f}000\u{202f}000"),
            (printed(134.048), "134.048"),
            (printed(1.0), "1"),
            (printed(10.0), "10"),
            (printed(100.0), "100"),
            (printed(0.5), "0.5"),
            (short(20_000.0), "20k"),
            (short(1_500_000.0), "1.5M"),
            (short(0.5), "0.5"),
            (short(0.0), "0"),
            (bytes(1024.0), "1Ki"),
            (bytes(10_000.0), "10k"),
            (bytes(1_048_576.0), "1Mi"),
            (bytes(64.0), "64"),
            (size(64.0), "64 B"),
            (size(262_144.0), "256 KiB"),
            (size(10_000.0), "10 kB"),
            (count(10_000_u64), "10\u{202f}000"),
        ];
        for (text, expected) in cases {
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn moments_are_those_of_the_calendar() {
        let cases = [
            (0, "1970-01-01 00:00"),
            (951_782_400, "2000-02-29 00:00"),
            (1_709_164_800, "2024-02-29 00:00"),
            (1_795_287_905, "2026-11-21 19:05"),
            (4_102_444_799, "2099-12-31 23:59"),
        ];
        for (unix, expected) in cases {
            assert_eq!(moment(unix), expected);
        }
    }
}
