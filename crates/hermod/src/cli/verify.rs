//! `hermod verify`: reads the whole data directory of a stopped broker, and reports its contents
//! and its damage. It changes nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use broker::{OpenError, Verified, VerifiedQueue};
use journal::{Damage, RealDisk};
use serde::Serialize;

use crate::cli::counted;
use crate::cli::live::{Live, bytes_below};
use crate::cli::output::{Form, show, show_json};
use crate::cli::table;
use crate::config::Settings;
use crate::config::value::size;
use crate::data_dir;
use crate::exit::{Exit, Failure};

/// The answer as JSON.
#[derive(Serialize)]
struct Report {
    directory: String,
    whole: bool,
    last_sequence: u64,
    torn_tail: Option<(String, u64)>,
    /// The sequence of the batch that is missing at the torn tail, and the batches that follow.
    cut_off: Option<(u64, u64)>,
    log: Vec<LogRow>,
    logs: Vec<EndRow>,
    segments: Vec<SegmentRow>,
    queues: Vec<QueueRow>,
    facts: Option<String>,
    damages: Vec<DamageRow>,
    more_damages: u64,
}

#[derive(Serialize)]
struct LogRow {
    file: String,
    generation: u32,
    batches: u64,
    bytes: u64,
}

/// How far a log goes.
#[derive(Serialize)]
struct EndRow {
    log: u32,
    term: u64,
    index: u64,
    link: String,
}

#[derive(Serialize)]
struct SegmentRow {
    number: String,
    file: String,
    kind: &'static str,
    listed: u64,
    live: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct QueueRow {
    vhost: String,
    name: String,
    messages: u64,
    lost: u64,
    lost_numbers: Option<(u64, u64)>,
}

#[derive(Serialize)]
struct DamageRow {
    file: String,
    offset: u64,
    what: String,
    queue: Option<String>,
    numbers: Option<(u64, u64)>,
    messages: Option<u64>,
    waiting: Option<u64>,
}

/// Reads `directory`, or the data directory of the settings, and prints the result.
pub(crate) fn run(settings: &Settings, directory: Option<&Path>, form: Form) -> Result<(), Failure> {
    let directory = directory.map_or_else(|| data_dir::data_dir(settings), |path| Ok(path.to_owned()))?;
    let live = Live::begin({
        let (directory, mut all) = (directory.clone(), None);
        move |gone| {
            let all = all.get_or_insert_with(|| bytes_below(&directory));
            format!("verify: reading {}, {} s", size(*all), gone.as_secs())
        }
    });
    let report = read(directory);
    drop(live);
    let report = report?;
    if form == Form::Json {
        show_json(&report)?;
    } else {
        show(&text(&report))?;
    }
    if report.whole {
        return Ok(());
    }
    let (shown, count) = (&report.directory, report.damages.len() as u64 + report.more_damages);
    let lost: u64 = report.queues.iter().map(|queue| queue.lost).sum();
    Err(Exit::BadData
        .because(format!("{shown} is damaged: {count} places, {lost} messages that nothing lists any more")))
}

fn read(directory: PathBuf) -> Result<Report, Failure> {
    let found = open(&directory)?;
    Ok(report(directory.display().to_string(), &found))
}

/// Reads everything in `directory`, and changes nothing.
pub(crate) fn open(directory: &Path) -> Result<Verified, Failure> {
    let shown = directory.display();
    // Opening a data directory would create it if it is missing, and nothing must be created here.
    if !directory.join("FORMAT").is_file() {
        return Err(Exit::NotFound.because(format!("{shown} is no data directory: it has no file FORMAT")));
    }
    let failed = |error: &dyn std::fmt::Display| Exit::Io.because(format!("{shown}: cannot be read: {error}"));
    let disk = RealDisk::open(directory).map_err(|error| failed(&error))?;
    Verified::read(Arc::new(disk)).map_err(|error| {
        let exit = match &error {
            OpenError::Journal(journal::OpenError::Locked) => Exit::TryAgain,
            OpenError::Journal(journal::OpenError::Io { .. }) => Exit::Io,
            OpenError::Journal(journal::OpenError::NoJournal | journal::OpenError::Foreign(_)) => Exit::NotFound,
            _ => Exit::BadData,
        };
        exit.because(format!("{shown}: {error}"))
    })
}

fn report(directory: String, found: &Verified) -> Report {
    let journal = &found.journal;
    let log = journal.log.iter().map(|file| LogRow {
        file: file.name.clone(),
        generation: file.generation,
        batches: file.batches,
        bytes: file.bytes,
    });
    let segments = journal.segments.iter().map(|segment| SegmentRow {
        number: format!("{:08x}", segment.number),
        file: segment.name.clone(),
        kind: if segment.adopted { "adopted" } else { "copied" },
        listed: segment.listed,
        live: segment.live,
        bytes: segment.bytes,
    });
    Report {
        directory,
        whole: found.is_whole(),
        last_sequence: journal.last_sequence,
        torn_tail: journal.torn_tail.as_ref().map(|cut| (cut.file.clone(), cut.offset)),
        cut_off: journal.torn_tail.as_ref().map(|cut| (cut.sequence, cut.batches)),
        log: log.collect(),
        logs: journal.logs.iter().map(end_row).collect(),
        segments: segments.collect(),
        queues: found.queues.iter().map(queue_row).collect(),
        facts: found.facts.clone(),
        damages: journal.damages.iter().map(|damage| damage_row(found, damage)).collect(),
        more_damages: journal.more_damages,
    }
}

fn end_row(end: &journal::LogEnd) -> EndRow {
    EndRow { log: end.log.number(), term: end.term, index: end.index, link: format!("{:08x}", end.link) }
}

fn queue_row(queue: &VerifiedQueue) -> QueueRow {
    QueueRow {
        vhost: queue.vhost.clone(),
        name: queue.name.clone(),
        messages: queue.entries,
        lost: queue.lost,
        lost_numbers: (queue.lost > 0).then_some(queue.lost_numbers),
    }
}

fn damage_row(found: &Verified, damage: &Damage) -> DamageRow {
    let entries = damage.entries;
    DamageRow {
        file: damage.file.clone(),
        offset: damage.offset,
        what: damage.what.clone(),
        queue: entries.map(|entries| {
            found.name_of(entries.owner).map_or_else(|| "a queue that is gone".to_owned(), str::to_owned)
        }),
        numbers: entries.map(|entries| entries.numbers),
        messages: entries.map(|entries| entries.count),
        waiting: entries.map(|entries| entries.live),
    }
}

fn text(report: &Report) -> String {
    let mut lines = Vec::new();
    let sum = |bytes: &mut dyn Iterator<Item = u64>| size(bytes.sum());
    lines.push(format!("{}: {}", report.directory, if report.whole { "whole" } else { "damaged" }));
    let batches: u64 = report.log.iter().map(|file| file.batches).sum();
    let bytes = sum(&mut report.log.iter().map(|file| file.bytes));
    lines.push(format!(
        "log: {}, {}, {bytes}, last sequence {}",
        counted(report.log.len() as u64, ["file", "files"]),
        counted(batches, ["batch", "batches"]),
        report.last_sequence
    ));
    if let (Some((file, offset)), Some((sequence, batches))) = (&report.torn_tail, report.cut_off) {
        lines.push(format!(
            "torn tail: {file} from byte {offset} on, batch {sequence}, {} with a whole header; what was being written there was never confirmed",
            counted(batches, ["batch", "batches"])
        ));
    }
    let (listed, live): (u64, u64) =
        report.segments.iter().fold((0, 0), |(listed, live), one| (listed + one.listed, live + one.live));
    let bytes = sum(&mut report.segments.iter().map(|segment| segment.bytes));
    lines.push(format!(
        "segments: {}, {bytes}, {} listed, {live} of them waiting",
        report.segments.len(),
        counted(listed, ["message", "messages"])
    ));
    let rows: Vec<_> = report
        .queues
        .iter()
        .map(|queue| vec![queue.vhost.clone(), queue.name.clone(), queue.messages.to_string(), queue.lost.to_string()])
        .collect();
    lines.push(table::text(&["vhost", "queue", "messages", "lost"], &rows).trim_end().to_owned());
    for damage in &report.damages {
        lines.push(format!("damaged: {}", sentence(damage)));
    }
    if report.more_damages > 0 {
        lines.push(format!("damaged: {}", counted(report.more_damages, ["more place", "more places"])));
    }
    for queue in report.queues.iter().filter(|queue| queue.lost > 0) {
        let (first, last) = queue.lost_numbers.unwrap_or_default();
        let QueueRow { vhost, name, lost, .. } = queue;
        lines.push(format!(
            "lost: {} of queue '{name}' in vhost '{vhost}', numbers {first} to {last}: nothing lists them",
            counted(*lost, ["message", "messages"])
        ));
    }
    if let Some(facts) = &report.facts {
        lines.push(format!("damaged: {facts}"));
    }
    lines.join("\n") + "\n"
}

fn sentence(damage: &DamageRow) -> String {
    let whose = match (&damage.queue, damage.numbers) {
        (Some(queue), Some((first, last))) => format!(" ({queue}, numbers {first} to {last})"),
        _ => String::new(),
    };
    format!("{} at byte {}: {}{whose}", damage.file, damage.offset, damage.what)
}
