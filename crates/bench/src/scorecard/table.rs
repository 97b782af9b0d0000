//! The scores as one table: a line for each measure, a column for each broker. What has several
//! answers goes on below itself.

use super::Score;
use super::endpoints::Purpose;
use bench_report::table::number;

/// A measure: what it is about, and its answers for one score.
type Measure = (&'static str, fn(&Score) -> Vec<String>);

/// Ports that stand beside each other.
const PORTS_IN_A_LINE: usize = 3;

const MEASURES: [Measure; 16] = [
    ("", |score| vec![score.target.clone()]),
    ("version", |score| vec![score.version.clone().unwrap_or_else(unknown)]),
    ("commands to a first message", |score| {
        vec![score.commands.as_ref().map_or_else(unknown, |all| all.len().to_string())]
    }),
    ("install, s", |score| vec![score.install_seconds.map_or_else(unmeasured, |seconds| number(seconds, 1))]),
    ("start to first message, s", |score| {
        let first = score.first_message.as_ref();
        vec![first.map_or_else(unmeasured, |first| format!("{} by {}", number(first.seconds, 2), first.scheme))]
    }),
    ("idle memory, MiB", |score| vec![score.size.resident_bytes.map_or_else(unknown, mebibytes)]),
    ("processes", |score| vec![score.size.processes.map_or_else(unknown, |count| count.to_string())]),
    ("installed, MiB", |score| vec![score.size.installed_bytes.map_or_else(unknown, mebibytes)]),
    ("files, documents", |score| {
        let both = score.size.files.zip(score.documents);
        vec![both.map_or_else(unknown, |(files, documents)| format!("{files}, {documents}"))]
    }),
    ("licence", |score| match &score.licence {
        Some(licence) => vec![licence.to_string()],
        None if score.licence_looked_for => vec!["none beside it".to_owned()],
        None => vec![unknown()],
    }),
    ("set beyond defaults", settings),
    ("protocols that answer", |score| {
        listed(score.protocols.iter().map(|answer| format!("{} :{}", answer.protocol, answer.port)))
    }),
    ("ports", |score| {
        let ports: Vec<String> = score.ports.iter().map(u16::to_string).collect();
        listed(ports.chunks(PORTS_IN_A_LINE).map(|some| some.join(", ")))
    }),
    ("management", |score| offered(score, &[Purpose::Page, Purpose::Api])),
    ("metrics", |score| offered(score, &[Purpose::Metrics])),
    ("health", |score| offered(score, &[Purpose::Health])),
];

fn unknown() -> String {
    "-".to_owned()
}

fn unmeasured() -> String {
    "not measured".to_owned()
}

fn mebibytes(bytes: u64) -> String {
    number(bytes as f64 / 1_048_576.0, 1)
}

fn settings(score: &Score) -> Vec<String> {
    let Some(found) = score.settings else { return vec![unknown()] };
    let counts = [(found.lines, "line"), (found.variables, "variable"), (found.options, "option")];
    let set = counts.iter().filter(|(count, _)| *count > 0);
    listed(set.map(|(count, what)| format!("{count} {what}{}", if *count == 1 { "" } else { "s" })))
}

fn listed(parts: impl Iterator<Item = String>) -> Vec<String> {
    let all: Vec<String> = parts.collect();
    if all.is_empty() { vec!["none".to_owned()] } else { all }
}

fn offered(score: &Score, purposes: &[Purpose]) -> Vec<String> {
    let wanted = score.endpoints.iter().filter(|endpoint| purposes.contains(&endpoint.purpose));
    listed(wanted.map(|found| {
        let locked = if matches!(found.status, 401 | 403) { " (log-in)" } else { "" };
        format!(":{}{}{locked}", found.port, found.path)
    }))
}

/// The table as text.
pub(super) fn render(scores: &[Score]) -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (about, read) in &MEASURES {
        let cells: Vec<Vec<String>> = scores.iter().map(read).collect();
        for line in 0..cells.iter().map(Vec::len).max().unwrap_or(0) {
            let about = if line == 0 { *about } else { "" };
            let answers = cells.iter().map(|cell| cell.get(line).cloned().unwrap_or_default());
            rows.push(std::iter::once(about.to_owned()).chain(answers).collect());
        }
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..=scores.len()).map(width).collect();
    let text = rows.iter().map(|row| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    });
    text.collect()
}

#[cfg(test)]
mod tests {
    use super::super::endpoints::{Endpoint, Purpose};
    use super::super::{FirstMessage, Size, probe};
    use super::*;
    use peers::card::Settings;
    use std::io::{Read, Write};

    #[test]
    fn scores_stand_beside_each_other_and_what_is_unknown_says_so() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        // Greets every client as NATS does; the other handshakes don't take that for an answer.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let _ = stream.write_all(b"INFO {}\r\n");
                let _ = stream.read(&mut [0; 512]);
            }
        });
        let endpoint = |path| Endpoint { purpose: Purpose::Api, port: 1, path, status: 401 };
        let own = Score {
            target: "own".to_owned(),
            commands: Some(vec!["get own".to_owned(), "own".to_owned()]),
            first_message: Some(FirstMessage { seconds: 1.234, scheme: "nats".to_owned() }),
            ports: vec![1, 2, 3, 4],
            protocols: probe::protocols(address),
            endpoints: vec![endpoint("/api/overview"), endpoint("/varz")],
            size: Size { resident_bytes: Some(5 << 20), ..Size::default() },
            licence_looked_for: true,
            settings: Some(Settings { lines: 3, variables: 0, options: 1 }),
            ..Score::default()
        };
        let text = render(&[own, Score { target: "other".to_owned(), ..Score::default() }]);
        let squeezed: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        let expected = [
            "own other",
            "version - -",
            "commands to a first message 2 -",
            "install, s not measured not measured",
            "start to first message, s 1.23 by nats not measured",
            "idle memory, MiB 5.0 -",
            "processes - -",
            "installed, MiB - -",
            "files, documents - -",
            "licence none beside it -",
            "set beyond defaults 3 lines -",
            "1 option",
            &format!("protocols that answer NATS :{} none", address.port()),
            "ports 1, 2, 3 none",
            "4",
            "management :1/api/overview (log-in) none",
            ":1/varz (log-in)",
            "metrics none none",
            "health none none",
        ];
        assert_eq!(squeezed, expected, "{text}");
    }
}
