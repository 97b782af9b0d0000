//! Numbers as people read them. A figure that is rounded has its exact value in its title.

use maud::{Markup, html};

use crate::quantity::grouped;

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

/// A moment, in milliseconds since 1970, to the second and in UTC.
pub(super) fn time(at: u64) -> Markup {
    let moment = i64::try_from(at).ok().and_then(|at| jiff::Timestamp::from_millisecond(at).ok()).unwrap_or_default();
    let shown = moment.strftime("%Y-%m-%d %H:%M:%S").to_string();
    html! { time datetime=(format!("{moment:.3}")) title={ (format!("{moment:.3}")) } { (shown) } }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::THIN;

    /// The text of a figure as a reader sees it.
    fn seen(markup: &Markup) -> String {
        let text = markup.0.replace(THIN, " ");
        let text = text.split_once('>').map_or(text.as_str(), |(_, inner)| inner.trim_end_matches("</span>"));
        text.replace("&lt;", "<")
    }

    #[test]
    fn a_moment_is_told_in_utc() {
        assert!(time(1_700_000_000_100).0.ends_with(">2023-11-14 22:13:20</time>"), "{}", time(1_700_000_000_100).0);
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
}
