//! `hermod export` and `hermod import`: users, vhosts, rights and what is declared, as RabbitMQ's JSON document.

use std::io::{Read, Write};
use std::path::Path;

use clap::{Arg, ArgMatches, Command};
use management::control::{Answer, Request};
use management::{Imported, LONGEST_DEFINITIONS};

use crate::cli::arguments::ask_for;
use crate::cli::ask::{ask, refusal, strange};
use crate::cli::output::{show, show_json};
use crate::config::Settings;
use crate::exit::{Exit, Failure};

/// The argument of `hermod export`.
pub(crate) fn export_command(command: Command) -> Command {
    command.arg(
        Arg::new("file").value_name("FILE").help("Where to, readable by its owner only [default: standard output]"),
    )
}

/// The arguments of `hermod import`.
pub(crate) fn import_command(command: Command) -> Command {
    command
        .arg(Arg::new("file").value_name("FILE").required(true).help("The document; - for standard input"))
        .arg(ask_for("skip-unsupported", "Leave out what Hermod has no meaning for, and say what that is"))
}

/// Does what `hermod export` says.
pub(crate) fn export(settings: &Settings, given: &ArgMatches) -> Result<(), Failure> {
    write(settings, given.get_one::<String>("file").map(String::as_str))
}

/// Writes the definitions to `file`, or to standard output.
pub(crate) fn write(settings: &Settings, file: Option<&str>) -> Result<(), Failure> {
    let document = match ask(settings, &Request::Export)? {
        Answer::Exported(document) => document,
        other => return Err(strange(&other)),
    };
    let text = serde_json::to_string_pretty(&document).map_err(|error| Exit::Bug.because(error))? + "\n";
    match file {
        None | Some("-") => show(&text),
        Some(file) => {
            private(Path::new(file), &text).map_err(|error| Exit::CannotCreate.because(format!("{file}: {error}")))
        }
    }
}

/// There are password hashes in it.
fn private(file: &Path, text: &str) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(file)?.write_all(text.as_bytes())
}

/// Does what `hermod import` says.
pub(crate) fn import(settings: &Settings, given: &ArgMatches, json: bool) -> Result<(), Failure> {
    let file = given.get_one::<String>("file").map_or("-", String::as_str);
    let imported = read(settings, file, given.get_flag("skip-unsupported"))?;
    if json {
        return show_json(&imported);
    }
    for line in &imported.skipped {
        show(&format!("skipped: {line}\n"))?;
    }
    show(&format!("{} definitions taken over\n", imported.taken))
}

/// Has the server take over the document in `file`.
pub(crate) fn read(settings: &Settings, file: &str, skip_unsupported: bool) -> Result<Imported, Failure> {
    let failed = |error: std::io::Error| Exit::NotFound.because(format!("{file}: {error}"));
    let mut document = String::new();
    let input: &mut dyn Read =
        if file == "-" { &mut std::io::stdin() } else { &mut std::fs::File::open(file).map_err(failed)? };
    input.take(LONGEST_DEFINITIONS + 1).read_to_string(&mut document).map_err(failed)?;
    if document.len() as u64 > LONGEST_DEFINITIONS {
        return Err(Exit::BadData.because(format!("{file} has more than {LONGEST_DEFINITIONS} bytes")));
    }
    match ask(settings, &Request::Import { document, skip_unsupported })? {
        Answer::Imported(imported) => Ok(imported),
        Answer::NotChanged(refused) => Err(refusal(refused)),
        other => Err(strange(&other)),
    }
}
