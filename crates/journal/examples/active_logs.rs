//! What it costs that several logs are written to at once: messages of 1 KiB are published and
//! settled by one log after the other, with as many under way as a flush is worth. Prints the
//! median of the rounds, and in brackets the least and the most; all cases take turns.
//!
//! `cargo run --release -p journal --example active_logs -- DIRECTORY [ROUNDS]`

#![allow(clippy::print_stdout, reason = "it is a program")]

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use journal::{Address, Journal, LogId, OpenError, Options, Owner, RealDisk, Ticket};

const BODY: [u8; 1024] = [7; 1024];
/// How many logs, and how many messages one says before the next one does.
const CASES: [(u32, u64); 6] = [(1, 1), (10, 1), (1000, 1), (1, 16), (10, 16), (1000, 16)];
/// Messages that wait for their flush at most.
const WINDOW: u64 = 16_000;
const LASTS: Duration = Duration::from_secs(2);
/// What is measured, in the order of a row.
const COLUMNS: [&str; 4] = ["messages/s", "flushes/s", "bytes each", "CPU each, ns"];

fn main() -> Result<(), OpenError> {
    let mut arguments = std::env::args().skip(1);
    let directory = PathBuf::from(arguments.next().unwrap_or_else(|| "active-logs".to_owned()));
    let rounds = arguments.next().and_then(|rounds| rounds.parse().ok()).unwrap_or(5);
    let mut rows = CASES.map(|_| COLUMNS.map(|_| Vec::<f64>::new()));
    for _ in 0..rounds {
        for ((logs, turn), row) in CASES.into_iter().zip(&mut rows) {
            let figures = measure(logs, turn, &directory.join(logs.to_string()))?;
            row.iter_mut().zip(figures).for_each(|(column, figure)| column.push(figure));
        }
    }
    println!("| logs | messages in a turn | {} |", COLUMNS.join(" | "));
    println!("|---|---|{}", "---|".repeat(COLUMNS.len()));
    for ((logs, turn), row) in CASES.into_iter().zip(&mut rows) {
        println!("| {logs} | {turn} | {} |", row.each_mut().map(|column| spread(column)).join(" | "));
    }
    Ok(())
}

/// The median, and in brackets the least and the most.
fn spread(column: &mut [f64]) -> String {
    column.sort_by(f64::total_cmp);
    let middle = column.get(column.len() / 2).copied().unwrap_or_default();
    match column {
        [least, .., most] => format!("{middle:.0} ({least:.0}–{most:.0})"),
        [one] => format!("{one:.0}"),
        [] => String::new(),
    }
}

fn measure(logs: u32, turn: u64, directory: &Path) -> Result<[f64; 4], OpenError> {
    let opening = |error| OpenError::Io { doing: "opening the directory".to_owned(), error };
    let disk = RealDisk::open(directory).map_err(opening)?.past_the_cache();
    let opened = Journal::open(Arc::new(disk), Options::default(), &mut ())?;
    let failed = Box::new(|error: &io::Error| println!("the journal has failed: {error}"));
    let journal = opened.start(&mut std::iter::empty(), Arc::new(()), failed);
    let mut window = VecDeque::<Ticket>::new();
    let (begin, before, mut messages) = (Instant::now(), cpu(), 0);
    while begin.elapsed() < LASTS {
        for log in (1..=logs).filter_map(LogId::new) {
            window.push_back(say(&journal, log.owner(1), messages, turn));
            messages += turn;
            while window.len() as u64 * turn > WINDOW {
                match window.front() {
                    Some(first) if !journal.is_durable(*first) => std::thread::sleep(Duration::from_micros(50)),
                    _ => drop(window.pop_front()),
                }
            }
        }
    }
    let (seconds, busy, stats) = (begin.elapsed().as_secs_f64(), cpu() - before, journal.stats());
    journal.close().map_err(opening)?;
    let all = messages as f64;
    Ok([all / seconds, stats.flushes as f64 / seconds, stats.written_bytes as f64 / all, busy * 1e9 / all])
}

/// Publishes some messages and settles them.
fn say(journal: &Journal, owner: Owner, first: u64, count: u64) -> Ticket {
    let mut appender = journal.appender(LogId::of(owner));
    let bodies: Vec<Address> = (0..count).map(|_| appender.body(&[&BODY])).collect();
    appender.reference(None, owner, first, 0, &bodies);
    bodies.iter().for_each(|body| appender.release_hold(*body));
    appender.settle(None, owner, 0, &[(first, count)], &bodies);
    appender.ticket()
}

/// The seconds that this process has computed, where the system tells that.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}
