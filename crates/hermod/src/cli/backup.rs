//! `hermod backup`: a copy of a running broker's data directory, made by the broker.

use std::path::Path;

use management::control::{Answer, Request};

use crate::cli::ask::{Server, ask, strange};
use crate::cli::counted;
use crate::cli::live::{Live, bytes_below};
use crate::cli::output::{Form, show, show_json};
use crate::config::value::size;
use crate::exit::{Exit, Failure};

/// Asks the broker to copy its data directory to `directory`, which must be new or empty. Waits for
/// the end.
pub(crate) fn run(server: &Server, directory: &Path, form: Form) -> Result<(), Failure> {
    let unusable = |why: &dyn std::fmt::Display| Exit::Usage.because(format!("{}: {why}", directory.display()));
    // The broker has another working directory.
    let whole = std::path::absolute(directory).map_err(|error| unusable(&error))?;
    let whole = whole.to_str().ok_or_else(|| unusable(&"the name of the directory is not UTF-8"))?;
    let copied = directory.to_owned();
    let live = Live::begin(move |gone| {
        format!("{}: {} copied, {} s", copied.display(), size(bytes_below(&copied)), gone.as_secs())
    });
    let answer = ask(server, &Request::Backup { directory: whole.to_owned() });
    drop(live);
    let row = match answer? {
        Answer::BackedUp(row) => row,
        Answer::NotBackedUp(why) => return Err(Exit::CannotCreate.because(why)),
        other => return Err(strange(&other)),
    };
    if form == Form::Json {
        return show_json(&row);
    }
    show(&format!(
        "{}: {}, {} in {}.{:03} s, up to batch {} of the log\n",
        row.directory,
        counted(row.files, ["file", "files"]),
        size(row.bytes),
        row.milliseconds / 1000,
        row.milliseconds % 1000,
        row.sequence
    ))
}
