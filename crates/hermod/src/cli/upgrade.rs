//! `hermod upgrade check`: what this version would make of a data directory. It is read as a start
//! reads it, and not changed. So the program of the new version tells it before the old one stops:
//! of a backup, since a running broker has its own directory to itself.

use std::path::{Path, PathBuf};

use clap::{Arg, ArgMatches, Command};
use serde::Serialize;

use crate::cli::counted;
use crate::cli::output::{Form, show, show_json};
use crate::cli::verify;
use crate::config::Settings;
use crate::data_dir;
use crate::exit::{Exit, Failure};

/// The answer as JSON.
#[derive(Serialize)]
struct Report {
    directory: String,
    version: &'static str,
    /// Whether this version starts with the directory, and serves all that is in it.
    opens: bool,
    /// The format that it was last written in.
    format: u16,
    /// The format that the first start raises it to.
    raised_to: Option<u16>,
    queues: usize,
    messages: u64,
    /// What is in the way, in words.
    problem: Option<String>,
}

/// The arguments of the verb.
pub(crate) fn command(command: Command) -> Command {
    let check = Command::new("check").about("Read a data directory as this version would, and change nothing").arg(
        Arg::new("directory")
            .value_name("DIR")
            .value_parser(clap::value_parser!(PathBuf))
            .help("The data directory of a stopped broker, or a backup [default: the setting data_dir]"),
    );
    command.subcommand_required(true).subcommand(check)
}

/// Reads the directory, and prints what an upgrade would do. Fails if it would not work.
pub(crate) fn run(settings: &Settings, arguments: &ArgMatches, form: Form) -> Result<(), Failure> {
    let named = arguments.subcommand().and_then(|(_, check)| check.get_one::<PathBuf>("directory").cloned());
    let directory = named.map_or_else(|| data_dir::data_dir(settings), Ok)?;
    let report = read(&directory).map_err(|failure| match failure.exit {
        Exit::TryAgain => Failure { text: format!("{}; stop it, or check a backup of it", failure.text), ..failure },
        _ => failure,
    })?;
    match form {
        Form::Json => show_json(&report)?,
        Form::Text => show(&text(&report))?,
    }
    match report.problem {
        None => Ok(()),
        Some(problem) => Err(Exit::BadData.because(format!("{}: {problem}; do not upgrade yet", report.directory))),
    }
}

fn read(directory: &Path) -> Result<Report, Failure> {
    let found = verify::open(directory)?;
    let problem = match (&found.facts, found.is_whole()) {
        (Some(facts), _) => Some(facts.clone()),
        (None, false) => Some("it is damaged: hermod verify says where".to_owned()),
        (None, true) => None,
    };
    let format = format_of(directory)?;
    Ok(Report {
        directory: directory.display().to_string(),
        version: env!("CARGO_PKG_VERSION"),
        opens: problem.is_none(),
        format,
        raised_to: (format < journal::FORMAT).then_some(journal::FORMAT),
        queues: found.queues.len(),
        messages: found.queues.iter().map(|queue| queue.entries - queue.lost).sum(),
        problem,
    })
}

/// The format that the directory was last written in. Its marker has been found good before.
fn format_of(directory: &Path) -> Result<u16, Failure> {
    let path = directory.join("FORMAT");
    let marker = std::fs::read_to_string(&path)
        .map_err(|error| Exit::Io.because(format!("{}: cannot be read: {error}", path.display())))?;
    let format = marker.lines().find_map(|line| line.strip_prefix("format ")?.parse().ok());
    format.ok_or_else(|| Exit::BadData.because(format!("{}: it names no format", path.display())))
}

fn text(report: &Report) -> String {
    let Report { directory, version, format, .. } = report;
    let holds = format!(
        "{} with {}",
        counted(report.queues as u64, ["queue", "queues"]),
        counted(report.messages, ["message", "messages"])
    );
    let first = match &report.problem {
        None => format!("{directory}: Hermod {version} opens it: {holds}"),
        Some(problem) => format!("{directory}: Hermod {version} would not serve all of it: {problem}"),
    };
    let change = match report.raised_to {
        None => format!("format {format}, which this version writes: nothing is converted"),
        Some(new) => format!(
            "format {format}: the first start raises it to {new}. No file is rewritten; the log goes on in the new \
             format, and a version that does not read it cannot open the directory any more"
        ),
    };
    format!("{first}\n{change}\n")
}
