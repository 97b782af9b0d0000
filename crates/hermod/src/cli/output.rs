//! Standard output, where every answer goes. If its reader closes it early (`hermod queues |
//! head`), that is not an error and does not change the exit code.

use std::io::{ErrorKind, IsTerminal, Write, stdout};

use auth::shown::{escaped, escaped_in_json};
use clap::ArgMatches;

use crate::exit::{Exit, Failure};

/// What an answer is printed as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// A table, or sentences: for people.
    Text,
    /// JSON, by `--json`: for programs.
    Json,
}

impl Form {
    /// The form that the arguments of a command ask for.
    pub(crate) fn of(arguments: &ArgMatches) -> Self {
        if arguments.get_flag("json") { Self::Json } else { Self::Text }
    }
}

/// Whether standard output has a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    There,
    Gone,
}

/// Writes `text`, which ends with a line break, at once. Control characters are escaped, except for
/// line breaks and tabs.
pub(crate) fn show(text: &str) -> Result<(), Failure> {
    show_more(text).map(drop)
}

/// The same, for one text of several.
pub(crate) fn show_more(text: &str) -> Result<Reader, Failure> {
    write(&mut stdout().lock(), escaped_lines(text).as_bytes())
}

/// Writes a body and a line break. On a terminal control characters are escaped; elsewhere the
/// bytes are those of the message.
pub(crate) fn show_body(body: &[u8]) -> Result<Reader, Failure> {
    if stdout().is_terminal() {
        return show_more(&(String::from_utf8_lossy(body) + "\n"));
    }
    write(&mut stdout().lock(), &[body, &b"\n"[..]].concat())
}

/// Clears the terminal and writes `text`.
pub(crate) fn show_screen(text: &str) -> Result<Reader, Failure> {
    write(&mut stdout().lock(), format!("\u{1b}[H\u{1b}[2J{}", escaped_lines(text)).as_bytes())
}

fn escaped_lines(text: &str) -> String {
    let lines = text.split_inclusive('\n').map(|line| match line.strip_suffix('\n') {
        Some(line) => plain(line) + "\n",
        None => plain(line),
    });
    lines.collect()
}

fn plain(line: &str) -> String {
    line.split('\t').map(escaped).collect::<Vec<_>>().join("\t")
}

/// Writes a JSON document at once.
pub(crate) fn show_document(text: &str) -> Result<(), Failure> {
    write(&mut stdout().lock(), escaped_in_json(text).as_bytes()).map(drop)
}

/// Writes `value` as JSON, on one line.
pub(crate) fn show_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    show_more_json(value).map(drop)
}

/// The same, for one value of several.
pub(crate) fn show_more_json(value: &impl serde::Serialize) -> Result<Reader, Failure> {
    let text = serde_json::to_string(value).map_err(|error| Exit::Bug.because(error))?;
    write(&mut stdout().lock(), (escaped_in_json(&text) + "\n").as_bytes())
}

fn write(out: &mut impl Write, text: &[u8]) -> Result<Reader, Failure> {
    match out.write_all(text).and_then(|()| out.flush()) {
        Ok(()) => Ok(Reader::There),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => Err(Exit::Io.because(format!("standard output: {error}"))),
    }
}
