//! Which cells of a study are asked for: rows by their name or its beginning, `M1,M3*`, and single
//! points of them, `O4:size=64,copies=32`. Who asks for nothing gets all; what no study has is
//! refused.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::point::{self, is_at};
use super::study::{Row, Study};
use bench_record::failure::{Context, Failure};
use bench_record::suite::label;

/// Cells that are asked for: all where it is empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Choice(Vec<Rows>);

/// Rows whose names begin alike, or one row, and values of what they vary.
#[derive(Debug, Clone, PartialEq)]
struct Rows {
    text: String,
    pattern: String,
    at: BTreeMap<String, f64>,
}

impl FromStr for Choice {
    type Err = Failure;

    /// `ROW[:AXIS=VALUE[,AXIS=VALUE]]`, and more of them behind commas.
    fn from_str(text: &str) -> Result<Self, Failure> {
        let mut texts: Vec<String> = Vec::new();
        for piece in text.split(',').filter(|piece| !piece.is_empty()) {
            match texts.last_mut().filter(|_| piece.contains('=') && !piece.contains(':')) {
                Some(row) => row.push_str(&format!(",{piece}")),
                None => texts.push(piece.to_owned()),
            }
        }
        texts.into_iter().map(Rows::read).collect::<Result<_, _>>().map(Self)
    }
}

impl Choice {
    /// Whether a row at a point is asked for.
    pub(super) fn takes(&self, row: &str, at: &BTreeMap<String, f64>) -> bool {
        self.0.is_empty() || self.0.iter().any(|one| matches(&one.pattern, row) && is_at(at, &one.at))
    }

    /// A row, or a point of it, that no study has is a mistake, whatever else is asked for.
    pub(super) fn check(&self, studies: &[Study]) -> Result<(), Failure> {
        let rows = || studies.iter().flat_map(|study| &study.rows);
        for Rows { text, pattern, at } in &self.0 {
            let named: Vec<&Row> = rows().filter(|row| matches(pattern, &row.id)).collect();
            if named.is_empty() {
                let known: Vec<&str> = rows().map(|row| row.id.as_str()).collect();
                return Err(Failure::new(format!("--rows {text}: there is no such row, only {}", known.join(", "))));
            }
            if !named.iter().flat_map(|row| row.points()).any(|point| is_at(&point, at)) {
                let known = named.iter().flat_map(|row| row.points().into_iter().map(|point| label(&row.id, &point)));
                let known: Vec<String> = known.collect();
                return Err(Failure::new(format!("--rows {text}: there is no such point, only {}", known.join(", "))));
            }
        }
        Ok(())
    }
}

impl Rows {
    fn read(text: String) -> Result<Self, Failure> {
        let (row, at) = text.split_once(':').unwrap_or((&text, ""));
        Ok(Self { pattern: row.to_owned(), at: point::read(at).context(&text)?, text })
    }
}

/// True when `id` is what `pattern` says: itself, or, with a star at its end, whatever begins so.
fn matches(pattern: &str, id: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == id, |start| id.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench_record::suite::Profile;

    #[test]
    fn rows_are_chosen_by_name_or_beginning_and_cells_by_what_they_vary() {
        let cases = [
            ("crimson2003", "", 27),
            ("crimson2003", "Q*", 12),
            ("crimson2003", "T*,Q1", 14),
            ("crimson2003", "Q1,", 1),
            ("osu2008", "O4", 18),
            ("osu2008", "O4:copies=32", 3),
            ("osu2008", "O4:copies=32,size=64", 1),
            ("osu2008", "O4:copies=32,size=64,O3", 12),
            ("osu2008", "O4:copies=32,O4:size=64", 8),
            // O3 has no pairs, O1 no other number of them.
            ("osu2008", "O*:pairs=8", 3),
        ];
        for (study, text, expected) in cases {
            let (study, choice) = (Study::find(study).unwrap(), text.parse::<Choice>().unwrap());
            choice.check(std::slice::from_ref(&study)).unwrap();
            assert_eq!(study.cells(&[Profile::Fair], &choice).len(), expected, "{text}");
        }
    }

    #[test]
    fn what_no_study_has_and_what_cannot_be_read_is_refused_by_name() {
        let studies = [Study::find("osu2008").unwrap()];
        let cases = [
            ("Q", "--rows Q: there is no such row, only O1, "),
            ("O1,M*", "--rows M*: there is no such row, only O1, "),
            ("O2:size=5", "--rows O2:size=5: there is no such point, only O2 pairs=1 size=64, "),
            ("O3:rate=64", "--rows O3:rate=64: there is no such point, only O3 size=1, "),
            ("O3:64", "O3:64: a point is AXIS=VALUE"),
            ("O3:size=x", "O3:size=x: x: invalid float literal"),
            ("O3:size=1,size=4", "O3:size=1,size=4: size has two values here: "),
        ];
        for (text, expected) in cases {
            let failure = text.parse::<Choice>().and_then(|choice| choice.check(&studies)).unwrap_err().to_string();
            assert!(failure.starts_with(expected), "{text}: {failure}");
        }
    }
}
