//! A plain log: what a relay takes from its producers is written to a file and forced to the disk,
//! once for all that came in one turn, before any of it goes on. No broker can keep the same
//! promise for the same bytes with less.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use bench_record::failure::{Context, Failure};

/// The file is written over from its start after this many bytes, as a log that is recycled is.
const ROUND: u64 = 64 * 1024 * 1024;

/// The file of one relay thread. It has no name, so that nothing is left of it.
#[derive(Debug)]
pub(super) struct Log {
    file: File,
    at: u64,
}

impl Log {
    /// Makes a file in `dir`, as large as it will ever be, so that no write has to make it longer.
    pub(super) fn create(dir: &Path) -> Result<Self, Failure> {
        let mut file = tempfile::tempfile_in(dir).context(dir.display())?;
        let zeroes = vec![0; 1024 * 1024];
        for _ in 0..ROUND / zeroes.len() as u64 {
            file.write_all(&zeroes).context(dir.display())?;
        }
        file.sync_all().and_then(|()| file.seek(SeekFrom::Start(0))).context(dir.display())?;
        Ok(Self { file, at: 0 })
    }

    /// Writes `pieces` and forces them to the disk.
    pub(super) fn force<'a>(&mut self, pieces: impl Iterator<Item = &'a [u8]>) -> std::io::Result<()> {
        if self.at >= ROUND {
            self.at = self.file.seek(SeekFrom::Start(0))?;
        }
        let mut any = false;
        for piece in pieces.filter(|piece| !piece.is_empty()) {
            self.file.write_all(piece)?;
            self.at += piece.len() as u64;
            any = true;
        }
        if any { self.file.sync_data() } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn what_is_forced_is_in_the_file_and_the_file_does_not_grow() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = Log::create(dir.path()).unwrap();
        log.force([b"one".as_slice(), b"", b"two"].into_iter()).unwrap();
        log.at = ROUND;
        log.force(std::iter::once(b"again".as_slice())).unwrap();
        let mut bytes = Vec::new();
        log.file.seek(SeekFrom::Start(0)).unwrap();
        log.file.read_to_end(&mut bytes).unwrap();
        assert_eq!((&bytes[..6], bytes.len() as u64, log.at), (b"againo".as_slice(), ROUND, 5));
    }
}
