//! `hermod repair`: finds the unreadable messages of a queue, and gives them up so that the queue
//! can go on.

use clap::ArgMatches;
use management::control::{Answer, Request};

use crate::cli::arguments::text;
use crate::cli::ask::{Server, ask, strange};
use crate::cli::counted;
use crate::cli::output::{Form, show, show_json};
use crate::exit::{Exit, Failure};

/// Runs `hermod repair`: asks the broker to read a queue, and with `--accept-loss` to give up the
/// unreadable messages.
pub(crate) fn run(server: &Server, arguments: &ArgMatches, form: Form) -> Result<(), Failure> {
    let (vhost, queue) = (&text(arguments, "vhost"), &text(arguments, "queue"));
    let accept_loss = arguments.get_flag("accept-loss");
    let request = Request::Repair { vhost: vhost.clone(), queue: queue.clone(), accept_loss };
    let row = match ask(server, &request)? {
        Answer::Repaired(Some(row)) => row,
        Answer::Repaired(None) => {
            return Err(Exit::NotFound.because(format!("there is no queue '{queue}' in vhost '{vhost}'")));
        }
        other => return Err(strange(&other)),
    };
    if form == Form::Json {
        return show_json(&row);
    }
    let (first, last) = row.numbers;
    let summary = if row.unreadable == 0 {
        format!("{queue}: {} read back, none is lost\n", counted(row.read, ["message", "messages"]))
    } else if accept_loss {
        let given_up = counted(row.given_up, ["message", "messages"]);
        format!("{queue}: {given_up} given up, numbers {first} to {last}; {} readable\n", row.read)
    } else {
        format!(
            "{queue}: {} can't be read, numbers {first} to {last}; {} can; nothing was changed; with --accept-loss \
             they are given up for good and the queue goes on\n",
            counted(row.unreadable, ["message", "messages"]),
            row.read
        )
    };
    show(&summary)
}
