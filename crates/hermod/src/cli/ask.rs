//! Asks a running server: over its control socket, or from another machine over HTTP.

use management::control::{Answer, Request};
use management::{Change, Listed, Refused, Why};

use crate::cli::remote::Remote;
use crate::config::Settings;
#[cfg(unix)]
use crate::data_dir;
use crate::exit::{Exit, Failure};

/// The broker that a command is for.
pub(crate) struct Server {
    pub(crate) settings: Settings,
    /// On another machine; otherwise it is the one with the data directory of the settings.
    pub(crate) remote: Option<Remote>,
}

/// The answer of the server.
pub(crate) fn ask(server: &Server, request: &Request) -> Result<Answer, Failure> {
    match &server.remote {
        Some(remote) => remote.ask(request),
        None => over_the_socket(&server.settings, request),
    }
}

/// The answer of the server with the data directory of `settings`.
#[cfg(unix)]
fn over_the_socket(settings: &Settings, request: &Request) -> Result<Answer, Failure> {
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

/// Systems without UNIX sockets have no control socket.
#[cfg(not(unix))]
fn over_the_socket(_: &Settings, _: &Request) -> Result<Answer, Failure> {
    Err(Exit::Usage.because(
        "this system has no control socket: ask over HTTP, with hermod --url http://localhost:15672 or a context",
    ))
}

/// Asks the server for a change. Returns the number of messages or connections that it deleted or
/// closed.
pub(crate) fn change(server: &Server, change: Change) -> Result<u64, Failure> {
    match ask(server, &Request::Change(change))? {
        Answer::Changed(count) => Ok(count),
        Answer::NotChanged(refused) => Err(refusal(refused)),
        other => Err(strange(&other)),
    }
}

/// How a command ends if the server refuses it.
pub(crate) fn refusal(refused: Refused) -> Failure {
    let exit = match refused.why {
        Why::NotFound => Exit::NotFound,
        Why::Denied => Exit::NoPermission,
        Why::Invalid => Exit::CannotCreate,
        Why::Failed => Exit::Unavailable,
    };
    Failure { items: refused.items, ..exit.because(refused.text) }
}

/// Which objects to list.
pub(crate) struct Wanted {
    pub(crate) what: Listed,
    /// Only those in this vhost.
    pub(crate) vhost: Option<String>,
    /// Only these fields; all if there are none.
    pub(crate) fields: Vec<String>,
}

/// All objects of one kind, or those in a vhost, in the shape of RabbitMQ's HTTP API.
pub(crate) fn list(server: &Server, what: Listed, vhost: Option<&str>) -> Result<Vec<serde_json::Value>, Failure> {
    list_fields(server, Wanted { what, vhost: vhost.map(str::to_owned), fields: Vec::new() })
}

/// Some fields of all objects of one kind.
pub(crate) fn list_fields(server: &Server, wanted: Wanted) -> Result<Vec<serde_json::Value>, Failure> {
    let Wanted { what, vhost, fields } = wanted;
    match ask(server, &Request::List { what, vhost, fields })? {
        Answer::List(rows) => Ok(rows),
        other => Err(strange(&other)),
    }
}

/// The failure if the answer is of another kind than the request.
pub(crate) fn strange(answer: &Answer) -> Failure {
    Exit::Bug.because(format!("the server answered another question: {answer:?}; is it of another version?"))
}
