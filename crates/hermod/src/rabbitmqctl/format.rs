//! The output of `rabbitmqctl`, in RabbitMQ's formats.
//!
//! Formats for programs write only the result to standard output. An unknown format is refused, so
//! that a script does not mistake a table for something else.

use auth::shown::escaped;
use comfy_table::{ContentLineStyle, LineStyle, Table, TableStyle};
use serde_json::{Map, Value as Json};

use super::call::Call;
use super::terms::{cell_text, term};
use super::{Output, Refusal};

/// Lines between and around the cells of a pretty table.
const BORDERS: TableStyle = TableStyle::new()
    .top_border(LineStyle::new('┌', '─', '┬', '┐'))
    .header_lines(ContentLineStyle::new('│', '│', '│'))
    .header_separator(LineStyle::new('├', '─', '┼', '┤'))
    .content_lines(ContentLineStyle::new('│', '│', '│'))
    .row_separator(LineStyle::new('├', '─', '┼', '┤'))
    .bottom_border(LineStyle::new('└', '─', '┴', '┘'));

/// The formats, and the names that ask for them.
const FORMATS: [(&str, Format); 6] = [
    ("table", Format::Table),
    ("pretty_table", Format::PrettyTable),
    ("csv", Format::Csv),
    ("json", Format::Json),
    ("json_stream", Format::JsonStream),
    ("erlang", Format::Erlang),
];

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Table,
    PrettyTable,
    Csv,
    Json,
    JsonStream,
    Erlang,
}

impl Format {
    /// The format that a command line asks for.
    pub(super) fn of(call: &Call) -> Result<Self, Refusal> {
        let Some(asked) = call.option("formatter") else { return Ok(Self::Table) };
        let known = FORMATS.iter().find(|(name, _)| asked.eq_ignore_ascii_case(name));
        known.map(|(_, format)| *format).ok_or_else(|| {
            let names = FORMATS.map(|(name, _)| name).join(", ");
            Refusal::usage(format!("there is no formatter '{asked}'; the formatters are {names}"))
        })
    }

    /// Whether the format has no text around the result.
    fn is_for_programs(self) -> bool {
        matches!(self, Self::Csv | Self::Json | Self::JsonStream)
    }
}

/// Whether the names of columns are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Head {
    Shown,
    Hidden,
}

/// Everything that is written to standard output.
pub(super) fn shown(call: &Call, format: Format, banner: &str, output: Output) -> String {
    let quiet = format.is_for_programs() || call.flag("quiet") || call.flag("silent");
    let mut text = if quiet || banner.is_empty() { String::new() } else { format!("{banner}\n") };
    text += &match output {
        Output::Nothing => String::new(),
        Output::Text(said) if format.is_for_programs() && format != Format::Csv => {
            format!("{}\n", serde_json::json!({ "message": said.trim_end() }))
        }
        Output::Text(said) => said,
        Output::Object { document, text } => object(format, &document, text),
        Output::Rows { columns, rows } => {
            let hidden = call.flag("silent") || call.flag("no-table-headers");
            listed(format, if hidden { Head::Hidden } else { Head::Shown }, &columns, rows)
        }
    };
    text
}

/// An object.
fn object(format: Format, document: &Json, text: String) -> String {
    match format {
        Format::Json | Format::JsonStream => format!("{document}\n"),
        Format::Erlang => format!("{}\n", term(document)),
        Format::Table | Format::PrettyTable | Format::Csv => text,
    }
}

/// Rows under their columns.
fn listed(format: Format, head: Head, columns: &[String], rows: Vec<Vec<Json>>) -> String {
    let objects = |rows: Vec<Vec<Json>>| {
        let object = |row: Vec<Json>| Json::Object(columns.iter().cloned().zip(row).collect::<Map<_, _>>());
        rows.into_iter().map(object).collect::<Vec<_>>()
    };
    match format {
        Format::Json => format!("{}\n", Json::Array(objects(rows))),
        Format::JsonStream => objects(rows).iter().map(|object| format!("{object}\n")).collect(),
        Format::Erlang => erlang(columns, &rows),
        Format::PrettyTable if rows.is_empty() => String::new(),
        Format::PrettyTable => pretty(head, columns, &rows),
        Format::Csv => lines(head, columns, &rows, |cells| cells.map(quoted).collect::<Vec<_>>().join(",")),
        Format::Table => {
            lines(head, columns, &rows, |cells| cells.map(|cell| shown_cell(&cell)).collect::<Vec<_>>().join("\t"))
        }
    }
}

fn lines(
    head: Head,
    columns: &[String],
    rows: &[Vec<Json>],
    line: impl Fn(&mut dyn Iterator<Item = Json>) -> String,
) -> String {
    let mut text = String::new();
    if head == Head::Shown && !rows.is_empty() {
        text += &format!("{}\n", line(&mut columns.iter().map(|name| Json::from(name.as_str()))));
    }
    for row in rows {
        text += &format!("{}\n", line(&mut row.iter().cloned()));
    }
    text
}

/// A cell in a table. Control characters are escaped, because names come from peers.
fn shown_cell(cell: &Json) -> String {
    escaped(&cell_text(cell)).into_owned()
}

/// A cell of CSV (RFC 4180): numbers and booleans as they are, everything else in quotes.
fn quoted(cell: Json) -> String {
    match cell {
        Json::Number(_) | Json::Bool(_) => cell.to_string(),
        other => format!("\"{}\"", shown_cell(&other).replace('"', "\"\"")),
    }
}

fn pretty(head: Head, columns: &[String], rows: &[Vec<Json>]) -> String {
    let mut table = Table::new();
    table.load_style(BORDERS);
    if head == Head::Shown {
        table.set_header(columns);
    }
    for row in rows {
        table.add_row(row.iter().map(shown_cell));
    }
    format!("{table}\n")
}

/// A list of lists of pairs.
fn erlang(columns: &[String], rows: &[Vec<Json>]) -> String {
    let pair = |(name, value): (&String, &Json)| format!("{{{name},{}}}", term(value));
    let row = |row: &Vec<Json>| format!("[{}]", columns.iter().zip(row).map(pair).collect::<Vec<_>>().join(","));
    format!("[{}]\n", rows.iter().map(row).collect::<Vec<_>>().join(",\n "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(line: &str) -> Call {
        Call::parse(&line.split(' ').map(str::to_owned).collect::<Vec<_>>()).unwrap()
    }

    fn rows() -> Output {
        Output::Rows {
            columns: vec!["name".to_owned(), "messages".to_owned()],
            rows: vec![vec!["q".into(), 3.into()], vec!["say \"x\"".into(), 0.into()]],
        }
    }

    #[test]
    fn names_are_neither_lines_nor_commands_of_the_terminal() {
        for (line, expected) in [
            ("v", "name\nq\\r\\n\\u{1b}[2J\n"),
            ("v --formatter csv", "\"name\"\n\"q\\r\\n\\u{1b}[2J\"\n"),
            ("v --formatter json", "[{\"name\":\"q\\r\\n\\u001b[2J\"}]\n"),
            ("v --formatter erlang", "[[{name,<<\"q\\r\\n\\e[2J\">>}]]\n"),
        ] {
            let rows = Output::Rows { columns: vec!["name".to_owned()], rows: vec![vec!["q\r\n\u{1b}[2J".into()]] };
            let call = call(line);
            assert_eq!(shown(&call, Format::of(&call).ok().unwrap(), "", rows), expected, "{line}");
        }
    }

    #[test]
    fn what_is_printed_depends_on_how_it_was_asked_for() {
        let pretty = "┌─────────┬──────────┐\n│ name    │ messages │\n├─────────┼──────────┤\n│ q       │ 3        │\n\
                      ├─────────┼──────────┤\n│ say \"x\" │ 0        │\n└─────────┴──────────┘\n";
        for (line, expected) in [
            ("v", "b\nname\tmessages\nq\t3\nsay \"x\"\t0\n"),
            ("v --formatter table", "b\nname\tmessages\nq\t3\nsay \"x\"\t0\n"),
            ("v -q", "name\tmessages\nq\t3\nsay \"x\"\t0\n"),
            ("v -s", "q\t3\nsay \"x\"\t0\n"),
            ("v --no-table-headers", "b\nq\t3\nsay \"x\"\t0\n"),
            ("v --formatter json", "[{\"messages\":3,\"name\":\"q\"},{\"messages\":0,\"name\":\"say \\\"x\\\"\"}]\n"),
            (
                "v --formatter=json_stream",
                "{\"messages\":3,\"name\":\"q\"}\n{\"messages\":0,\"name\":\"say \\\"x\\\"\"}\n",
            ),
            ("v --formatter csv", "\"name\",\"messages\"\n\"q\",3\n\"say \"\"x\"\"\",0\n"),
            ("v --formatter csv -s", "\"q\",3\n\"say \"\"x\"\"\",0\n"),
            (
                "v --formatter erlang -q",
                "[[{name,<<\"q\">>},{messages,3}],\n [{name,<<\"say \\\"x\\\"\">>},{messages,0}]]\n",
            ),
            ("v --formatter pretty_table -q", pretty),
        ] {
            let call = call(line);
            let format = Format::of(&call).unwrap_or_else(|refusal| panic!("{line}: {}", refusal.text));
            assert_eq!(shown(&call, format, "b", rows()), expected, "{line}");
        }
        assert_eq!(shown(&call("v -q"), Format::Table, "b", Output::Nothing), "");
        assert_eq!(shown(&call("v"), Format::Json, "b", Output::Text("said\n".to_owned())), "{\"message\":\"said\"}\n");
        let status = || Output::Object { document: json!({ "pid": 7 }), text: "pid: 7\n".to_owned() };
        assert_eq!(shown(&call("v"), Format::Json, "b", status()), "{\"pid\":7}\n");
        assert_eq!(shown(&call("v"), Format::Table, "b", status()), "b\npid: 7\n");
    }

    #[test]
    fn a_format_that_is_not_known_is_refused_by_name() {
        let refusal = Format::of(&call("v --formatter nope")).unwrap_err();
        assert_eq!(refusal.code, 64);
        assert!(refusal.text.contains("'nope'") && refusal.text.contains("json_stream"), "{}", refusal.text);
    }
}
