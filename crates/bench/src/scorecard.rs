//! How easy a broker is to run, as far as that can be measured: what it takes from nothing to the
//! first message, which protocols and endpoints answer, what it needs when it has nothing to do,
//! what it brings along. Speed is not the half of what a broker is chosen by.

mod endpoints;
mod first;
mod listening;
mod probe;
mod shipped;
mod table;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::thread::sleep;

use clap::Args;
use serde::Serialize;

use bench_record::failure::{Context, Failure};
use bench_record::output;
use bench_record::target::Target;
use endpoints::Endpoint;
use machine::process;
use peers::card::{self, Card, Settings};
use peers::licence::Licence;
use peers::{Guard, SETTLE};
use probe::Answer;

/// Options of `scorecard`.
#[derive(Debug, Args)]
pub(crate) struct ScorecardArgs {
    /// A peer, which is started for its card, or a broker with its processes:
    /// [NAME=]SCHEME://HOST:PORT,pid=PID. Repeat it to compare; each has the machine for itself
    #[arg(long = "target", value_name = "TARGET", required = true)]
    targets: Vec<String>,
    /// Where a target is installed: NAME=DIR
    #[arg(long = "dir", value_name = "NAME=DIR")]
    dirs: Vec<Named>,
    /// A file of configuration that was written for a target: NAME=FILE. Repeat it for several
    #[arg(long = "config", value_name = "NAME=FILE")]
    configs: Vec<Named>,
    /// Write the scores to this file, for programs
    #[arg(long)]
    json: Option<PathBuf>,
}

/// A path that belongs to a target.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Named {
    name: String,
    path: PathBuf,
}

impl std::str::FromStr for Named {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let (name, path) =
            text.split_once('=').ok_or_else(|| Failure::new(format!("{text}: say whose it is: NAME=PATH")))?;
        Ok(Self { name: name.to_owned(), path: path.into() })
    }
}

/// What was found out about one broker. What is absent could not be looked at, or was not measured.
#[derive(Debug, Default, Serialize)]
struct Score {
    target: String,
    version: Option<String>,
    /// Commands from nothing to a broker that takes a message.
    commands: Option<Vec<String>>,
    /// Seconds that its installation took.
    install_seconds: Option<f64>,
    first_message: Option<FirstMessage>,
    ports: Vec<u16>,
    protocols: Vec<Answer>,
    endpoints: Vec<Endpoint>,
    #[serde(flatten)]
    size: Size,
    /// Documents for people.
    documents: Option<usize>,
    licence: Option<Licence>,
    /// True when a licence was looked for.
    licence_looked_for: bool,
    /// What was set beyond the defaults.
    settings: Option<Settings>,
}

/// How much of a machine a broker takes.
#[derive(Debug, Default, Serialize)]
struct Size {
    /// Resident memory of all its processes while nothing is asked of them.
    resident_bytes: Option<u64>,
    processes: Option<u64>,
    installed_bytes: Option<u64>,
    files: Option<u64>,
}

/// The first message, published and received.
#[derive(Debug, Serialize)]
struct FirstMessage {
    /// From the start of the first process.
    seconds: f64,
    /// The protocol that it went through.
    scheme: String,
}

/// Looks at each target, one after the other, and shows the scores beside each other.
pub(crate) fn run(args: &ScorecardArgs) -> Result<(), Failure> {
    let names = args.targets.iter().map(|text| peers::label(text)).collect::<Result<BTreeSet<String>, Failure>>()?;
    if let Some(stray) = args.dirs.iter().chain(&args.configs).find(|named| !names.contains(&named.name)) {
        return Err(Failure::new(format!("{}={}: there is no such target", stray.name, stray.path.display())));
    }
    let scores = args.targets.iter().map(|text| score(text, args)).collect::<Result<Vec<Score>, Failure>>()?;
    output::report(&table::render(&scores), args.json.as_deref(), &scores)
}

fn score(text: &str, args: &ScorecardArgs) -> Result<Score, Failure> {
    // A peer that is started for it ends with the guard.
    let (target, guard) = peers::resolve_one(text, &first::SCHEMES)?;
    if target.pids.is_empty() {
        return Err(Failure::new(format!("{}: its ports are found by its processes: add ,pid=PID", target.name)));
    }
    let first_message = first_message(&target, &guard)?;
    if guard.started_it() {
        sleep(SETTLE);
    }
    let usage = process::usage(&target.pids);
    let addresses = listening::addresses(&target.pids);
    let mut score = Score {
        target: target.name.clone(),
        version: target.software.version.clone(),
        first_message,
        ports: addresses.iter().map(|address| address.port()).collect(),
        protocols: addresses.iter().flat_map(|address| probe::protocols(*address)).collect(),
        endpoints: addresses.iter().flat_map(|address| endpoints::at(*address)).collect(),
        size: Size {
            resident_bytes: usage.map(|usage| usage.resident),
            processes: usage.map(|usage| usage.processes),
            ..Size::default()
        },
        ..Score::default()
    };
    if let Some(peer) = &target.software.peer {
        score.take_card(card::of(peer)?);
    }
    score.take_given(args)?;
    Ok(score)
}

/// Sends the first message, if the broker was started just now and this program speaks its
/// protocol.
fn first_message(target: &Target, guard: &Guard) -> Result<Option<FirstMessage>, Failure> {
    if !guard.started_it() || !first::SCHEMES.contains(&target.scheme.as_str()) {
        return Ok(None);
    }
    first::message(target)?;
    Ok(guard.seconds_since_start()?.map(|seconds| FirstMessage { seconds, scheme: target.scheme.clone() }))
}

impl Score {
    fn take_card(&mut self, card: Card) {
        self.commands = Some(card.commands);
        self.install_seconds = card.install_seconds;
        self.size.installed_bytes = Some(card.bytes);
        self.licence = card.licence;
        self.licence_looked_for = true;
        self.settings = Some(card.settings);
    }

    /// What the command line says of the target counts before what is known of it.
    fn take_given(&mut self, args: &ScorecardArgs) -> Result<(), Failure> {
        if let Some(dir) = args.dirs.iter().find(|named| named.name == self.target) {
            let found = shipped::look(&dir.path)?;
            (self.size.installed_bytes, self.licence, self.licence_looked_for) =
                (Some(found.bytes), found.licence, true);
            (self.size.files, self.documents) = (Some(found.files), Some(found.documents));
        }
        let mut lines = None;
        for config in args.configs.iter().filter(|named| named.name == self.target) {
            let text = fs::read_to_string(&config.path).context(config.path.display())?;
            *lines.get_or_insert(0) += card::lines_that_count(&text);
        }
        self.settings = lines.map(|lines| Settings { lines, variables: 0, options: 0 }).or(self.settings);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Programs that read scores find each field at the top, in this order.
    #[test]
    fn the_size_of_a_broker_is_written_beside_its_name() {
        let size = Size { resident_bytes: Some(1), processes: Some(2), installed_bytes: Some(3), files: Some(4) };
        let text = serde_json::to_string(&Score { size, ..Score::default() }).unwrap();
        let expected = r#""resident_bytes":1,"processes":2,"installed_bytes":3,"files":4,"documents":null"#;
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn strangers_are_refused() {
        assert_eq!("a=/b=c".parse::<Named>().unwrap(), Named { name: "a".to_owned(), path: "/b=c".into() });
        assert!("/b".parse::<Named>().is_err());
    }

    #[test]
    fn what_the_command_line_says_counts_before_the_recipe() {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("conf");
        fs::write(&config, "# none\na = 1\n").unwrap();
        let given = |path: &std::path::Path| vec![Named { name: "own".to_owned(), path: path.to_owned() }];
        let mut args = ScorecardArgs { targets: Vec::new(), dirs: Vec::new(), configs: Vec::new(), json: None };
        let card = Card {
            commands: vec!["get own".to_owned()],
            install_seconds: None,
            bytes: 7,
            licence: None,
            settings: Settings { lines: 5, variables: 1, options: 2 },
        };
        let score = |args: &ScorecardArgs| {
            let mut score = Score { target: "own".to_owned(), ..Score::default() };
            score.take_card(card.clone());
            score.take_given(args).unwrap();
            (score.size.installed_bytes, score.size.files, score.settings)
        };
        assert_eq!(score(&args), (Some(7), None, Some(card.settings)));
        (args.dirs, args.configs) = (given(dir.path()), given(&config));
        let settings = Settings { lines: 1, variables: 0, options: 0 };
        assert_eq!(score(&args), (Some(13), Some(1), Some(settings)));
    }
}
