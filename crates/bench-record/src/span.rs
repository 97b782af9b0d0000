//! Shares and spans of time, as a command line takes them and as people read them.

use std::time::Duration;

use crate::failure::Failure;

/// A share of something, above 0: `3%`, or `0.03`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share(pub f64);

impl std::str::FromStr for Share {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let wrong = || Failure::new(format!("{text}: a share is a number of percent above 0, such as 3%"));
        let (number, unit) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
        let share = number.parse::<f64>().map_err(|_| wrong())? / unit;
        if share.is_finite() && share > 0.0 { Ok(Self(share)) } else { Err(wrong()) }
    }
}

/// A span of time: `90`, `90s`, `10m`, `2h`; also `5ms` and `200us`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span(pub Duration);

impl std::str::FromStr for Span {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let wrong = || Failure::new(format!("{text}: a span of time is a number with us, ms, s, m or h, such as 10m"));
        let units = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
        let unit = units.iter().find_map(|(unit, length)| Some((text.strip_suffix(unit)?, *length)));
        let (number, unit) = unit.unwrap_or((text, 1.0));
        let seconds = number.parse::<f64>().map_err(|_| wrong())? * unit;
        Duration::try_from_secs_f64(seconds).map(Self).map_err(|_| wrong())
    }
}

/// Seconds for people.
pub fn words(seconds: f64) -> String {
    let whole = seconds.ceil() as u64;
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_spans_are_read() {
        assert_eq!("3%".parse::<Share>().unwrap(), Share(0.03));
        assert_eq!("0.5".parse::<Share>().unwrap(), Share(0.5));
        for (text, seconds) in
            [("90", 90.0), ("1.5s", 1.5), ("5ms", 0.005), ("200us", 0.000_2), ("10m", 600.0), ("2h", 7200.0)]
        {
            assert_eq!(text.parse::<Span>().unwrap().0.as_secs_f64(), seconds, "{text}");
        }
        for bad in ["", "%", "-3%", "0", "x", "NaN"] {
            assert!(bad.parse::<Share>().is_err(), "{bad}");
        }
        for bad in ["", "-1", "m", "3d", "NaN"] {
            assert!(bad.parse::<Span>().is_err(), "{bad}");
        }
    }

    #[test]
    fn spans_read_well() {
        for (seconds, text) in [(0.2, "1 s"), (59.9, "1 min 0 s"), (61.0, "1 min 1 s"), (7320.0, "2 h 2 min")] {
            assert_eq!(words(seconds), text);
        }
    }
}
