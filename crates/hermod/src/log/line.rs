//! One event, one line: text from a peer can't end the line or control the terminal.
//!
//! The whole line is escaped when it is written, whatever its fields and its format are.

use std::cell::Cell;
use std::io::{self, Stderr, Write};

use auth::shown::{escaped, escaped_in_json, is_control};

use super::file::LogFile;
use crate::config::LogFormat;

thread_local! {
    /// How many lines of the kind that is being written were left out before it.
    static LEFT_OUT: Cell<u64> = const { Cell::new(0) };
}

/// Sets how many lines were left out before the next line of this thread.
pub(super) fn left_out(count: u64) {
    LEFT_OUT.set(count);
}

/// How many lines were left out before the next line of this thread.
pub(super) fn are_left_out() -> u64 {
    LEFT_OUT.get()
}

/// The output of lines; each is written at once.
pub(super) struct Lines<W> {
    format: LogFormat,
    to: W,
}

/// Standard error, a file, or both.
pub(super) struct Outputs {
    pub(super) stderr: Option<Stderr>,
    pub(super) file: Option<LogFile>,
}

impl Write for Outputs {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Some(file) = &self.file {
            file.line(line);
        }
        if let Some(stderr) = &mut self.stderr {
            stderr.write_all(line)?;
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Lines<Outputs> {
    pub(super) fn to(to: Outputs, format: LogFormat) -> Self {
        Self { format, to }
    }
}

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let left_out = LEFT_OUT.take();
        let text = String::from_utf8_lossy(line);
        let inner = text.strip_suffix('\n').unwrap_or(&text);
        if left_out == 0 && !inner.chars().any(is_control) {
            self.to.write_all(line)?;
            return Ok(line.len());
        }
        let mut shown = match self.format {
            LogFormat::Text => escaped(inner).into_owned(),
            LogFormat::Json => escaped_in_json(inner).into_owned(),
        };
        match (left_out, self.format) {
            (0, _) => {}
            (count, LogFormat::Text) => shown.push_str(&format!(" left_out={count}")),
            (count, LogFormat::Json) => {
                let end = if shown.pop() == Some('}') { "}" } else { "" };
                shown.push_str(&format!(",\"left_out\":{count}{end}"));
            }
        }
        shown.push('\n');
        self.to.write_all(shown.as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(format: LogFormat, line: &str) -> String {
        let mut lines = Lines { format, to: Vec::new() };
        lines.write_all(line.as_bytes()).unwrap();
        String::from_utf8(lines.to).unwrap()
    }

    #[test]
    fn a_line_is_one_line() {
        for (line, expected) in [
            ("WARN refused vhost=größe\n", "WARN refused vhost=größe\n"),
            ("vhost=x\n2026 INFO forged\r\n", "vhost=x\\n2026 INFO forged\\r\n"),
            ("a\u{1b}[2Jb\u{9b}c\0\u{7f}\u{2028}\u{202e}", "a\\u{1b}[2Jb\\u{9b}c\\u{0}\\u{7f}\\u{2028}\\u{202e}\n"),
        ] {
            assert_eq!(written(LogFormat::Text, line), expected);
        }
        let json = written(LogFormat::Json, "{\"vhost\":\"a\\nb\u{9b}\u{7f}\u{202e}\"}\n");
        assert_eq!(json, "{\"vhost\":\"a\\nb\\u009b\\u007f\\u202e\"}\n");
        let read: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(read["vhost"], "a\nb\u{9b}\u{7f}\u{202e}");
    }

    #[test]
    fn what_was_left_out_is_told_once() {
        left_out(3);
        assert_eq!(written(LogFormat::Text, "closing\n"), "closing left_out=3\n");
        assert_eq!(written(LogFormat::Text, "closing\n"), "closing\n");
        left_out(3);
        assert_eq!(written(LogFormat::Json, "{\"a\":1}\n"), "{\"a\":1,\"left_out\":3}\n");
    }
}
