//! The control socket: how the command line talks to a running broker.
//!
//! It is a UNIX socket in the data directory, readable by its owner only: the right to read the
//! data is the right to ask. A request is one line of JSON, and so is the answer. Both ends are
//! here. Administrators on other machines send the same requests over HTTP ([`PATH`]). A stuck
//! script can't tie up the server: request lines have a size limit and a time limit, and few
//! connections are served at a time.

mod answering;
mod remote;

use serde::{Deserialize, Serialize};

use crate::change::Refused;
use crate::diagnosis::DiagnosisRow;
use crate::report::{BackupRow, ClusterStatus, MessageRow, Promotion, RedriveRow, RepairRow, StandbyRow, Status};
use crate::resources::{
    Change, Explain, Explanation, Extent, Imported, LONGEST_DEFINITIONS, Listed, PlannedRow, PublishFields, Secret,
    TaskFields,
};

/// Longest request in bytes: the longest document, and what JSON adds to quote it.
const LONGEST_REQUEST: u64 = 2 * LONGEST_DEFINITIONS + 1024;

/// The requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// A summary of the broker.
    Status,
    /// All objects of one kind.
    List {
        /// The kind.
        what: Listed,
        /// Only those in this vhost.
        vhost: Option<String>,
        /// Only these fields, with dots into nested objects; all if there are none.
        #[serde(default)]
        fields: Vec<String>,
    },
    /// Changes something.
    Change(Change),
    /// All definitions, as one document.
    Export,
    /// Imports a document of definitions.
    Import {
        /// The document.
        document: String,
        /// Leave out what Hermod does not support.
        skip_unsupported: bool,
        /// The vhost to import into; `None` for the vhosts that the document names.
        #[serde(default)]
        vhost: Option<String>,
        /// Whether to make the changes, or only to check them.
        #[serde(default)]
        extent: Extent,
    },
    /// Checks a user's password.
    Authenticate {
        /// The user.
        user: String,
        /// The password.
        password: Secret,
    },
    /// Reads every message of a queue that is only on disk.
    Repair {
        /// The vhost.
        vhost: String,
        /// The queue.
        queue: String,
        /// Settle the unreadable messages, so that the queue can deliver the others.
        accept_loss: bool,
    },
    /// Shows messages of a queue without taking them.
    Browse {
        /// The vhost.
        vhost: String,
        /// The queue.
        queue: String,
        /// Only messages that match this selector; blank for all.
        selector: String,
        /// The largest number of messages, from the front of the queue.
        limit: u64,
    },
    /// Tells why a queue does not move.
    Diagnose {
        /// The vhost.
        vhost: String,
        /// The queue.
        queue: String,
    },
    /// Explains a right, a way, a policy or an error.
    Explain(Explain),
    /// Publishes a message and waits for its confirm.
    Publish {
        /// The vhost.
        vhost: String,
        /// The exchange; empty for the default one.
        exchange: String,
        /// The message.
        message: PublishFields,
    },
    /// Takes messages from a queue.
    Fetch {
        /// The vhost.
        vhost: String,
        /// The queue.
        queue: String,
        /// The largest number of messages.
        count: u64,
    },
    /// Moves dead letters back to where they came from.
    Redrive {
        /// The vhost.
        vhost: String,
        /// The queue with the dead letters.
        queue: String,
        /// Only messages that match this selector; blank for all.
        selector: String,
        /// The largest number of messages.
        limit: u64,
        /// Only count the messages.
        dry_run: bool,
    },
    /// Counts what a task would do.
    PlanTask {
        /// The vhost.
        vhost: String,
        /// The task.
        task: TaskFields,
    },
    /// Copies the data directory.
    Backup {
        /// An absolute path on the server's machine, to a new or empty directory.
        directory: String,
    },
    /// How this node follows another.
    Standby,
    /// What this node is to others, and which follow it.
    Cluster,
    /// Promotes the node, which follows another.
    Promote(Promotion),
}

impl Request {
    /// Whether the answer may take as long as reading much of the disk.
    #[cfg(unix)]
    fn takes_long(&self) -> bool {
        matches!(
            self,
            Self::Repair { .. }
                | Self::Browse { .. }
                | Self::Redrive { .. }
                | Self::PlanTask { .. }
                | Self::Backup { .. }
                | Self::Promote(_)
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
    /// To [`Request::List`]: objects in the shape of RabbitMQ's HTTP API.
    List(Vec<serde_json::Value>),
    /// To [`Request::Change`]: it is made and durable. The number of messages or connections that
    /// it deleted or closed, or that of the task that it started.
    Changed(u64),
    /// To a request for a change, to [`Request::Publish`], [`Request::Fetch`], [`Request::Browse`]
    /// and [`Request::PlanTask`]: it was refused.
    NotChanged(Refused),
    /// To [`Request::Export`].
    Exported(serde_json::Value),
    /// To [`Request::Import`].
    Imported(Imported),
    /// To [`Request::Authenticate`]: whether the password is right.
    Authenticated(bool),
    /// To [`Request::Repair`]: `None` if the queue does not exist.
    Repaired(Option<RepairRow>),
    /// To [`Request::Publish`]: it is confirmed. Whether it reached a queue.
    Published(bool),
    /// To [`Request::Fetch`], in the shape of RabbitMQ's HTTP API.
    Fetched(Vec<serde_json::Value>),
    /// To [`Request::Browse`].
    Browsed(Vec<MessageRow>),
    /// To [`Request::Diagnose`].
    Diagnosed(Box<DiagnosisRow>),
    /// To [`Request::Explain`].
    Explained(Explanation),
    /// To [`Request::Redrive`].
    Redriven(RedriveRow),
    /// To [`Request::PlanTask`].
    Planned(PlannedRow),
    /// To requests about a queue: it does not exist, as a text.
    NoSuchQueue(String),
    /// To [`Request::Browse`] and [`Request::Redrive`]: why it can't be done, as a text.
    Refused(String),
    /// To [`Request::Backup`]: what was copied.
    BackedUp(BackupRow),
    /// To [`Request::Backup`]: why nothing was copied.
    NotBackedUp(String),
    /// To [`Request::Standby`].
    Standby(Box<StandbyRow>),
    /// To [`Request::Cluster`].
    Cluster(Box<ClusterStatus>),
    /// To [`Request::Promote`]: it serves from now on, as a text.
    Promoted(String),
    /// The request was not understood, and why.
    Error(String),
}

pub use remote::PATH;
pub(crate) use remote::routes;
#[cfg(unix)]
pub use unix::{AskError, ask};
#[cfg(unix)]
pub(crate) use unix::{bind, serve, serve_by};

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

    use super::{Answer, LONGEST_REQUEST, Request};
    use crate::pool::OF_CONTROL;
    use crate::source::{Source, operator};

    /// How long a peer may take to send its request, and to read its answer.
    const PATIENCE: Duration = Duration::from_secs(10);

    /// Binds the socket at `path`, which must not exist yet.
    pub(crate) fn bind(path: &Path) -> io::Result<UnixListener> {
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        Ok(listener)
    }

    /// Serves requests for as long as it is polled.
    pub(crate) async fn serve(listener: UnixListener, source: Arc<Source>) {
        let room = Arc::new(Semaphore::new(OF_CONTROL));
        loop {
            let Ok(permit) = room.clone().acquire_owned().await else { return };
            match listener.accept().await {
                Ok((socket, _)) => {
                    let source = source.clone();
                    tokio::spawn(async move {
                        // A peer that has closed its socket needs no answer.
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

    /// Serves one connection. Counts and logs the turns in which it held up everything else on the
    /// loop.
    async fn watched(socket: UnixStream, source: Arc<Source>) -> io::Result<()> {
        let watching = Arc::clone(&source);
        let mut conversation = pin!(converse(socket, source));
        let tell = |milliseconds| {
            tracing::warn!(milliseconds, "management had to wait: a request over the control socket took long");
        };
        poll_fn(|context| watching.watch.over(tell, || conversation.as_mut().poll(context))).await
    }

    /// The peer has [`PATIENCE`] to send its request and to read its answer. The work in between
    /// has no time limit.
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
                let mut work = tokio::task::spawn_blocking(move || source.answer(&request, operator(&asker), &told));
                tokio::select! {
                    answer = &mut work => answer?,
                    // A peer sends nothing after its request, so it has closed its end.
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

    /// What gives the answers where there is no broker. It is told who asks, for the audit log.
    type Answering = dyn Fn(&Request, &str) -> Answer + Send + Sync;

    /// Has requests answered by a function, for as long as it is polled.
    pub(crate) async fn serve_by(listener: UnixListener, answering: Arc<Answering>) {
        let room = Arc::new(Semaphore::new(OF_CONTROL));
        loop {
            let Ok(permit) = room.clone().acquire_owned().await else { return };
            let Ok((socket, _)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            };
            let answering = Arc::clone(&answering);
            tokio::spawn(async move {
                let _ = converse_by(socket, answering).await;
                drop(permit);
            });
        }
    }

    async fn converse_by(mut socket: UnixStream, answering: Arc<Answering>) -> io::Result<()> {
        let asker = asker(&socket.peer_cred());
        let (reading, mut writing) = socket.split();
        let mut line = Vec::new();
        let mut reading = tokio::io::BufReader::new(reading).take(LONGEST_REQUEST);
        tokio::time::timeout(PATIENCE, reading.read_until(b'\n', &mut line)).await??;
        let answer = match serde_json::from_slice::<Request>(&line) {
            Ok(request) => tokio::task::spawn_blocking(move || answering(&request, &asker)).await?,
            Err(error) => Answer::Error(format!("the request is not understood: {error}")),
        };
        let mut text = serde_json::to_vec(&answer)?;
        text.push(b'\n');
        tokio::time::timeout(PATIENCE, writing.write_all(&text)).await?
    }

    /// What the system knows of the peer's process, for the audit log.
    fn asker(credentials: &io::Result<UCred>) -> String {
        match credentials {
            Ok(known) => {
                let process = known.pid().map(|pid| format!(", process {pid}")).unwrap_or_default();
                format!("system user {}{process}, over the control socket", known.uid())
            }
            Err(_) => "the control socket".to_owned(),
        }
    }

    /// Why a request got no answer.
    #[derive(Debug)]
    pub enum AskError {
        /// No server listens at this path.
        NoServer(io::Error),
        /// A server listens, but it gave no valid answer.
        Failed(String),
    }

    /// Asks the server behind the socket at `path`. Blocks for ten seconds at most; a repair or a
    /// backup may take longer.
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
    use crate::resources::UserChange;

    #[test]
    fn requests_are_one_line_of_json() {
        for (request, line) in [
            (Request::Status, r#""status""#),
            (
                Request::Change(Change::Users(UserChange::Delete { name: "a\nb".into() })),
                r#"{"change":{"users":{"delete":{"name":"a\nb"}}}}"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&request).unwrap(), line);
            assert_eq!(serde_json::from_str::<Request>(line).unwrap(), request);
        }
        assert!(serde_json::from_str::<Request>(r#""format_disk""#).is_err());
    }
}
