//! The control socket: how the command line talks to a running broker.
//!
//! A UNIX socket in the data directory, readable by its owner only, so whoever may read the data
//! may ask. A request is one line of JSON, the answer another. Both ends are here. A request line
//! has a limit and a time limit, and few connections are served at a time: a stuck script must not
//! tie up the server.

use serde::{Deserialize, Serialize};

use crate::change::{Change, Refused, Secret};
use crate::definitions::{Extent, Imported};
use crate::listing::Listed;
use crate::report::{BackupRow, ConnectionRow, MessageRow, QueueRow, RedriveRow, RepairRow, Status};

/// Most bytes of a document of definitions.
pub const LONGEST_DEFINITIONS: u64 = 32 << 20;
/// Connections that the control socket serves at a time, each with a thread: most answers wait for
/// the disk or grow with what there is.
pub(crate) const AT_A_TIME: usize = 8;
/// Longest request line in bytes: such a document, with what JSON needs to quote it.
#[cfg(unix)]
const LONGEST_REQUEST: u64 = 2 * LONGEST_DEFINITIONS + 1024;

/// What can be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// One screen about the broker.
    Status,
    /// All queues.
    Queues,
    /// All connections.
    Connections,
    /// Lists things of one kind.
    List {
        /// Of which.
        what: Listed,
        /// Only those in this vhost.
        vhost: Option<String>,
    },
    /// Changes something.
    Change(Change),
    /// Everything that is kept, as a document of definitions.
    Export,
    /// Takes such a document over.
    Import {
        /// The document.
        document: String,
        /// Leave out what is not supported.
        skip_unsupported: bool,
        /// The vhost that all of it goes into; `None` for what the document says.
        #[serde(default)]
        vhost: Option<String>,
        /// Whether anything is to change.
        #[serde(default)]
        extent: Extent,
    },
    /// Tries a user's password.
    Authenticate {
        /// The user.
        user: String,
        /// The password.
        password: Secret,
    },
    /// Reads every message of a queue that only the disk has.
    Repair {
        /// The vhost.
        vhost: String,
        /// The queue.
        queue: String,
        /// Settle those that can't be read, so that the queue goes on.
        accept_loss: bool,
    },
    /// Shows messages of a queue and takes none.
    Browse {
        /// The vhost.
        vhost: String,
        /// The queue.
        queue: String,
        /// Only messages that it is true of; blank for all.
        selector: String,
        /// How many, from the front.
        limit: u64,
    },
    /// Moves dead letters back to where they came from.
    Redrive {
        /// The vhost.
        vhost: String,
        /// The queue that they are in.
        queue: String,
        /// Only messages that it is true of; blank for all.
        selector: String,
        /// No more than so many.
        limit: u64,
        /// Only count.
        dry_run: bool,
    },
    /// Copies the data directory.
    Backup {
        /// Where to: an absolute path of the server's machine, new or empty.
        directory: String,
    },
}

impl Request {
    /// Whether the answer takes as long as reading much of the disk does.
    #[cfg(unix)]
    fn takes_long(&self) -> bool {
        matches!(
            self,
            Self::Repair { .. }
                | Self::Browse { .. }
                | Self::Redrive { .. }
                | Self::Backup { .. }
                | Self::Import { .. }
        )
    }
}

/// The answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// To [`Request::Status`].
    Status(Box<Status>),
    /// To [`Request::Queues`].
    Queues(Vec<QueueRow>),
    /// To [`Request::Connections`].
    Connections(Vec<ConnectionRow>),
    /// To [`Request::List`]: objects in the shape of RabbitMQ's HTTP API.
    List(Vec<serde_json::Value>),
    /// To [`Request::Change`]: it is made and durable; how many messages or connections it cost.
    Changed(u64),
    /// To [`Request::Change`] and [`Request::Import`]: it is not made.
    NotChanged(Refused),
    /// To [`Request::Export`].
    Exported(serde_json::Value),
    /// To [`Request::Import`].
    Imported(Imported),
    /// To [`Request::Authenticate`]: whether that is the user's password.
    Authenticated(bool),
    /// To [`Request::Repair`]; nothing if there is no such queue.
    Repaired(Option<RepairRow>),
    /// To [`Request::Browse`].
    Browsed(Vec<MessageRow>),
    /// To [`Request::Redrive`].
    Redriven(RedriveRow),
    /// To either: there is no such queue, in words.
    NoSuchQueue(String),
    /// To either: why it can't be done, in words.
    Refused(String),
    /// To [`Request::Backup`]: what was copied.
    BackedUp(BackupRow),
    /// To [`Request::Backup`]: why nothing was.
    NotBackedUp(String),
    /// The request was not understood; says why.
    Error(String),
}

#[cfg(unix)]
pub use unix::{AskError, ask};
#[cfg(unix)]
pub(crate) use unix::{bind, serve};

#[cfg(unix)]
mod unix {
    use std::future::{Future, poll_fn};
    use std::io::{self, BufRead, BufReader, Write};
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
    use tokio::net::unix::UCred;
    use tokio::net::{UnixListener, UnixStream};
    use tokio::sync::Semaphore;

    use super::{AT_A_TIME, Answer, LONGEST_REQUEST, Request};
    use crate::source::Source;

    /// How long a peer may take to ask or to read its answer.
    const PATIENCE: Duration = Duration::from_secs(10);

    /// Binds the socket at `path`, where nothing is yet.
    pub(crate) fn bind(path: &Path) -> io::Result<UnixListener> {
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        Ok(listener)
    }

    /// Serves requests for as long as it is polled.
    pub(crate) async fn serve(listener: UnixListener, source: Arc<Source>) {
        let room = Arc::new(Semaphore::new(AT_A_TIME));
        loop {
            let Ok(permit) = room.clone().acquire_owned().await else { return };
            match listener.accept().await {
                Ok((socket, _)) => {
                    let source = source.clone();
                    tokio::spawn(async move {
                        // Whoever has gone meanwhile is told nothing.
                        let _ = watched(socket, source).await;
                        drop(permit);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "the control socket accepts nothing for now");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
        }
    }

    /// Converses, and tells what of it has held up everything else on the loop.
    async fn watched(socket: UnixStream, source: Arc<Source>) -> io::Result<()> {
        let watching = Arc::clone(&source);
        let mut conversation = pin!(converse(socket, source));
        let tell = |milliseconds| {
            tracing::warn!(milliseconds, "management had to wait: a request over the control socket took long");
        };
        poll_fn(|context| watching.watch.over(tell, || conversation.as_mut().poll(context))).await
    }

    /// The peer has [`PATIENCE`] to ask and to read its answer; the answer itself takes what it
    /// takes.
    async fn converse(mut socket: UnixStream, source: Arc<Source>) -> io::Result<()> {
        let credentials = socket.peer_cred();
        let (reading, mut writing) = socket.split();
        let mut line = Vec::new();
        let mut reading = tokio::io::BufReader::new(reading).take(LONGEST_REQUEST);
        tokio::time::timeout(PATIENCE, reading.read_until(b'\n', &mut line)).await??;
        let asker = asker(&credentials);
        let answer = match serde_json::from_slice::<Request>(&line) {
            Ok(request) => {
                let gone = Arc::new(AtomicBool::new(false));
                let told = Arc::clone(&gone);
                let mut work = tokio::task::spawn_blocking(move || source.answer(&request, &asker, &told));
                tokio::select! {
                    answer = &mut work => answer?,
                    // The peer has nothing more to say: it has gone.
                    _ = reading.read_u8() => {
                        gone.store(true, Ordering::Relaxed);
                        work.await?
                    }
                }
            }
            Err(error) => Answer::Error(format!("the request is not understood: {error}")),
        };
        let mut text = serde_json::to_vec(&answer)?;
        text.push(b'\n');
        tokio::time::timeout(PATIENCE, writing.write_all(&text)).await?
    }

    /// What the system knows of who asks, for the audit log.
    fn asker(credentials: &io::Result<UCred>) -> String {
        match credentials {
            Ok(known) => {
                let process = known.pid().map(|pid| format!(", process {pid}")).unwrap_or_default();
                format!("system user {}{process}, over the control socket", known.uid())
            }
            Err(_) => "the control socket".to_owned(),
        }
    }

    /// Why a question got no answer.
    #[derive(Debug)]
    pub enum AskError {
        /// No server listens there.
        NoServer(io::Error),
        /// There is one, but the conversation failed.
        Failed(String),
    }

    /// Asks the server behind the socket at `path`. Blocks, for ten seconds at most, but for a
    /// repair or a backup as long as that takes.
    pub fn ask(path: &Path, request: &Request) -> Result<Answer, AskError> {
        let failed = |error: &dyn std::fmt::Display| AskError::Failed(error.to_string());
        let mut socket = std::os::unix::net::UnixStream::connect(path).map_err(AskError::NoServer)?;
        let patience = (!request.takes_long()).then_some(PATIENCE);
        socket.set_read_timeout(patience).map_err(|error| failed(&error))?;
        socket.set_write_timeout(Some(PATIENCE)).map_err(|error| failed(&error))?;
        let mut text = serde_json::to_vec(request).map_err(|error| failed(&error))?;
        text.push(b'\n');
        socket.write_all(&text).map_err(|error| failed(&error))?;
        let mut line = String::new();
        BufReader::new(socket).read_line(&mut line).map_err(|error| failed(&error))?;
        match serde_json::from_str(&line).map_err(|error| failed(&error))? {
            Answer::Error(text) => Err(AskError::Failed(text)),
            answer => Ok(answer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_one_line_of_json() {
        for (request, line) in [
            (Request::Status, r#""status""#),
            (
                Request::Change(Change::DeleteUser { name: "a\nb".into() }),
                r#"{"change":{"delete_user":{"name":"a\nb"}}}"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&request).unwrap(), line);
            assert_eq!(serde_json::from_str::<Request>(line).unwrap(), request);
        }
        assert!(serde_json::from_str::<Request>(r#""format_disk""#).is_err());
    }
}
