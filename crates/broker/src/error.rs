//! Errors of clients and of the broker. The kind decides the consequence in each protocol, and the
//! text says what, where and what to do. The texts are those that clients of AMQP 0-9-1 brokers
//! match on. Where a protocol has words of its own, the facts are there for it.

/// The kind of an error; each protocol maps it to its own code and scope in one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// No such vhost, exchange, queue or binding target.
    NotFound,
    /// The user lacks the right, or the object is reserved.
    AccessRefused,
    /// The object exists with other properties, is in use, is not empty, or an argument is invalid.
    Precondition,
    /// Another connection holds it exclusively.
    Locked,
    /// The operation is not allowed in this state, or a limit of the connection is reached.
    NotAllowed,
    /// Understood, and not built.
    NotImplemented,
    /// A limit on resources is reached.
    ResourceLimit,
    /// The broker's own failure.
    Internal,
}

/// The facts of an error about a thing that each protocol calls by a name of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// The session has as many consumers as it may.
    Consumers {
        /// How many that is.
        limit: u32,
    },
    /// A queue has a consumer, and no room for another one.
    InUse {
        /// The name of the queue.
        queue: String,
        /// Its vhost.
        vhost: String,
    },
    /// A fetch would go past the consumer whose turn it is.
    FetchPastActive {
        /// The name of its queue.
        queue: String,
        /// The vhost of the queue.
        vhost: String,
    },
    /// The session holds so many unsettled deliveries that it may fetch no more.
    Unsettled {
        /// How many it holds.
        held: usize,
    },
}

/// An error that goes back to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The kind of the error.
    pub kind: ErrorKind,
    /// One line for the peer.
    pub text: String,
    /// What it is about, where the text may not be in the protocol's words.
    pub fact: Option<Fact>,
}

impl Error {
    /// An error of `kind`.
    pub fn new(kind: ErrorKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into(), fact: None }
    }

    /// The error that a fact is, in the broker's own words.
    pub fn of(fact: Fact) -> Self {
        let (kind, text) = match &fact {
            Fact::Consumers { limit } => {
                (ErrorKind::NotAllowed, format!("reached maximum ({limit}) of consumers per session"))
            }
            Fact::InUse { queue, vhost } => {
                (ErrorKind::AccessRefused, format!("queue '{queue}' in vhost '{vhost}' in exclusive use"))
            }
            Fact::FetchPastActive { queue, vhost } => (
                ErrorKind::Locked,
                format!(
                    "queue '{queue}' in vhost '{vhost}' has a single active consumer, past which nothing is fetched"
                ),
            ),
            Fact::Unsettled { held } => (
                ErrorKind::Precondition,
                format!("session holds {held} unacknowledged deliveries; acknowledge some first"),
            ),
        };
        Self { fact: Some(fact), ..Self::new(kind, text) }
    }

    /// [`ErrorKind::NotFound`].
    pub fn not_found(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, text)
    }

    /// [`ErrorKind::AccessRefused`].
    pub fn refused(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::AccessRefused, text)
    }

    /// [`ErrorKind::Precondition`].
    pub fn precondition(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::Precondition, text)
    }

    /// [`ErrorKind::NotAllowed`].
    pub fn not_allowed(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotAllowed, text)
    }

    /// [`ErrorKind::Internal`].
    pub fn internal(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, text)
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}
