//! Asks a running server over its control socket.

use management::control::{Answer, Request};

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

/// For an answer to another question than the one that was asked.
pub(crate) fn strange(answer: &Answer) -> Failure {
    Exit::Bug.because(format!("the server answered another question: {answer:?}; is it of another version?"))
}
