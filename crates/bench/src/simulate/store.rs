//! The file of a simulated broker that writes its persistent messages down: keys of durable queues
//! and bodies, one behind the other. What was acknowledged is not noted, so that it comes again
//! after a restart.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;

use bench_record::failure::{Context, Failure};

/// The file's name in its directory.
const NAME: &str = "messages";

/// A queue's name and a body.
pub(super) type StoredMessage = (String, Vec<u8>);

/// Whether messages are forced to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flush {
    Each,
    Never,
}

/// The open file.
#[derive(Debug)]
pub(super) struct Store {
    file: File,
    flush: Flush,
}

impl Store {
    /// Opens the file in `dir` and returns what it holds. A record that was not written whole is
    /// cut off.
    pub(super) fn open(dir: &Path, flush: Flush) -> Result<(Self, Vec<StoredMessage>), Failure> {
        fs::create_dir_all(dir).context(dir.display())?;
        let path = dir.join(NAME);
        let bytes = if path.exists() { fs::read(&path).context(path.display())? } else { Vec::new() };
        let (mut rest, mut kept) = (bytes.as_slice(), Vec::new());
        while let Some(((queue, body), after)) = piece(rest).and_then(|(queue, rest)| {
            let (body, rest) = piece(rest)?;
            Some(((queue, body), rest))
        }) {
            kept.push((String::from_utf8_lossy(queue).into_owned(), body.to_vec()));
            rest = after;
        }
        let file = OpenOptions::new().create(true).append(true).open(&path).context(path.display())?;
        file.set_len((bytes.len() - rest.len()) as u64).context(path.display())?;
        Ok((Self { file, flush }, kept))
    }

    /// Writes messages together, and flushes them if that was promised.
    pub(super) fn append<'a>(&mut self, messages: impl Iterator<Item = (&'a str, &'a [u8])>) -> Result<(), Failure> {
        let mut bytes = Vec::new();
        for (queue, body) in messages {
            for part in [queue.as_bytes(), body] {
                bytes.extend_from_slice(&(part.len() as u32).to_be_bytes());
                bytes.extend_from_slice(part);
            }
        }
        if bytes.is_empty() {
            return Ok(());
        }
        self.file.write_all(&bytes).context("writing messages")?;
        if self.flush == Flush::Each { self.file.sync_data().context("flushing messages") } else { Ok(()) }
    }
}

/// A piece with its length in front, and what is behind it.
fn piece(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_be_bytes(*length) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_whole_is_there_again_wherever_the_rest_was_cut() {
        let dir = tempfile::tempdir().unwrap();
        let (mut store, kept) = Store::open(dir.path(), Flush::Each).unwrap();
        assert!(kept.is_empty());
        store.append([("q", b"one".as_slice()), ("r", b"")].into_iter()).unwrap();
        let path = dir.path().join(NAME);
        let two = fs::read(&path).unwrap();
        store.append([("q", b"three".as_slice())].into_iter()).unwrap();
        let all = fs::read(&path).unwrap();
        for cut in two.len()..=all.len() {
            fs::write(&path, &all[..cut]).unwrap();
            let (_, kept) = Store::open(dir.path(), Flush::Never).unwrap();
            assert_eq!(kept.len(), if cut == all.len() { 3 } else { 2 }, "cut at {cut}");
            assert_eq!(kept[..2], [("q".to_owned(), b"one".to_vec()), ("r".to_owned(), Vec::new())]);
        }
    }
}
