//! TLS on a listener: where the certificates come from, and the handshake, which must end within
//! its time.
//!
//! Each handshake asks for the configuration again. Certificates change that way while
//! connections stay as they are. What a handshake computes, and what its certificates are read for,
//! is computed by the [`HandshakeThreads`].

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::{ServerConfig, ServerConnection};
use tokio_rustls::server::TlsStream;

use crate::encryption::{Encryption, PeerCertificate};
use crate::handshake_threads::HandshakeThreads;
use crate::log_throttle::LogThrottle;
use crate::registry::Listed;
use crate::stream::Stream;
use crate::wakeup::await_handshake;

/// Any peer that reaches the port can make handshakes fail. The log has one line of it per
/// interval.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// What a listener with TLS is served with.
pub trait Tls: Send + Sync {
    /// Certificates, versions and the check of peers, as they are now.
    fn config(&self) -> Arc<ServerConfig>;
    /// The user that a peer's certificate stands for; it has been verified already. `None` if it
    /// names no user.
    fn user_of(&self, certificate: &CertificateDer<'_>) -> Option<Arc<str>>;
    /// What a peer's certificate says.
    fn describe(&self, certificate: &CertificateDer<'_>) -> Option<PeerCertificate>;
}

/// The TLS of one listener.
pub(crate) struct Secure {
    tls: Arc<dyn Tls>,
    alpn: Arc<Alpn>,
    handshake_threads: Arc<HandshakeThreads>,
    patience: Duration,
    failed: LogThrottle,
}

impl Secure {
    /// Handshakes are the work of `handshake_threads`, and may take as long as `patience`.
    pub(crate) fn new(tls: Arc<dyn Tls>, handshake_threads: Arc<HandshakeThreads>, patience: Duration) -> Self {
        Self { tls, alpn: Arc::default(), handshake_threads, patience, failed: LogThrottle::new(LOG_INTERVAL) }
    }

    /// The same, for peers that may choose among these names (RFC 7301). One that offers others
    /// alone is refused; one that offers none is not.
    pub(crate) fn with_alpn(self, names: &[&str]) -> Self {
        let names = names.iter().map(|name| name.as_bytes().to_vec()).collect();
        Self { alpn: Arc::new(Alpn { names, last: Mutex::default() }), ..self }
    }

    /// Shakes hands: the socket within TLS, and the user that the peer's certificate stands for.
    /// `None` when the handshake failed, took too long, or the connection was ordered to end.
    pub(crate) async fn open(&self, socket: TcpStream, listed: &Listed) -> Option<(Stream, Option<Arc<str>>)> {
        let handshake =
            self.handshake_threads.run(listed.peer().remote.ip(), shake(self.tls.clone(), self.alpn.clone(), socket));
        match await_handshake(listed.wakeup(), self.patience, "tls.handshake_timeout", handshake).await? {
            Ok(Shaken { stream, user, encryption }) => {
                listed.is_encrypted_by(encryption);
                Some((Stream::Tls(stream), user))
            }
            Err(error) => {
                self.report(&error, listed);
                None
            }
        }
    }

    fn report(&self, error: &io::Error, listed: &Listed) {
        let peer = listed.peer().remote;
        // Who connects and leaves is a health check more often than not.
        if error.kind() == io::ErrorKind::UnexpectedEof {
            tracing::debug!(%peer, "the peer left during the TLS handshake");
        } else if let Some(held) = self.failed.pass(Instant::now()) {
            tracing::warn!(%peer, held, "TLS handshake failed: {error}");
        }
    }
}

/// What a handshake came to.
struct Shaken {
    stream: Box<TlsStream<TcpStream>>,
    /// The user that the peer's certificate stands for.
    user: Option<Arc<str>>,
    encryption: Encryption,
}

/// Names of what is spoken within TLS.
#[derive(Default)]
struct Alpn {
    names: Vec<Vec<u8>>,
    /// The last configuration, without the names and with them.
    last: Mutex<Option<[Arc<ServerConfig>; 2]>>,
}

impl Alpn {
    /// The configuration with the names.
    fn added_to(&self, config: Arc<ServerConfig>) -> Arc<ServerConfig> {
        if self.names.is_empty() {
            return config;
        }
        let mut last = self.last.lock();
        match &*last {
            Some([without, with]) if Arc::ptr_eq(without, &config) => with.clone(),
            _ => {
                let mut with = (*config).clone();
                with.alpn_protocols.clone_from(&self.names);
                last.insert([config, Arc::new(with)])[1].clone()
            }
        }
    }
}

async fn shake(tls: Arc<dyn Tls>, alpn: Arc<Alpn>, socket: TcpStream) -> io::Result<Shaken> {
    let stream = Box::new(TlsAcceptor::from(alpn.added_to(tls.config())).accept(socket).await?);
    let connection = stream.get_ref().1;
    let certificate = connection.peer_certificates().and_then(<[_]>::first);
    let user = certificate.and_then(|certificate| tls.user_of(certificate));
    let encryption = encryption(&*tls, connection);
    Ok(Shaken { stream, user, encryption })
}

fn encryption(tls: &dyn Tls, connection: &ServerConnection) -> Encryption {
    let certificate = connection.peer_certificates().and_then(<[_]>::first);
    let version = connection.protocol_version().and_then(|version| version.as_str());
    let suite = connection.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str());
    Encryption {
        version: version.unwrap_or_default().to_owned(),
        suite: suite.unwrap_or_default().to_owned(),
        certificate: certificate.and_then(|certificate| tls.describe(certificate)),
    }
}
