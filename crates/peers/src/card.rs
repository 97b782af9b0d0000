//! What a peer asks of its operator, as its recipe and its installation say: commands, lines of
//! configuration, room on the disk, and under which licence.

use serde::Serialize;

use super::directory::PeersDirectory;
use super::licence::Licence;
use super::recipe::{Recipe, Source, Wanted};
use super::source::install;
use bench_record::failure::Failure;

/// Beginnings of comments in files of configuration.
const COMMENTS: [&str; 6] = ["#", "//", "%", ";", "<!--", "*"];

/// What is known of a peer before it runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Card {
    /// All commands from a minimal system to a broker that takes connections, in short.
    pub commands: Vec<String>,
    /// Seconds that the package client took; none: it was not measured.
    pub install_seconds: Option<f64>,
    /// Installed size.
    pub bytes: u64,
    /// Its licence, where one was found.
    pub licence: Option<Licence>,
    /// What there is to set.
    pub settings: Settings,
}

/// What was set beyond the defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Settings {
    /// Lines in files.
    pub lines: usize,
    /// Variables of the environment.
    pub variables: usize,
    /// Options of commands.
    pub options: usize,
}

/// The card of the peer called `name`, which is installed if it is not.
pub fn of(name: &str) -> Result<Card, Failure> {
    let place = PeersDirectory::find(None)?;
    let wanted = Wanted::find(name, &place.recipes())?;
    let software = install(&place, &wanted)?;
    Ok(Card {
        commands: commands(&wanted.recipe),
        install_seconds: software.install_seconds,
        bytes: software.bytes,
        licence: software.licence,
        settings: settings(&wanted)?,
    })
}

fn commands(recipe: &Recipe) -> Vec<String> {
    let mut all = Vec::new();
    for source in &recipe.source {
        match source {
            Source::Debian { packages, .. } => all.push(format!("apt-get install {}", packages.join(" "))),
            Source::MavenArchive { .. } => all.extend(["download".to_owned(), "unpack".to_owned()]),
            Source::MavenJars { .. } => all.push("download jars".to_owned()),
            Source::Go { .. } => all.push("go install".to_owned()),
            Source::Program { program, .. } => all.push(format!("get {program}")),
        }
    }
    let orders = recipe.prepare.iter().map(|step| &step.command);
    all.extend(orders.chain(recipe.process.iter().map(|process| &process.command)).map(|words| in_short(words)));
    all
}

/// The program without its folder, and the verb that it was given.
fn in_short(words: &[String]) -> String {
    // A script is called by its own name.
    let mut words = words.iter().skip_while(|word| *word == "sh");
    let program = words.next().map_or("", |program| program.rsplit('/').next().unwrap_or_default());
    let is_verb = |word: &&String| !word.is_empty() && word.chars().all(|letter| letter.is_ascii_alphabetic());
    words.next().filter(is_verb).map_or_else(|| program.to_owned(), |verb| format!("{program} {verb}"))
}

fn settings(wanted: &Wanted) -> Result<Settings, Failure> {
    let (recipe, mut values) = (&wanted.recipe, wanted.values());
    // What a place or a port is called changes no count.
    for name in ["dir", "opt", "java", "name"].map(str::to_owned).into_iter().chain(ports(recipe)) {
        values.set(name, "x");
    }
    let mut found = Settings { lines: 0, variables: 0, options: 0 };
    for file in &recipe.file {
        found.lines += lines_that_count(&values.render(&file.text)?);
    }
    let steps = recipe.prepare.iter().map(|step| (&step.command, &step.env));
    for (command, env) in steps.chain(recipe.process.iter().map(|process| (&process.command, &process.env))) {
        found.variables += env.len();
        for word in command.iter().skip(1) {
            found.options += usize::from(values.render(word)?.starts_with('-'));
        }
    }
    Ok(found)
}

fn ports(recipe: &Recipe) -> impl Iterator<Item = String> {
    recipe.ports.iter().map(|port| format!("port.{port}"))
}

/// Lines of configuration that say something: neither empty nor a comment.
pub fn lines_that_count(text: &str) -> usize {
    let lines = text.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !COMMENTS.iter().any(|comment| line.starts_with(comment))).count()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn comments_do_not_count() {
        assert_eq!(lines_that_count("# a\n\nport = 1\n  // x\n<!-- y -->\n<a>\n"), 2);
    }

    /// Peers, what it takes to run them in short, and what is set: lines, variables, options.
    type Case = (&'static str, &'static [&'static str], [usize; 3]);

    const CASES: [Case; 7] = [
        ("hermod", &["get hermod", "hermod serve"], [0, 0, 13]),
        ("nats", &["go install", "nats-server"], [3, 0, 1]),
        ("nats/managed", &["go install", "nats-server"], [4, 0, 1]),
        ("rabbitmq", &["apt-get install rabbitmq-server", "epmd", "rabbitmq-server"], [5, 12, 2]),
        ("rabbitmq/managed", &["apt-get install rabbitmq-server", "epmd", "rabbitmq-server"], [9, 12, 2]),
        ("openmq", &["download", "unpack", "imqbrokerd"], [0, 0, 17]),
        ("artemis", &["download", "unpack", "artemis create", "sed", "artemis run"], [0, 2, 17]),
    ];

    #[test]
    fn what_a_recipe_asks_for_is_counted() {
        for (name, short, [lines, variables, options]) in CASES {
            let wanted = Wanted::find(name, Path::new("/nonexistent")).unwrap();
            assert_eq!(commands(&wanted.recipe), short, "{name}");
            assert_eq!(settings(&wanted).unwrap(), Settings { lines, variables, options }, "{name}");
        }
    }
}
