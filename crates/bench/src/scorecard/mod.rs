//! How easy a broker is to run, as far as that can be measured: which protocols and endpoints answer, what it needs when it
//! has nothing to do, what it brings along. Speed is not the half of what a broker is chosen by.

mod endpoints;
mod listening;
mod probe;
mod shipped;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use crate::failure::{Context, Failure};
use crate::machine::process;
use crate::report::output;
use crate::report::table::{aligned, number};
use crate::target::Target;
use endpoints::{Endpoint, Purpose};
use probe::Answer;
use shipped::Shipped;

/// Options of `scorecard`.
#[derive(Debug, Args)]
pub(crate) struct ScorecardArgs {
    /// A broker with its processes: [NAME=]SCHEME://HOST:PORT,pid=PID. Repeat it to compare
    #[arg(long = "target", value_name = "TARGET", required = true)]
    targets: Vec<Target>,
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

/// What was found out about one broker. What is absent could not be looked at.
#[derive(Debug, Serialize)]
struct Score {
    target: String,
    ports: Vec<u16>,
    protocols: Vec<Answer>,
    endpoints: Vec<Endpoint>,
    resident_bytes: Option<u64>,
    processes: Option<u64>,
    shipped: Option<Shipped>,
    config_lines: Option<usize>,
}

/// Looks at each target and shows the scores beside each other.
pub(crate) fn run(args: &ScorecardArgs) -> Result<(), Failure> {
    let names: BTreeSet<&str> = args.targets.iter().map(|target| target.name.as_str()).collect();
    if let Some(stray) = args.dirs.iter().chain(&args.configs).find(|named| !names.contains(named.name.as_str())) {
        return Err(Failure::new(format!("{}={}: there is no such target", stray.name, stray.path.display())));
    }
    let scores = args.targets.iter().map(|target| score(target, args)).collect::<Result<Vec<Score>, Failure>>()?;
    output::report(&render(&scores), args.json.as_deref(), &scores)
}

fn score(target: &Target, args: &ScorecardArgs) -> Result<Score, Failure> {
    if target.pids.is_empty() {
        return Err(Failure::new(format!("{}: its ports are found by its processes: add ,pid=PID", target.name)));
    }
    let usage = process::usage(&target.pids);
    let addresses = listening::addresses(&target.pids);
    let dir = args.dirs.iter().find(|named| named.name == target.name);
    let mut config_lines = None;
    for config in args.configs.iter().filter(|named| named.name == target.name) {
        let text = fs::read_to_string(&config.path).context(config.path.display())?;
        *config_lines.get_or_insert(0) += shipped::lines_that_count(&text);
    }
    Ok(Score {
        target: target.name.clone(),
        ports: addresses.iter().map(|address| address.port()).collect(),
        protocols: addresses.iter().flat_map(|address| probe::protocols(*address)).collect(),
        endpoints: addresses.iter().flat_map(|address| endpoints::at(*address)).collect(),
        resident_bytes: usage.map(|usage| usage.resident),
        processes: usage.map(|usage| usage.processes),
        shipped: dir.map(|named| shipped::look(&named.path)).transpose()?,
        config_lines,
    })
}

/// A line of the card: what it is about, and how it reads for one score.
type Line = (&'static str, fn(&Score) -> String);

const LINES: [Line; 10] = [
    ("protocols that answer", |score| listed(score.protocols.iter().map(|a| format!("{} :{}", a.protocol, a.port)))),
    ("management", |score| offered(score, &[Purpose::Page, Purpose::Api])),
    ("metrics", |score| offered(score, &[Purpose::Metrics])),
    ("health", |score| offered(score, &[Purpose::Health])),
    ("ports", |score| listed(score.ports.iter().map(u16::to_string))),
    ("resident MiB", |score| score.resident_bytes.map_or_else(unknown, mebibytes)),
    ("processes", |score| score.processes.map_or_else(unknown, |count| count.to_string())),
    ("installed MiB, files", |score| {
        score.shipped.as_ref().map_or_else(unknown, |found| format!("{}, {}", mebibytes(found.bytes), found.files))
    }),
    ("licence, documents", |score| {
        score.shipped.as_ref().map_or_else(unknown, |found| {
            format!("{}, {}", found.licence.as_deref().unwrap_or("none found"), found.documents)
        })
    }),
    ("lines of configuration", |score| score.config_lines.map_or_else(unknown, |lines| lines.to_string())),
];

fn unknown() -> String {
    "-".to_owned()
}

fn mebibytes(bytes: u64) -> String {
    number(bytes as f64 / 1_048_576.0, 1)
}

fn listed(parts: impl Iterator<Item = String>) -> String {
    let all: Vec<String> = parts.collect();
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}

fn offered(score: &Score, purposes: &[Purpose]) -> String {
    let wanted = score.endpoints.iter().filter(|endpoint| purposes.contains(&endpoint.purpose));
    listed(wanted.map(|found| {
        let locked = if matches!(found.status, 401 | 403) { " (log-in)" } else { "" };
        format!(":{}{}{locked}", found.port, found.path)
    }))
}

/// A block for each target: its answers are too long for columns.
fn render(scores: &[Score]) -> String {
    let blocks: Vec<String> = scores
        .iter()
        .map(|score| {
            let rows: Vec<Vec<String>> =
                LINES.iter().map(|(about, read)| vec![format!("  {about}"), read(score)]).collect();
            format!("{}\n{}", score.target, left(&rows))
        })
        .collect();
    blocks.join("\n")
}

/// Two columns, both to the left.
fn left(rows: &[Vec<String>]) -> String {
    let names: Vec<Vec<String>> = rows.iter().map(|row| vec![row[0].clone()]).collect();
    aligned(&names).lines().zip(rows).map(|(name, row)| format!("{name}  {}\n", row[1])).collect()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn a_broker_of_our_own_gets_its_card() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        // Greets everybody as NATS does; the other handshakes don't take that for an answer.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let _ = stream.write_all(b"INFO {}\r\n");
                let _ = stream.read(&mut [0; 512]);
            }
        });
        let found = probe::protocols(address);
        assert_eq!(found.iter().map(|answer| answer.protocol).collect::<Vec<_>>(), ["NATS"]);
        let score = Score {
            target: "own".to_owned(),
            ports: vec![address.port()],
            protocols: found,
            endpoints: vec![Endpoint { purpose: Purpose::Api, port: 1, path: "/api/overview", status: 401 }],
            resident_bytes: Some(5 << 20),
            processes: Some(1),
            shipped: None,
            config_lines: Some(3),
        };
        let text = render(&[score]);
        for part in ["own\n", "NATS :", ":1/api/overview (log-in)", "metrics                 none", "5.0"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn strangers_are_refused() {
        assert_eq!("a=/b=c".parse::<Named>().unwrap(), Named { name: "a".to_owned(), path: "/b=c".into() });
        assert!("/b".parse::<Named>().is_err());
    }
}
