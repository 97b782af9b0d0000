//! A line on the terminal that says how far a command has come, while it waits for something long.
//! It is on standard error and goes when the command has something to say; where that is no
//! terminal, there is none.

use std::io::{IsTerminal, Write, stderr};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the line is written. What ends before has none.
const PAUSE: Duration = Duration::from_secs(1);
/// Goes to the beginning of the line, and clears it.
const CLEAR: &str = "\r\x1b[K";

/// The line, until it is dropped.
pub(crate) struct Live(Option<(Sender<()>, JoinHandle<()>)>);

impl Live {
    /// Says this again and again, from the time that has gone by.
    pub(crate) fn begin(mut say: impl FnMut(Duration) -> String + Send + 'static) -> Self {
        if !stderr().is_terminal() {
            return Self(None);
        }
        let (end, ended) = channel();
        let since = Instant::now();
        let keep = move || keep(&mut stderr(), &ended, PAUSE, &mut || say(since.elapsed()));
        // Without a thread there is no line, and the command does its work all the same.
        let thread = std::thread::Builder::new().name("live line".to_owned()).spawn(keep).ok();
        Self(thread.map(|thread| (end, thread)))
    }

    /// Says what is being done, and for how long.
    pub(crate) fn doing(what: &'static str) -> Self {
        Self::begin(move |gone| format!("{what}: {} s", gone.as_secs()))
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.0.take() {
            drop(end);
            let _ = thread.join();
        }
    }
}

/// Writes the line until the other end has gone, and then clears it.
fn keep(out: &mut impl Write, ended: &Receiver<()>, pause: Duration, say: &mut impl FnMut() -> String) {
    let mut is_there = false;
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(pause) {
        is_there |= write!(out, "{CLEAR}{}", say()).and_then(|()| out.flush()).is_ok();
    }
    if is_there {
        let _ = write!(out, "{CLEAR}").and_then(|()| out.flush());
    }
}

/// The bytes of the files in a directory and below; 0 for one that is not there.
pub(crate) fn bytes_below(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let bytes = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => bytes_below(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    };
    entries.map(bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_written_over_and_cleared_at_the_end() {
        let (end, ended) = channel::<()>();
        let (mut out, mut end, mut count) = (Vec::new(), Some(end), 0);
        keep(&mut out, &ended, Duration::from_millis(1), &mut || {
            count += 1;
            if count == 3 {
                end.take();
            }
            format!("copied {count}")
        });
        assert_eq!(String::from_utf8(out).unwrap(), "\r\x1b[Kcopied 1\r\x1b[Kcopied 2\r\x1b[Kcopied 3\r\x1b[K");
    }

    #[test]
    fn what_ends_at_once_has_no_line() {
        let (end, ended) = channel::<()>();
        drop(end);
        let mut out = Vec::new();
        keep(&mut out, &ended, PAUSE, &mut || "never".to_owned());
        assert!(out.is_empty());
        drop(Live::doing("nothing"));
    }

    #[test]
    fn bytes_are_those_of_all_files() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("below")).unwrap();
        std::fs::write(dir.path().join("a"), "12345").unwrap();
        std::fs::write(dir.path().join("below/b"), "678").unwrap();
        assert_eq!((bytes_below(dir.path()), bytes_below(&dir.path().join("none"))), (8, 0));
    }
}
