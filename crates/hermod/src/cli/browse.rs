//! `hermod browse`: the messages of a queue, without taking them.

use management::MessageRow;
use management::control::{Answer, Request};

use crate::cli::Which;
use crate::cli::ask::{Server, ask, refusal, strange};
use crate::cli::output::{Form, show, show_json};
use crate::cli::table;
use crate::config::value::size;
use crate::exit::{Exit, Failure};

/// The most characters of a body or of the headers in a table.
const WIDTH: usize = 60;

/// Asks and prints.
pub(crate) fn run(server: &Server, which: &Which, form: Form) -> Result<(), Failure> {
    let Which { vhost, queue, selector, limit } = which.clone();
    let rows = match ask(server, &Request::Browse { vhost, queue, selector, limit })? {
        Answer::Browsed(rows) => rows,
        Answer::NoSuchQueue(text) => return Err(Exit::NotFound.because(text)),
        Answer::Refused(text) => return Err(Exit::Usage.because(text)),
        Answer::NotChanged(refused) => return Err(refusal(refused)),
        other => return Err(strange(&other)),
    };
    if form == Form::Json {
        return show_json(&rows);
    }
    let rows: Vec<_> = rows.iter().map(row).collect();
    show(&table::text(&["number", "exchange", "key", "redelivered", "size", "headers", "body"], &rows))
}

fn row(message: &MessageRow) -> Vec<String> {
    let headers: Vec<_> = message.headers.iter().map(|(name, value)| format!("{name}={value}")).collect();
    vec![
        message.number.to_string(),
        message.exchange.clone(),
        message.routing_key.clone(),
        if message.redelivered { "yes" } else { "no" }.to_owned(),
        size(message.bytes),
        beginning(&headers.join(" ")),
        beginning(&message.body),
    ]
}

/// The beginning of a text, as much as fits a line.
fn beginning(text: &str) -> String {
    let mut line = String::new();
    for char in text.chars().take(WIDTH) {
        match char.is_control() {
            true => line.extend(char.escape_debug()),
            false => line.push(char),
        }
    }
    if text.chars().nth(WIDTH).is_some() {
        line.push('…');
    }
    line
}
