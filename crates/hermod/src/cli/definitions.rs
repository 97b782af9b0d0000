//! `hermod export` and `hermod import`: users, vhosts, permissions and declarations as RabbitMQ's
//! JSON document.

use std::io::{Read, Write};
use std::path::Path;

use auth::shown::escaped;
use clap::{Arg, ArgMatches, Command};
use management::control::{Answer, Request};
use management::{Extent, Imported, LONGEST_DEFINITIONS};

use crate::cli::arguments::{ask_for, option};
use crate::cli::ask::{Server, ask, refusal, strange};
use crate::cli::live::Live;
use crate::cli::output::{Form, show, show_document, show_json};
use crate::exit::{Exit, Failure};

/// The argument of `hermod export`.
pub(crate) fn export_command(command: Command) -> Command {
    command.arg(
        Arg::new("file")
            .value_name("FILE")
            .help("The file to write, readable by its owner only [default: standard output]"),
    )
}

/// The arguments of `hermod import`.
pub(crate) fn import_command(command: Command) -> Command {
    command
        .arg(Arg::new("file").value_name("FILE").required(true).help("The document; - for standard input"))
        .arg(ask_for("skip-unsupported", "Leave out what Hermod does not support, and list it"))
        .arg(ask_for("dry-run", "Change nothing, and show what would be done"))
        .arg(option("vhost", "VHOST", "The vhost to import into, for a document of one vhost"))
}

/// Runs `hermod export`.
pub(crate) fn export(server: &Server, given: &ArgMatches) -> Result<(), Failure> {
    write(server, given.get_one::<String>("file").map(String::as_str))
}

/// Writes the definitions to `file`, or to standard output.
pub(crate) fn write(server: &Server, file: Option<&str>) -> Result<(), Failure> {
    let document = match ask(server, &Request::Export)? {
        Answer::Exported(document) => document,
        other => return Err(strange(&other)),
    };
    let text = serde_json::to_string_pretty(&document).map_err(|error| Exit::Bug.because(error))? + "\n";
    match file {
        None | Some("-") => show_document(&text),
        Some(file) => {
            private(Path::new(file), &text).map_err(|error| Exit::CannotCreate.because(format!("{file}: {error}")))
        }
    }
}

/// Writes a file with password hashes. From the beginning only its owner can read it, whatever was
/// there under its name. The file is complete or absent, and a link in its place is refused.
pub(crate) fn private(file: &Path, text: &str) -> std::io::Result<()> {
    let other = |what: &str| std::io::Error::other(format!("{what}; name a file, or none for standard output"));
    match file.symlink_metadata() {
        Ok(there) if there.file_type().is_symlink() => return Err(other("it is a link")),
        Ok(there) if !there.is_file() => return Err(other("it is no file")),
        _ => {}
    }
    let name = file.file_name().ok_or_else(|| other("it is no name of a file"))?.to_string_lossy();
    let new = file.with_file_name(format!(".{name}.{}.new", std::process::id()));
    let written = write_new(&new, text).and_then(|()| std::fs::rename(&new, file));
    if written.is_err() {
        // The file may not exist.
        let _ = std::fs::remove_file(&new);
    }
    written
}

fn write_new(file: &Path, text: &str) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut new = options.open(file)?;
    new.write_all(text.as_bytes())?;
    new.sync_all()
}

/// Runs `hermod import`.
pub(crate) fn import(server: &Server, given: &ArgMatches, form: Form) -> Result<(), Failure> {
    let file = given.get_one::<String>("file").map_or("-", String::as_str);
    let extent = if given.get_flag("dry-run") { Extent::DryRun } else { Extent::Whole };
    let how = How {
        skip_unsupported: given.get_flag("skip-unsupported"),
        vhost: given.get_one::<String>("vhost").cloned(),
        extent,
    };
    // What is typed on the terminal is not written over.
    let live = (file != "-").then(|| Live::doing("import"));
    let imported = read(server, file, how);
    drop(live);
    let imported = imported?;
    if form == Form::Json {
        return show_json(&imported);
    }
    let skipped = imported.skipped.iter().map(|line| format!("skipped: {}\n", escaped(line)));
    let notes = imported.notes.iter().map(|line| format!("note: {}\n", escaped(line)));
    let end = match extent {
        Extent::Whole => "taken over",
        Extent::DryRun => "would be taken over; nothing has changed",
    };
    show(&format!("{}{} definitions {end}\n", skipped.chain(notes).collect::<String>(), imported.taken))
}

/// How to import a document.
#[derive(Default)]
pub(crate) struct How {
    skip_unsupported: bool,
    vhost: Option<String>,
    extent: Extent,
}

/// Asks the server to import the document in `file`.
pub(crate) fn read(server: &Server, file: &str, how: How) -> Result<Imported, Failure> {
    let failed = |error: std::io::Error| Exit::NotFound.because(format!("{file}: {error}"));
    let mut document = String::new();
    let input: &mut dyn Read =
        if file == "-" { &mut std::io::stdin() } else { &mut std::fs::File::open(file).map_err(failed)? };
    input.take(LONGEST_DEFINITIONS + 1).read_to_string(&mut document).map_err(failed)?;
    if document.len() as u64 > LONGEST_DEFINITIONS {
        return Err(Exit::BadData.because(format!("{file} has more than {LONGEST_DEFINITIONS} bytes")));
    }
    let How { skip_unsupported, vhost, extent } = how;
    match ask(server, &Request::Import { document, skip_unsupported, vhost, extent })? {
        Answer::Imported(imported) => Ok(imported),
        Answer::NotChanged(refused) => Err(refusal(refused)),
        other => Err(strange(&other)),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn an_export_is_a_new_file_that_its_owner_alone_can_read() {
        let dir = tempfile::tempdir().unwrap();
        let [open, victim, link] = ["open.json", "victim", "link.json"].map(|name| dir.path().join(name));
        std::fs::write(&open, "old").unwrap();
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o644)).unwrap();
        let held = std::fs::File::open(&open).unwrap();
        private(&open, "new").unwrap();
        assert_eq!(std::fs::read_to_string(&open).unwrap(), "new");
        assert_eq!(open.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::io::read_to_string(held).unwrap(), "old", "who had opened the old one reads that");
        std::fs::write(&victim, "mine").unwrap();
        symlink(&victim, &link).unwrap();
        for (place, expected) in
            [(link.as_path(), "it is a link"), (dir.path(), "it is no file"), (Path::new("/dev/null"), "it is no file")]
        {
            let error = private(place, "new").unwrap_err().to_string();
            assert!(error.starts_with(expected), "{}: {error}", place.display());
        }
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "mine");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 3, "nothing is left over");
    }
}
