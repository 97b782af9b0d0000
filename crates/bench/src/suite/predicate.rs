//! What a study says, as predicates over cells: `D1@EMS > D1@Apollo`,
//! `M1:consumers=16/M1:consumers=8 in 0.8..1.25`, `Q5 >= Q6`. A term names a row, perhaps a point
//! of it, a platform of the study, and a figure other than the row's own.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::point;
use bench_record::failure::{Context, Failure};

/// What `~` allows around 1.
const ABOUT: (f64, f64) = (0.8, 1.25);

/// A figure of a cell.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Term {
    pub(crate) row: String,
    pub(crate) at: BTreeMap<String, f64>,
    pub(crate) platform: Option<String>,
    pub(super) figure: Which,
}

/// Which figure of a cell is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// The one that the row is about.
    Own,
    /// Cores that the broker used.
    Cores,
    /// The broker's CPU for each message, microseconds.
    Cpu,
    /// Messages a second.
    Rate,
    /// The median latency, microseconds.
    Latency,
}

/// A quotient of two figures, or one figure, and where it must lie.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Predicate {
    pub(super) text: String,
    pub(super) above: Term,
    pub(super) below: Option<Term>,
    /// Ends of the range; infinite where open.
    pub(super) range: (f64, f64),
}

impl Predicate {
    /// All figures that it needs.
    pub(crate) fn terms(&self) -> impl Iterator<Item = &Term> {
        [Some(&self.above), self.below.as_ref()].into_iter().flatten()
    }

    /// True when all figures are of one row and one point of it.
    pub(super) fn is_of_one_cell(&self) -> bool {
        self.below.as_ref().is_none_or(|below| (&self.above.row, &self.above.at) == (&below.row, &below.at))
    }
}

impl TryFrom<String> for Predicate {
    type Error = Failure;

    fn try_from(text: String) -> Result<Self, Failure> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [left, sign, right] = words.as_slice() else {
            return Err(Failure::new(format!(
                "{text}: a predicate is FIGURE SIGN FIGURE, with spaces around the sign"
            )));
        };
        let (above, below) = match left.split_once('/') {
            Some((above, below)) => (Term::read(above)?, Some(Term::read(below)?)),
            None => (Term::read(left)?, None),
        };
        let range = match *sign {
            ">" => (1.0_f64.next_up(), f64::INFINITY),
            ">=" => (1.0, f64::INFINITY),
            "<" => (f64::NEG_INFINITY, 1.0_f64.next_down()),
            "<=" => (f64::NEG_INFINITY, 1.0),
            "~" => ABOUT,
            "in" => {
                let (low, high) =
                    right.split_once("..").ok_or_else(|| Failure::new(format!("{text}: a range is LOW..HIGH")))?;
                (low.parse().context(&text)?, high.parse().context(&text)?)
            }
            _ => return Err(Failure::new(format!("{text}: the signs are > >= < <= ~ in"))),
        };
        match (*sign, below) {
            ("in", below) => Ok(Self { above, below, range, text }),
            (_, None) => Ok(Self { above, below: Some(Term::read(right)?), range, text }),
            _ => Err(Failure::new(format!("{text}: a quotient is compared with a range: `in LOW..HIGH`"))),
        }
    }
}

impl Term {
    /// `ROW[:AXIS=VALUE[,AXIS=VALUE]][@PLATFORM][.FIGURE]`
    fn read(text: &str) -> Result<Self, Failure> {
        let (text, figure) = match text.rsplit_once('.') {
            Some((rest, "cores")) => (rest, Which::Cores),
            Some((rest, "cpu")) => (rest, Which::Cpu),
            Some((rest, "rate")) => (rest, Which::Rate),
            Some((rest, "latency")) => (rest, Which::Latency),
            _ => (text, Which::Own),
        };
        let (place, platform) = match text.split_once('@') {
            Some((place, platform)) => (place, Some(platform.to_owned())),
            None => (text, None),
        };
        let (row, point) = place.split_once(':').unwrap_or((place, ""));
        let at = point::read(point).context(text)?;
        if row.is_empty() {
            return Err(Failure::new(format!("{text}: a row is missing")));
        }
        Ok(Self { row: row.to_owned(), at, platform, figure })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Predicate, Failure> {
        Predicate::try_from(text.to_owned())
    }

    #[test]
    fn predicates_are_read_and_mistakes_are_named() {
        let predicate = read("O5:bindings=1024,size=1@Qpid.cores/O5:bindings=1,size=1 in 0.4..0.7").unwrap();
        assert_eq!(predicate.range, (0.4, 0.7));
        assert_eq!(predicate.above.at, BTreeMap::from([("bindings".to_owned(), 1024.0), ("size".to_owned(), 1.0)]));
        assert_eq!((predicate.above.platform.as_deref(), predicate.above.figure), (Some("Qpid"), Which::Cores));
        assert_eq!(predicate.below.unwrap().platform, None);
        assert_eq!(read("Q5 >= Q6").unwrap().terms().count(), 2);
        for (text, part) in [
            ("Q5>Q6", "with spaces"),
            ("Q5 = Q6", "the signs are"),
            ("Q5 in 3", "LOW..HIGH"),
            ("Q5/Q6 > Q7", "compared with a range"),
            (":a=1 > Q6", "a row is missing"),
            ("Q5:a > Q6", "AXIS=VALUE"),
        ] {
            let failure = read(text).unwrap_err().to_string();
            assert!(failure.contains(part), "{text}: {failure}");
        }
    }
}
