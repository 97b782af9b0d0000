//! Numbers as people read them. A figure that is rounded has its exact value in its title.

use std::time::Duration;

use maud::{Markup, html};

/// Space between groups of digits that does not break.
const THIN: char = '\u{202f}';

/// `1 234 567`.
pub(super) fn grouped(number: u64) -> String {
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

/// A number as it is up to 99 999, then with three digits and a letter.
pub(super) fn count(number: u64) -> Markup {
    if number == 0 {
        return html! { span .zero { "0" } };
    }
    if number < 100_000 {
        return html! { (grouped(number)) };
    }
    html! { span title=(grouped(number)) { (short(number as f64, 1000.0, &["", "k", "M", "G", "T"])) } }
}

/// Bytes in powers of 1024.
pub(super) fn bytes(bytes: u64) -> Markup {
    let units = [" B", " KiB", " MiB", " GiB", " TiB", " PiB"];
    html! { span title={ (grouped(bytes)) " bytes" } { (short(bytes as f64, 1024.0, &units)) } }
}

/// How often something happens in a second.
pub(super) fn rate(per_second: f64) -> Markup {
    if per_second <= 0.0 {
        return html! { span .zero { "0/s" } };
    }
    if per_second < 0.1 {
        return html! { "<0.1/s" };
    }
    let text = if per_second < 10.0 && per_second.fract() >= 0.05 {
        format!("{per_second:.1}")
    } else if per_second < 100_000.0 {
        grouped(whole(per_second))
    } else {
        short(per_second, 1000.0, &["", "k", "M", "G"])
    };
    html! { (text) "/s" }
}

/// Three digits of a number, and the unit that it is in.
fn short(number: f64, step: f64, units: &[&str]) -> String {
    let (mut scaled, mut unit) = (number, 0);
    // What would be printed as a whole step is one of the next unit.
    while scaled >= step - 0.5 && unit + 1 < units.len() {
        scaled /= step;
        unit += 1;
    }
    let digits = if unit == 0 || scaled >= 99.95 {
        0
    } else if scaled >= 9.995 {
        1
    } else {
        2
    };
    format!("{scaled:.digits$}{}", units[unit])
}

/// The closest whole number from 0 on.
fn whole(number: f64) -> u64 {
    number.max(0.0).round() as u64
}

/// A span in its two largest units: `2 d 4 h`.
pub(super) fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    let parts = [("d", seconds / 86_400), ("h", seconds / 3600 % 24), ("min", seconds / 60 % 60), ("s", seconds % 60)];
    let Some(first) = parts.iter().position(|(_, number)| *number > 0) else { return "0 s".to_owned() };
    let two = parts[first..].iter().take(2).filter(|(_, number)| *number > 0);
    two.map(|(unit, number)| format!("{number} {unit}")).collect::<Vec<_>>().join(" ")
}

/// `1 queue`, `2 queues`.
pub(super) fn several(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text of a figure as a reader sees it.
    fn seen(markup: &Markup) -> String {
        let text = markup.0.replace(THIN, " ");
        let text = text.split_once('>').map_or(text.as_str(), |(_, inner)| inner.trim_end_matches("</span>"));
        text.replace("&lt;", "<")
    }

    #[test]
    fn counts_and_bytes_keep_three_digits() {
        for (number, text) in
            [(0, "0"), (999, "999"), (12_345, "12 345"), (99_999, "99 999"), (100_000, "100k"), (1_210_000, "1.21M")]
        {
            assert_eq!(seen(&count(number)), text);
        }
        for (number, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (10_240, "10.0 KiB"),
            (1 << 20, "1.00 MiB"),
            ((1 << 20) - 1, "1.00 MiB"),
            (u64::MAX, "16384 PiB"),
        ] {
            assert_eq!(seen(&bytes(number)), text, "{number}");
        }
        assert!(count(1_234_567).0.contains("title=\"1\u{202f}234\u{202f}567\""));
    }

    #[test]
    fn rates_are_per_second() {
        for (number, text) in [
            (0.0, "0/s"),
            (0.04, "<0.1/s"),
            (0.4, "0.4/s"),
            (9.96, "10.0/s"),
            (10.4, "10/s"),
            (200.0, "200/s"),
            (12_400.0, "12 400/s"),
            (1_240_000.0, "1.24M/s"),
        ] {
            assert_eq!(seen(&rate(number)).replace("&lt;", "<"), text, "{number}");
        }
    }

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
