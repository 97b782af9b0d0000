//! `hermod health`: whether a broker serves, for probes that have no HTTP client. Only the exit
//! code counts; the line is for people.

use clap::{Arg, ArgMatches, Command};
use management::control::{Answer, Request};

use crate::cli::ask::{Server, ask, strange};
use crate::cli::output::{Form, show, show_json};
use crate::exit::{Exit, Failure};

/// The arguments of the verb.
pub(crate) fn command(command: Command) -> Command {
    command.arg(
        Arg::new("what")
            .value_name("WHAT")
            .value_parser(["ready", "writable"])
            .default_value("ready")
            .help("ready: it serves; writable: it takes publishes, too"),
    )
}

/// Asks, and prints a word. It fails if the broker is not in that state.
pub(crate) fn run(server: &Server, given: &ArgMatches, form: Form) -> Result<(), Failure> {
    let status = match ask(server, &Request::Status)? {
        Answer::Status(status) => status,
        other => return Err(strange(&other)),
    };
    let what = given.get_one::<String>("what").map_or("ready", String::as_str);
    let alarms = &status.server.alarms;
    if what == "writable" && !alarms.is_empty() {
        let short = alarms.join(" and ");
        return Err(Exit::Unavailable.because(format!("low on {short}; publishers are stopped until there is room")));
    }
    match form {
        Form::Json => show_json(&serde_json::json!({ "status": what })),
        Form::Text => show(&format!("{what}\n")),
    }
}
