//! Reading a file with bodies from front to back, a piece at a time, whatever the length of what is
//! in it. An adopted log file has batches, a copied segment has records.
//!
//! Invariant: of what is longer than a piece only the checksum so far is kept.

use crate::checksum::{Checksums, Sum};
use crate::cold::index::{IndexHeader, SegmentFile};
use crate::disk::DiskFile;
use crate::file_header::{FILE_HEADER, FileHeader};
use crate::options::BLOCK;
use crate::record::{BODY, BODY_HEAD, HEAD};
use crate::wal::batch;

/// A file being read.
pub(super) struct Walk {
    incarnation: u64,
    header: IndexHeader,
    /// The next byte to read.
    at: u64,
    /// Nothing is wanted from here on.
    end: u64,
    part: Part,
}

/// What comes at the next byte.
#[allow(clippy::large_enum_variant, reason = "there is one, and a box would be made for each body")]
enum Part {
    /// The header block of the file.
    Front,
    /// The head of a batch or record.
    Head,
    Inside(Inside),
    /// So many bytes that say nothing.
    Padding(u64),
}

/// The batch or record whose head was read.
struct Inside {
    /// Where it begins.
    start: u64,
    /// The bytes still to come.
    left: u64,
    /// What comes behind them.
    padding: u64,
    sum: Sum,
    expected: u32,
}

/// Where something does not read back, and what.
type Bad = (u64, String);

impl Walk {
    /// Reads the file of a segment whose index lists bodies up to `listed`.
    pub(super) fn new(incarnation: u64, header: IndexHeader, listed: u64) -> Self {
        // Behind the last body of an adopted file may be what is not needed any more. A copied
        // one has only its bodies.
        let end = match header.place {
            SegmentFile::Slot(_) => listed,
            SegmentFile::Own => header.length.into(),
        };
        Self { incarnation, header, at: 0, end, part: Part::Front }
    }

    /// The next byte to read.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Reads the next piece; true if that was the last.
    pub(super) fn step(&mut self, file: &dyn DiskFile, piece: u64) -> Result<bool, Bad> {
        let length = file.length().map_err(|error| (self.at, error.to_string()))?;
        if length < u64::from(self.header.length) {
            return Err((length, format!("the file ends here, and had {} bytes", self.header.length)));
        }
        let mut window = vec![0; piece.min(u64::from(self.header.length).saturating_sub(self.at)) as usize];
        file.read_exact_at(&mut window, self.at).map_err(|error| (self.at, error.to_string()))?;
        let mut rest = &window[..];
        while self.at < self.end || matches!(self.part, Part::Inside(_)) {
            match self.take(rest)? {
                Some(taken) => {
                    self.at += taken as u64;
                    rest = rest.get(taken..).unwrap_or_default();
                }
                None if rest.len() == window.len() => return Err((self.at, "the file ends in a record".to_owned())),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Takes the next part off `rest`, or some of it; none if more must be read for that.
    fn take(&mut self, rest: &[u8]) -> Result<Option<usize>, Bad> {
        let bad = |at: u64, what: &str| (at, what.to_owned());
        match &mut self.part {
            Part::Front => {
                let Some(front) = rest.first_chunk::<{ BLOCK as usize }>() else { return Ok(None) };
                let right = FileHeader::decode(&front[..FILE_HEADER]).is_some_and(|found| {
                    (found.incarnation, found.generation) == (self.incarnation, self.header.number)
                });
                self.part = Part::Head;
                if right { Ok(Some(front.len())) } else { Err(bad(0, "the header of the file does not check")) }
            }
            Part::Head => {
                let Some((inside, taken)) = self.head(rest)? else { return Ok(None) };
                self.part = Part::Inside(inside);
                Ok(Some(taken))
            }
            Part::Inside(inside) => {
                let taken = inside.left.min(rest.len() as u64);
                inside.sum.add(&rest[..taken as usize]);
                inside.left -= taken;
                if inside.left > 0 {
                    return Ok(if taken > 0 { Some(taken as usize) } else { None });
                }
                let (start, whole) = (inside.start, inside.sum.value() == inside.expected);
                self.part = Part::Padding(inside.padding);
                if whole { Ok(Some(taken as usize)) } else { Err(bad(start, "a checksum does not fit")) }
            }
            Part::Padding(left) => {
                let taken = (*left).min(rest.len() as u64);
                *left -= taken;
                if *left > 0 {
                    return Ok(if taken > 0 { Some(taken as usize) } else { None });
                }
                self.part = Part::Head;
                Ok(Some(taken as usize))
            }
        }
    }

    /// What a head says, and how long it is.
    fn head(&self, rest: &[u8]) -> Result<Option<(Inside, usize)>, Bad> {
        let sums = Checksums::new(self.incarnation, self.header.number);
        let start = self.at;
        let (length, taken, padding, sum, expected) = match self.header.place {
            SegmentFile::Slot(_) => {
                let Some(head) = rest.first_chunk::<{ batch::HEADER }>() else { return Ok(None) };
                let decoded = batch::BatchHeader::decode(head, self.incarnation, self.header.number, start as u32);
                let Some((found, _)) = decoded else { return Err((start, "there is no batch".to_owned())) };
                let used = batch::HEADER as u64 + u64::from(found.length);
                (found.length, batch::HEADER, u64::from(found.footprint()) - used, sums.begin(), found.payload)
            }
            SegmentFile::Own => {
                let Some(head) = rest.first_chunk::<BODY_HEAD>() else { return Ok(None) };
                let length = u32::from_le_bytes([head[2], head[3], head[4], head[5]]);
                let Some(length) = length.checked_sub(4).filter(|_| head[..2] == [BODY, 0]) else {
                    return Err((start, "there is no body".to_owned()));
                };
                let mut sum = sums.begin();
                sum.add(&(start as u32).to_le_bytes());
                let expected = u32::from_le_bytes([head[HEAD], head[HEAD + 1], head[HEAD + 2], head[HEAD + 3]]);
                (length, BODY_HEAD, 0, sum, expected)
            }
        };
        if start + taken as u64 + u64::from(length) + padding > u64::from(self.header.length) {
            return Err((start, "it is longer than its file".to_owned()));
        }
        Ok(Some((Inside { start, left: length.into(), padding, sum, expected }, taken)))
    }
}
