//! Reading bodies back from files: one by one, or many with large reads.
//!
//! Invariant: bytes are handed out only if they carry the checksum of a body at just that place of
//! that file. So a slot that was written over in between gives an error and never another body.

use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use crate::checksum::Checksums;
use crate::disk::DiskFile;
use crate::layout::LOST;
use crate::options::BLOCK;
use crate::record::{BODY, BODY_HEAD, HEAD};
use crate::reference::Reference;
use crate::ticket::Address;

/// How much is read with one operation.
const SPAN: u64 = 1 << 20;
/// How much is read for the heads of records in one place.
const HEADS: u64 = 64 << 10;
/// What may lie between two bodies that are read together: more than the end of one batch and the
/// header of the next.
const GAP: u64 = 16 << 10;

pub(crate) fn no_body(address: Address) -> io::Error {
    if address.file == LOST {
        return io::Error::new(io::ErrorKind::InvalidData, "the index that listed the body is damaged or missing");
    }
    let file = match address.is_spilled() {
        true => format!("spilled file {:08x}", address.file),
        false => format!("log file generation {}", address.file),
    };
    io::Error::new(io::ErrorKind::InvalidData, format!("no whole body at byte {} of {file}", address.offset))
}

/// Reads the body at `address` of its file and checks it.
pub(crate) fn body(file: &dyn DiskFile, incarnation: u64, address: Address) -> io::Result<Bytes> {
    let mut block = [0; BLOCK as usize];
    let mut have = 0;
    while have < BODY_HEAD {
        match file.read_at(&mut block[have..], u64::from(address.offset) + have as u64)? {
            0 => return Err(no_body(address)),
            count => have += count,
        }
    }
    let length = u32::from_le_bytes([block[2], block[3], block[4], block[5]]) as usize;
    let room = file.length()?.saturating_sub(u64::from(address.offset) + HEAD as u64);
    // Checked before memory is taken for it: the length may be damaged.
    if block[0] != BODY || length < 4 || length as u64 > room {
        return Err(no_body(address));
    }
    let length = length - 4;
    let mut body = BytesMut::zeroed(length);
    let first = length.min(have - BODY_HEAD);
    body[..first].copy_from_slice(&block[BODY_HEAD..BODY_HEAD + first]);
    file.read_exact_at(&mut body[first..], u64::from(address.offset) + (BODY_HEAD + first) as u64)?;
    let sum = u32::from_le_bytes([block[6], block[7], block[8], block[9]]);
    if Checksums::new(incarnation, address.file).body(address.offset, &body) != sum {
        return Err(no_body(address));
    }
    Ok(body.freeze())
}

/// Reads the bodies of those of `wanted` whose indexes are in `order`, by place, and gives each to
/// `take` with its index.
pub(crate) fn many(
    wanted: &[Reference],
    mut order: Vec<usize>,
    open: &dyn Fn(u32) -> Option<Arc<dyn DiskFile>>,
    incarnation: u64,
    take: &mut dyn FnMut(usize, Bytes),
) -> io::Result<()> {
    order.sort_unstable_by_key(|at| wanted[*at].address);
    let mut rest = &order[..];
    while let Some(first) = rest.first() {
        let address = wanted[*first].address;
        let (count, end) = span(rest, wanted);
        let (run, others) = rest.split_at(count);
        rest = others;
        let file = open(address.file).ok_or_else(|| no_body(address))?;
        // Checked before memory is taken for it.
        if end > file.length()? {
            return Err(no_body(address));
        }
        let start = u64::from(address.offset);
        let mut bytes = BytesMut::zeroed((end - start) as usize);
        file.read_exact_at(&mut bytes, start)?;
        let (bytes, sums) = (bytes.freeze(), Checksums::new(incarnation, address.file));
        for at in run {
            let one = wanted[*at];
            let from = (one.address.offset - address.offset) as usize;
            let record = bytes.slice(from..from + BODY_HEAD + one.length as usize);
            take(*at, checked(sums, one, record)?);
        }
    }
    Ok(())
}

/// What to do about heads of records where the file can't be read.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Unread {
    Fails,
    /// As where there is no body.
    IsNone,
}

/// Reads the lengths of bodies from the heads of their records, at `offsets`, which ascend; zero
/// for what is no body.
pub(crate) fn lengths(file: &dyn DiskFile, offsets: &[u32], unread: Unread) -> io::Result<Vec<u32>> {
    let end = file.length()?;
    let (mut window, mut start) = (Vec::new(), 0);
    let mut lengths = Vec::with_capacity(offsets.len());
    for offset in offsets.iter().map(|offset| u64::from(*offset)) {
        if offset < start || offset + BODY_HEAD as u64 > start + window.len() as u64 {
            start = offset;
            window.resize(HEADS.min(end.saturating_sub(start)) as usize, 0);
            if let Err(error) = file.read_exact_at(&mut window, start) {
                if unread == Unread::Fails {
                    return Err(error);
                }
                // Only what is near the bad place is done without.
                window.truncate(BLOCK as usize);
                if file.read_exact_at(&mut window, start).is_err() {
                    window.fill(0);
                }
            }
        }
        let head = window.get((offset - start) as usize..).and_then(|rest| rest.first_chunk::<BODY_HEAD>());
        let length = head.filter(|head| head[0] == BODY).map_or(0, |head| {
            let length = u32::from_le_bytes([head[2], head[3], head[4], head[5]]).saturating_sub(4);
            if offset + BODY_HEAD as u64 + u64::from(length) <= end { length } else { 0 }
        });
        lengths.push(length);
    }
    Ok(lengths)
}

/// How many of `order` are read with one operation, from the first on, and where the last of them
/// ends.
fn span(order: &[usize], wanted: &[Reference]) -> (usize, u64) {
    let end_of = |one: &Reference| u64::from(one.address.offset) + BODY_HEAD as u64 + u64::from(one.length);
    let (mut count, mut end) = (0, 0);
    let Some(first) = order.first().map(|at| wanted[*at].address) else { return (0, 0) };
    for one in order.iter().map(|at| &wanted[*at]) {
        let far = || u64::from(one.address.offset) > end + GAP || end_of(one) - u64::from(first.offset) > SPAN;
        if count > 0 && (one.address.file != first.file || far()) {
            break;
        }
        count += 1;
        end = end.max(end_of(one));
    }
    (count, end)
}

/// The body in `record`, if that is the record of just this body.
fn checked(sums: Checksums, one: Reference, record: Bytes) -> io::Result<Bytes> {
    let length = (one.length + 4).to_le_bytes();
    let body = record.slice(BODY_HEAD..);
    let sum = sums.body(one.address.offset, &body).to_le_bytes();
    let right = record[0] == BODY && record[2..HEAD] == length && record[HEAD..BODY_HEAD] == sum;
    if right { Ok(body) } else { Err(no_body(one.address)) }
}
