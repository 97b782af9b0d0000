//! The levels of the log: one for everything, and others by part.
//!
//! Levels and parts are closed sets. A word that is neither is refused, because a typo that passed
//! as the name of a part would silence the rest of the log.

use tracing_subscriber::filter::{LevelFilter, Targets};

use super::nearest::nearest;

/// The words for levels: Hermod's own first, then those of RabbitMQ, syslog and Java.
const LEVELS: [(&str, LevelFilter); 20] = [
    ("off", LevelFilter::OFF),
    ("error", LevelFilter::ERROR),
    ("warn", LevelFilter::WARN),
    ("info", LevelFilter::INFO),
    ("debug", LevelFilter::DEBUG),
    ("trace", LevelFilter::TRACE),
    ("none", LevelFilter::OFF),
    ("critical", LevelFilter::ERROR),
    ("alert", LevelFilter::ERROR),
    ("emergency", LevelFilter::ERROR),
    ("emerg", LevelFilter::ERROR),
    ("crit", LevelFilter::ERROR),
    ("err", LevelFilter::ERROR),
    ("fatal", LevelFilter::ERROR),
    ("severe", LevelFilter::ERROR),
    ("warning", LevelFilter::WARN),
    ("notice", LevelFilter::INFO),
    ("information", LevelFilter::INFO),
    ("fine", LevelFilter::DEBUG),
    ("all", LevelFilter::TRACE),
];
/// How many of [`LEVELS`] errors name.
const OWN: usize = 6;

/// The parts: `audit`, and the crates that log.
const PARTS: [&str; 13] = [
    "audit",
    "amqp091",
    "amqp10",
    "auth",
    "backends",
    "broker",
    "front",
    "hermod",
    "management",
    "mqtt",
    "net",
    "nodes",
    "stomp",
];

/// A level for everything, and levels of parts, which win.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogLevels {
    rest: LevelFilter,
    parts: Vec<(&'static str, LevelFilter)>,
}

impl LogLevels {
    /// Which events are logged.
    pub(crate) fn filter(&self) -> Targets {
        Targets::new().with_default(self.rest).with_targets(self.parts.iter().copied())
    }
}

/// `warn`, or levels by part as well: `info,net=debug`. Parts alone leave the rest at `info`.
pub(crate) fn log_levels(text: &str) -> Result<LogLevels, String> {
    let mut rest = None;
    let mut parts: Vec<(&str, LevelFilter)> = Vec::new();
    for item in text.split(',').map(str::trim) {
        let Some((name, word)) = item.split_once('=') else {
            if rest.replace(level(item)?).is_some() {
                return Err(format!("'{text}' has two levels for everything"));
            }
            continue;
        };
        let part = part(name.trim())?;
        if parts.iter().any(|(other, _)| *other == part) {
            return Err(format!("'{text}' has two levels for {part}"));
        }
        parts.push((part, level(word.trim())?));
    }
    Ok(LogLevels { rest: rest.unwrap_or(LevelFilter::INFO), parts })
}

fn level(word: &str) -> Result<LevelFilter, String> {
    let found = LEVELS.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
    found.map(|(_, level)| *level).ok_or_else(|| {
        let own: Vec<_> = LEVELS[..OWN].iter().map(|(name, _)| *name).collect();
        let hint = match PARTS.iter().find(|part| part.eq_ignore_ascii_case(word)) {
            Some(part) => format!("; for that part write {part}=debug"),
            None => meant(word, LEVELS.iter().map(|(name, _)| *name)),
        };
        format!("'{word}' is no level; the levels are {}{hint}", own.join(", "))
    })
}

fn part(name: &str) -> Result<&'static str, String> {
    let found = PARTS.iter().find(|part| part.eq_ignore_ascii_case(name)).copied();
    found.ok_or_else(|| {
        let hint = meant(name, PARTS.into_iter());
        format!("'{name}' is no part that logs; the parts are {}{hint}", PARTS.join(", "))
    })
}

fn meant(word: &str, among: impl Iterator<Item = &'static str>) -> String {
    nearest(word, among).map_or_else(String::new, |near| format!("; did you mean {near}?"))
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn what_is_logged() {
        let (broker, net, audit) = ("broker::queue", "net::tcp", "audit");
        for (text, target, level, logged) in [
            ("info", broker, Level::INFO, true),
            ("info", broker, Level::DEBUG, false),
            ("warning", broker, Level::WARN, true),
            ("warning", broker, Level::INFO, false),
            ("Critical", net, Level::ERROR, true),
            ("none", net, Level::ERROR, false),
            ("warn,audit=info", audit, Level::INFO, true),
            ("warn, audit = info", broker, Level::INFO, false),
            ("net=debug", net, Level::DEBUG, true),
            ("net=debug", broker, Level::INFO, true),
            ("net=debug,error", broker, Level::WARN, false),
        ] {
            let filter = log_levels(text).unwrap().filter();
            assert_eq!(filter.would_enable(target, &level), logged, "{text} {target} {level}");
        }
    }

    #[test]
    fn no_word_is_taken_for_another() {
        let levels = "the levels are off, error, warn, info, debug, trace";
        for (text, expected) in [
            ("wrn", format!("'wrn' is no level; {levels}; did you mean warn?")),
            ("", format!("'' is no level; {levels}")),
            ("info,", format!("'' is no level; {levels}")),
            ("net", format!("'net' is no level; {levels}; for that part write net=debug")),
            ("info,net=loud", format!("'loud' is no level; {levels}")),
            ("info,net[conn]=debug", "'net[conn]' is no part that logs".to_owned()),
            ("nett=debug", "'nett' is no part that logs".to_owned()),
            ("info,debug", "'info,debug' has two levels for everything".to_owned()),
            ("net=info,net=debug", "'net=info,net=debug' has two levels for net".to_owned()),
            ("7", format!("'7' is no level; {levels}")),
        ] {
            let error = log_levels(text).unwrap_err();
            assert!(error.starts_with(&expected), "{text}: {error}");
        }
        assert!(log_levels("nett=debug").unwrap_err().ends_with("; did you mean net?"));
    }

    /// A crate that logs but is not in the table could not be turned up; a part without a crate
    /// would be accepted and ignored.
    #[test]
    fn the_parts_are_the_crates_that_log() {
        let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut expected = vec!["audit".to_owned()];
        for entry in std::fs::read_dir(&crates).unwrap() {
            let folder = entry.unwrap().path();
            let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
            if manifest.lines().any(|line| line.starts_with("tracing.") || line.starts_with("tracing ")) {
                expected.push(folder.file_name().unwrap().to_str().unwrap().to_owned());
            }
        }
        expected[1..].sort();
        assert_eq!(PARTS.as_slice(), expected.as_slice());
    }
}
