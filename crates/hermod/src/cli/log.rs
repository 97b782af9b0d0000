//! `hermod log`: the last lines of a running broker's log, and those that follow.

use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command};
use management::Listed;
use serde_json::Value as Json;

use crate::cli::arguments::option;
use crate::cli::ask::{self, Server};
use crate::cli::output::{Form, Reader, show_more, show_more_json};
use crate::exit::Failure;

/// The levels, the gravest first.
const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];
/// How long a look for more lines waits.
const LOOK: Duration = Duration::from_secs(1);

/// Its arguments.
pub(crate) fn command(command: Command) -> Command {
    command
        .arg(
            option("lines", "N", "The largest number of lines to begin with")
                .value_parser(clap::value_parser!(usize))
                .default_value("50"),
        )
        .arg(option("level", "LEVEL", "Only lines at least as grave").value_parser(LEVELS).default_value("trace"))
        .arg(option("part", "PART", "Only lines of a part of the program, such as audit"))
        .arg(option("filter", "TEXT", "Only lines with this text in them"))
        .arg(
            Arg::new("follow")
                .long("follow")
                .short('f')
                .action(ArgAction::SetTrue)
                .help("Show further lines as they come, until Ctrl-C"),
        )
}

/// Which lines are wanted.
struct Wanted {
    level: usize,
    part: Option<String>,
    filter: String,
}

impl Wanted {
    fn of(given: &ArgMatches) -> Self {
        let text = |name: &str| given.get_one::<String>(name).cloned();
        Self {
            level: text("level").map_or(LEVELS.len(), |level| rank(&level)),
            part: text("part"),
            filter: text("filter").unwrap_or_default().to_lowercase(),
        }
    }

    fn has(&self, line: &Json) -> bool {
        let field = |name: &str| line[name].as_str().unwrap_or_default();
        let part = field("part");
        let below =
            |whole: &String| part == whole || part.strip_prefix(whole).is_some_and(|rest| rest.starts_with("::"));
        rank(field("level")) <= self.level
            && self.part.as_ref().is_none_or(below)
            && (self.filter.is_empty() || text(line).to_lowercase().contains(&self.filter))
    }
}

fn rank(level: &str) -> usize {
    LEVELS.iter().position(|known| *known == level).unwrap_or(LEVELS.len())
}

/// Runs `hermod log`.
pub(crate) fn run(server: &Server, given: &ArgMatches, form: Form) -> Result<(), Failure> {
    let wanted = Wanted::of(given);
    let follows = given.get_flag("follow");
    let most = given.get_one::<usize>("lines").copied().unwrap_or(usize::MAX);
    let mut last = 0;
    loop {
        let all = ask::list(server, Listed::Log, None)?;
        let newest = all.iter().filter_map(number).max().unwrap_or(0);
        // A server that was started again counts from the beginning.
        let from = if newest < last { 0 } else { last };
        let mut lines: Vec<Json> =
            all.into_iter().filter(|line| number(line).is_some_and(|its| its > from) && wanted.has(line)).collect();
        if last == 0 {
            lines.drain(..lines.len().saturating_sub(most));
        }
        last = newest;
        let reader = match (form, follows) {
            (Form::Json, true) => print_each(&lines)?,
            (Form::Json, false) => show_more_json(&lines)?,
            (Form::Text, _) => show_more(&lines.iter().map(|line| format!("{}\n", text(line))).collect::<String>())?,
        };
        if reader == Reader::Gone || !follows {
            return Ok(());
        }
        std::thread::sleep(LOOK);
    }
}

fn number(line: &Json) -> Option<u64> {
    line["number"].as_u64()
}

/// A JSON document a line.
fn print_each(lines: &[Json]) -> Result<Reader, Failure> {
    lines.iter().try_fold(Reader::There, |_, line| show_more_json(line))
}

/// A line as the server writes it, without its colours.
fn text(line: &Json) -> String {
    let field = |name: &str| line[name].as_str().unwrap_or_default();
    let (at, level, part) = (field("at"), field("level").to_uppercase(), field("part"));
    let whole = format!("{at} {level:>5} {part}: {} {}", field("text"), field("fields"));
    auth::shown::escaped(whole.trim_end()).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_are_chosen_by_level_part_and_text() {
        let line =
            |level: &str, part: &str, text: &str| json!({ "level": level, "part": part, "text": text, "at": "T" });
        let lines = [
            line("info", "audit", "administrative change"),
            line("warn", "net::drive", "closing"),
            line("error", "network", "Broken"),
        ];
        let chosen = |level: &str, part: Option<&str>, filter: &str| {
            let wanted = Wanted { level: rank(level), part: part.map(str::to_owned), filter: filter.to_owned() };
            lines.iter().filter(|line| wanted.has(line)).map(|line| line["part"].as_str().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(chosen("trace", None, ""), ["audit", "net::drive", "network"]);
        assert_eq!(chosen("warn", None, ""), ["net::drive", "network"]);
        assert_eq!(chosen("trace", Some("net"), ""), ["net::drive"]);
        assert_eq!(chosen("trace", None, "broken"), ["network"]);
        assert_eq!(text(&line("warn", "net", "a\nb")), "T  WARN net: a\\nb");
    }
}
