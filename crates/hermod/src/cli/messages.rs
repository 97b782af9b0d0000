//! `hermod publish` and `hermod consume`: messages from and to a shell.
//!
//! A publish has ended when the broker has confirmed it. A message leaves its queue as it is
//! fetched, one at a time, and is printed then: it is lost if it can't be printed.

use std::io::{BufRead, Read, stdin};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::{Arg, ArgAction, ArgMatches, Command};
use management::PublishFields;
use management::control::{Answer, Request};
use serde_json::{Map, Value as Json, json};

use crate::cli::arguments::{ask_for, option, position, text, vhost, words};
use crate::cli::ask::{Server, ask, refusal, strange};
use crate::cli::counted;
use crate::cli::output::{Form, Reader, show, show_body, show_json, show_more_json};
use crate::exit::{Exit, Failure};

/// Longest body, and longest line of standard input.
const LONGEST: u64 = 16 << 20;
/// How long `--follow` waits before it looks again into an empty queue.
const PAUSE: Duration = Duration::from_millis(500);
/// Properties whose values are numbers.
const NUMBERS: [&str; 3] = ["priority", "delivery_mode", "timestamp"];

/// The arguments of `hermod publish`.
pub(crate) fn publish_command(command: Command) -> Command {
    let several = |name: &'static str, help: &'static str| {
        option(name, "NAME=VALUE", help).action(ArgAction::Append).allow_hyphen_values(true)
    };
    command
        .arg(position("key", "KEY", "The routing key; without --exchange the name of a queue"))
        .arg(
            Arg::new("body")
                .value_name("BODY")
                .allow_hyphen_values(true)
                .help("The body [default: all of standard input]"),
        )
        .arg(option("exchange", "EXCHANGE", "The exchange").default_value("").hide_default_value(true))
        .arg(option("file", "FILE", "A file with the body").conflicts_with("body"))
        .arg(ask_for("lines", "Publish each line of standard input").conflicts_with_all(["body", "file"]))
        .arg(several("header", "A header; NAME:=JSON for a value that is no text"))
        .arg(several("property", "A property, such as content_type or priority"))
        .arg(ask_for("transient", "Not persistent: a crash may lose it"))
        .arg(
            option("count", "N", "How often to publish it")
                .value_parser(clap::value_parser!(u64))
                .default_value("1")
                .hide_default_value(true),
        )
        .arg(vhost())
}

/// The arguments of `hermod consume`.
pub(crate) fn consume_command(command: Command) -> Command {
    command
        .arg(position("queue", "QUEUE", "The queue"))
        .arg(option("count", "N", "The largest number of messages").value_parser(clap::value_parser!(u64)))
        .arg(ask_for("follow", "Wait for more messages, until Ctrl-C"))
        .arg(vhost())
}

/// Runs `hermod publish`.
pub(crate) fn publish(server: &Server, given: &ArgMatches, form: Form) -> Result<(), Failure> {
    let mut outgoing = Outgoing {
        server,
        vhost: text(given, "vhost"),
        exchange: text(given, "exchange"),
        key: text(given, "key"),
        properties: properties(given)?,
        confirmed: 0,
        unroutable: 0,
    };
    let count = given.get_one::<u64>("count").copied().unwrap_or(1);
    if given.get_flag("lines") {
        let mut input = stdin().lock();
        while let Some(line) = line(&mut input)? {
            (0..count).try_for_each(|_| outgoing.publish(&line))?;
        }
    } else {
        let body = body(given)?;
        (0..count).try_for_each(|_| outgoing.publish(&body))?;
    }
    let Outgoing { confirmed, unroutable, .. } = outgoing;
    if form == Form::Json {
        show_json(&json!({ "confirmed": confirmed, "unroutable": unroutable }))?;
    } else {
        show(&format!("{} confirmed\n", counted(confirmed, ["message", "messages"])))?;
    }
    match unroutable {
        0 => Ok(()),
        lost => Err(Exit::NotFound.because(format!(
            "{} reached no queue: no binding of the exchange leads to one",
            counted(lost, ["message", "messages"])
        ))),
    }
}

/// What is published, and what came of it.
struct Outgoing<'s> {
    server: &'s Server,
    vhost: String,
    exchange: String,
    key: String,
    properties: Map<String, Json>,
    confirmed: u64,
    unroutable: u64,
}

impl Outgoing<'_> {
    fn publish(&mut self, body: &[u8]) -> Result<(), Failure> {
        let (payload, encoding) = match str::from_utf8(body) {
            Ok(text) => (text.to_owned(), "string"),
            Err(_) => (STANDARD.encode(body), "base64"),
        };
        let message = PublishFields {
            routing_key: self.key.clone(),
            properties: self.properties.clone(),
            payload,
            payload_encoding: encoding.to_owned(),
        };
        let request = Request::Publish { vhost: self.vhost.clone(), exchange: self.exchange.clone(), message };
        match ask(self.server, &request).map_err(|failure| self.after(failure))? {
            Answer::Published(true) => self.confirmed += 1,
            Answer::Published(false) => self.unroutable += 1,
            Answer::NotChanged(refused) => return Err(self.after(refusal(refused))),
            other => return Err(strange(&other)),
        }
        Ok(())
    }

    /// A failure that says what was confirmed before it, so that it is not published again.
    fn after(&self, failure: Failure) -> Failure {
        if self.confirmed + self.unroutable == 0 {
            return failure;
        }
        let before = counted(self.confirmed, ["message was", "messages were"]);
        Failure { text: format!("{} ({before} confirmed before)", failure.text), ..failure }
    }
}

/// The properties that the arguments name, with the headers among them.
fn properties(given: &ArgMatches) -> Result<Map<String, Json>, Failure> {
    let mut all = Map::new();
    if !given.get_flag("transient") {
        all.insert("delivery_mode".to_owned(), json!(2));
    }
    for property in words(given, "property") {
        let (name, value) = field("--property", &property)?;
        let value = match (&value, NUMBERS.contains(&name.as_str())) {
            (Json::String(text), true) => text.parse::<u64>().map_or(value, Json::from),
            _ => value,
        };
        all.insert(name, value);
    }
    let headers =
        words(given, "header").iter().map(|header| field("--header", header)).collect::<Result<Map<_, _>, _>>()?;
    if !headers.is_empty() {
        all.insert("headers".to_owned(), Json::Object(headers));
    }
    Ok(all)
}

/// `NAME=TEXT`, or `NAME:=JSON`.
fn field(flag: &str, text: &str) -> Result<(String, Json), Failure> {
    let wrong = |why: &dyn std::fmt::Display| {
        Exit::Usage.because(format!("{flag} '{text}': {why}; write NAME=TEXT, or NAME:=JSON"))
    };
    let (name, value) = text.split_once('=').ok_or_else(|| wrong(&"there is no ="))?;
    match name.strip_suffix(':') {
        Some(name) => Ok((name.to_owned(), serde_json::from_str(value).map_err(|error| wrong(&error))?)),
        None => Ok((name.to_owned(), json!(value))),
    }
}

/// The body that the arguments name.
fn body(given: &ArgMatches) -> Result<Vec<u8>, Failure> {
    if let Some(body) = given.get_one::<String>("body") {
        return Ok(body.clone().into_bytes());
    }
    let file = given.get_one::<String>("file");
    let name = file.map_or("standard input", String::as_str);
    let input: Box<dyn Read> = match file {
        Some(file) => {
            let opened = std::fs::File::open(file);
            Box::new(opened.map_err(|error| Exit::NotFound.because(format!("{file}: {error}")))?)
        }
        None => Box::new(stdin()),
    };
    let mut body = Vec::new();
    let read = input.take(LONGEST + 1).read_to_end(&mut body);
    read.map_err(|error| Exit::Io.because(format!("{name}: {error}")))?;
    if body.len() as u64 > LONGEST {
        return Err(Exit::BadData.because(format!("{name} has more than {LONGEST} bytes: publish it with a client")));
    }
    Ok(body)
}

/// The next line of an input, without its end; `None` at the end.
fn line(input: &mut impl BufRead) -> Result<Option<Vec<u8>>, Failure> {
    let mut line = Vec::new();
    let read = input.take(LONGEST).read_until(b'\n', &mut line);
    if read.map_err(|error| Exit::Io.because(format!("standard input: {error}")))? == 0 {
        return Ok(None);
    }
    if line.pop_if(|last| *last == b'\n').is_some() {
        line.pop_if(|last| *last == b'\r');
    }
    Ok(Some(line))
}

/// Runs `hermod consume`.
pub(crate) fn consume(server: &Server, given: &ArgMatches, form: Form) -> Result<(), Failure> {
    let (vhost, queue) = (text(given, "vhost"), text(given, "queue"));
    let mut left = given.get_one::<u64>("count").copied().unwrap_or(u64::MAX);
    while left > 0 {
        let request = Request::Fetch { vhost: vhost.clone(), queue: queue.clone(), count: 1 };
        let fetched = match ask(server, &request)? {
            Answer::Fetched(fetched) => fetched,
            Answer::NotChanged(refused) => return Err(refusal(refused)),
            other => return Err(strange(&other)),
        };
        for message in &fetched {
            if print(message, form)? == Reader::Gone {
                return Ok(());
            }
        }
        left -= (fetched.len() as u64).min(left);
        match (fetched.is_empty(), given.get_flag("follow")) {
            (false, _) => {}
            (true, true) => std::thread::sleep(PAUSE),
            (true, false) => return Ok(()),
        }
    }
    Ok(())
}

fn print(message: &Json, form: Form) -> Result<Reader, Failure> {
    if form == Form::Json {
        return show_more_json(message);
    }
    let payload = message["payload"].as_str().unwrap_or_default();
    match message["payload_encoding"].as_str() {
        Some("base64") => show_body(&STANDARD.decode(payload).unwrap_or_default()),
        _ => show_body(payload.as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_texts_or_json() {
        for (text, expected) in [
            ("a=b", Some(("a", json!("b")))),
            ("a=b=c", Some(("a", json!("b=c")))),
            ("a:=5", Some(("a", json!(5)))),
            ("a:=[true]", Some(("a", json!([true])))),
            ("a=", Some(("a", json!("")))),
            ("a", None),
            ("a:=x", None),
        ] {
            let found = field("--header", text).ok();
            assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value)), "{text}");
        }
    }

    #[test]
    fn lines_have_no_ends() {
        let mut input = &b"one\r\ntwo\n\nlast"[..];
        let mut lines = Vec::new();
        while let Some(line) = line(&mut input).unwrap() {
            lines.push(String::from_utf8(line).unwrap());
        }
        assert_eq!(lines, ["one", "two", "", "last"]);
    }
}
