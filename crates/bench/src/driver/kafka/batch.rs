//! Kafka's record batches, format 2: written message by message behind a Produce request, read out
//! of what a Fetch brings. A batch that is read has the checksum it says; what no other client of a
//! run would write is an error.

use crc_fast::crc32_iscsi;
use wire::{DecodeError, Reader};

use super::codec::{Call, begin, end, text};

/// Bytes of a batch in front of its records.
pub(super) const HEAD: usize = 61;
/// Most bytes of a record beside its body.
pub(super) const RECORD: usize = 16;
/// Bytes in front of what a batch's length counts: the first offset and the length.
const PREFIX: usize = 12;
/// Where in a batch its fields lie.
const CRC_AT: usize = 17;
const ATTRIBUTES_AT: usize = 21;
const LAST_AT: usize = 23;
const COUNT_AT: usize = 57;
/// The format.
const MAGIC: u8 = 2;
/// Attributes: how records are compressed, and that they are marks of transactions.
const COMPRESSION: u16 = 0x07;
const CONTROL: u16 = 0x20;
/// How long a broker may wait for its replicas.
const TIMEOUT_MS: u32 = 30_000;

/// A Produce request of one batch at the end of an output, which can still grow.
#[derive(Debug)]
pub(super) struct OpenBatch {
    /// Where the request begins.
    frame: usize,
    /// Where the batch begins.
    batch: usize,
    count: u32,
}

/// When a batch is confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Acks {
    /// When all replicas have it.
    All = -1,
    /// Never.
    None = 0,
}

impl OpenBatch {
    /// Begins one for `topic` with messages of the time `at_ms`.
    pub(super) fn begin(topic: &str, correlation: u32, acks: Acks, at_ms: u64, out: &mut Vec<u8>) -> Self {
        let frame = begin(Call::Produce, correlation, out);
        // In no transaction.
        out.extend_from_slice(&(-1_i16).to_be_bytes());
        out.extend_from_slice(&(acks as i16).to_be_bytes());
        out.extend_from_slice(&TIMEOUT_MS.to_be_bytes());
        out.extend_from_slice(&1_u32.to_be_bytes());
        text(topic, out);
        // One partition, number 0; then the length of what follows.
        out.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        let batch = out.len();
        // The first offset, which the broker gives; length, leader's epoch, format and checksum;
        // attributes and last offset.
        out.extend_from_slice(&[0; PREFIX]);
        out.extend_from_slice(&(-1_i32).to_be_bytes());
        out.push(MAGIC);
        out.extend_from_slice(&[0; 10]);
        out.extend_from_slice(&at_ms.to_be_bytes());
        out.extend_from_slice(&at_ms.to_be_bytes());
        // No producer's number, epoch and sequence: it is not idempotent.
        out.extend_from_slice(&[0xff; 14]);
        out.extend_from_slice(&[0; 4]);
        Self { frame, batch, count: 0 }
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Bytes of the batch so far.
    pub(super) fn length(&self, out: &[u8]) -> usize {
        out.len() - self.batch
    }

    /// Appends one message without key and headers.
    pub(super) fn push(&mut self, body: &[u8], out: &mut Vec<u8>) {
        let (number, size) = (i64::from(self.count), body.len() as i64);
        // Attributes, no difference of time, no key, no headers.
        let length = 4 + varint_length(number) + varint_length(size) + body.len();
        varint(length as i64, out);
        out.extend_from_slice(&[0, 0]);
        varint(number, out);
        varint(-1, out);
        varint(size, out);
        out.extend_from_slice(body);
        out.push(0);
        self.count += 1;
    }

    /// Writes lengths, counts and the checksum: nothing more can be appended.
    pub(super) fn end(self, out: &mut [u8]) {
        let Self { frame, batch, count } = self;
        let whole = out.len() - batch;
        put(whole as u32, batch - 4, out);
        put((whole - PREFIX) as u32, batch + 8, out);
        put(count.saturating_sub(1), batch + LAST_AT, out);
        put(count, batch + COUNT_AT, out);
        let sum = crc32_iscsi(&out[batch + ATTRIBUTES_AT..]);
        put(sum, batch + CRC_AT, out);
        end(frame, out);
    }
}

fn put(value: u32, at: usize, out: &mut [u8]) {
    out[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

/// The messages in `bytes`: batches one after the other, of which the last may be cut off.
#[derive(Debug)]
pub(super) struct Records<'a> {
    batches: Reader<'a>,
    records: Reader<'a>,
    left: u32,
    /// Offset of the first record of the batch.
    base: i64,
    /// Behind the last record of all batches so far.
    next: i64,
}

impl<'a> Records<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { batches: Reader::new(bytes), records: Reader::new(&[]), left: 0, base: 0, next: 0 }
    }

    /// The offset behind all that was read.
    pub(super) fn next_offset(&self) -> i64 {
        self.next
    }

    /// Goes on to the next batch. False: no more of them is whole.
    fn open(&mut self) -> Result<bool, DecodeError> {
        let mut ahead = self.batches;
        let (Ok(base), Ok(length)) = (ahead.u64(), ahead.u32()) else { return Ok(false) };
        let length = length as usize;
        if length < HEAD - PREFIX || i32::try_from(length).is_err() {
            return Err(DecodeError::Malformed("a batch of records with an impossible length"));
        }
        let Ok(batch) = ahead.bytes(length) else { return Ok(false) };
        self.batches = ahead;
        let mut reader = Reader::new(batch);
        let (_epoch, magic, sum) = (reader.u32()?, reader.u8()?, reader.u32()?);
        if magic != MAGIC {
            return Err(DecodeError::Malformed("a batch of records in another format than 2"));
        }
        if crc32_iscsi(reader.rest()) != sum {
            return Err(DecodeError::Malformed("a batch of records with a wrong checksum"));
        }
        let (attributes, last) = (reader.u16()?, reader.u32()?);
        // Times, and the producer's number, epoch and sequence.
        reader.bytes(30)?;
        let count = reader.u32()?;
        if attributes & COMPRESSION != 0 {
            return Err(DecodeError::Malformed("a compressed batch of records: set compression.type=producer"));
        }
        self.base = base as i64;
        self.next = self.base.checked_add(i64::from(last) + 1).ok_or(DecodeError::Malformed("an impossible offset"))?;
        self.left = if attributes & CONTROL == 0 { count } else { 0 };
        self.records = reader;
        Ok(true)
    }

    fn record(&mut self) -> Result<(i64, &'a [u8]), DecodeError> {
        let record = sized(&mut self.records)?.ok_or(DecodeError::Malformed("a record without a length"))?;
        let mut reader = Reader::new(record);
        let (_attributes, _time) = (reader.u8()?, read_varint(&mut reader)?);
        let offset = self.base.checked_add(read_varint(&mut reader)?);
        let _key = sized(&mut reader)?;
        let body = sized(&mut reader)?.unwrap_or_default();
        Ok((offset.ok_or(DecodeError::Malformed("an impossible offset"))?, body))
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<(i64, &'a [u8]), DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.left == 0 {
            match self.open() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
        self.left -= 1;
        Some(self.record())
    }
}

/// As many bytes as a number before them says; none where that is negative.
fn sized<'a>(reader: &mut Reader<'a>) -> Result<Option<&'a [u8]>, DecodeError> {
    match read_varint(reader)? {
        ..0 => Ok(None),
        length => reader.bytes(length as usize).map(Some),
    }
}

/// Appends a number of seven bits to a byte, the small ones of both signs in few.
fn varint(value: i64, out: &mut Vec<u8>) {
    let mut rest = zigzag(value);
    while rest >= 0x80 {
        out.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

fn varint_length(value: i64) -> usize {
    (64 - zigzag(value).leading_zeros()).div_ceil(7).max(1) as usize
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn read_varint(reader: &mut Reader<'_>) -> Result<i64, DecodeError> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = reader.u8()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok((value >> 1) as i64 ^ -((value & 1) as i64));
        }
    }
    Err(DecodeError::Malformed("a number of more than ten bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Where a batch begins in a request for the topic "t".
    const BATCH_AT: usize = 14 + CLIENT.len() + 8 + 4 + 3 + 12;
    const CLIENT: &str = "hermod-bench";

    fn request(bodies: &[&[u8]]) -> Vec<u8> {
        let mut out = b"before".to_vec();
        let mut batch = OpenBatch::begin("t", 7, Acks::All, 1_700_000_000_000, &mut out);
        bodies.iter().for_each(|body| batch.push(body, &mut out));
        assert_eq!((batch.count() as usize, batch.length(&out)), (bodies.len(), out.len() - 6 - BATCH_AT));
        batch.end(&mut out);
        out.split_off(6)
    }

    fn batch(bodies: &[&[u8]]) -> Vec<u8> {
        request(bodies).split_off(BATCH_AT)
    }

    fn read(bytes: &[u8]) -> Result<Vec<(i64, &[u8])>, DecodeError> {
        Records::new(bytes).collect()
    }

    /// Puts the right checksum and length into a changed batch.
    fn mended(mut batch: Vec<u8>) -> Vec<u8> {
        let length = (batch.len() - PREFIX) as u32;
        put(length, 8, &mut batch);
        let sum = crc32_iscsi(&batch[ATTRIBUTES_AT..]);
        put(sum, CRC_AT, &mut batch);
        batch
    }

    #[test]
    fn a_request_is_what_the_protocol_says() {
        let out = request(&[b"hi", b""]);
        let head =
            b"\x00\x00\x00\x7e\x00\x00\x00\x03\x00\x00\x00\x07\x00\x0chermod-bench\xff\xff\xff\xff\x00\x00\x75\x30";
        let partition = b"\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x4d";
        let front = b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x41\xff\xff\xff\xff\x02";
        let summed = b"\x00\x00\x00\x00\x00\x01\x00\x00\x01\x8b\xcf\xe5\x68\x00\x00\x00\x01\x8b\xcf\xe5\x68\x00\
            \xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x02\
            \x10\x00\x00\x00\x01\x04hi\x00\x0c\x00\x00\x02\x01\x00\x00";
        let sum = crc32_iscsi(summed).to_be_bytes();
        assert_eq!(out, [head.as_slice(), partition, front, &sum, summed].concat());
    }

    #[test]
    fn the_checksum_is_castagnolis() {
        assert_eq!(crc32_iscsi(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn whole_batches_are_read_and_one_that_is_cut_off_is_left() {
        let (mut two, mut three) = (batch(&[b"a", b"b"]), batch(&[b"c"]));
        two[..8].copy_from_slice(&5_u64.to_be_bytes());
        three[..8].copy_from_slice(&7_u64.to_be_bytes());
        let both = [two.clone(), three].concat();
        for cut in 0..=both.len() {
            let mut records = Records::new(&both[..cut]);
            let seen: Vec<(i64, &[u8])> = records.by_ref().collect::<Result<_, _>>().unwrap();
            let all: [(i64, &[u8]); 3] = [(5, b"a"), (6, b"b"), (7, b"c")];
            let (count, next) = match cut {
                _ if cut == both.len() => (3, 8),
                _ if cut >= two.len() => (2, 7),
                _ => (0, 0),
            };
            assert_eq!((seen.as_slice(), records.next_offset()), (&all[..count], next), "{cut}");
        }
    }

    #[test]
    fn keys_headers_and_missing_bodies_are_passed_over_and_marks_of_transactions_too() {
        let mut keyed = batch(&[]);
        keyed[COUNT_AT + 3] = 2;
        keyed[LAST_AT + 3] = 1;
        keyed.extend_from_slice(b"\x1a\x00\x02\x00\x04id\x04hi\x02\x02h\x01");
        keyed.extend_from_slice(b"\x0c\x00\x00\x02\x01\x01\x00");
        assert_eq!(read(&mended(keyed)).unwrap(), [(0, b"hi".as_slice()), (1, b"")]);
        let mut mark = batch(&[b"x"]);
        mark[ATTRIBUTES_AT + 1] = CONTROL as u8;
        let mark = mended(mark);
        let mut records = Records::new(&mark);
        assert!(records.next().is_none());
        assert_eq!(records.next_offset(), 1);
    }

    #[test]
    fn nonsense_is_refused() {
        let change = |at: usize, byte: u8| {
            let mut bytes = batch(&[b"hello"]);
            bytes[at] = byte;
            bytes
        };
        let cases = [
            ("length", change(8, 0xff)),
            ("length", change(11, 1)),
            ("format", change(16, 1)),
            ("checksum", change(HEAD + 6, b'j')),
            ("compressed", mended(change(ATTRIBUTES_AT + 1, 1))),
            ("too early", mended(change(COUNT_AT + 3, 2))),
            ("without a length", mended(change(HEAD, 1))),
            ("too early", mended(change(HEAD + 5, 0x7e))),
        ];
        for (part, bytes) in cases {
            let failure = read(&bytes).unwrap_err().to_string();
            assert!(failure.contains(part), "{failure} instead of {part}");
        }
        let mut endless = batch(&[]);
        endless[COUNT_AT + 3] = 1;
        endless.extend_from_slice(&[0xff; 11]);
        assert!(read(&mended(endless)).unwrap_err().to_string().contains("ten bytes"));
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_read(bytes: Vec<u8>, base: i64, records: Vec<u8>, count: u32, last: u32) {
            let _ = read(&bytes);
            let mut wrong = batch(&[]);
            wrong[..8].copy_from_slice(&base.to_be_bytes());
            put(count, COUNT_AT, &mut wrong);
            put(last, LAST_AT, &mut wrong);
            wrong.extend_from_slice(&records);
            let wrong = mended(wrong);
            let _ = Records::new(&wrong).find(Result::is_err);
        }

        #[test]
        fn messages_come_back(bodies in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 1..200)) {
            let bytes = batch(&bodies.iter().map(Vec::as_slice).collect::<Vec<_>>());
            let most: usize = bodies.iter().map(|body| body.len() + RECORD).sum();
            prop_assert!(bytes.len() <= HEAD + most);
            let seen = read(&bytes).unwrap();
            prop_assert_eq!(seen.len(), bodies.len());
            for (at, (offset, body)) in seen.iter().enumerate() {
                prop_assert_eq!((*offset, *body), (at as i64, bodies[at].as_slice()));
            }
        }

        #[test]
        fn numbers_come_back(value: i64) {
            let mut out = Vec::new();
            varint(value, &mut out);
            prop_assert_eq!(varint_length(value), out.len());
            prop_assert_eq!(read_varint(&mut Reader::new(&out)).unwrap(), value);
        }
    }
}
