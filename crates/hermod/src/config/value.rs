//! The syntax of values, which is the same in the file, in the environment and on the command line.
//!
//! Each kind has one function from text to value. Its error says what would be valid.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// A size in bytes: `131072`, `128 KiB`, `16MiB`, `1 GB`.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 9] = [
        ("b", 1),
        ("kib", 1 << 10),
        ("mib", 1 << 20),
        ("gib", 1 << 30),
        ("tib", 1 << 40),
        ("kb", 1_000),
        ("mb", 1_000_000),
        ("gb", 1_000_000_000),
        ("tb", 1_000_000_000_000),
    ];
    let wrong = || format!("'{text}' is no size; write bytes as 131072, 128 KiB, 16 MiB or 1 GiB");
    let (digits, unit) = split_unit(text);
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    let unit = unit.to_ascii_lowercase();
    let scale =
        if unit.is_empty() { Some(1) } else { UNITS.iter().find(|(name, _)| *name == unit).map(|(_, scale)| *scale) };
    scale.and_then(|scale| number.checked_mul(scale)).ok_or_else(wrong)
}

/// A number of bytes, or a share of something in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Amount {
    Bytes(u64),
    Share(u16),
}

impl Amount {
    /// In bytes, if the share is one of `whole`.
    pub(crate) fn of(self, whole: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Share(share) => whole / 1000 * u64::from(share),
        }
    }
}

/// A size in bytes, or a share: `2 GiB`, `60 %`, `12.5 %`.
pub(crate) fn amount(text: &str) -> Result<Amount, String> {
    let Some(number) = text.trim().strip_suffix('%').map(str::trim) else {
        return bytes(text).map(Amount::Bytes).map_err(|error| match text.trim().parse::<f64>() {
            // RabbitMQ's form of a share.
            Ok(share) if share > 0.0 && share <= 1.0 => format!("{error}, or a share as {} %", (share * 100.0).round()),
            _ => format!("{error}, or a share as 60 %"),
        });
    };
    let wrong = || format!("'{text}' is no share; write it as 60 % or 12.5 %, from 0.1 % to 100 %");
    let (whole, tenths) = number.split_once('.').unwrap_or((number, "0"));
    let digits =
        |part: &str| part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse::<u16>().ok()).flatten();
    match (digits(whole), digits(tenths)) {
        (Some(whole @ 0..=100), Some(tenths @ 0..=9)) if (1..=1000).contains(&(whole * 10 + tenths)) => {
            Ok(Amount::Share(whole * 10 + tenths))
        }
        _ => Err(wrong()),
    }
}

/// A time span: `30 s`, `500 ms`, `5 min`, `1 h`; a bare number is seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is no time span; write it as 500 ms, 30 s, 5 min or 1 h");
    let (digits, unit) = split_unit(text);
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    let scale_ms: u64 = match unit {
        "ms" => 1,
        "" | "s" => 1_000,
        "min" | "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wrong()),
    };
    // A year is longer than any useful timeout. It is far below the limit at which adding it to a
    // time overflows.
    const YEAR_MS: u64 = 366 * 24 * 3_600_000;
    match number.checked_mul(scale_ms) {
        Some(ms) if ms <= YEAR_MS => Ok(Duration::from_millis(ms)),
        _ => Err(format!("'{text}' is longer than a year; write at most 8784 h")),
    }
}

/// A shorter time span, also in microseconds: `25 us`.
pub(crate) fn short_duration(text: &str) -> Result<Duration, String> {
    match split_unit(text) {
        (digits, "us" | "µs") => digits
            .parse()
            .map(Duration::from_micros)
            .map_err(|_| format!("'{text}' is no time span; write it as 25 us, 500 ms or 30 s")),
        _ => duration(text),
    }
}

/// A whole number.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("'{text}' is no whole number; write digits alone, as 1000"))
}

/// A TCP port; 0 means none.
pub(crate) fn port(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| format!("'{text}' is no port; write a number from 1 to 65535, or 0 for none"))
}

/// `true` or `false`.
pub(crate) fn flag(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "on" | "yes" | "1" => Ok(true),
        "false" | "off" | "no" | "0" => Ok(false),
        _ => Err(format!("'{text}' is none of true, false")),
    }
}

/// Text of one line. The error has not the text, which may be a password.
pub(crate) fn text(text: &str) -> Result<String, String> {
    one_line(text).map(str::to_owned)
}

/// A version, as `0.1.0`, `3.13.7` or `4.3.0-rc.1`.
pub(crate) fn version(text: &str) -> Result<String, String> {
    let mut numbers = text.split(['.', '-', '+']);
    let is_number = |part: Option<&str>| part.is_some_and(|part| part.parse::<u32>().is_ok());
    let is_version = is_number(numbers.next()) && is_number(numbers.next()) && text.is_ascii();
    if is_version && !text.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
        Ok(text.to_owned())
    } else {
        Err(format!("'{}' is no version; write it as 3.13.7", text.escape_debug()))
    }
}

/// Text without line breaks, tabs and other control characters.
pub(super) fn one_line(text: &str) -> Result<&str, String> {
    if text.chars().any(char::is_control) {
        return Err("the value has a line break or another control character; write one line without".to_owned());
    }
    Ok(text)
}

/// Names that are separated by commas.
pub(crate) fn names(text: &str) -> Result<Vec<String>, String> {
    Ok(one_line(text)?.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

/// IP addresses that are separated by commas: `127.0.0.1, [::1]`.
pub(crate) fn addresses(text: &str) -> Result<Vec<IpAddr>, String> {
    let address = |name: String| {
        let bare = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(&name);
        match bare {
            "localhost" => Ok(IpAddr::from([127, 0, 0, 1])),
            // This address serves IPv4 as well.
            "*" => Ok(IpAddr::from([0u16; 8])),
            _ => bare.parse().map_err(|_| {
                format!(
                    "'{name}' is no IP address; write addresses as 127.0.0.1, [::1] or 0.0.0.0, ports under ports.*"
                )
            }),
        }
    };
    names(text)?.into_iter().map(address).collect()
}

/// `auto`, or a value that `parse` accepts.
pub(crate) fn or_auto<T>(text: &str, parse: fn(&str) -> Result<T, String>) -> Result<Option<T>, String> {
    if text.eq_ignore_ascii_case("auto") {
        Ok(None)
    } else {
        parse(text).map(Some).map_err(|error| error + ", or auto")
    }
}

/// One of `choices`.
pub(crate) fn choice<T: Copy>(text: &str, choices: &[(&str, T)]) -> Result<T, String> {
    choices.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
        format!("'{text}' is none of {}", names.join(", "))
    })
}

fn split_unit(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

pub(super) fn optional_path(text: &str) -> Result<Option<PathBuf>, String> {
    Ok((!one_line(text)?.is_empty()).then(|| PathBuf::from(text)))
}

pub(super) fn at_least(text: &str, parse: fn(&str) -> Result<u64, String>, least: u64) -> Result<u64, String> {
    between(text, parse, least, u64::MAX)
}

pub(super) fn between(
    text: &str,
    parse: fn(&str) -> Result<u64, String>,
    least: u64,
    most: u64,
) -> Result<u64, String> {
    match parse(text)? {
        number if number < least => Err(format!("{text} is too little; the least is {least}")),
        number if number > most => Err(format!("{text} is too much; the most is {most}")),
        number => Ok(number),
    }
}

/// Bytes in a short form: at most three digits, in the unit that fits.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut whole = bytes;
    let mut unit = 0;
    while whole >= 1024 && unit + 1 < UNITS.len() {
        whole /= 1024;
        unit += 1;
    }
    if unit == 0 {
        return format!("{bytes} B");
    }
    // At most 1024 times 10, so it can't overflow.
    let tenths = (bytes >> (10 * (unit - 1))) % 1024 * 10 / 1024;
    if whole < 10 && tenths > 0 {
        format!("{whole}.{tenths} {}", UNITS[unit])
    } else {
        format!("{whole} {}", UNITS[unit])
    }
}

/// How long a program elsewhere may take to answer.
pub(super) fn timeout(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        span if span.is_zero() || span > Duration::from_mins(1) => {
            Err(format!("{text} is not from 1 ms to 1 min; write it as 5 s"))
        }
        span => Ok(span),
    }
}

/// Names that stand for scopes, each as `NAME=SCOPE SCOPE`.
pub(super) fn named_scopes(text: &str) -> Result<BTreeMap<String, Vec<String>>, String> {
    let mut named = BTreeMap::new();
    for alias in names(text)? {
        let wrong = || format!("'{alias}' is no alias; write NAME=SCOPE SCOPE");
        let (name, scopes) = alias.split_once('=').ok_or_else(wrong)?;
        let scopes: Vec<_> = scopes.split_whitespace().map(str::to_owned).collect();
        if name.trim().is_empty() || scopes.is_empty() {
            return Err(wrong());
        }
        named.insert(name.trim().to_owned(), scopes);
    }
    Ok(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, expected) in [
            ("0", Some(0)),
            ("131072", Some(131_072)),
            ("128 KiB", Some(131_072)),
            ("16MiB", Some(16 << 20)),
            ("1 gib", Some(1 << 30)),
            ("2 TiB", Some(2 << 40)),
            ("1 kB", Some(1000)),
            ("3 GB", Some(3_000_000_000)),
            ("12 b", Some(12)),
            ("", None),
            ("MiB", None),
            ("1.5 MiB", None),
            ("-1", None),
            ("1 MiBB", None),
            ("99999999999 TiB", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(bytes(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn shares() {
        for (text, expected) in [
            ("60 %", Some(Amount::Share(600))),
            ("12.5%", Some(Amount::Share(125))),
            ("100 %", Some(Amount::Share(1000))),
            ("0.1 %", Some(Amount::Share(1))),
            ("2 GB", Some(Amount::Bytes(2_000_000_000))),
            ("0", Some(Amount::Bytes(0))),
            ("0 %", None),
            ("100.1 %", None),
            ("101 %", None),
            ("-1 %", None),
            ("1.25 %", None),
            ("%", None),
            ("+5 %", None),
            ("sixty %", None),
            ("0.6", None),
        ] {
            assert_eq!(amount(text).ok(), expected, "{text}");
        }
        assert!(amount("0.6").unwrap_err().ends_with("or a share as 60 %"), "RabbitMQ's form");
        assert!(amount("0.25").unwrap_err().ends_with("or a share as 25 %"));
        assert_eq!((Amount::Share(600).of(1_000_000), Amount::Bytes(5).of(1_000_000)), (600_000, 5));
    }

    #[test]
    fn time_spans() {
        for (text, expected) in [
            ("30 s", Some(30_000)),
            ("30", Some(30_000)),
            ("500ms", Some(500)),
            ("5 min", Some(300_000)),
            ("1h", Some(3_600_000)),
            ("0", Some(0)),
            ("1 day", None),
            ("s", None),
            ("9000 h", None),
            ("18446744073709551615 h", None),
        ] {
            assert_eq!(duration(text).ok(), expected.map(Duration::from_millis), "{text}");
        }
    }

    #[test]
    fn short_time_spans() {
        let cases = [
            ("25 us", Some(25)),
            ("25µs", Some(25)),
            ("1 ms", Some(1000)),
            ("0", Some(0)),
            ("us", None),
            ("1 ns", None),
        ];
        for (text, expected) in cases {
            assert_eq!(short_duration(text).ok(), expected.map(Duration::from_micros), "{text}");
        }
        assert!(duration("25 us").is_err(), "no timeout is that short");
    }

    #[test]
    fn address_lists() {
        for (text, expected) in [
            ("127.0.0.1,[::1]", Some("127.0.0.1 ::1")),
            (" ::1 , 10.0.0.1 ", Some("::1 10.0.0.1")),
            ("localhost", Some("127.0.0.1")),
            ("*", Some("::")),
            ("", Some("")),
            ("127.0.0.1:5672", None),
            ("broker.example", None),
        ] {
            let shown =
                addresses(text).ok().map(|list| list.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "));
            assert_eq!(shown.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn the_rest() {
        assert_eq!((flag("Yes"), flag("off"), flag("maybe").is_err()), (Ok(true), Ok(false), true));
        assert_eq!((port("5672"), port("0"), port("65536").is_err()), (Ok(5672), Ok(0), true));
        assert_eq!(or_auto("auto", count), Ok(None));
        assert_eq!(or_auto("2", count), Ok(Some(2)));
        assert_eq!(
            or_auto("two", count).unwrap_err(),
            "'two' is no whole number; write digits alone, as 1000, or auto"
        );
        assert_eq!(choice("OS", &[("fsync", 1), ("os", 2)]), Ok(2));
        assert_eq!(choice("ssd", &[("fsync", 1), ("os", 2)]).unwrap_err(), "'ssd' is none of fsync, os");
    }

    #[test]
    fn sizes_for_people() {
        for (bytes, expected) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (20 << 20, "20 MiB"),
            ((1 << 30) + (512 << 20), "1.5 GiB"),
            (u64::MAX, "16777215 TiB"),
        ] {
            assert_eq!(size(bytes), expected);
        }
    }

    #[test]
    fn names_stand_for_scopes() {
        let read = named_scopes("admin=r.tag:administrator  r.read:*/*, dev = r.read:dev/*").unwrap();
        assert_eq!(read["admin"], ["r.tag:administrator", "r.read:*/*"]);
        assert_eq!(read["dev"], ["r.read:dev/*"]);
        for wrong in ["admin", "=x", "admin= "] {
            assert!(named_scopes(wrong).unwrap_err().contains("is no alias"), "{wrong}");
        }
    }
}
