//! The records of the log: their bytes, written and read back.
//!
//! A record is `kind u8, flags u8, length u32` and `length` bytes, all integers little-endian.
//! Invariant: the decoder reads nothing outside the slice it is given and gives an error for every
//! slice the encoder can't have written.

use crate::checksum::{self, Checksums, Sum};
use crate::group::Group;
use crate::log::{LogEnd, LogId};
use crate::{Address, Owner};

/// The bytes before a record's payload.
pub(crate) const HEAD: usize = 6;
/// The bytes of a body record before the body itself: the head and the body's checksum.
pub(crate) const BODY_HEAD: usize = HEAD + 4;
/// How much of a batch is gone through at a time: half of a processor's first cache.
const PIECE: usize = 16 << 10;
/// How many bodies or runs one record lists; longer lists take several records.
pub(crate) const LIST: usize = 512;

pub(crate) const BODY: u8 = 1;
const REFERENCE: u8 = 2;
const SETTLED: u8 = 3;
const FACT: u8 = 4;
const DROPPED: u8 = 5;
const GROUP_END: u8 = 6;
const LOG_END: u8 = 7;
const REFERENCE_BACK: u8 = 8;

/// The flag of a record whose payload starts with the group it belongs to.
const GROUPED: u8 = 1;

/// A record as it is appended. Lists are at most [`LIST`] long.
#[derive(Copy, Clone, Debug)]
pub(crate) enum Draft<'a> {
    Body { parts: &'a [&'a [u8]] },
    Reference { owner: Owner, first_seq: u64, mark: u64, bodies: &'a [Address] },
    Settled { owner: Owner, reason: u8, runs: &'a [(u64, u64)] },
    Fact { owner: Owner, kind: u8, parts: &'a [&'a [u8]] },
    Dropped { owner: Owner },
    GroupEnd { group: Group },
    LogEnd { end: LogEnd },
}

impl Draft<'_> {
    /// The bytes the record takes.
    pub(crate) fn len(&self, group: Option<Group>) -> usize {
        let parts_len = |parts: &[&[u8]]| parts.iter().map(|part| part.len()).sum::<usize>();
        let payload = match self {
            Self::Body { parts } => 4 + parts_len(parts),
            Self::Reference { bodies, .. } => 24 + 8 * bodies.len(),
            Self::Settled { runs, .. } => 9 + 16 * runs.len(),
            Self::Fact { parts, .. } => 9 + parts_len(parts),
            Self::Dropped { .. } | Self::GroupEnd { .. } => 8,
            Self::LogEnd { .. } => 28,
        };
        HEAD + if group.is_some() { 8 } else { 0 } + payload
    }

    /// Appends the record to `out`, with the `name` of each body that it references. The checksum
    /// of a body is left zero, for [`seal`]. `length` is what [`Draft::len`] said.
    pub(crate) fn write(
        &self,
        length: usize,
        group: Option<Group>,
        out: &mut Vec<u8>,
        name: impl Fn(Address) -> (u32, u32),
    ) {
        debug_assert_eq!(length, self.len(group));
        let kind = match self {
            Self::Body { .. } => BODY,
            Self::Reference { .. } => REFERENCE_BACK,
            Self::Settled { .. } => SETTLED,
            Self::Fact { .. } => FACT,
            Self::Dropped { .. } => DROPPED,
            Self::GroupEnd { .. } => GROUP_END,
            Self::LogEnd { .. } => LOG_END,
        };
        // What has a fixed length goes out in one piece: each piece asks for room.
        let mut head = [kind, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        head[2..HEAD].copy_from_slice(&((length - HEAD) as u32).to_le_bytes());
        match group {
            Some(group) => {
                head[1] = GROUPED;
                head[HEAD..].copy_from_slice(&group.raw().to_le_bytes());
                out.extend_from_slice(&head);
            }
            None if matches!(self, Self::Body { .. }) => out.extend_from_slice(&head[..BODY_HEAD]),
            None => out.extend_from_slice(&head[..HEAD]),
        }
        match self {
            Self::Body { parts } => parts.iter().for_each(|part| out.extend_from_slice(part)),
            Self::Reference { owner, first_seq, mark, bodies } => {
                let mut numbers = [0; 24];
                numbers[..8].copy_from_slice(&owner.to_le_bytes());
                numbers[8..16].copy_from_slice(&first_seq.to_le_bytes());
                numbers[16..].copy_from_slice(&mark.to_le_bytes());
                out.extend_from_slice(&numbers);
                for body in *bodies {
                    let (back, offset) = name(*body);
                    let packed = u64::from(back) | u64::from(offset) << 32;
                    out.extend_from_slice(&packed.to_le_bytes());
                }
            }
            Self::Settled { owner, reason, runs } => {
                out.extend_from_slice(&owner.to_le_bytes());
                out.push(*reason);
                for (first, count) in *runs {
                    let run = u128::from(*first) | u128::from(*count) << 64;
                    out.extend_from_slice(&run.to_le_bytes());
                }
            }
            Self::Fact { owner, kind, parts } => {
                out.extend_from_slice(&owner.to_le_bytes());
                out.push(*kind);
                parts.iter().for_each(|part| out.extend_from_slice(part));
            }
            Self::Dropped { owner } => out.extend_from_slice(&owner.to_le_bytes()),
            Self::GroupEnd { group } => out.extend_from_slice(&group.raw().to_le_bytes()),
            Self::LogEnd { end: LogEnd { log, term, index, link } } => {
                let numbers = [u64::from(log.number()), *term, *index];
                numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
                out.extend_from_slice(&link.to_le_bytes());
            }
        }
    }
}

/// A record as it is read back.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) group: Option<Group>,
    pub(crate) kind: Kind<'a>,
}

/// How a record names the bodies that it references.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    /// In format 1: by generation and offset in the file.
    Place,
    /// By entries back, and offset among the records there.
    Back,
}

/// What a record says. Lists are left packed: [`pairs`] and [`runs`] unpack them.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind<'a> {
    Body { checksum: u32, bytes: &'a [u8] },
    Reference { owner: Owner, first_seq: u64, mark: u64, bodies: &'a [u8], naming: Naming },
    Settled { owner: Owner, reason: u8, runs: &'a [u8] },
    Fact { owner: Owner, kind: u8, bytes: &'a [u8] },
    Dropped { owner: Owner },
    GroupEnd { group: Group },
    LogEnd { end: LogEnd },
}

impl Kind<'_> {
    /// The owner the record touches.
    pub(crate) fn owner(&self) -> Option<Owner> {
        match *self {
            Self::Body { .. } | Self::GroupEnd { .. } | Self::LogEnd { .. } => None,
            Self::Reference { owner, .. }
            | Self::Settled { owner, .. }
            | Self::Fact { owner, .. }
            | Self::Dropped { owner } => Some(owner),
        }
    }
}

/// Takes the record at the front of `input` and gives it with what follows. The error says what is
/// wrong.
pub(crate) fn decode(input: &[u8]) -> Result<(Record<'_>, &[u8]), &'static str> {
    const SHORT: &str = "a record goes on past the end of its batch";
    let ([kind, flags, a, b, c, d], rest) = input.split_first_chunk::<HEAD>().ok_or(SHORT)?;
    let length = u32::from_le_bytes([*a, *b, *c, *d]) as usize;
    let (mut payload, rest) = rest.split_at_checked(length).ok_or(SHORT)?;
    let group = match *flags {
        0 => None,
        GROUPED if !matches!(*kind, BODY | GROUP_END | LOG_END) => {
            Some(Group::from_raw(take_u64(&mut payload)?).ok_or("a record is in group 0")?)
        }
        _ => return Err("a record has flags this version does not know"),
    };
    let kind = match *kind {
        BODY => {
            let (checksum, bytes) = payload.split_first_chunk::<4>().ok_or(INSIDE)?;
            Kind::Body { checksum: u32::from_le_bytes(*checksum), bytes }
        }
        REFERENCE | REFERENCE_BACK => Kind::Reference {
            owner: take_u64(&mut payload)?,
            first_seq: take_u64(&mut payload)?,
            mark: take_u64(&mut payload)?,
            bodies: whole(payload, 8)?,
            naming: if *kind == REFERENCE { Naming::Place } else { Naming::Back },
        },
        SETTLED => {
            Kind::Settled { owner: take_u64(&mut payload)?, reason: take_u8(&mut payload)?, runs: whole(payload, 16)? }
        }
        FACT => Kind::Fact { owner: take_u64(&mut payload)?, kind: take_u8(&mut payload)?, bytes: payload },
        DROPPED => {
            let owner = take_u64(&mut payload)?;
            end(payload)?;
            Kind::Dropped { owner }
        }
        GROUP_END => {
            let group = Group::from_raw(take_u64(&mut payload)?).ok_or("a record ends group 0")?;
            end(payload)?;
            Kind::GroupEnd { group }
        }
        LOG_END => {
            let log = u32::try_from(take_u64(&mut payload)?).ok().and_then(LogId::new);
            let log = log.ok_or("a record is of a log whose number is too large")?;
            let (term, index) = (take_u64(&mut payload)?, take_u64(&mut payload)?);
            let (link, rest) = payload.split_first_chunk::<4>().ok_or(INSIDE)?;
            end(rest)?;
            Kind::LogEnd { end: LogEnd { log, term, index, link: u32::from_le_bytes(*link) } }
        }
        _ => return Err("a record is of a kind this version does not know"),
    };
    Ok((Record { group, kind }, rest))
}

const INSIDE: &str = "a record is shorter than its kind needs";

fn take_u64(input: &mut &[u8]) -> Result<u64, &'static str> {
    let (head, rest) = input.split_first_chunk::<8>().ok_or(INSIDE)?;
    *input = rest;
    Ok(u64::from_le_bytes(*head))
}

fn take_u8(input: &mut &[u8]) -> Result<u8, &'static str> {
    let (head, rest) = input.split_first().ok_or(INSIDE)?;
    *input = rest;
    Ok(*head)
}

fn whole(list: &[u8], item: usize) -> Result<&[u8], &'static str> {
    if list.len().is_multiple_of(item) { Ok(list) } else { Err("a record's list ends inside an item") }
}

fn end(rest: &[u8]) -> Result<(), &'static str> {
    if rest.is_empty() { Ok(()) } else { Err("a record is longer than its kind allows") }
}

/// The names of a packed list of bodies.
pub(crate) fn pairs(packed: &[u8]) -> impl ExactSizeIterator<Item = (u32, u32)> + '_ {
    packed.as_chunks::<8>().0.iter().map(|item| {
        let packed = u64::from_le_bytes(*item);
        (packed as u32, (packed >> 32) as u32)
    })
}

/// The runs of a packed list.
pub(crate) fn runs(packed: &[u8]) -> impl ExactSizeIterator<Item = (u64, u64)> + '_ {
    packed
        .as_chunks::<8>()
        .0
        .as_chunks::<2>()
        .0
        .iter()
        .map(|[first, count]| (u64::from_le_bytes(*first), u64::from_le_bytes(*count)))
}

/// The head of a body record, its checksum included.
pub(crate) fn body_head(length: u32, checksum: u32) -> [u8; BODY_HEAD] {
    let mut head = [0; BODY_HEAD];
    head[0] = BODY;
    head[2..HEAD].copy_from_slice(&(length + 4).to_le_bytes());
    head[HEAD..].copy_from_slice(&checksum.to_le_bytes());
    head
}

/// The checksum over `records` and, by its value `before`, all earlier ones of their log. Those of
/// bodies count as zero: they depend on where the body lies.
pub(crate) fn link(before: u32, records: &[u8]) -> u32 {
    let mut sum = begin_link(before);
    let (mut done, mut at) = (0, 0);
    while let Some([kind, _, a, b, c, d]) = records.get(at..).and_then(|rest| rest.first_chunk::<HEAD>()) {
        if *kind == BODY && records.get(at + HEAD..at + BODY_HEAD).is_some_and(|sum| *sum != [0; 4]) {
            sum.add(&records[done..at + HEAD]);
            sum.add(&[0; 4]);
            done = at + BODY_HEAD;
        }
        at = at.saturating_add(HEAD).saturating_add(u32::from_le_bytes([*a, *b, *c, *d]) as usize);
    }
    sum.add(&records[done..]);
    sum.value()
}

fn begin_link(before: u32) -> Sum {
    let mut sum = checksum::unseeded();
    sum.add(&before.to_le_bytes());
    sum
}

/// The checksums over all records of a batch.
pub(crate) struct Sealed {
    /// Over what is written, the checksums of bodies included.
    pub(crate) payload: u32,
    /// See [`link`].
    pub(crate) link: Option<u32>,
}

/// Fills in the checksum of every body among `records`, which start at `offset` of their file, and
/// gives the two that go over all of them; the link only if there is a value `before` it.
///
/// Each byte is read three times. So the records are taken in pieces that stay in the processor's
/// first cache meanwhile, and the link, which goes over checksums that are zero still, comes first.
pub(crate) fn seal(records: &mut [u8], offset: u32, sums: Checksums, before: Option<u32>) -> Sealed {
    let mut sum = before.map(begin_link);
    let mut payload = sums.begin();
    let (mut linked, mut sealed) = (0, 0);
    while linked < records.len() {
        let piece = linked..records.len().min(linked + PIECE);
        linked = piece.end;
        sum.iter_mut().for_each(|sum| sum.add(&records[piece.clone()]));
        let start = offset + sealed as u32;
        let whole = seal_bodies(&mut records[sealed..linked], |at, body| sums.body(start + at as u32, body));
        payload.add(&records[sealed..sealed + whole]);
        sealed += whole;
    }
    debug_assert_eq!(sealed, records.len(), "records are whole");
    let after = sum.map(|sum| sum.value());
    debug_assert_eq!(after, before.map(|before| link(before, records)), "no body was sealed before");
    Sealed { payload: payload.value(), link: after }
}

/// Fills in the checksum of every body that is whole in `records`. Gives how far whole records go.
fn seal_bodies(records: &mut [u8], checksum: impl Fn(usize, &[u8]) -> u32) -> usize {
    let mut at = 0;
    while let Some([kind, _, a, b, c, d]) = records.get(at..).and_then(|rest| rest.first_chunk::<HEAD>()) {
        let end = at + HEAD + u32::from_le_bytes([*a, *b, *c, *d]) as usize;
        if end > records.len() {
            break;
        }
        if *kind == BODY {
            let sum = checksum(at, &records[at + BODY_HEAD..end]);
            records[at + HEAD..at + BODY_HEAD].copy_from_slice(&sum.to_le_bytes());
        }
        at = end;
    }
    at
}

/// Takes the checksums of the bodies among `records` out again.
pub(crate) fn unseal_bodies(records: &mut [u8]) {
    seal_bodies(records, |_, _| 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(draft: Draft<'_>, group: Option<Group>) -> Vec<u8> {
        let mut out = Vec::new();
        draft.write(draft.len(group), group, &mut out, |body| (body.file, body.offset));
        assert_eq!(out.len(), draft.len(group));
        out
    }

    fn samples() -> Vec<Vec<u8>> {
        let group = Group::from_raw(9);
        let bodies = [Address { file: 3, offset: 4096 }, Address { file: 4, offset: 8192 }];
        vec![
            bytes(Draft::Body { parts: &[b"hello ", b"world"] }, None),
            bytes(Draft::Body { parts: &[] }, None),
            bytes(Draft::Reference { owner: 1, first_seq: 7, mark: 5, bodies: &bodies }, None),
            bytes(Draft::Reference { owner: 1, first_seq: 7, mark: 5, bodies: &bodies }, group),
            bytes(Draft::Settled { owner: 2, reason: 3, runs: &[(1, 2), (9, 1)] }, group),
            bytes(Draft::Fact { owner: 2, kind: 4, parts: &[b"a", b"b"] }, None),
            bytes(Draft::Dropped { owner: 2 }, group),
            bytes(Draft::GroupEnd { group: group.unwrap() }, None),
            bytes(Draft::LogEnd { end: LogEnd { log: LogId::SYSTEM, term: 1, index: 2, link: 3 } }, None),
        ]
    }

    #[test]
    fn a_record_has_the_bytes_the_format_page_draws() {
        let settled = bytes(Draft::Settled { owner: 2, reason: 3, runs: &[(1, 2)] }, Group::from_raw(9));
        let expected = [
            &[3, 1][..],
            &33u32.to_le_bytes(),
            &9u64.to_le_bytes(),
            &2u64.to_le_bytes(),
            &[3],
            &1u64.to_le_bytes(),
            &2u64.to_le_bytes(),
        ];
        assert_eq!(settled, expected.concat());
    }

    #[test]
    fn every_record_is_refused_when_cut_anywhere() {
        for sample in samples() {
            let (_, rest) = decode(&sample).unwrap();
            assert!(rest.is_empty());
            for cut in 0..sample.len() {
                assert!(decode(&sample[..cut]).is_err(), "{sample:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn malformed_records_are_refused() {
        let table: [(&[u8], &str); 9] = [
            (&[9, 0, 0, 0, 0, 0], "a record is of a kind this version does not know"),
            (&[0; 6], "a record is of a kind this version does not know"),
            (&[5, 2, 0, 0, 0, 0], "a record has flags this version does not know"),
            (&[1, 1, 0, 0, 0, 0], "a record has flags this version does not know"),
            (&[1, 0, 3, 0, 0, 0, 1, 1, 1], INSIDE),
            (&[5, 0, 9, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1], "a record is longer than its kind allows"),
            (&[6, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], "a record ends group 0"),
            (&[3, 0, 10, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1], "a record's list ends inside an item"),
            (&[1, 0, 255, 255, 255, 255], "a record goes on past the end of its batch"),
        ];
        for (input, why) in table {
            assert_eq!(decode(input), Err(why), "{input:?}");
        }
    }

    #[test]
    fn sealing_fills_in_each_body_and_nothing_else() {
        let mut all = samples().concat();
        let before = all.clone();
        assert_eq!(seal_bodies(&mut all, |at, body| (at + body.len()) as u32 + 4096), before.len());
        let second = samples()[0].len();
        assert_eq!(all[HEAD..BODY_HEAD], (4096u32 + 11).to_le_bytes());
        assert_eq!(all[second + HEAD..second + BODY_HEAD], (4096 + second as u32).to_le_bytes());
        assert_eq!(all[second + BODY_HEAD..], before[second + BODY_HEAD..]);
    }

    #[test]
    fn sums_taken_piece_by_piece_are_those_of_the_whole() {
        let sums = Checksums::new(1, 2);
        let around = [0, 1, PIECE - 11, PIECE - 10, PIECE - 9, PIECE, 3 * PIECE + 5].map(|length| vec![7; length]);
        let bodies: Vec<_> = around.iter().map(|body| bytes(Draft::Body { parts: &[body] }, None)).collect();
        for from in 0..bodies.len() {
            let records = [&bodies[from..].concat()[..], &samples().concat(), &bodies[..from].concat()].concat();
            let mut whole = records.clone();
            seal_bodies(&mut whole, |at, body| sums.body(4096 + at as u32, body));
            let mut pieces = records.clone();
            let sealed = seal(&mut pieces, 4096, sums, Some(9));
            assert_eq!(pieces, whole);
            assert_eq!((sealed.payload, sealed.link), (sums.of(&whole), Some(link(9, &records))));
            assert_eq!(seal(&mut records.clone(), 4096, sums, None).link, None);
        }
    }

    #[test]
    fn the_link_is_the_same_wherever_the_bodies_lie() {
        let records = samples().concat();
        let sealed = |offset| {
            let mut records = records.clone();
            seal_bodies(&mut records, |at, body| (offset + at + body.len()) as u32);
            records
        };
        let (here, there) = (sealed(4096), sealed(8192));
        assert_ne!(here, there);
        assert_eq!(link(7, &here), link(7, &records));
        assert_eq!(link(7, &there), link(7, &records));
        assert_ne!(link(8, &records), link(7, &records));
        for bit in 0..records.len() * 8 {
            let mut other = records.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            let in_sum = other[HEAD..BODY_HEAD] != [0; 4];
            let second = samples()[0].len();
            let in_second = other[second + HEAD..second + BODY_HEAD] != [0; 4];
            assert_eq!(link(7, &other) == link(7, &records), in_sum || in_second, "bit {bit}");
        }
    }

    proptest! {
        #[test]
        fn lists_come_back_as_they_went_in(
            owner: Owner,
            first_seq: u64,
            mark: u64,
            group in 0u64..3,
            bodies in prop::collection::vec((any::<u32>(), any::<u32>()), 0..20),
            settled in prop::collection::vec((any::<u64>(), any::<u64>()), 0..20),
        ) {
            let group = Group::from_raw(group);
            let bodies: Vec<_> = bodies.into_iter().map(|(file, offset)| Address { file, offset }).collect();
            let reference = bytes(Draft::Reference { owner, first_seq, mark, bodies: &bodies }, group);
            let (record, _) = decode(&reference).unwrap();
            prop_assert_eq!(record.group, group);
            let Kind::Reference { owner: o, first_seq: f, mark: m, bodies: packed, .. } = record.kind else {
                panic!("another kind");
            };
            prop_assert_eq!((o, f, m), (owner, first_seq, mark));
            prop_assert_eq!(pairs(packed).map(|(file, offset)| Address { file, offset }).collect::<Vec<_>>(), bodies);
            let record = bytes(Draft::Settled { owner, reason: 1, runs: &settled }, group);
            let Kind::Settled { runs: packed, .. } = decode(&record).unwrap().0.kind else { panic!("another kind") };
            prop_assert_eq!(runs(packed).collect::<Vec<_>>(), settled);
        }

        #[test]
        fn no_bytes_make_the_decoder_fall_over(input in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut rest = &input[..];
            while let Ok((_, next)) = decode(rest) {
                prop_assert!(next.len() < rest.len());
                rest = next;
            }
        }
    }
}
