//! `hermod connections`: the connections of a running broker, and the end of one.

use management::ConnectionRow;
use management::control::{Answer, Request};

use crate::cli::ask::{ask, strange};
use crate::cli::output::{show, show_json};
use crate::cli::status::size;
use crate::cli::table;
use crate::config::Settings;
use crate::exit::{Exit, Failure};

/// Closes the connection `close`, if given, else lists all.
pub(crate) fn run(settings: &Settings, close: Option<u64>, reason: &str, json: bool) -> Result<(), Failure> {
    if let Some(id) = close {
        return match ask(settings, &Request::Close { id, reason: reason.to_owned() })? {
            Answer::Closed(true) => Ok(()),
            Answer::Closed(false) => Err(Exit::NotFound.because(format!("there is no connection {id}"))),
            other => Err(strange(&other)),
        };
    }
    let connections = match ask(settings, &Request::Connections)? {
        Answer::Connections(connections) => connections,
        other => return Err(strange(&other)),
    };
    if json {
        return show_json(&connections);
    }
    let rows: Vec<_> = connections.iter().map(row).collect();
    let head =
        ["id", "user", "vhost", "protocol", "peer", "name", "sessions", "consumers", "state", "received", "sent"];
    show(&table::text(&head, &rows))
}

fn row(connection: &ConnectionRow) -> Vec<String> {
    vec![
        connection.id.map_or_else(|| "-".to_owned(), |id| id.to_string()),
        connection.user.clone(),
        connection.vhost.clone(),
        connection.protocol.clone(),
        connection.peer.clone(),
        connection.name.clone(),
        connection.sessions.to_string(),
        connection.consumers.to_string(),
        connection.state.clone(),
        size(connection.bytes_in),
        size(connection.bytes_out),
    ]
}
