//! `hermod repair`: finds the unreadable messages of a queue, and gives them up so that the queue
//! can go on.

use management::control::{Answer, Request};

use crate::cli::ask::{ask, strange};
use crate::cli::counted;
use crate::cli::output::{show, show_json};
use crate::config::Settings;
use crate::exit::{Exit, Failure};

/// Asks the broker to read a queue, and with `accept_loss` to give up the unreadable messages.
pub(crate) fn run(settings: &Settings, vhost: &str, queue: &str, accept_loss: bool, json: bool) -> Result<(), Failure> {
    let request = Request::Repair { vhost: vhost.to_owned(), queue: queue.to_owned(), accept_loss };
    let row = match ask(settings, &request)? {
        Answer::Repaired(Some(row)) => row,
        Answer::Repaired(None) => {
            return Err(Exit::NotFound.because(format!("there is no queue '{queue}' in vhost '{vhost}'")));
        }
        other => return Err(strange(&other)),
    };
    if json {
        return show_json(&row);
    }
    let (first, last) = row.numbers;
    let text = if row.unreadable == 0 {
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
    show(&text)
}
