//! Log lines on stderr and in a file: one event, one line, as text or JSON, without control
//! characters.
//!
//! Lines that announce the start are always logged, whatever the level, because scripts wait for
//! them. Lines that a peer can cause again and again pass a gate, for each user and each kind of
//! line.

mod file;
mod gate;
mod line;
mod recent;

use std::panic::PanicHookInfo;
use std::sync::{Arc, OnceLock};

use management::RecentLog;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, fmt, reload};

use self::file::LogFile;
use self::gate::Gate;
use self::line::{Lines, Outputs};
use self::recent::Keeper;
use crate::config::{LogFormat, Settings};
use crate::exit::{Exit, Failure};

/// Target of events that are never filtered.
pub(crate) const START: &str = "hermod::start";

/// Changes the level of the log while the process runs.
pub(crate) type Level = Box<dyn Fn(&Settings) -> Result<(), Failure>>;

/// Starts logging for the rest of the process. The last lines are kept in `recent`, too.
pub(crate) fn start(settings: &Settings, recent: &Arc<RecentLog>) -> Result<Level, Failure> {
    let (filter, handle) = reload::Layer::<Targets, Registry>::new(filter(settings));
    let format = settings.log.format;
    let file = open_file(settings)?;
    let console = settings.log.console;
    let outputs = move || Outputs { stderr: console.then(std::io::stderr), file: file.clone() };
    let layer = fmt::layer().with_writer(move || Lines::to(outputs(), format)).with_ansi(false);
    let layer = match format {
        LogFormat::Text => layer.with_target(false).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
    };
    // The keeper comes first: writing a line forgets how many were left out before it.
    let layer = Keeper(Arc::clone(recent)).and_then(layer).with_filter(Gate::default());
    let subscriber = tracing_subscriber::registry().with(filter).with(layer);
    subscriber.try_init().map_err(not_started)?;
    std::panic::set_hook(Box::new(log_panic));
    Ok(Box::new(move |settings| handle.reload(self::filter(settings)).map_err(not_started)))
}

/// Opens the file again, if there is one: another program may have moved it.
pub(crate) fn reopen() {
    if let Some(file) = FILE.get() {
        file.reopen();
    }
}

/// The file of this process.
static FILE: OnceLock<LogFile> = OnceLock::new();

fn open_file(settings: &Settings) -> Result<Option<LogFile>, Failure> {
    let Some(wanted) = &settings.log.file else { return Ok(None) };
    let wrong = |error| Exit::Config.because(format!("log.file: cannot open {}: {error}", wanted.path.display()));
    let file = LogFile::open(wanted.clone()).map_err(wrong)?;
    Ok(Some(FILE.get_or_init(|| file).clone()))
}

/// Waits until the lines so far are in the file, if there is one: before the process ends.
pub(crate) fn settle() {
    if let Some(file) = FILE.get() {
        file.settle();
    }
}

fn filter(settings: &Settings) -> Targets {
    settings.log.level.filter().with_target(START, LevelFilter::INFO)
}

fn not_started(error: impl std::fmt::Display) -> Failure {
    Exit::Bug.because(format!("logging cannot be started: {error}"))
}

/// A panic is one line like any other event, with its backtrace if `RUST_BACKTRACE` asks for one.
fn log_panic(info: &PanicHookInfo<'_>) {
    let text = info.payload_as_str().unwrap_or("no text");
    let at = info.location().map(ToString::to_string).unwrap_or_default();
    let thread = std::thread::current().name().unwrap_or_default().to_owned();
    let backtrace = std::backtrace::Backtrace::capture();
    match backtrace.status() {
        std::backtrace::BacktraceStatus::Captured => tracing::error!(text, at, thread, %backtrace, "panic"),
        _ => tracing::error!(text, at, thread, "panic"),
    }
}
