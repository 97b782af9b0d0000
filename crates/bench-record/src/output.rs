//! Where figures go in the end: standard output and a record's file. A reader that has gone is a
//! failure like any other, and does not cost the record.

use std::fs;
use std::io::{Write, stdout};
use std::path::Path;

use serde::Serialize;

use crate::failure::{Context, Failure};

/// Writes to standard output, at once.
pub fn show(text: &str) -> Result<(), Failure> {
    let mut out = stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("writing to standard output")
}

/// A value as a line of standard output.
pub fn show_line(value: &impl Serialize) -> Result<(), Failure> {
    show(&(serde_json::to_string(value).context("writing the figures")? + "\n"))
}

/// A value as text for people and programs.
pub fn pretty(value: &impl Serialize) -> Result<String, Failure> {
    Ok(serde_json::to_string_pretty(value).context("writing the figures")? + "\n")
}

/// Writes a record to `path`, where one is wanted, and then the table to standard output.
pub fn report(table: &str, path: Option<&Path>, record: &impl Serialize) -> Result<(), Failure> {
    if let Some(path) = path {
        fs::write(path, pretty(record)?).context(path.display())?;
    }
    show(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_one_text_and_its_place_is_named_when_it_can_not_be_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("record");
        report("", Some(&path), &[1, 2]).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "[\n  1,\n  2\n]\n");
        let failure = report("", Some(dir.path()), &[1]).unwrap_err().to_string();
        assert!(failure.contains(&dir.path().display().to_string()), "{failure}");
    }
}
