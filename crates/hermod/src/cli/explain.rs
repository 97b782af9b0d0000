//! `hermod explain`: who may do what and by which rule, where a message would go, which policies
//! apply to a queue, and what an error means.

use clap::{Arg, ArgMatches, Command};
use management::control::{Answer, Request};
use management::{Explain, Explanation, explain_error};
use serde_json::{Map, Value as Json, json};

use crate::cli::arguments::{option, position, text, vhost, words};
use crate::cli::ask::{Server, ask, strange};
use crate::cli::output::{Form, show, show_json};
use crate::cli::table;
use crate::exit::{Exit, Failure};

/// Its verbs.
pub(crate) fn command(command: Command) -> Command {
    command
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            Command::new("access")
                .about("What a user may do, and by which pattern")
                .arg(position("user", "USER", "The user"))
                .arg(position("in", "VHOST", "The vhost"))
                .arg(position("kind", "KIND", "queue, exchange or vhost"))
                .arg(Arg::new("name").value_name("NAME").default_value("").help("The queue or the exchange"))
                .arg(option("key", "KEY", "A routing key, for topic permissions"))
                .arg(option("client", "NAME", "What its client is called, for patterns with {client_id}")),
        )
        .subcommand(
            Command::new("route")
                .about("Where a message would go")
                .arg(position("exchange", "EXCHANGE", "The exchange; '' for the default exchange"))
                .arg(position("key", "KEY", "The routing key"))
                .arg(Arg::new("headers").value_name("NAME=VALUE").num_args(0..).help("Its headers"))
                .arg(vhost()),
        )
        .subcommand(
            Command::new("policy")
                .about("Which policies apply to a queue, and why the others do not")
                .arg(position("queue", "QUEUE", "The queue"))
                .arg(vhost()),
        )
        .subcommand(Command::new("error").about("What an error means, and what to do").arg(position(
            "text",
            "TEXT",
            "Its text, or its code",
        )))
}

/// Asks and prints.
pub(crate) fn run(server: &Server, arguments: &ArgMatches, form: Form) -> Result<(), Failure> {
    let Some((verb, given)) = arguments.subcommand() else { return Err(Exit::Usage.because("explain what?")) };
    let given_text = |name: &str| text(given, name);
    let what = match verb {
        "access" => Explain::Access {
            user: given_text("user"),
            vhost: given_text("in"),
            kind: given_text("kind"),
            name: given_text("name"),
            key: given.get_one::<String>("key").cloned(),
            client: given.get_one::<String>("client").cloned(),
        },
        "route" => Explain::Route {
            vhost: given_text("vhost"),
            exchange: given_text("exchange"),
            routing_key: given_text("key"),
            headers: headers(&words(given, "headers"))?,
        },
        "policy" => Explain::Policies { vhost: given_text("vhost"), queue: given_text("queue") },
        _ => return print(&explain_error(&given_text("text")), form),
    };
    match ask(server, &Request::Explain(what))? {
        Answer::Explained(found) => print(&found, form),
        Answer::NoSuchQueue(text) => Err(Exit::NotFound.because(text)),
        Answer::Refused(text) => Err(Exit::Usage.because(text)),
        other => Err(strange(&other)),
    }
}

/// Headers as words: a whole number and a truth value are such, anything else is text.
fn headers(words: &[String]) -> Result<Map<String, Json>, Failure> {
    let pair = |word: &String| {
        let (name, value) = word.split_once('=')?;
        let value = match (value.parse::<i64>(), value) {
            (Ok(number), _) => json!(number),
            (_, "true") => json!(true),
            (_, "false") => json!(false),
            (_, text) => json!(text),
        };
        Some((name.to_owned(), value))
    };
    let all: Option<Map<String, Json>> = words.iter().map(pair).collect();
    all.ok_or_else(|| Exit::Usage.because("a header is written as NAME=VALUE"))
}

fn print(found: &Explanation, form: Form) -> Result<(), Failure> {
    if form == Form::Json {
        return show_json(found);
    }
    let rows: Vec<_> =
        found.steps.iter().map(|one| vec![one.subject.clone(), one.outcome.clone(), one.reason.clone()]).collect();
    let mut text = format!("{}\n", found.verdict);
    if !rows.is_empty() {
        text.push_str(&format!("\n{}", table::text(&["asked", "answer", "because"], &rows)));
    }
    if !found.advice.is_empty() {
        text.push_str(&format!("\n{}\n", found.advice));
    }
    show(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_have_the_types_that_they_look_like() {
        let words = ["a=1", "b=true", "c=x=y", "d="].map(str::to_owned);
        let expected = json!({ "a": 1, "b": true, "c": "x=y", "d": "" });
        assert_eq!(Json::Object(headers(&words).ok().unwrap()), expected);
        assert!(headers(&["none".to_owned()]).is_err());
    }
}
