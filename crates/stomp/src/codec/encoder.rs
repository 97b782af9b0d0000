//! Turns frames into bytes.
//!
//! Whatever names and values contain, the result is one frame. What a version can't express becomes
//! a blank, so a value can't end its line, add a header or start another frame.

use super::{Command, Version};

/// The bytes after a frame's NUL. A line feed is allowed between frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trailer {
    /// Nothing.
    #[default]
    None,
    /// A line feed. Some clients read one byte more than a frame has.
    LineFeed,
}

impl Trailer {
    /// The end of a frame, with its trailer.
    pub(crate) fn end(self) -> &'static [u8] {
        match self {
            Self::None => b"\0",
            Self::LineFeed => b"\0\n",
        }
    }
}

/// How frames are written for a peer.
#[cfg(feature = "session")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spoken {
    pub(crate) version: Version,
    pub(crate) trailer: Trailer,
}

/// Writes one frame at the end of a buffer: first the headers, then one of the `finish` methods.
#[derive(Debug)]
#[must_use = "a frame is complete only after one of the finish methods"]
pub struct FrameWriter<'a> {
    out: &'a mut Vec<u8>,
    /// The version whose escapes apply; `V1_0` has none.
    escapes: Version,
    trailer: Trailer,
}

impl<'a> FrameWriter<'a> {
    /// Starts a frame for a peer that speaks `version`.
    pub fn new(out: &'a mut Vec<u8>, command: Command, version: Version) -> Self {
        out.extend_from_slice(command.as_str().as_bytes());
        out.push(b'\n');
        let escapes = if command.is_unescaped() { Version::V1_0 } else { version };
        Self { out, escapes, trailer: Trailer::None }
    }

    /// As [`FrameWriter::new`], with the settings of this peer.
    #[cfg(feature = "session")]
    pub(crate) fn for_peer(out: &'a mut Vec<u8>, command: Command, spoken: Spoken) -> Self {
        Self { trailer: spoken.trailer, ..Self::new(out, command, spoken.version) }
    }

    /// Continues a frame whose first lines are copied from `lines`. They were written for the same
    /// version.
    #[cfg(feature = "session")]
    pub(crate) fn resume(out: &'a mut Vec<u8>, lines: &[u8], spoken: Spoken) -> Self {
        out.extend_from_slice(lines);
        Self { out, escapes: spoken.version, trailer: spoken.trailer }
    }

    /// Adds complete header lines that were written for this version.
    #[cfg(feature = "session")]
    pub(crate) fn lines(&mut self, lines: &[u8]) -> &mut Self {
        self.out.extend_from_slice(lines);
        self
    }

    /// Adds a number to a line that [`Self::lines`] has begun.
    #[cfg(feature = "session")]
    pub(crate) fn decimal(&mut self, value: u64) -> &mut Self {
        put_decimal(self.out, value);
        self
    }

    /// Adds a header. If a header is there twice, a receiver takes the first.
    pub fn header(&mut self, name: &str, value: &str) -> &mut Self {
        self.put(name, Part::Name);
        self.out.push(b':');
        self.put(value, Part::Value);
        self.out.push(b'\n');
        self
    }

    /// Adds a header if there is a value.
    pub fn optional(&mut self, name: &str, value: Option<&str>) -> &mut Self {
        if let Some(value) = value {
            self.header(name, value);
        }
        self
    }

    /// Adds a header with a decimal value.
    pub fn number(&mut self, name: &str, value: u64) -> &mut Self {
        self.put(name, Part::Name);
        self.out.push(b':');
        put_decimal(self.out, value);
        self.out.push(b'\n');
        self
    }

    /// Ends a frame that has no body.
    pub fn finish(self) {
        self.out.push(b'\n');
        self.end();
    }

    /// Ends the frame with a body and its `content-length`.
    pub fn finish_with(mut self, body: &[u8]) {
        self.announce(body.len());
        self.finish_announced(body);
    }

    /// Ends the frame with a body that ends at its NUL, which clients of ActiveMQ take for text. A
    /// body that contains a NUL gets a `content-length` all the same.
    pub fn finish_text(self, body: &[u8]) {
        if memchr::memchr(0, body).is_some() {
            return self.finish_with(body);
        }
        self.finish_announced(body);
    }

    /// Adds the length of the body. It must come before headers whose names the publisher chose,
    /// because the first of repeated headers counts.
    pub fn announce(&mut self, length: usize) -> &mut Self {
        self.number("content-length", length as u64)
    }

    /// Ends the frame with the body whose length was announced.
    pub fn finish_announced(self, body: &[u8]) {
        self.out.push(b'\n');
        self.out.extend_from_slice(body);
        self.end();
    }

    fn end(self) {
        self.out.extend_from_slice(self.trailer.end());
    }

    /// Ends the headers. The caller must append the body whose length was announced, and the end of
    /// the frame.
    pub fn finish_head(self) {
        self.out.push(b'\n');
    }

    fn put(&mut self, text: &str, part: Part) {
        // Plain characters are copied in runs, between those that need an escape.
        let bytes = text.as_bytes();
        let mut copied = 0;
        for (at, &byte) in bytes.iter().enumerate() {
            if !matches!(byte, b'\n' | b'\r' | b':' | b'\\' | 0) {
                continue;
            }
            let written: &[u8] = match (byte, self.escapes) {
                (b'\\', Version::V1_0) => b"\\",
                (b'\\', _) => b"\\\\",
                (b':', Version::V1_0) if part == Part::Name => b" ",
                (b':', Version::V1_0) => b":",
                (b':', _) => b"\\c",
                (b'\n', Version::V1_1 | Version::V1_2) => b"\\n",
                (b'\r', Version::V1_2) => b"\\r",
                _ => b" ",
            };
            self.out.extend_from_slice(&bytes[copied..at]);
            self.out.extend_from_slice(written);
            copied = at + 1;
        }
        self.out.extend_from_slice(&bytes[copied..]);
    }
}

/// A part of a header line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Name,
    Value,
}

/// Appends a number in decimal digits.
fn put_decimal(out: &mut Vec<u8>, mut value: u64) {
    // u64::MAX has 20 digits.
    let mut digits = [0u8; 20];
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[first..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(version: Version, command: Command, name: &str, value: &str) -> String {
        let mut out = Vec::new();
        let mut writer = FrameWriter::new(&mut out, command, version);
        writer.header(name, value);
        writer.finish();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn each_version_escapes_what_it_can_and_blanks_the_rest() {
        let value = "a:b\\c\nd\re\0f";
        for (version, command, expected) in [
            (Version::V1_0, Command::Send, "SEND\nn m:a:b\\c d e f\n\n\0"),
            (Version::V1_1, Command::Send, "SEND\nn\\cm:a\\cb\\\\c\\nd e f\n\n\0"),
            (Version::V1_2, Command::Send, "SEND\nn\\cm:a\\cb\\\\c\\nd\\re f\n\n\0"),
            (Version::V1_2, Command::Connect, "CONNECT\nn m:a:b\\c d e f\n\n\0"),
        ] {
            assert_eq!(header(version, command, "n:m", value), expected);
        }
    }

    #[test]
    fn bodies_are_announced_but_for_text_without_nul() {
        let frame = |finish: fn(FrameWriter<'_>)| {
            let mut out = Vec::new();
            finish(FrameWriter::new(&mut out, Command::Send, Version::V1_2));
            String::from_utf8(out).unwrap()
        };
        assert_eq!(frame(|w| w.finish_with(b"a\0b")), "SEND\ncontent-length:3\n\na\0b\0");
        assert_eq!(frame(|w| w.finish_with(b"")), "SEND\ncontent-length:0\n\n\0");
        assert_eq!(frame(|w| w.finish_text(b"ab")), "SEND\n\nab\0");
        assert_eq!(frame(|w| w.finish_text(b"a\0b")), "SEND\ncontent-length:3\n\na\0b\0");
        assert_eq!(frame(|mut w| _ = w.announce(7)), "SEND\ncontent-length:7\n");
        assert_eq!(frame(|w| w.finish_announced(b"a\0b")), "SEND\n\na\0b\0");
        assert_eq!(frame(|w| w.finish_head()), "SEND\n\n");
        assert_eq!(frame(|w| w.finish()), "SEND\n\n\0");
    }

    #[test]
    fn each_way_to_finish_ends_with_the_trailer() {
        let finishes: [fn(FrameWriter<'_>); 4] =
            [|w| w.finish(), |w| w.finish_with(b"ab"), |w| w.finish_text(b"ab"), |w| w.finish_announced(b"ab")];
        for finish in finishes {
            for (trailer, end) in [(Trailer::None, "\0"), (Trailer::LineFeed, "\0\n")] {
                let mut out = Vec::new();
                finish(FrameWriter { trailer, ..FrameWriter::new(&mut out, Command::Send, Version::V1_2) });
                let text = String::from_utf8(out).unwrap();
                assert!(text.strip_suffix(end).is_some_and(|rest| !rest.contains('\0')), "{text:?}");
            }
        }
    }

    #[test]
    fn decimals_reach_from_zero_to_the_largest() {
        for value in [0, 9, 10, 1234567890, u64::MAX] {
            let mut out = Vec::new();
            put_decimal(&mut out, value);
            assert_eq!(out, value.to_string().as_bytes());
        }
    }
}
