//! Header lines as the decoder found them, and their escapes.
//!
//! A line is checked once, when it arrives. Reading it later can't fail, and copies only values
//! with escapes.

use std::borrow::Cow;

use memchr::memchr;

use super::error::excerpt;
use super::{FrameError, Version};

/// The result of one pass over a header line, in bytes from its start.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Line {
    /// The position of the line feed, if it has arrived.
    pub(super) end: Option<usize>,
    colon: Option<usize>,
    /// The first backslash, carriage return or NUL.
    special: Option<usize>,
}

impl Line {
    /// Reads each byte of the line at the front of `bytes` once. Lines are too short for one search
    /// per special byte.
    pub(super) fn scan(bytes: &[u8]) -> Self {
        let mut line = Self::default();
        for (at, byte) in bytes.iter().enumerate() {
            match byte {
                b'\n' => {
                    line.end = Some(at);
                    break;
                }
                b':' => line.colon = line.colon.or(Some(at)),
                b'\\' | b'\r' | 0 => line.special = line.special.or(Some(at)),
                _ => {}
            }
        }
        line
    }
}

/// How the values of a frame are read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    /// The version whose escapes apply, if any do.
    pub(super) escapes: Option<Version>,
    /// Drops the blanks that clients of STOMP 1.0 put after the colon.
    pub(super) trim: bool,
}

/// The positions of the parts of one header line, in bytes from the start of the frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    name: u32,
    name_end: u32,
    value: u32,
    value_end: u32,
    escaped: bool,
}

impl Span {
    /// Checks the text of a line, which starts at `start` in the frame, and records its parts.
    pub(super) fn parse(text: &[u8], start: usize, line: Line, reading: Reading) -> Result<Self, FrameError> {
        let escaped = match line.special {
            Some(first) if first < text.len() => check_special(&text[first..], reading.escapes)?,
            _ => false,
        };
        let colon = line.colon.ok_or_else(|| FrameError::HeaderWithoutColon(excerpt(text)))?;
        if colon == 0 {
            return Err(FrameError::EmptyHeaderName);
        }
        let mut value = colon + 1;
        while reading.trim && value < text.len() && matches!(text[value], b' ' | b'\t') {
            value += 1;
        }
        // A head has at most 64 KiB, so its offsets fit.
        let at = |offset: usize| (start + offset) as u32;
        Ok(Self { name: at(0), name_end: at(colon), value: at(value), value_end: at(text.len()), escaped })
    }

    /// The name as written. Each character has only one spelling, so equal names are equal here.
    pub(super) fn raw_name<'a>(&self, head: &'a [u8]) -> &'a [u8] {
        &head[self.name as usize..self.name_end as usize]
    }

    /// The value as written.
    pub(super) fn raw_value<'a>(&self, head: &'a [u8]) -> &'a [u8] {
        &head[self.value as usize..self.value_end as usize]
    }
}

/// Checks a line from its first special byte on: refuses NUL, a bare carriage return and undefined
/// escapes. Returns whether there are escapes.
fn check_special(rest: &[u8], escapes: Option<Version>) -> Result<bool, FrameError> {
    let mut escaped = false;
    let mut bytes = rest.iter();
    while let Some(byte) = bytes.next() {
        match (byte, escapes) {
            (0, _) => return Err(FrameError::NulInHead),
            (b'\r', _) => return Err(FrameError::CarriageReturnInHeader),
            (b'\\', Some(version)) => {
                escaped = true;
                match bytes.next() {
                    Some(b'n' | b'c' | b'\\') => {}
                    Some(b'r') if version == Version::V1_2 => {}
                    _ => return Err(FrameError::BadEscape(version)),
                }
            }
            _ => {}
        }
    }
    Ok(escaped)
}

/// Resolves the escapes of STOMP 1.2, which are those of 1.1 and one more. They were checked
/// before.
pub(crate) fn unescape(raw: &str) -> Cow<'_, str> {
    if memchr(b'\\', raw.as_bytes()).is_none() {
        return Cow::Borrowed(raw);
    }
    let mut text = String::with_capacity(raw.len());
    let mut chars = raw.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n') => text.push('\n'),
                Some('r') => text.push('\r'),
                Some('c') => text.push(':'),
                _ => text.push('\\'),
            },
            other => text.push(other),
        }
    }
    Cow::Owned(text)
}

/// The headers of one frame in the order of arrival; of repeated ones only the first (STOMP 1.2,
/// "Repeated Header Entries").
#[derive(Debug, Clone, Copy)]
pub struct Headers<'a> {
    head: &'a str,
    spans: &'a [Span],
}

impl<'a> Headers<'a> {
    pub(super) fn new(head: &'a str, spans: &'a [Span]) -> Self {
        Self { head, spans }
    }

    /// The number of headers.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The value of the header called `name`.
    pub fn get(&self, name: &str) -> Option<Cow<'a, str>> {
        self.spans
            .iter()
            .find(|span| {
                if span.escaped {
                    self.name(span) == name
                } else {
                    span.raw_name(self.head.as_bytes()) == name.as_bytes()
                }
            })
            .map(|span| self.value(span))
    }

    /// Names and values, unescaped.
    pub fn iter(&self) -> impl Iterator<Item = (Cow<'a, str>, Cow<'a, str>)> + use<'a> {
        let headers = *self;
        headers.spans.iter().map(move |span| (headers.name(span), headers.value(span)))
    }

    /// Names and values as the peer wrote them, with the escapes of its version.
    pub fn raw(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let headers = *self;
        let part = move |from: u32, to: u32| &headers.head[from as usize..to as usize];
        headers.spans.iter().map(move |span| (part(span.name, span.name_end), part(span.value, span.value_end)))
    }

    fn name(&self, span: &Span) -> Cow<'a, str> {
        self.text(span, span.name, span.name_end)
    }

    fn value(&self, span: &Span) -> Cow<'a, str> {
        self.text(span, span.value, span.value_end)
    }

    fn text(&self, span: &Span, from: u32, to: u32) -> Cow<'a, str> {
        let raw = &self.head[from as usize..to as usize];
        if span.escaped { unescape(raw) } else { Cow::Borrowed(raw) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str, reading: Reading) -> Result<(String, String), FrameError> {
        let bytes = line.as_bytes();
        let spans = [Span::parse(bytes, 0, Line::scan(bytes), reading)?];
        let headers = Headers::new(line, &spans);
        let (name, value) = headers.iter().next().unwrap();
        assert_eq!(headers.get(&name).as_ref(), Some(&value));
        Ok((name.into_owned(), value.into_owned()))
    }

    #[test]
    fn each_version_has_its_own_escapes() {
        let (v11, v12) = (Some(Version::V1_1), Some(Version::V1_2));
        let header = |name: &str, value: &str| Ok((name.to_owned(), value.to_owned()));
        for (line, escapes, trim, expected) in [
            ("a:b", None, false, header("a", "b")),
            ("a:", v12, false, header("a", "")),
            ("a: b ", v12, false, header("a", " b ")),
            ("a: \tb ", None, true, header("a", "b ")),
            ("a:b:c", v12, false, header("a", "b:c")),
            (r"a:b\nc", None, false, header("a", r"b\nc")),
            (r"a\cb:c\n\\n\c", v11, false, header("a:b", "c\n\\n:")),
            (r"a:\r", v12, false, header("a", "\r")),
            (r"a:\r", v11, false, Err(FrameError::BadEscape(Version::V1_1))),
            (r"a:\t", v12, false, Err(FrameError::BadEscape(Version::V1_2))),
            (r"a:\", v12, false, Err(FrameError::BadEscape(Version::V1_2))),
            ("é:ü", v12, false, header("é", "ü")),
            ("ab", v12, false, Err(FrameError::HeaderWithoutColon("ab".into()))),
            (":b", v12, false, Err(FrameError::EmptyHeaderName)),
            ("a:\0", v12, false, Err(FrameError::NulInHead)),
            ("a:b\rc", v12, false, Err(FrameError::CarriageReturnInHeader)),
        ] {
            assert_eq!(read(line, Reading { escapes, trim }), expected, "{line:?}");
        }
    }
}
