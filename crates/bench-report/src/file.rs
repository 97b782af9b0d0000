//! Records as files: of a suite or of a single run, plain or compressed. What is inside decides,
//! not the name.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::single;
use bench_record::failure::{Context, Failure};
use bench_record::run::Record;
use bench_record::suite::Report;

/// A record, unpacked, is no longer than this.
const LONGEST: u64 = 2 << 30;
/// How compressed files begin (RFC 1952, RFC 8878).
const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// What tells the two kinds of records apart.
#[derive(Deserialize)]
struct Kind {
    suites: Option<IgnoredAny>,
    slices: Option<IgnoredAny>,
}

/// Reads a record. That of a single run becomes a report of one scenario.
pub(crate) fn read(path: &Path) -> Result<Report, Failure> {
    let text = unpacked(path).context(path.display())?;
    parse(&text).context(path.display())
}

fn parse(text: &[u8]) -> Result<Report, Failure> {
    let kind: Kind = serde_json::from_slice(text).context("this is no record of hermod-bench")?;
    match (kind.suites, kind.slices) {
        (Some(_), _) => serde_json::from_slice(text).context("reading the record of a suite"),
        (None, Some(_)) => {
            let record: Record = serde_json::from_slice(text).context("reading the record of a run")?;
            single::report(record)
        }
        (None, None) => Err(Failure::new("this is no record of hermod-bench suite or run: write one with --json")),
    }
}

fn unpacked(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut raw = Vec::new();
    File::open(path)?.take(LONGEST).read_to_end(&mut raw)?;
    let mut text = Vec::new();
    if raw.starts_with(&GZIP) {
        flate2::read::GzDecoder::new(raw.as_slice()).take(LONGEST).read_to_end(&mut text).context("unpacking gzip")?;
    } else if raw.starts_with(&ZSTD) {
        let decoder = ruzstd::decoding::StreamingDecoder::new(raw.as_slice()).context("unpacking zstd")?;
        decoder.take(LONGEST).read_to_end(&mut text).context("unpacking zstd")?;
    } else {
        return Ok(raw);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn what_is_no_record_is_refused_with_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("some.json");
        for (text, part) in
            [("[1]", "no record"), ("{}", "write one with --json"), ("{\"suites\": 1}", "record of a suite")]
        {
            std::fs::write(&path, text).unwrap();
            let failure = read(&path).unwrap_err().to_string();
            assert!(failure.contains(part) && failure.contains("some.json"), "{failure}");
        }
    }

    #[test]
    fn packed_and_plain_texts_are_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let text = b"{\"suites\": []}".repeat(100);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(&text).unwrap();
        let zstd = ruzstd::encoding::compress_to_vec(text.as_slice(), ruzstd::encoding::CompressionLevel::Fastest);
        for packed in [text.clone(), gzip.finish().unwrap(), zstd] {
            let path = dir.path().join("record");
            std::fs::write(&path, packed).unwrap();
            assert_eq!(unpacked(&path).unwrap(), text);
        }
    }
}
