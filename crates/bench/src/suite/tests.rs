//! The studies that come with the program are complete and can be loaded; a file with a mistake is
//! refused by its place.

use std::time::Duration;

use clap::Parser;

use super::cells::Sizing;
use super::choice::Choice;
use super::study::{ClientKind, EMBEDDED, RowKind, Study};
use crate::cli::{Cli, Verb};
use crate::simulate::behaviour::{Behaviour, Delay};
use crate::simulate::local;
use bench_record::durability::Durability;
use bench_record::scenario::{Mode, QueueKind};
use bench_record::slice::SliceRecord;
use bench_record::suite::{Audited, CellOutcome, ClaimVerdict, Profile, Report};

const BOTH: [Profile; 2] = [Profile::Faithful, Profile::Fair];

fn sizing(scale: f64) -> Sizing {
    Sizing { scale, cap: Some(4.0), least: Some(1.0) }
}

fn study(name: &str) -> Study {
    Study::find(name).unwrap_or_else(|failure| panic!("{failure}"))
}

#[test]
fn every_row_and_every_published_figure_is_there() {
    // rows, published figures, single runs, platforms
    let expected = [
        ("kth2016", 9, 18, 180, 3),
        ("dynabyte2018", 8, 28, 0, 5),
        ("mostlyuseless2007", 10, 13, 0, 1),
        ("osu2008", 7, 6, 0, 1),
        ("crimson2003", 27, 50, 0, 2),
    ];
    assert_eq!(EMBEDDED.map(|(name, _)| name), expected.map(|(name, ..)| name));
    for (name, rows, figures, runs, platforms) in expected {
        let study = study(name);
        let published: Vec<_> = study.rows.iter().flat_map(|row| &row.published).collect();
        let singles: usize = published.iter().map(|one| one.runs.len()).sum();
        assert_eq!((study.rows.len(), published.len(), singles), (rows, figures, runs), "{name}");
        assert_eq!(study.platforms.len(), platforms, "{name}");
        assert!(study.id == name && !study.claims.is_empty() && !study.figures.is_empty(), "{name}");
    }
}

#[test]
fn the_means_of_single_runs_are_those_that_were_printed() {
    let kth = study("kth2016");
    let mean = |row: &str, platform: &str| {
        let row = kth.row(row).unwrap();
        row.published.iter().find(|one| one.platform == platform).and_then(|one| one.mean()).unwrap()
    };
    let printed = [
        ("RabbitMQ", [297.9, 232.7, 165.1, 293.8, 244.2, 197.7]),
        ("ActiveMQ", [55.9, 54.4, 47.7, 453.9, 336.3, 261.8]),
        ("Artemis", [63.5, 63.2, 54.9, 526.2, 553.1, 464.0]),
    ];
    for (platform, means) in printed {
        for (row, printed) in ["K1", "K2", "K3", "K4", "K5", "K6"].iter().zip(means) {
            // Single runs are whole numbers, and means were printed with one digit.
            let ours = mean(row, platform);
            assert!((ours - printed).abs() < 0.11, "{platform} {row}: {ours}, printed {printed}");
        }
    }
}

#[test]
fn every_cell_of_every_study_is_a_load_that_can_be_run() {
    for (name, _) in EMBEDDED {
        let study = study(name);
        for cell in study.cells(&BOTH, &Choice::default()) {
            if matches!(cell.row.kind, RowKind::Absent(_)) {
                continue;
            }
            for client in [None, Some(ClientKind::Amqp), Some(ClientKind::Stomp), Some(ClientKind::Jms)] {
                for scale in [1.0, 0.01] {
                    let sized = study.load(&cell, client, &sizing(scale));
                    let sized = sized.unwrap_or_else(|failure| panic!("{name} {}: {failure}", cell.label()));
                    let relay = sized.scenario.for_relay().check();
                    relay.unwrap_or_else(|failure| panic!("{name} {} of a relay: {failure}", cell.label()));
                }
            }
        }
    }
}

#[test]
fn profiles_and_clients_change_what_the_study_did_differently() {
    let kth = study("kth2016");
    let load = |row: &str, profile: Profile, client: ClientKind| {
        let cells = kth.cells(&[profile], &row.parse().unwrap());
        kth.load(&cells[0], Some(client), &sizing(1.0)).unwrap().scenario
    };
    use ClientKind::{Amqp, Jms};
    use Profile::{Fair, Faithful};
    assert_eq!((load("K1", Faithful, Amqp).clients.window, load("K1", Fair, Amqp).clients.window), (0, 1));
    assert_eq!((load("K1", Faithful, Jms).clients.window, load("K1", Faithful, Jms).message.priority), (1, Some(9)));
    assert!(load("K1", Faithful, Jms).clients.bystander && !load("K1", Faithful, Amqp).clients.bystander);
    let polled = load("K5", Faithful, Amqp);
    assert!(
        polled.clients.poll && polled.clients.drain && polled.clients.ack_every == 0 && polled.message.tail.is_some()
    );
    let pushed = load("K5", Fair, Amqp);
    assert!(!pushed.clients.poll && pushed.clients.ack_every == 1 && pushed.message.tail.is_none());
    assert!(kth.cells(&[Faithful], &"K1w".parse().unwrap()).is_empty());
}

#[test]
fn counts_are_scaled_down_to_their_floors_and_said_to_be() {
    let (osu, dynabyte) = (study("osu2008"), study("dynabyte2018"));
    let scaled = |study: &Study, row: &str, at: usize, scale: f64| {
        let cells = study.cells(&[Profile::Fair], &row.parse().unwrap());
        let sized = study.load(&cells[at], None, &sizing(scale)).unwrap();
        (sized.scenario.length.messages.unwrap(), sized.scaled)
    };
    assert_eq!(scaled(&dynabyte, "D3", 0, 1.0), (1_000_000, None));
    assert_eq!(scaled(&dynabyte, "D3", 0, 0.05), (50_000, Some("50000 messages instead of 1000000".to_owned())));
    assert_eq!(scaled(&dynabyte, "D1", 0, 1e-6).0, 400);
    assert_eq!(
        (scaled(&osu, "O1", 0, 0.01).0, scaled(&osu, "O1", 10, 0.01).0, scaled(&osu, "O1", 10, 1.0).0),
        (2000, 100, 1000)
    );
}

#[test]
fn destinations_get_the_queues_that_they_need() {
    let crimson = study("crimson2003");
    let queue = |row: &str| {
        let cells = crimson.cells(&[Profile::Fair], &row.parse().unwrap());
        crimson.load(&cells[0], None, &sizing(1.0)).unwrap().scenario
    };
    assert_eq!(queue("T9").topology.queue, QueueKind::Durable);
    assert_eq!(queue("T4").topology.queue, QueueKind::Exclusive);
    assert_eq!((queue("T1").topology.consumers, queue("T1").copies()), (0, 0));
    assert!(queue("Q2").clients.drain && queue("Q2").clients.dups_ok);
    assert_eq!(queue("Q9").clients.selector, Some(1));
    let osu = study("osu2008");
    let cells = osu.cells(&[Profile::Fair], &"O3".parse().unwrap());
    assert_eq!(osu.load(&cells[0], None, &sizing(1.0)).unwrap().scenario.mode, Mode::Pingpong);
}

const SMALL: &str = r#"
id = "small"
title = "t"
gist = "g"
citation = "c"
environment = "e"
faults = []
platforms = { A = { title = "a" } }
rows = [{ id = "R", title = "r", metric = "messages_per_second", axes = { size = [1, 2] } }]
"#;

#[test]
fn a_mistake_in_a_file_is_named() {
    assert_eq!(Study::read(SMALL).unwrap().rows.len(), 1);
    let cases = [
        ("id = \"small\"", "id = \"small\"\nspeed = 9", "unknown field `speed`"),
        ("{ size = [1, 2] }", "{ speed = [1, 2] }", "no such variable"),
        ("{ size = [1, 2] }", "{ size = [] }", "no values"),
        ("{ size = [1, 2] }", "{ size = [1.5] }", "a whole number"),
        ("axes", "load = { sice = 3 }, axes", "unknown field `sice`"),
        ("axes", "published = [{ platform = \"B\", value = 1 }], axes", "no platform is called B"),
        ("axes", "published = [{ platform = \"A\" }], axes", "needs value or runs"),
        ("axes", "published = [{ platform = \"A\", value = 1, at = { rate = 1 } }], axes", "does not vary"),
        ("rows =", "claims = [{ text = \"c\", holds = [\"S > R\"] }]\nrows =", "no row is called S"),
        ("rows =", "claims = [{ text = \"c\", holds = [\"R@B > R\"] }]\nrows =", "no platform is called B"),
        ("rows =", "claims = [{ text = \"c\", holds = [\"R:rate=1 > R\"] }]\nrows =", "does not vary rate"),
        ("rows =", "claims = [{ text = \"c\", holds = [\"R ! R\"] }]\nrows =", "the signs are"),
        ("rows =", "claims = [{ text = \"c\", holds = [\"R < R\", \"R@A in 1..2\"] }]\nrows =", "or none does"),
        (
            "rows =",
            "figures = [{ title = \"f\", kind = \"bars\", rows = [], logy = true }]\nrows =",
            "unknown field `logy`",
        ),
    ];
    for (place, change, part) in cases {
        let failure = Study::read(&SMALL.replacen(place, change, 1)).unwrap_err().to_string();
        assert!(failure.contains(part), "{change}: {failure}");
    }
    assert!(Study::find("nosuch").unwrap_err().to_string().contains("kth2016"));
}

/// A slice of `target` that broke no rule.
pub(super) fn slice(target: &str, block: usize) -> SliceRecord {
    let measured = serde_json::json!({
        "seconds": 4.0, "sent_per_s": 1000.0, "confirmed_per_s": 1000.0, "received_per_s": 1000.0, "messages_per_s": 1000.0,
        "all_sent": 4000, "all_confirmed": 4000, "all_received": 4000, "latency_from": "send",
        "broker": {"cpu_us_per_message": 900.0, "cores": 0.9, "switches_per_message": 0.1, "resident_bytes": 1, "processes": 1},
        "integrity": {"check": "full", "lost": 0, "duplicated": 0, "reordered": 0, "corrupted": 0, "refused": 0, "returned": 0,
                      "damages": {"length": 0, "stamp": 0, "filling": 0}, "unknown_confirms": 0, "redelivered": 0},
        "verdict": {"valid": true, "violations": [], "notes": []}
    });
    let measured = Some(serde_json::from_value(measured).unwrap());
    SliceRecord { target: target.to_owned(), block, superseded: false, error: None, lacks: None, measured }
}

/// The command line of a suite run over `file` on one relay under two names.
fn options(file: &std::path::Path, address: std::net::SocketAddr, more: &[&str]) -> Box<super::SuiteArgs> {
    let targets = ["a", "b"].map(|name| format!("--target={name}=relay://{address}"));
    parsed(file, &[&targets.each_ref().map(String::as_str), more].concat())
}

fn parsed(file: &std::path::Path, more: &[&str]) -> Box<super::SuiteArgs> {
    let words = ["hermod-bench", "suite", file.to_str().unwrap(), "--quiet"];
    match Cli::try_parse_from([&words, more].concat()).unwrap().verb {
        Verb::Suite(args) => args,
        _ => panic!("not a suite"),
    }
}

#[test]
fn a_row_that_there_is_not_is_named_beside_those_that_there_are() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("own.toml");
    std::fs::write(&file, SMALL).unwrap();
    let failure = super::run(&options(&file, relay(), &["--rows=R,K1"])).unwrap_err().to_string();
    assert_eq!(failure, "--rows K1: there is no such row, only R");
}

#[test]
fn a_run_fills_every_cell_judges_the_claims_and_is_gone_on_with() {
    let dir = tempfile::tempdir().unwrap();
    let (file, json, out) = (dir.path().join("own.toml"), dir.path().join("r.json"), dir.path().join("out"));
    let html = dir.path().join("r.html");
    let absent = r#", { id = "N", title = "n", metric = "messages_per_second", kind = { absent = "second broker" } }]
load = { messages = 300, window = 10, ack = "each" }
claims = [{ text = "rates are positive", holds = ["R:size=1 in 1..1e12"] }, { text = "products", holds = ["R:size=1@A > R:size=2@A"] }]
"#;
    std::fs::write(&file, SMALL.replace("}]\n", &format!("}}{absent}"))).unwrap();
    let address = relay();
    let (json_text, out_text) = (json.to_str().unwrap(), out.to_str().unwrap());
    let shared = ["--blocks=2", "--scale=1", "--no-freeze", "--json", json_text, "--html", html.to_str().unwrap()];
    super::run(&options(&file, address, &[&shared[..], &["--out", out_text]].concat())).unwrap();
    let read = || serde_json::from_str::<Report>(&std::fs::read_to_string(&json).unwrap()).unwrap();
    let first = read();
    assert!(std::fs::read_to_string(&html).unwrap().contains("products"));
    let suite = &first.suites[0];
    assert_eq!((suite.cells.len(), first.targets.len(), first.finished.is_some()), (3, 2, true));
    for cell in &suite.cells[..2] {
        for result in &cell.results {
            let CellOutcome::Measured(figures) = &result.outcome else { panic!("{:?}", result.outcome) };
            // A disturbed machine makes slices invalid, and these count only where there is no
            // other.
            assert!(figures.slices == 2 && (1..=2).contains(&figures.value.values.len()));
            assert!(figures.to_first.is_none() || result.target == "b");
        }
    }
    assert!(
        matches!(&suite.cells[2].results[0].outcome, CellOutcome::NotApplicable { lacks } if lacks == "second broker")
    );
    // A relay is a limit, and claims are about brokers: there is none.
    assert_eq!(suite.claims.len(), 1);
    assert_eq!(suite.claims[0].verdict, ClaimVerdict::Undecided);
    // Gone on with, nothing is left to do, and the figures are the same.
    super::run(&options(&file, address, &[&shared[..], &["--resume", out_text]].concat())).unwrap();
    let again = read();
    let values = |report: &Report| -> Vec<String> {
        let results = report.suites[0].cells.iter().flat_map(|cell| &cell.results);
        let median = |outcome: &CellOutcome| match outcome {
            CellOutcome::Measured(figures) => format!("{:.6e}", figures.value.median),
            other => format!("{other:?}"),
        };
        results.map(|result| median(&result.outcome)).collect()
    };
    assert_eq!(values(&first), values(&again));
    // More of the same is no other run; another load, or other options of a target, is.
    super::run(&options(&file, address, &[&shared[..], &["--resume", out_text, "--rows=R"]].concat())).unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    let refused = |more: &[&str], part: &str| {
        let args = options(&file, address, &[&shared[..], &["--resume", out_text], more].concat());
        let failure = super::run(&args).unwrap_err().to_string();
        assert!(failure.contains(part), "{failure}");
    };
    std::fs::write(&file, text.replace("window = 10", "window = 20")).unwrap();
    refused(&[], "small R size=1 Fair.amqp.window: 10 there, 20 here");
    std::fs::write(&file, &text).unwrap();
    refused(&["--control"], "targets: ");
}

#[test]
fn an_audit_is_made_once_and_told_of_the_target_and_its_control() {
    let dir = tempfile::tempdir().unwrap();
    let [file, json, html, out] = ["own.toml", "r.json", "r.html", "out"].map(|name| dir.path().join(name));
    let (json_text, html_text, out_text) = (json.to_str().unwrap(), html.to_str().unwrap(), out.to_str().unwrap());
    std::fs::write(&file, SMALL.replace("[1, 2]", "[1]") + "load = { messages = 20, ack = \"each\" }").unwrap();
    // It confirms nothing while it is watched, so that nothing is decided, however much others
    // flush.
    let late = Delay::Fixed(Duration::from_millis(1500));
    let broker = local(&Behaviour { confirm: late, ..Behaviour::default() });
    let run = |more: &[&str]| {
        let targets = [format!("--target=a={}", broker.target), format!("--target=r=relay://{}", relay())];
        let targets = targets.each_ref().map(String::as_str);
        let shared = ["--audit", "--control", "--seconds=0.4", "--json", json_text, "--html", html_text];
        super::run(&parsed(&file, &[&targets, &shared[..], more].concat())).unwrap();
        let report: Report = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
        report.targets.into_iter().map(|facts| (facts.target.name, facts.audited)).collect::<Vec<_>>()
    };
    let nothing = ["a", "r", "control"].map(|name| (name.to_owned(), None));
    assert_eq!(run(&["--out", out_text]), nothing);
    let kept = out.join("slices.jsonl");
    let journal = std::fs::read_to_string(&kept).unwrap();
    let undecided = r#""audit of a","is":{"audited":null,"scheme":"amqp"}"#;
    assert_eq!((journal.matches("audit of").count(), journal.matches(undecided).count()), (1, 1), "{journal}");

    let decided = undecided.replace("null", r#"{"supports":"d2","evidence":"it was killed"}"#).replace("amqp", "stomp");
    std::fs::write(&kept, journal.replace(undecided, &decided)).unwrap();
    let told = run(&["--resume", out_text]);
    let audited = Some(Audited { supports: Durability::D2, evidence: "by stomp: it was killed".to_owned() });
    assert_eq!(
        told,
        [("a", audited.clone()), ("r", None), ("control", audited)].map(|(name, is)| (name.to_owned(), is))
    );

    // A journal from before knows of no audit, and of nothing else that is noted.
    let (head, pieces) = journal.split_once('\n').unwrap();
    let mut head: serde_json::Value = serde_json::from_str(head).unwrap();
    head["plan"]
        .as_object_mut()
        .unwrap()
        .retain(|key, _| matches!(key.as_str(), "suites" | "targets" | "scale" | "cap" | "least"));
    let pieces: Vec<&str> = pieces.lines().filter(|line| !line.contains("noted")).collect();
    assert!(!pieces.is_empty());
    std::fs::write(&kept, format!("{head}\n{}\n", pieces.join("\n"))).unwrap();
    assert_eq!(run(&["--resume", out_text]), nothing);
    let grown = std::fs::read_to_string(&kept).unwrap();
    assert_eq!(
        (grown.matches(undecided).count(), grown.matches(r#""block""#).count()),
        (1, pieces.iter().filter(|piece| piece.contains(r#""block""#)).count())
    );
}

#[test]
fn the_study_in_the_manual_can_be_read() {
    let page = include_str!("../../../../docs/manual/suites.md");
    let (_, rest) = page.split_once("```toml\n").unwrap();
    let (text, _) = rest.split_once("```").unwrap();
    let study = Study::read(text).unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(study.cells(&BOTH, &Choice::default()).len(), 4);
}

/// A relay that lives as long as the tests do.
fn relay() -> std::net::SocketAddr {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        crate::relay::serve("127.0.0.1:0".parse().unwrap(), 1, None, |address| {
            sender.send(address).map_err(|error| bench_record::failure::Failure::new(error.to_string()))
        })
    });
    receiver.recv().unwrap()
}
