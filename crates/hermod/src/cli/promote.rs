//! `hermod promote`: a standby serves from now on. What is lost at most is said before.

use std::io::{IsTerminal, Write};

use clap::{Arg, ArgAction, ArgMatches, Command};
use management::control::{Answer, Request};
use management::{Promotion, lost_at_most};

use crate::cli::ask::{Server, ask, strange};
use crate::cli::cluster::standby;
use crate::cli::output::show;
use crate::exit::{Exit, Failure};

/// Its flags.
pub(crate) fn command(command: Command) -> Command {
    command
        .arg(Arg::new("yes").long("yes").action(ArgAction::SetTrue).help("Do not ask before something may be lost"))
        .arg(Arg::new("planned").long("planned").action(ArgAction::SetTrue).help(
        "The node that serves stops first and sends everything, so that nothing is lost. It does not serve after that",
    ))
}

/// Asks, and promotes.
pub(crate) fn run(server: &Server, arguments: &ArgMatches) -> Result<(), Failure> {
    let Some(row) = standby(server)? else {
        return Err(Exit::CannotCreate.because("this node serves clients already, and follows none"));
    };
    if !row.whole {
        return Err(
            Exit::CannotCreate.because("this node has no whole copy yet, so there is nothing that it could serve")
        );
    }
    let promotion = if arguments.get_flag("planned") { Promotion::Planned } else { Promotion::Now };
    show(&format!("{}\n", lost_at_most(&row, promotion)))?;
    if promotion == Promotion::Now && !arguments.get_flag("yes") && !agrees()? {
        return Err(Exit::CannotCreate.because("nothing was changed"));
    }
    match ask(server, &Request::Promote(promotion))? {
        Answer::Promoted(text) => show(&format!("{text}\n")),
        Answer::Refused(text) => Err(Exit::CannotCreate.because(text)),
        other => Err(strange(&other)),
    }
}

fn agrees() -> Result<bool, Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(Exit::Usage.because("there is no terminal to ask at: add --yes to promote the node nevertheless"));
    }
    let failed = |error: std::io::Error| Exit::System.because(format!("the terminal can't be asked: {error}"));
    print!("Promote it? [y/N] ");
    std::io::stdout().flush().map_err(failed)?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(failed)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
