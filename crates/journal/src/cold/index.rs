//! The index of a segment: who references what in it, page by page.
//!
//! Layout: a header of one sector, a block for each page, and at the end a directory of the blocks.
//! The header is written when all else is flushed, and alone. A sector is written whole or not at
//! all. So a header of zeros is one whose writing was cut short, and any other header that does not
//! check is damage. Invariant: the decoders read nothing outside the slice they are given, and take
//! no memory by a number that its length does not bear out.

use std::io;
use std::sync::Arc;

use super::plan::{MERGED_AT_ONCE, PagePlan, Plan};
use crate::Owner;
use crate::checksum::Checksums;
use crate::disk::DiskFile;
use crate::layout::{FORMAT, is_read};
use crate::reference::{Chunk, PAGE, Reference};
use crate::ticket::Address;

const MAGIC: [u8; 6] = *b"HJindx";
/// The bytes of the header: one sector. The blocks follow.
pub(crate) const HEADER: usize = 512;
/// The bytes of a block before its entries: its checksum.
const BLOCK_HEAD: usize = 4;
/// The bytes of an entry of a block: place in the page u16, offset u32, length u32.
const ENTRY: usize = 10;
/// The bytes of a row of the directory: owner, page, bytes u64, block, count u32.
const ROW: usize = 32;
/// How much is written with one operation.
const WRITTEN_AT_ONCE: usize = 1 << 20;
/// The code of a segment that is a log file where it lay.
const ADOPTED: u8 = 1;
/// The code of a segment that was written as one.
const COPIED: u8 = 2;

/// Where the bodies of a segment lie.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum SegmentFile {
    /// In the log file in this slot.
    Slot(u32),
    /// In a file of its own.
    Own,
}

/// What an index says of its segment.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct IndexHeader {
    pub(crate) number: u32,
    pub(crate) place: SegmentFile,
    /// The length of the file with the bodies.
    pub(crate) length: u32,
    /// The bytes of the records of bodies that were referenced, each once.
    pub(crate) bytes: u64,
    /// How many references there were.
    pub(crate) references: u64,
    /// How many files and segments it replaces.
    sources: u32,
    /// How many chunks it has.
    chunks: u32,
    /// Where the directory is: sources, then chunks.
    directory: u32,
    directory_sum: u32,
}

/// One line of the directory.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Row {
    pub(crate) owner: Owner,
    pub(crate) page: u64,
    /// The lengths of the bodies, added up.
    pub(crate) bytes: u64,
    pub(crate) block: u32,
    pub(crate) count: u32,
}

/// The files and segments an index replaces, and its chunks by ascending owner and page.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Directory {
    pub(crate) sources: Vec<u32>,
    pub(crate) rows: Vec<Row>,
}

/// What is in the first sector of an index.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Front {
    /// Its writing was cut short: there is no segment.
    Unfinished,
    Whole(IndexHeader),
    /// Another format; which.
    Foreign(u16),
    /// An index of another journal.
    Stranger,
    Damaged,
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

impl IndexHeader {
    fn encode(&self, incarnation: u64) -> [u8; HEADER] {
        let mut out = [0; HEADER];
        let (kind, slot) = match self.place {
            SegmentFile::Slot(slot) => (ADOPTED, slot),
            SegmentFile::Own => (COPIED, 0),
        };
        out[0..6].copy_from_slice(&MAGIC);
        out[6..8].copy_from_slice(&FORMAT.to_le_bytes());
        out[8..16].copy_from_slice(&incarnation.to_le_bytes());
        out[16..20].copy_from_slice(&self.number.to_le_bytes());
        out[20] = kind;
        out[24..28].copy_from_slice(&slot.to_le_bytes());
        out[28..32].copy_from_slice(&self.length.to_le_bytes());
        out[32..40].copy_from_slice(&self.bytes.to_le_bytes());
        out[40..48].copy_from_slice(&self.references.to_le_bytes());
        out[48..52].copy_from_slice(&self.sources.to_le_bytes());
        out[52..56].copy_from_slice(&self.chunks.to_le_bytes());
        out[56..60].copy_from_slice(&self.directory.to_le_bytes());
        out[60..64].copy_from_slice(&self.directory_sum.to_le_bytes());
        let sum = Checksums::new(incarnation, self.number).of(&out[..HEADER - 4]);
        out[HEADER - 4..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Writes and flushes the first sector of an index.
    pub(crate) fn write(&self, file: &dyn DiskFile, incarnation: u64) -> io::Result<()> {
        file.write_all_at(&self.encode(incarnation), 0)?;
        file.sync_data()
    }

    /// Reads the first sector of the index of segment `number`; `bytes` are fewer if the file ends
    /// before.
    pub(crate) fn decode(bytes: &[u8], incarnation: u64, number: u32) -> Front {
        if bytes.len() < HEADER || bytes.iter().all(|byte| *byte == 0) {
            return Front::Unfinished;
        }
        let place = match bytes[20] {
            ADOPTED => SegmentFile::Slot(u32_at(bytes, 24)),
            COPIED => SegmentFile::Own,
            _ => return Front::Damaged,
        };
        let found = u64_at(bytes, 8);
        let sum = Checksums::new(found, u32_at(bytes, 16)).of(&bytes[..HEADER - 4]);
        if bytes[0..6] != MAGIC || sum != u32_at(bytes, HEADER - 4) || u32_at(bytes, 16) != number {
            return Front::Damaged;
        }
        let format = u16::from_le_bytes([bytes[6], bytes[7]]);
        if !is_read(format) {
            return Front::Foreign(format);
        }
        if found != incarnation {
            return Front::Stranger;
        }
        Front::Whole(Self {
            number,
            place,
            length: u32_at(bytes, 28),
            bytes: u64_at(bytes, 32),
            references: u64_at(bytes, 40),
            sources: u32_at(bytes, 48),
            chunks: u32_at(bytes, 52),
            directory: u32_at(bytes, 56),
            directory_sum: u32_at(bytes, 60),
        })
    }

    /// Where the directory is in the file.
    pub(crate) fn directory_at(&self) -> u32 {
        self.directory
    }

    fn directory_len(&self) -> u64 {
        4 * u64::from(self.sources) + ROW as u64 * u64::from(self.chunks)
    }

    /// Reads the directory from the index file; `InvalidData` if it is damaged.
    pub(crate) fn read_directory(&self, file: &dyn DiskFile, incarnation: u64) -> io::Result<Directory> {
        let length = self.directory_len();
        // Checked before memory is taken for it.
        if file.length()?.saturating_sub(u64::from(self.directory)) != length {
            return Err(damaged("its directory does not end where the file does"));
        }
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(&mut bytes, u64::from(self.directory))?;
        self.decode_directory(&bytes, incarnation).ok_or_else(|| damaged("its directory does not check"))
    }

    fn decode_directory(&self, bytes: &[u8], incarnation: u64) -> Option<Directory> {
        if bytes.len() as u64 != self.directory_len()
            || Checksums::new(incarnation, self.number).of(bytes) != self.directory_sum
        {
            return None;
        }
        Some(Directory::decode(bytes, self.sources as usize))
    }
}

/// What the index of segment `number` replaces, when its header is gone. That is known if
/// everything else of it is there: the last row of a directory says where the directory begins, and
/// the blocks have checksums of their own. `None` if the index was cut short; the error is the
/// disk's.
pub(crate) fn sources_of_headless(file: &dyn DiskFile, incarnation: u64, number: u32) -> io::Result<Option<Vec<u32>>> {
    let length = file.length()?;
    let mut row = [0; ROW];
    let Some(last) = length.checked_sub(ROW as u64).filter(|last| *last > HEADER as u64) else { return Ok(None) };
    file.read_exact_at(&mut row, last)?;
    let row = Row::decode(&row);
    let directory = u64::from(row.block) + block_len(row.count as usize) as u64;
    if u64::from(row.count) > PAGE || directory > last {
        return Ok(None);
    }
    let mut bytes = vec![0; (length - directory) as usize];
    file.read_exact_at(&mut bytes, directory)?;
    for count in 1..=MERGED_AT_ONCE.min(bytes.len() / 4) {
        if !(bytes.len() - 4 * count).is_multiple_of(ROW) {
            continue;
        }
        let found = Directory::decode(&bytes, count);
        if found.has_blocks(file, incarnation, number)? {
            // No file has the number zero: these were not written, and the rows behind them were.
            return Ok((!found.sources.contains(&0)).then_some(found.sources));
        }
    }
    Ok(None)
}

impl Row {
    fn decode(bytes: &[u8; ROW]) -> Self {
        Self {
            owner: u64_at(bytes, 0),
            page: u64_at(bytes, 8),
            bytes: u64_at(bytes, 16),
            block: u32_at(bytes, 24),
            count: u32_at(bytes, 28),
        }
    }
}

fn damaged(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

impl Directory {
    /// The directory of a plan whose blocks are placed.
    fn of(plan: &Plan) -> Self {
        let rows = plan.pages.iter().map(|page| Row {
            owner: page.owner,
            page: page.page,
            bytes: page.items.iter().map(|item| u64::from(item.length)).sum(),
            block: page.block,
            count: page.items.len() as u32,
        });
        Self { sources: plan.sources.clone(), rows: rows.collect() }
    }

    /// Reads a directory that begins with so many sources.
    fn decode(bytes: &[u8], sources: usize) -> Self {
        let (sources, rows) = bytes.split_at(4 * sources);
        let sources = sources.as_chunks::<4>().0.iter().map(|source| u32::from_le_bytes(*source)).collect();
        Self { sources, rows: rows.as_chunks::<ROW>().0.iter().map(Row::decode).collect() }
    }

    /// Whether its rows are those of the blocks of a file, one after the other, each of which
    /// checks.
    fn has_blocks(&self, file: &dyn DiskFile, incarnation: u64, number: u32) -> io::Result<bool> {
        let (mut at, mut listed) = (HEADER as u64, Vec::new());
        for row in &self.rows {
            if u64::from(row.block) != at || u64::from(row.count) > PAGE {
                return Ok(false);
            }
            at += block_len(row.count as usize) as u64;
            listed.clear();
            let chunk = Chunk { segment: number, block: row.block, count: row.count };
            match read_block(file, incarnation, chunk, row.page, &mut listed) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::InvalidData => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(!self.rows.is_empty())
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(4 * self.sources.len() + ROW * self.rows.len());
        self.sources.iter().for_each(|source| out.extend_from_slice(&source.to_le_bytes()));
        for row in &self.rows {
            [row.owner, row.page, row.bytes].iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
            [row.block, row.count].iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
        }
        out
    }
}

/// The bytes of a block of `count` entries.
pub(crate) fn block_len(count: usize) -> usize {
    BLOCK_HEAD + ENTRY * count
}

fn block_sum(sums: Checksums, block: u32, page: u64, entries: &[u8]) -> u32 {
    let mut place = [0; 12];
    place[..4].copy_from_slice(&block.to_le_bytes());
    place[4..].copy_from_slice(&page.to_le_bytes());
    sums.two(&place, entries)
}

/// Appends the block of a page to `out`.
fn encode_block(sums: Checksums, page: &PagePlan, out: &mut Vec<u8>) {
    let at = out.len();
    out.extend_from_slice(&[0; BLOCK_HEAD]);
    for item in &page.items {
        out.extend_from_slice(&item.seq.to_le_bytes());
        out.extend_from_slice(&item.offset.to_le_bytes());
        out.extend_from_slice(&item.length.to_le_bytes());
    }
    let sum = block_sum(sums, page.block, page.page, &out[at + BLOCK_HEAD..]);
    out[at..at + BLOCK_HEAD].copy_from_slice(&sum.to_le_bytes());
}

/// Reads the block of `chunk`, which is of `page`, from its index file, and appends what it lists.
/// `InvalidData` if it is damaged or not there.
pub(crate) fn read_block(
    file: &dyn DiskFile,
    incarnation: u64,
    chunk: Chunk,
    page: u64,
    into: &mut Vec<Reference>,
) -> io::Result<()> {
    if u64::from(chunk.count) > PAGE {
        return Err(damaged("a chunk has more references than a page has numbers"));
    }
    let mut bytes = vec![0; block_len(chunk.count as usize)];
    file.read_exact_at(&mut bytes, u64::from(chunk.block)).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => damaged("a chunk goes on past the end of the index"),
        _ => error,
    })?;
    decode_block(&bytes, incarnation, chunk, page, into).ok_or_else(|| damaged("a chunk does not check"))
}

fn decode_block(bytes: &[u8], incarnation: u64, chunk: Chunk, page: u64, into: &mut Vec<Reference>) -> Option<()> {
    let (sum, entries) = bytes.split_first_chunk::<BLOCK_HEAD>()?;
    let sums = Checksums::new(incarnation, chunk.segment);
    if entries.len() != ENTRY * chunk.count as usize
        || block_sum(sums, chunk.block, page, entries) != u32::from_le_bytes(*sum)
    {
        return None;
    }
    let first = page.checked_mul(PAGE)?;
    into.extend(entries.as_chunks::<ENTRY>().0.iter().map(|entry| Reference {
        seq: first + u64::from(u16::from_le_bytes([entry[0], entry[1]])),
        address: Address { file: chunk.segment, offset: u32_at(entry, 2) },
        length: u32_at(entry, 6),
    }));
    Some(())
}

/// Writes an index, a bounded piece at a time.
pub(crate) struct IndexWriter {
    file: Arc<dyn DiskFile>,
    incarnation: u64,
    header: IndexHeader,
    /// The next page of the plan.
    page: usize,
    /// Where the next byte goes.
    at: u64,
}

impl IndexWriter {
    /// Begins to write the index of `plan`, whose items have their final offsets, into an empty
    /// file; places its blocks.
    pub(crate) fn new(
        file: Arc<dyn DiskFile>,
        incarnation: u64,
        plan: &mut Plan,
        number: u32,
        place: SegmentFile,
        length: u32,
    ) -> io::Result<Self> {
        let too_large = || io::Error::new(io::ErrorKind::FileTooLarge, "the index of a segment is over 4 GiB");
        let mut at = HEADER as u64;
        for page in &mut plan.pages {
            page.block = u32::try_from(at).map_err(|_| too_large())?;
            at += block_len(page.items.len()) as u64;
        }
        let header = IndexHeader {
            number,
            place,
            length,
            bytes: plan.bytes,
            references: plan.references(),
            sources: plan.sources.len() as u32,
            chunks: plan.pages.len() as u32,
            directory: u32::try_from(at).map_err(|_| too_large())?,
            directory_sum: 0,
        };
        Ok(Self { file, incarnation, header, page: 0, at: HEADER as u64 })
    }

    /// Writes some more blocks; true if that were the last.
    pub(crate) fn step(&mut self, plan: &Plan) -> io::Result<bool> {
        let sums = Checksums::new(self.incarnation, self.header.number);
        let mut piece = Vec::new();
        while let Some(page) = plan.pages.get(self.page).filter(|_| piece.len() < WRITTEN_AT_ONCE) {
            encode_block(sums, page, &mut piece);
            self.page += 1;
        }
        self.write(&piece)?;
        Ok(self.page == plan.pages.len())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, self.at)?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// Writes the directory and flushes everything but the header.
    pub(crate) fn write_directory(&mut self, plan: &Plan) -> io::Result<()> {
        let directory = Directory::of(plan).encode();
        self.header.directory_sum = Checksums::new(self.incarnation, self.header.number).of(&directory);
        for piece in directory.chunks(WRITTEN_AT_ONCE) {
            self.write(piece)?;
        }
        self.file.sync_data()
    }

    /// Writes and flushes the header: from here on there is an index. The names of its files are
    /// durable by now.
    pub(crate) fn commit(&self) -> io::Result<IndexHeader> {
        self.header.write(&*self.file, self.incarnation)?;
        Ok(self.header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use proptest::prelude::*;

    /// A file in memory.
    struct Memory(Mutex<Vec<u8>>);

    impl DiskFile for Memory {
        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
            let bytes = self.0.lock();
            let rest = bytes.get(offset as usize..).unwrap_or_default();
            let count = rest.len().min(buffer.len());
            buffer[..count].copy_from_slice(&rest[..count]);
            Ok(count)
        }

        fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
            let mut content = self.0.lock();
            let end = offset as usize + bytes.len();
            let length = content.len().max(end);
            content.resize(length, 0);
            content[offset as usize..end].copy_from_slice(bytes);
            Ok(bytes.len())
        }

        fn sync_data(&self) -> io::Result<()> {
            Ok(())
        }

        fn length(&self) -> io::Result<u64> {
            Ok(self.0.lock().len() as u64)
        }
    }

    const INCARNATION: u64 = 0x0102_0304_0506_0708;
    const NUMBER: u32 = 0x8000_0007;

    fn at(seq: u64, file: u32, offset: u32, length: u32) -> Reference {
        Reference { seq, address: Address { file, offset }, length }
    }

    fn sample() -> Plan {
        let mut plan = Plan::new(vec![5, 0x8000_0003]);
        plan.add(1, &mut [at(4095, 5, 4224, 10), at(4096, 5, 4300, 20), at(4000, 0x8000_0003, 4096, 30)]);
        plan.add(9, &mut [at(4095, 5, 4224, 10)]);
        plan
    }

    fn write(plan: &mut Plan) -> Vec<u8> {
        let file = Arc::new(Memory(Mutex::new(Vec::new())));
        let handle: Arc<dyn DiskFile> = file.clone();
        let mut writer = IndexWriter::new(handle, INCARNATION, plan, NUMBER, SegmentFile::Own, 8192).unwrap();
        while !writer.step(plan).unwrap() {}
        writer.write_directory(plan).unwrap();
        writer.commit().unwrap();
        file.0.lock().clone()
    }

    /// The header, the directory and all that is listed; the error says what did not check.
    fn read(bytes: &[u8]) -> Result<(IndexHeader, Directory, Vec<Vec<Reference>>), String> {
        let file = Memory(Mutex::new(bytes.to_vec()));
        let header = match IndexHeader::decode(&bytes[..bytes.len().min(HEADER)], INCARNATION, NUMBER) {
            Front::Whole(header) => header,
            other => return Err(format!("{other:?}")),
        };
        let directory = header.read_directory(&file, INCARNATION).map_err(|error| error.to_string())?;
        let mut listed = Vec::new();
        for row in &directory.rows {
            let chunk = Chunk { segment: NUMBER, block: row.block, count: row.count };
            let mut found = Vec::new();
            read_block(&file, INCARNATION, chunk, row.page, &mut found).map_err(|error| error.to_string())?;
            listed.push(found);
        }
        Ok((header, directory, listed))
    }

    #[test]
    fn an_index_comes_back() {
        let (header, directory, listed) = read(&write(&mut sample())).unwrap();
        assert_eq!((header.number, header.place, header.length), (NUMBER, SegmentFile::Own, 8192));
        assert_eq!((header.references, header.bytes), (4, 20 + 30 + 40), "a shared body counts once");
        assert_eq!(directory.sources, [5, 0x8000_0003]);
        let rows: Vec<_> =
            directory.rows.iter().map(|row| (row.owner, row.page, row.bytes, row.block, row.count)).collect();
        assert_eq!(rows, [(1, 0, 40, 512, 2), (1, 1, 20, 536, 1), (9, 0, 10, 550, 1)]);
        let expected = [
            vec![at(4000, NUMBER, 4096, 30), at(4095, NUMBER, 4224, 10)],
            vec![at(4096, NUMBER, 4300, 20)],
            vec![at(4095, NUMBER, 4224, 10)],
        ];
        assert_eq!(listed, expected);
    }

    #[test]
    fn an_index_has_the_bytes_the_format_page_draws() {
        let bytes = write(&mut sample());
        assert_eq!(bytes.len(), 564 + 2 * 4 + 3 * 32);
        assert_eq!(bytes[..20], *b"HJindx\x02\0\x08\x07\x06\x05\x04\x03\x02\x01\x07\0\0\x80");
        assert_eq!(bytes[20..28], [2, 0, 0, 0, 0, 0, 0, 0]);
        let numbers: Vec<u32> = (28..60).step_by(4).map(|at| u32_at(&bytes, at)).collect();
        assert_eq!(numbers, [8192, 90, 0, 4, 0, 2, 3, 564]);
        assert_eq!(bytes[64..HEADER - 4], [0; HEADER - 68]);
        assert_eq!(bytes[516..526], [0xa0, 0x0f, 0, 0x10, 0, 0, 30, 0, 0, 0]);
        assert_eq!(bytes[564..572], [5, 0, 0, 0, 3, 0, 0, 0x80]);
        assert_eq!(bytes[572..580], 1u64.to_le_bytes());
    }

    #[test]
    fn an_index_cut_anywhere_is_unfinished_or_damaged() {
        let whole = write(&mut sample());
        for cut in 0..whole.len() {
            let error = read(&whole[..cut]).unwrap_err();
            assert_eq!(error == "Unfinished", cut < HEADER, "cut at {cut}: {error}");
        }
        let mut unfinished = whole;
        unfinished[..HEADER].fill(0);
        assert_eq!(read(&unfinished).unwrap_err(), "Unfinished");
    }

    #[test]
    fn no_flipped_bit_goes_unseen() {
        let whole = write(&mut sample());
        for bit in 0..whole.len() * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let error = read(&damaged).unwrap_err();
            assert_ne!(error, "Unfinished", "bit {bit}");
        }
    }

    #[test]
    fn indexes_of_others_are_told_from_damaged_ones() {
        let whole = write(&mut sample());
        assert_eq!(IndexHeader::decode(&whole[..HEADER], 1, NUMBER), Front::Stranger);
        assert_eq!(IndexHeader::decode(&whole[..HEADER], INCARNATION, NUMBER + 1), Front::Damaged);
        let mut newer = whole;
        newer[6] = 3;
        let sum = Checksums::new(INCARNATION, NUMBER).of(&newer[..HEADER - 4]);
        newer[HEADER - 4..HEADER].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(IndexHeader::decode(&newer[..HEADER], INCARNATION, NUMBER), Front::Foreign(3));
    }

    #[test]
    fn a_chunk_that_is_not_there_is_refused_before_memory_is_taken() {
        let file = Memory(Mutex::new(write(&mut sample())));
        let table =
            [(512, 1, 0), (512, 3, 0), (512, 2, 1), (513, 2, 0), (536, 2, 0), (660, 4096, 0), (512, u32::MAX, 0)];
        for (block, count, page) in table {
            let chunk = Chunk { segment: NUMBER, block, count };
            let error = read_block(&file, INCARNATION, chunk, page, &mut Vec::new()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{chunk:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_listed_comes_back_in_order(
            owners in prop::collection::vec(
                prop::collection::btree_map(0u64..20_000, (0u32..1 << 20, 0u32..5000), 1..60),
                1..5,
            ),
        ) {
            let mut plan = Plan::new(vec![7]);
            let mut expected = Vec::new();
            for (owner, entries) in (1u64..).zip(&owners) {
                let entries: Vec<_> = entries.iter().map(|(seq, (offset, length))| at(*seq, 7, offset * 8, *length)).collect();
                plan.add(owner, &mut entries.clone());
                expected.extend(entries.iter().map(|one| (owner, one.seq, one.address.offset, one.length)));
            }
            let (_, directory, listed) = read(&write(&mut plan)).unwrap();
            let rows = directory.rows.iter().zip(&listed);
            let found: Vec<_> = rows
                .flat_map(|(row, listed)| listed.iter().map(|one| (row.owner, one.seq, one.address.offset, one.length)))
                .collect();
            prop_assert_eq!(found, expected);
            for (row, listed) in directory.rows.iter().zip(&listed) {
                prop_assert_eq!(row.bytes, listed.iter().map(|one| u64::from(one.length)).sum::<u64>());
            }
        }

        #[test]
        fn no_bytes_make_the_decoders_fall_over(bytes in prop::collection::vec(any::<u8>(), 0..2048)) {
            prop_assert!(read(&bytes).is_err());
        }
    }
}
