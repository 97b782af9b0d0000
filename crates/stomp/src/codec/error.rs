//! Why received bytes are not a frame. Each error says what was wrong, and which limit or rule was
//! broken.
//!
//! After any of them the position of the next frame is unknown, so the connection ends.

use std::fmt;

use super::{Command, Version};
use crate::limits;

/// A violation of the protocol or of a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FrameError {
    /// The first line is not a command; the text is its beginning.
    UnknownCommand(String),
    /// More header lines than this limit.
    TooManyHeaders(usize),
    /// A header line longer than this limit in bytes.
    HeaderLineTooLong(usize),
    /// Command line and headers together longer than this limit in bytes.
    HeadTooLong(usize),
    /// A header line without a colon; the text is its beginning.
    HeaderWithoutColon(String),
    /// A header line that starts with the colon.
    EmptyHeaderName,
    /// A NUL byte before the blank line: most often the blank line is missing.
    NulInHead,
    /// A carriage return in the middle of a header line.
    CarriageReturnInHeader,
    /// A backslash that begins no escape of this version.
    BadEscape(Version),
    /// Headers that are not UTF-8.
    NotUtf8,
    /// A `content-length` that is not a decimal number; the text is its value.
    BadContentLength(String),
    /// A body longer than this limit in bytes.
    BodyTooLong(usize),
    /// The byte after `content-length` bytes of body is not NUL.
    BodyNotTerminated(usize),
    /// A body in a frame that must not have one.
    BodyNotAllowed(Command),
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownCommand(line) => write!(f, "\"{line}\" is no STOMP command"),
            Self::TooManyHeaders(limit) => {
                write!(f, "the frame has more than {limit} header lines")
            }
            Self::HeaderLineTooLong(limit) => {
                write!(f, "a header line is longer than {limit} bytes")
            }
            Self::HeadTooLong(limit) => {
                write!(f, "the headers of the frame are longer than {limit} bytes")
            }
            Self::HeaderWithoutColon(line) => {
                write!(f, "the header line \"{line}\" has no colon")
            }
            Self::EmptyHeaderName => f.write_str("a header line has no name before its colon"),
            Self::NulInHead => {
                f.write_str("there is a NUL byte among the headers; a blank line must follow the last header")
            }
            Self::CarriageReturnInHeader => {
                f.write_str("there is a carriage return inside a header line; STOMP 1.2 writes it as \\r")
            }
            Self::BadEscape(version) => {
                let known = match version {
                    Version::V1_2 => "\\n, \\c, \\\\ and \\r",
                    Version::V1_0 | Version::V1_1 => "\\n, \\c and \\\\",
                };
                let version = version.as_str();
                write!(f, "a header has an undefined escape; STOMP {version} knows {known}")
            }
            Self::NotUtf8 => f.write_str("the headers of the frame are not UTF-8"),
            Self::BadContentLength(value) => {
                write!(f, "content-length must be a number of bytes, not \"{value}\"")
            }
            Self::BodyTooLong(limit) => write!(f, "the body is longer than {limit} bytes"),
            Self::BodyNotTerminated(length) => {
                write!(f, "no NUL byte follows the {length} bytes that content-length announced")
            }
            Self::BodyNotAllowed(command) => {
                write!(f, "a {} frame must not have a body", command.as_str())
            }
        }
    }
}

impl std::error::Error for FrameError {}

/// The beginning of a faulty line, safe to print: control characters and bytes that are not UTF-8
/// are replaced.
pub(super) fn excerpt(line: &[u8]) -> String {
    let shown = &line[..line.len().min(limits::COMMAND)];
    String::from_utf8_lossy(shown)
        .chars()
        .map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c })
        .collect()
}
