//! Standard output, where every answer goes. A reader that has gone (`hermod queues | head`) has what it wanted: that is no
//! failure, and takes nothing from the exit code.

use std::io::{ErrorKind, Write, stdout};

use crate::exit::{Exit, Failure};

/// Writes `text`, which ends with a line break, at once.
pub(crate) fn show(text: &str) -> Result<(), Failure> {
    write(&mut stdout().lock(), text)
}

/// Writes `value` as JSON, on one line.
pub(crate) fn show_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value).map_err(|error| Exit::Bug.because(error))?;
    show(&(text + "\n"))
}

fn write(out: &mut impl Write, text: &str) -> Result<(), Failure> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Exit::Io.because(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}
