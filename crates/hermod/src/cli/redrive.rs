//! `hermod redrive`: moves dead letters back to where they came from.

use clap::ArgMatches;
use management::control::{Answer, Request};

use crate::cli::ask::{Server, ask, strange};
use crate::cli::live::Live;
use crate::cli::output::{Form, show, show_json};
use crate::cli::{Which, counted};
use crate::exit::{Exit, Failure};

/// Runs `hermod redrive`: asks the broker to move the dead letters of a queue back. With
/// `--dry-run`, they are only counted.
pub(crate) fn run(server: &Server, arguments: &ArgMatches, form: Form) -> Result<(), Failure> {
    let Which { vhost, queue, selector, limit } = Which::of(arguments);
    let dry_run = arguments.get_flag("dry-run");
    let live = Live::doing("redrive");
    let answer = ask(server, &Request::Redrive { vhost, queue: queue.clone(), selector, limit, dry_run });
    drop(live);
    let row = match answer? {
        Answer::Redriven(row) => row,
        Answer::NoSuchQueue(text) => return Err(Exit::NotFound.because(text)),
        Answer::Refused(text) => return Err(Exit::Usage.because(text)),
        other => return Err(strange(&other)),
    };
    if form == Form::Json {
        return show_json(&row);
    }
    let went = if dry_run { "would go back" } else { "went back to where they came from" };
    let mut text = format!("{queue}: {} {went}\n", counted(row.moved, ["message", "messages"]));
    for (count, why) in [
        (row.alive, "never died"),
        (row.homeless, "have nowhere to go back to: neither their queue is there nor a binding"),
        (row.refused, "stay because their queue is full, or the log too small for them"),
    ] {
        if count > 0 {
            text += &format!("{queue}: {count} {why}\n");
        }
    }
    if row.out_of_room {
        text += &format!("{queue}: the disk has no room for more; redrive again when there is some\n");
    }
    show(&text)
}
