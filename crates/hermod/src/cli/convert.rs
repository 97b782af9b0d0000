//! `hermod config convert`: the configuration of another broker as settings and definitions.
//!
//! The report goes to standard output, and never has a value. Files are written only where asked
//! for, readable by their owner alone, because they have passwords.

use std::fmt::Write as _;
use std::io::Read;
use std::path::{Path, PathBuf};

use auth::shown::escaped;
use clap::{Arg, ArgMatches, Command};
use moving::{MOST_BYTES, Outcome, Source, Sources, Verdict};
use serde_json::json;

use crate::cli::definitions::private;
use crate::cli::output::{Form, show, show_json};
use crate::config::Config;
use crate::exit::{Exit, Failure};

const SETTINGS: &str = "hermod.toml";
const DEFINITIONS: &str = "definitions.json";

/// The arguments.
pub(crate) fn command(command: Command) -> Command {
    let path = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).value_parser(clap::value_parser!(PathBuf)).help(help)
    };
    command
        .about("Make settings of a configuration of RabbitMQ, Artemis or ActiveMQ, and report on each line")
        .arg(
            Arg::new("files")
                .value_name("FILE")
                .required(true)
                .num_args(1..)
                .value_parser(clap::value_parser!(PathBuf))
                .help("rabbitmq.conf, rabbitmq.config, advanced.config, rabbitmq-env.conf, broker.xml or activemq.xml"),
        )
        .arg(path("users", "FILE", "Users and passwords of Artemis or ActiveMQ, as artemis-users.properties"))
        .arg(path("roles", "FILE", "Their roles or groups, as artemis-roles.properties"))
        .arg(path("output", "DIR", "Write hermod.toml, and definitions.json if needed, to this directory"))
}

/// Runs it.
pub(crate) fn run(given: &ArgMatches) -> Result<(), Failure> {
    let files = given.get_many::<PathBuf>("files").into_iter().flatten();
    let files = files.map(|file| read(file)).collect::<Result<Vec<_>, _>>()?;
    let optional = |name: &str| given.get_one::<PathBuf>(name).map(|file| read(file)).transpose();
    let (users, roles) = (optional("users")?, optional("roles")?);
    let check = |setting: &str, value: &str| Config::check_value(setting, value).map_err(|error| error.to_string());
    let sources = Sources { files: &files, users: users.as_ref(), roles: roles.as_ref() };
    let outcome =
        moving::convert(sources, &check).map_err(|refusal| Exit::Config.because(escaped(&refusal.to_string())))?;
    let output = given.get_one::<PathBuf>("output").map(PathBuf::as_path);
    let definitions = output.unwrap_or(Path::new("")).join(DEFINITIONS);
    let definitions = std::path::absolute(&definitions).unwrap_or(definitions);
    let toml = outcome.toml(&definitions.display().to_string());
    // Each setting was checked alone; this is about all of them together.
    Config::check_text(SETTINGS, &toml).map_err(|error| {
        Exit::Config.because(format!("nothing was written: the settings contradict each other: {error}"))
    })?;
    if let Some(directory) = output {
        write(directory, &toml, &outcome)?;
    }
    if Form::of(given) == Form::Json {
        return show_json(&document(&outcome));
    }
    let mut text = moving::report(&outcome);
    match output {
        Some(directory) => {
            let _ = writeln!(
                text,
                "Written to {}; look at it by: hermod config --config {}",
                directory.display(),
                directory.join(SETTINGS).display()
            );
        }
        None => text.push_str("Nothing was written; --output DIR writes it.\n"),
    }
    show(&text.lines().map(|line| escaped(line) + "\n").collect::<String>())
}

/// Reads a file. Its size is looked at first.
fn read(path: &Path) -> Result<Source, Failure> {
    let name = path.display().to_string();
    let failed = |error: std::io::Error| {
        let exit = if error.kind() == std::io::ErrorKind::NotFound { Exit::NotFound } else { Exit::System };
        exit.because(format!("cannot read {}: {error}", escaped(&name)))
    };
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    Source::new(&name, &bytes).map_err(|refusal| Exit::Config.because(escaped(&refusal.to_string())))
}

/// Writes the new files. What is there stays.
fn write(directory: &Path, toml: &str, outcome: &Outcome<'_>) -> Result<(), Failure> {
    let failed =
        |path: &Path, error: std::io::Error| Exit::CannotCreate.because(format!("{}: {error}", path.display()));
    std::fs::create_dir_all(directory).map_err(|error| failed(directory, error))?;
    let definitions = outcome.definitions();
    let files = [(SETTINGS, Some(toml)), (DEFINITIONS, definitions.as_deref())];
    for (name, _) in files.iter().filter(|(_, text)| text.is_some()) {
        let path = directory.join(name);
        if path.symlink_metadata().is_ok() {
            return Err(
                Exit::CannotCreate.because(format!("{} is there already; name another directory", path.display()))
            );
        }
    }
    for (name, text) in files {
        if let Some(text) = text {
            let path = directory.join(name);
            private(&path, text).map_err(|error| failed(&path, error))?;
        }
    }
    Ok(())
}

fn document(outcome: &Outcome<'_>) -> serde_json::Value {
    let items: Vec<_> = outcome
        .items()
        .iter()
        .map(|item| {
            json!({
                "file": item.file, "line": item.line, "name": item.name, "verdict": verdict(item.verdict), "text": item.text,
            })
        })
        .collect();
    json!({ "warnings": outcome.warnings(), "items": items })
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Moved => "moved",
        Verdict::Needless => "needless",
        Verdict::Shipped => "shipped",
        Verdict::LeftOut => "left_out",
        Verdict::NotBuilt => "not_built",
        Verdict::Unknown => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CASES: [&str; 3] = [
        include_str!("../../../moving/tests/cases/rabbitmq.txt"),
        include_str!("../../../moving/tests/cases/artemis.txt"),
        include_str!("../../../moving/tests/cases/activemq.txt"),
    ];

    /// The names and values that the converter knows are those of the table of settings.
    #[test]
    fn what_comes_of_each_case_is_taken_as_a_whole() {
        let check = |setting: &str, value: &str| Config::check_value(setting, value).map_err(|error| error.to_string());
        let (mut converted, mut wrong) = (0, Vec::new());
        for case in CASES.iter().flat_map(|text| text.split("=== ").skip(1)) {
            let (title, rest) = case.split_once('\n').unwrap();
            let (input, _) = rest.split_once("\n---\n").unwrap();
            let file = Source::new("file", input.as_bytes()).unwrap();
            let sources = Sources { files: &[file], users: None, roles: None };
            let Ok(outcome) = moving::convert(sources, &check) else { continue };
            converted += 1;
            if let Err(error) = Config::check_text("hermod.toml", &outcome.toml("/definitions.json")) {
                wrong.push(format!("{title}: {error}\n{}", outcome.toml("/definitions.json")));
            }
            // A password may have no line end.
            let refused = outcome.items().iter().filter(|item| item.text.contains("does not take this value"));
            let refused = refused.filter(|item| item.name != "default_pass");
            wrong.extend(refused.map(|item| format!("{title}: {}: {}", item.name, item.text)));
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(converted > 90, "{converted}");
    }

    #[test]
    fn a_value_is_judged_alone() {
        assert!(Config::check_value("limits.heartbeat", "30 s").is_ok());
        assert!(Config::check_value("limits.heartbeat", "soon").is_err());
        assert!(Config::check_value("limits.heartbeet", "30 s").is_err());
        // It needs others, which is no matter of this value.
        assert!(Config::check_value("auth_backends", "oauth2").is_ok());
    }
}
