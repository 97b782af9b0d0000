//! The settings of the log.

use std::path::PathBuf;
use std::time::Duration;

use super::ConfigError;
use super::log_levels::{LogLevels, log_levels};
use super::reader::{Reader, declare};
use super::value::{self, between, optional_path};

/// What is logged, and where.
#[derive(Debug, Clone)]
pub(crate) struct Log {
    pub(crate) level: LogLevels,
    pub(crate) format: LogFormat,
    /// Whether lines go to standard error.
    pub(crate) console: bool,
    pub(crate) file: Option<LogFileSettings>,
}

/// Where the log's file is, and when it makes room for another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogFileSettings {
    pub(crate) path: PathBuf,
    /// Bytes of a file; 0 for any number.
    pub(crate) most_bytes: u64,
    /// Age of a file; zero for any.
    pub(crate) most_age: Duration,
    /// How many old files are kept beside the one that is written.
    pub(crate) keep: u64,
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

impl Log {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let level = reader.get(
            declare(
                "log.level",
                "levels",
                "info",
                "Lowest level that is logged: `off`, `error`, `warn`, `info`, `debug` or `trace`, or RabbitMQ's or \
                 syslog's word for it (`warning`, `critical`); by part: `info,net=debug`. Parts are `audit` and \
                 the crates: `amqp091`, `amqp10`, `auth`, `backends`, `broker`, `front`, `hermod`, `management`, \
                 `mqtt`, `net`, `stomp`.",
            ),
            log_levels,
        )?;
        let format = reader.get(declare("log.format", "text, json", "text", "How log lines are written."), |text| {
            value::choice(text, &[("text", LogFormat::Text), ("json", LogFormat::Json)])
        })?;
        let console = reader.get(
            declare(
                "log.console",
                "true, false",
                "true",
                "Whether lines go to standard error. Without it, `log.file` must be set.",
            ),
            value::flag,
        )?;
        Ok(Self { level, format, console, file: LogFileSettings::read(reader)? })
    }

    /// Lines must go somewhere.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if self.console || self.file.is_some() {
            return Ok(());
        }
        Err(ConfigError::new("log.console: the log would go nowhere; set log.file, too".to_owned()))
    }
}

impl LogFileSettings {
    fn read(reader: &mut Reader) -> Result<Option<Self>, ConfigError> {
        let path = reader.get(
            declare(
                "log.file",
                "path",
                "",
                "File to which lines are appended as well. It is opened again at SIGHUP, after another program has \
                 moved it. A file that can't be written costs its lines and stops nothing.",
            ),
            optional_path,
        )?;
        let most_bytes = reader.get(
            declare(
                "log.file_size",
                "size",
                "100 MiB",
                "Size at which `log.file` becomes `log.file` with `.1` behind, and a new one begins. `0`: any size.",
            ),
            value::bytes,
        )?;
        let most_age = reader.get(
            declare("log.file_age", "time", "0", "Age at which a new file begins, such as `24 h`. `0`: any age."),
            value::duration,
        )?;
        let keep = reader.get(
            declare("log.files", "number", "10", "How many old files are kept, up to 1000; the oldest are deleted."),
            |text| between(text, value::count, 0, 1000),
        )?;
        Ok(path.map(|path| Self { path, most_bytes, most_age, keep }))
    }
}
