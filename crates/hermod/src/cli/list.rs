//! Lists of what a broker has, as tables or JSON: which objects, in which order, with which fields.
//!
//! Rows are the objects of the HTTP API. Only the fields that are needed are asked for.

mod filter;
mod kinds;

use std::io::IsTerminal;
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use management::{Listed, SortKey, at, only};
use serde_json::Value as Json;

use self::filter::Filter;
pub(crate) use self::kinds::*;
use crate::cli::arguments::{list_of, option};
use crate::cli::ask::{Server, Wanted, list_fields};
use crate::cli::counted;
use crate::cli::output::{Form, Reader, show_more, show_more_json, show_screen};
use crate::cli::table;
use crate::config::nearest;
use crate::config::value::size;
use crate::exit::{Exit, Failure};

/// Seconds between two readings if `--watch` names none.
const INTERVAL: &str = "2";

/// The arguments of lists.
const ARGUMENTS: [&str; 6] = ["columns", "sort", "where", "limit", "vhost", "watch"];

/// A kind of list.
pub(crate) struct Kind {
    what: Listed,
    nouns: [&'static str; 2],
    /// The columns unless others are asked for.
    columns: &'static [Column],
    /// What is told below the table.
    notes: Option<Notes>,
}

/// Lines about rows with something unusual.
struct Notes {
    /// The fields that tell.
    fields: &'static [&'static str],
    /// The lines about a row; empty if nothing is unusual.
    of: fn(&Json) -> String,
}

/// A column of a table.
#[derive(Clone)]
pub(crate) struct Column {
    title: &'static str,
    /// The field of a row, with dots into nested objects.
    path: &'static str,
    show: Show,
}

/// How a field is shown in a table.
#[derive(Clone, Copy)]
enum Show {
    /// As it is.
    Plain,
    /// As a number of bytes with a unit.
    Size,
    /// As it is; a column without any value is left out.
    Rare,
    /// The words for those fields of the row that are true.
    Words(&'static [[&'static str; 2]]),
}

/// What of a list to print, and how often.
struct View<'k> {
    kind: &'k Kind,
    form: Form,
    vhost: Option<String>,
    /// The columns that were asked for, by their fields.
    columns: Vec<String>,
    /// Fields to sort by, and whether the largest comes first.
    sort: Vec<(String, bool)>,
    filter: Option<Filter>,
    limit: usize,
    every: Option<Duration>,
}

/// The arguments of a command that prints a list.
pub(crate) fn arguments(command: Command) -> Command {
    let names = "of the columns or, with dots into objects, of the fields of the HTTP API";
    command
        .arg(
            option("columns", "FIELD,…", "The columns to show, by the names")
                .long_help(format!("The columns to show, by the names {names}. With --json: the fields to print.")),
        )
        .arg(
            option("sort", "FIELD,…", "The fields to sort by; a - before one puts the largest first")
                .allow_hyphen_values(true),
        )
        .arg(option("where", "CONDITION", "Only what meets a condition, such as 'messages > 100 and name =~ ^orders'"))
        .arg(option("limit", "N", "The largest number of rows").value_parser(clap::value_parser!(usize)))
        .arg(option("vhost", "VHOST", "Only in this vhost"))
        .arg(
            Arg::new("watch")
                .long("watch")
                .value_name("SECONDS")
                .num_args(0..=1)
                .default_missing_value(INTERVAL)
                .value_parser(clap::value_parser!(u64).range(1..=86_400))
                .help("Read again every 2 or SECONDS seconds, until Ctrl-C"),
        )
}

/// A command that lists without a verb, and its verb `list`.
pub(crate) fn listing(command: Command, about: &'static str) -> Command {
    arguments(command).subcommand(arguments(Command::new("list").about(about)))
}

/// Refuses an argument of a list that stands before a verb: the verb would not see it.
pub(crate) fn refuse_misplaced(given: &ArgMatches) -> Result<(), Failure> {
    let Some((verb, _)) = given.subcommand() else { return Ok(()) };
    let is_given = |name: &str| {
        given.try_contains_id(name).is_ok_and(|there| there)
            && given.value_source(name) == Some(ValueSource::CommandLine)
    };
    match ARGUMENTS.iter().find(|name| is_given(name)) {
        Some(name) => Err(Exit::Usage.because(format!("--{name} belongs behind the verb: write {verb} … --{name}"))),
        None => Ok(()),
    }
}

/// Asks for a list and prints it, once or again and again.
pub(crate) fn run(server: &Server, kind: &Kind, given: &ArgMatches, form: Form) -> Result<(), Failure> {
    let view = View::of(kind, given, form)?;
    let Some(interval) = view.every else { return view.print(&view.read(server)?).map(drop) };
    loop {
        let rows = view.read(server)?;
        if view.print(&rows)? == Reader::Gone {
            return Ok(());
        }
        std::thread::sleep(interval);
    }
}

impl<'k> View<'k> {
    fn of(kind: &'k Kind, given: &ArgMatches, form: Form) -> Result<Self, Failure> {
        let sorted = |name: String| match name.strip_prefix('-') {
            Some(name) => (kind.path(name), true),
            None => (kind.path(&name), false),
        };
        let condition = given.get_one::<String>("where");
        let filter = condition.map(|text| Filter::parse(text, &|name| kind.path(name))).transpose();
        Ok(Self {
            kind,
            form,
            vhost: given.get_one::<String>("vhost").cloned(),
            columns: list_of(given, "columns").iter().map(|name| kind.path(name)).collect(),
            sort: list_of(given, "sort").into_iter().map(sorted).collect(),
            filter: filter.map_err(|error| Exit::Usage.because(format!("--where {error}")))?,
            limit: given.get_one::<usize>("limit").copied().unwrap_or(usize::MAX),
            every: given.get_one::<u64>("watch").copied().map(Duration::from_secs),
        })
    }

    /// The fields to ask for; none for whole rows.
    fn fields(&self) -> Vec<String> {
        let mut fields = self.columns.clone();
        if fields.is_empty() {
            if self.form == Form::Json {
                return fields;
            }
            fields.extend(self.kind.columns.iter().flat_map(Column::fields).map(str::to_owned));
            fields.extend(self.kind.notes.iter().flat_map(|notes| notes.fields).map(|&field| field.to_owned()));
        }
        fields.extend(self.sort.iter().map(|(path, _)| path.clone()));
        fields.extend(self.filter.iter().flat_map(Filter::fields).map(str::to_owned));
        fields
    }

    /// The rows of the list in their order, and how many there were before any were left out.
    fn read(&self, server: &Server) -> Result<Rows, Failure> {
        let rows =
            list_fields(server, Wanted { what: self.kind.what, vhost: self.vhost.clone(), fields: self.fields() })?;
        Ok(self.arrange(rows))
    }

    fn arrange(&self, mut rows: Vec<Json>) -> Rows {
        let all = rows.len();
        let missing = self.missing(&rows);
        if let Some(filter) = &self.filter {
            rows.retain(|row| filter.matches(row));
        }
        for (path, reversed) in self.sort.iter().rev() {
            let key = |row: &Json| SortKey::of(at(row, path));
            match reversed {
                true => rows.sort_by_cached_key(|row| std::cmp::Reverse(key(row))),
                false => rows.sort_by_cached_key(key),
            }
        }
        rows.truncate(self.limit);
        Rows { rows, all, missing }
    }

    /// A field that was asked for and that no row has: probably a slip.
    fn missing(&self, rows: &[Json]) -> Option<String> {
        let asked = self.columns.iter().chain(self.sort.iter().map(|(path, _)| path)).map(String::as_str);
        let mut asked = asked.chain(self.filter.iter().flat_map(Filter::fields));
        let is_missing = |path: &&str| !rows.is_empty() && rows.iter().all(|row| at(row, path).is_none());
        asked.find(is_missing).map(str::to_owned)
    }

    fn print(&self, Rows { rows, all, missing }: &Rows) -> Result<Reader, Failure> {
        if let Some(field) = missing {
            eprintln!("hermod: {}", self.kind.unknown(field));
        }
        if self.form == Form::Json {
            if self.columns.is_empty() {
                return show_more_json(&rows);
            }
            return show_more_json(&rows.iter().map(|row| only(row, &self.columns)).collect::<Vec<_>>());
        }
        let mut text = self.table(rows);
        if let (true, Some(notes)) = (self.columns.is_empty(), &self.kind.notes) {
            text.extend(rows.iter().map(notes.of));
        }
        let is_terminal = std::io::stdout().is_terminal();
        if is_terminal {
            text = if rows.is_empty() { String::new() } else { text };
            text += &self.summary(rows.len(), *all);
        }
        match (self.every, is_terminal) {
            (Some(_), true) => show_screen(&text),
            (Some(_), false) => show_more(&(text + "\n")),
            (None, _) => show_more(&text),
        }
    }

    fn table(&self, rows: &[Json]) -> String {
        if self.columns.is_empty() {
            let has_values = |column: &&Column| {
                !matches!(column.show, Show::Rare) || rows.iter().any(|row| !column.cell(row).is_empty())
            };
            let columns: Vec<&Column> = self.kind.columns.iter().filter(has_values).collect();
            let titles: Vec<_> = columns.iter().map(|column| column.title).collect();
            let cells = |row: &Json| columns.iter().map(|column| column.cell(row)).collect();
            return table::text(&titles, &rows.iter().map(cells).collect::<Vec<_>>());
        }
        let titles: Vec<_> = self.columns.iter().map(String::as_str).collect();
        let cells = |row: &Json| self.columns.iter().map(|path| cell(at(row, path))).collect();
        table::text(&titles, &rows.iter().map(cells).collect::<Vec<_>>())
    }

    /// The last line on a terminal: `no queues in vhost /`, `1 queue`, `20 of 312 queues`.
    fn summary(&self, shown: usize, all: usize) -> String {
        let place = self.vhost.as_ref().map(|vhost| format!(" in vhost {vhost}")).unwrap_or_default();
        let [one, many] = self.kind.nouns;
        match (shown, all) {
            (0, 0) => format!("no {many}{place}\n"),
            (shown, all) if shown == all => format!("{}{place}\n", counted(all as u64, [one, many])),
            (shown, all) => format!("{shown} of {}{place}\n", counted(all as u64, [one, many])),
        }
    }
}

/// The rows to print.
struct Rows {
    rows: Vec<Json>,
    /// How many there were before any were left out.
    all: usize,
    /// A field that none of them has.
    missing: Option<String>,
}

impl Kind {
    /// The field that a name means: the title of a column, or the field itself.
    fn path(&self, name: &str) -> String {
        let titled = self.columns.iter().find(|column| column.title == name && !column.path.is_empty());
        titled.map_or(name, |column| column.path).to_owned()
    }

    /// Says that no row has this field.
    fn unknown(&self, field: &str) -> String {
        let [one, _] = self.nouns;
        let known = self.columns.iter().flat_map(|column| [column.title, column.path]);
        let tip = nearest(field, known).map(|name| format!("did you mean {name}? ")).unwrap_or_default();
        format!("no {one} has the field '{field}' now; {tip}--json shows all fields")
    }
}

impl Column {
    fn fields(&self) -> Vec<&'static str> {
        match self.show {
            Show::Words(words) => words.iter().map(|[path, _]| *path).collect(),
            _ => vec![self.path],
        }
    }

    fn cell(&self, row: &Json) -> String {
        match self.show {
            Show::Plain | Show::Rare => cell(at(row, self.path)),
            Show::Size => at(row, self.path).and_then(Json::as_u64).map(size).unwrap_or_default(),
            Show::Words(words) => {
                let set = |[path, _]: &&[&str; 2]| at(row, path).is_some_and(|value| !is_blank(value));
                words.iter().filter(set).map(|[_, word]| *word).collect::<Vec<_>>().join(",")
            }
        }
    }
}

fn is_blank(value: &Json) -> bool {
    matches!(value, Json::Null | Json::Bool(false))
}

/// A field as one cell: texts as they are, lists with commas, objects as `name=value`.
fn cell(value: Option<&Json>) -> String {
    match value {
        None | Some(Json::Null) => String::new(),
        Some(Json::String(text)) => text.clone(),
        Some(Json::Array(values)) => values.iter().map(|value| cell(Some(value))).collect::<Vec<_>>().join(","),
        Some(Json::Object(fields)) => {
            fields.iter().map(|(name, value)| format!("{name}={}", cell(Some(value)))).collect::<Vec<_>>().join(",")
        }
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
