//! Turns bytes into frames, however the bytes are split.
//!
//! Each byte is read a constant number of times, however the peer splits its writes. A frame that
//! is complete in the buffer of the socket is decoded there, without copies or allocations.

use bytes::Bytes;
use memchr::memchr;

use super::error::excerpt;
use super::headers::{Line, Reading, Span};
use super::{Body, Command, Frame, FrameError, Headers, Version};
use crate::limits::{self, Limits};

/// The result of one call of [`Decoder::decode`].
#[derive(Debug)]
pub struct Decoded<'a> {
    /// How many bytes of the input were used.
    pub consumed: usize,
    /// A complete frame; `None` if more input is needed.
    pub frame: Option<Frame<'a>>,
}

/// Where the body of a frame ends.
#[derive(Debug, Clone, Copy)]
enum BodyEnd {
    /// After the length announced by `content-length`; a NUL follows.
    Length(usize),
    /// At the first NUL.
    Nul,
}

/// What is known of the frame at the front of the input. Offsets count from its first byte.
#[derive(Debug, Clone, Copy)]
enum Progress {
    /// Only end-of-lines and NULs so far.
    Between,
    /// The command is known; header lines before `line` are in the spans.
    Head { command: Command, line: usize, lines: usize },
    /// The body starts at `body`. If a NUL ends it, there is none before `scanned`.
    Body { command: Command, body: usize, end: BodyEnd, scanned: usize },
    /// Head and body move into buffers of their own.
    Gather { command: Command, end: BodyEnd },
}

/// An incremental decoder for one direction of one connection.
#[derive(Debug)]
pub struct Decoder {
    limits: Limits,
    version: Version,
    progress: Progress,
    /// The header lines of the current frame: one buffer for all frames.
    spans: Vec<Span>,
    /// The head of a frame that moved into these buffers.
    head: String,
    /// The body of a frame that moved into these buffers.
    body: Vec<u8>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl Decoder {
    /// A decoder at the start of a connection: STOMP 1.0 until [`Self::set_version`].
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            version: Version::V1_0,
            progress: Progress::Between,
            spans: Vec::new(),
            head: String::new(),
            body: Vec::new(),
        }
    }

    /// Sets the version of the frames that follow.
    pub fn set_version(&mut self, version: Version) {
        self.version = version;
    }

    /// Sets the limits of the frames that follow.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Frees memory that an idle connection does not need.
    pub fn shrink(&mut self) {
        if matches!(self.progress, Progress::Between) {
            self.spans = Vec::new();
            self.head = String::new();
        }
    }

    /// Decodes the first frame of `input`. Bytes that were not used must come again at the front of
    /// the next input. A complete frame of a command without body may come again too, if the caller
    /// wants to handle it later.
    ///
    /// # Errors
    /// A violation of the protocol or of a limit. The decoder can't continue after that.
    pub fn decode<'a>(&'a mut self, input: &'a [u8]) -> Result<Decoded<'a>, FrameError> {
        let mut skipped = 0;
        if matches!(self.progress, Progress::Between) {
            skipped = input.iter().take_while(|byte| matches!(byte, b'\n' | b'\r' | 0)).count();
        }
        let input = &input[skipped..];
        if matches!(self.progress, Progress::Between) && !self.read_command(input)? {
            return Ok(Decoded { consumed: skipped, frame: None });
        }
        if matches!(self.progress, Progress::Head { .. }) && !self.read_head(input)? {
            return Ok(Decoded { consumed: skipped, frame: None });
        }
        let mut decoded = match self.progress {
            Progress::Body { command, body, end, scanned } => self.read_body(input, command, body, end, scanned)?,
            Progress::Gather { command, end } => self.gather(input, command, end)?,
            Progress::Between | Progress::Head { .. } => Decoded { consumed: 0, frame: None },
        };
        decoded.consumed += skipped;
        Ok(decoded)
    }

    /// Of a body that has begun: how many bytes have left the input, and how many were announced.
    pub fn gathered(&self) -> Option<(usize, Option<usize>)> {
        let (command, end) = match self.progress {
            Progress::Gather { command, end } | Progress::Body { command, end, .. } => (command, end),
            Progress::Between | Progress::Head { .. } => return None,
        };
        let length = match end {
            BodyEnd::Length(length) => Some(length),
            BodyEnd::Nul => None,
        };
        command.has_body().then_some((self.body.len(), length))
    }

    /// Reads the command line; false if it is not complete.
    fn read_command(&mut self, input: &[u8]) -> Result<bool, FrameError> {
        let window = &input[..input.len().min(limits::COMMAND + 1)];
        let Some(end) = memchr(b'\n', window) else {
            if input.len() > limits::COMMAND || memchr(0, window).is_some() {
                return Err(FrameError::UnknownCommand(excerpt(window)));
            }
            return Ok(false);
        };
        let line = without_cr(&window[..end]);
        let command = Command::parse(line).ok_or_else(|| FrameError::UnknownCommand(excerpt(line)))?;
        self.spans.clear();
        self.progress = Progress::Head { command, line: end + 1, lines: 0 };
        Ok(true)
    }

    /// Reads header lines up to the blank line; false if that has not arrived.
    fn read_head(&mut self, input: &[u8]) -> Result<bool, FrameError> {
        let Progress::Head { command, mut line, mut lines } = self.progress else {
            return Ok(true);
        };
        let is_old = self.version == Version::V1_0;
        let has_escapes = !is_old && !command.is_unescaped();
        let reading = Reading { escapes: has_escapes.then_some(self.version), trim: is_old && !command.is_unescaped() };
        loop {
            let rest = input.get(line..).unwrap_or_default();
            let found = Line::scan(rest);
            let length = found.end.unwrap_or(rest.len());
            if length > self.limits.header_line {
                return Err(FrameError::HeaderLineTooLong(self.limits.header_line));
            }
            if line + length > self.limits.head {
                return Err(FrameError::HeadTooLong(self.limits.head));
            }
            let Some(length) = found.end else {
                self.progress = Progress::Head { command, line, lines };
                // Without a blank line, waiting for the closing NUL would never end.
                return if memchr(0, rest).is_some() { Err(FrameError::NulInHead) } else { Ok(false) };
            };
            let text = without_cr(&rest[..length]);
            if text.is_empty() {
                return self.end_head(input, command, line + length + 1);
            }
            lines += 1;
            if lines > self.limits.headers {
                return Err(FrameError::TooManyHeaders(self.limits.headers));
            }
            let span = Span::parse(text, line, found, reading)?;
            let name = span.raw_name(input);
            if !self.spans.iter().any(|earlier| earlier.raw_name(input) == name) {
                self.spans.push(span);
            }
            line += length + 1;
        }
    }

    /// The blank line has arrived: finds out how the body ends.
    fn end_head(&mut self, input: &[u8], command: Command, body: usize) -> Result<bool, FrameError> {
        let announced = self
            .spans
            .iter()
            .find(|span| span.raw_name(input) == b"content-length")
            .map(|span| parse_length(span.raw_value(input)));
        let limit = if command.has_body() { self.limits.body } else { 0 };
        let end = match announced.transpose()? {
            Some(length) if length > limit => return Err(self.body_too_long(command)),
            Some(length) => BodyEnd::Length(length),
            None => BodyEnd::Nul,
        };
        self.progress = Progress::Body { command, body, end, scanned: body };
        Ok(true)
    }

    /// Takes the body from the input, if it is complete.
    fn read_body<'a>(
        &'a mut self,
        input: &'a [u8],
        command: Command,
        body: usize,
        end: BodyEnd,
        scanned: usize,
    ) -> Result<Decoded<'a>, FrameError> {
        let body_end = match end {
            BodyEnd::Length(length) => match input.get(body + length) {
                Some(0) => Some(body + length),
                Some(_) => return Err(FrameError::BodyNotTerminated(length)),
                None => None,
            },
            BodyEnd::Nul => memchr(0, input.get(scanned..).unwrap_or_default()).map(|at| scanned + at),
        };
        let known = body_end.unwrap_or(input.len()).saturating_sub(body);
        self.check_length(command, known)?;
        if let Some(body_end) = body_end {
            self.progress = Progress::Between;
            let frame = Frame {
                command,
                headers: Headers::new(utf8(&input[..body])?, &self.spans),
                body: Body::Slice(&input[body..body_end]),
            };
            return Ok(Decoded { consumed: body_end + 1, frame: Some(frame) });
        }
        let expected = match end {
            BodyEnd::Length(length) => body + length,
            BodyEnd::Nul => input.len(),
        };
        // A frame without body is no longer than a head. A caller that can't handle it yet may
        // leave it in the input.
        if expected < limits::GATHER_FROM || !command.has_body() {
            self.progress = Progress::Body { command, body, end, scanned: input.len() };
            return Ok(Decoded { consumed: 0, frame: None });
        }
        self.head.clear();
        self.head.push_str(utf8(&input[..body])?);
        self.body = input.get(body..).unwrap_or_default().to_vec();
        self.progress = Progress::Gather { command, end };
        Ok(Decoded { consumed: input.len(), frame: None })
    }

    /// Appends to a body that moved into a buffer of its own.
    fn gather<'a>(&'a mut self, input: &'a [u8], command: Command, end: BodyEnd) -> Result<Decoded<'a>, FrameError> {
        let wanted = match end {
            BodyEnd::Length(length) => (length - self.body.len() < input.len()).then(|| length - self.body.len()),
            BodyEnd::Nul => memchr(0, input),
        };
        let piece = wanted.unwrap_or(input.len());
        let need = self.body.len() + piece;
        self.check_length(command, need)?;
        if need > self.body.capacity() {
            // The buffer doubles, up to the announced length.
            let whole = if let BodyEnd::Length(length) = end { length } else { usize::MAX };
            self.body.reserve_exact((need * 2).min(whole).max(need) - self.body.len());
        }
        self.body.extend_from_slice(&input[..piece]);
        if wanted.is_none() {
            return Ok(Decoded { consumed: input.len(), frame: None });
        }
        if input[piece] != 0 {
            return Err(FrameError::BodyNotTerminated(self.body.len()));
        }
        self.progress = Progress::Between;
        let frame = Frame {
            command,
            headers: Headers::new(&self.head, &self.spans),
            body: Body::Shared(Bytes::from(std::mem::take(&mut self.body))),
        };
        Ok(Decoded { consumed: piece + 1, frame: Some(frame) })
    }

    fn check_length(&self, command: Command, length: usize) -> Result<(), FrameError> {
        let limit = if command.has_body() { self.limits.body } else { 0 };
        if length > limit { Err(self.body_too_long(command)) } else { Ok(()) }
    }

    fn body_too_long(&self, command: Command) -> FrameError {
        if command.has_body() { FrameError::BodyTooLong(self.limits.body) } else { FrameError::BodyNotAllowed(command) }
    }
}

/// The line without a carriage return before its line feed: allowed by STOMP 1.2, and tolerated
/// before.
fn without_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn utf8(head: &[u8]) -> Result<&str, FrameError> {
    std::str::from_utf8(head).map_err(|_| FrameError::NotUtf8)
}

/// Reads a decimal number of bytes, and ignores blanks around it.
fn parse_length(value: &[u8]) -> Result<usize, FrameError> {
    let digits = value.trim_ascii();
    let number = std::str::from_utf8(digits)
        .ok()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|text| text.parse().ok());
    number.ok_or_else(|| FrameError::BadContentLength(excerpt(value)))
}

#[cfg(test)]
mod tests;
