//! A listener for HTTP: its socket, the connections that it lets in, and the paths that it answers.
//!
//! Listeners share the limits of the door. One may answer only what tools watch, and one may lie
//! below a prefix, as behind a proxy that serves several programs.

use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio_rustls::rustls::ServerConfig;

/// The current certificates and versions; asked for at each handshake.
pub type Configuring = dyn Fn() -> Arc<ServerConfig> + Send + Sync;

/// A connection and its client's address, or why it is refused.
pub type Introduced = Pin<Box<dyn Future<Output = Result<(TcpStream, SocketAddr), String>> + Send>>;

/// Reads what a proxy says of a connection: whose it is.
pub type Introduce = dyn Fn(TcpStream, SocketAddr) -> Introduced + Send + Sync;

/// The handshake that connections of a listener begin with.
#[derive(Clone)]
pub struct Handshake {
    /// The current certificates and versions.
    pub config: Arc<Configuring>,
    /// How long a handshake may take.
    pub patience: Duration,
}

/// The paths that a listener answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pages {
    /// All.
    All,
    /// Metrics and health.
    Observation,
}

/// A bound socket, and what is answered there.
pub struct HttpListener {
    /// Bound, non-blocking.
    pub socket: TcpListener,
    /// `None`: plain.
    pub tls: Option<Handshake>,
    /// Most connections at one time, besides the limits of all listeners.
    pub most: Option<usize>,
    /// `None`: clients connect themselves.
    pub introduce: Option<Arc<Introduce>>,
    /// What is answered.
    pub pages: Pages,
    /// What all its paths begin with: empty, or like `/hermod`.
    pub prefix: String,
}

impl std::fmt::Debug for HttpListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { socket, most, pages, prefix, .. } = self;
        f.debug_struct("HttpListener")
            .field("socket", socket)
            .field("most", most)
            .field("pages", pages)
            .field("prefix", prefix)
            .finish_non_exhaustive()
    }
}
