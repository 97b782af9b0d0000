//! Asks a running server over its control socket.

use management::control::{Answer, Request};
use management::{Change, Listed, Refused, Why};

use crate::config::Settings;
use crate::data_dir;
use crate::exit::{Exit, Failure};

/// The answer of the server whose data directory `settings` name.
#[cfg(unix)]
pub(crate) fn ask(settings: &Settings, request: &Request) -> Result<Answer, Failure> {
    use std::io::ErrorKind;

    use management::control::AskError;

    let path = data_dir::control_socket(settings)?;
    let shown = path.display();
    management::control::ask(&path, request).map_err(|error| match error {
        AskError::NoServer(error) if error.kind() == ErrorKind::PermissionDenied => {
            Exit::Unavailable.because(format!("{shown}: permission denied; ask as the user that runs the server"))
        }
        AskError::NoServer(error) => Exit::Unavailable
            .because(format!("no server answers at {shown} ({error}); start one, or name its --data-dir")),
        AskError::Failed(text) => Exit::Unavailable.because(format!("the server at {shown} gave no answer: {text}")),
    })
}

/// There are no UNIX sockets here.
#[cfg(not(unix))]
pub(crate) fn ask(settings: &Settings, _: &Request) -> Result<Answer, Failure> {
    let path = data_dir::control_socket(settings)?;
    Err(Exit::Unavailable
        .because(format!("{}: this system has no such sockets; ask over HTTP instead", path.display())))
}

/// Has the server change something. Returns how many messages or connections that cost.
pub(crate) fn change(settings: &Settings, change: Change) -> Result<u64, Failure> {
    match ask(settings, &Request::Change(change))? {
        Answer::Changed(count) => Ok(count),
        Answer::NotChanged(refused) => Err(refusal(refused)),
        other => Err(strange(&other)),
    }
}

/// How a command ends that the server refuses.
pub(crate) fn refusal(refused: Refused) -> Failure {
    let exit = match refused.why {
        Why::NotFound => Exit::NotFound,
        Why::Denied => Exit::NoPermission,
        Why::Invalid => Exit::CannotCreate,
        Why::Failed => Exit::Unavailable,
    };
    Failure { items: refused.items, ..exit.because(refused.text) }
}

/// Everything of one kind, or what of it is in a vhost, in the shape of RabbitMQ's HTTP API.
pub(crate) fn list(settings: &Settings, what: Listed, vhost: Option<&str>) -> Result<Vec<serde_json::Value>, Failure> {
    match ask(settings, &Request::List { what, vhost: vhost.map(str::to_owned) })? {
        Answer::List(rows) => Ok(rows),
        other => Err(strange(&other)),
    }
}

/// For an answer to another question than the one that was asked.
pub(crate) fn strange(answer: &Answer) -> Failure {
    Exit::Bug.because(format!("the server answered another question: {answer:?}; is it of another version?"))
}
