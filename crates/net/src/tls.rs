//! TLS on a listener: who brings the certificates, and the handshake, which must end within its time.
//!
//! The configuration is asked for anew at each handshake. Certificates change that way while connections stay as they are.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::{ServerConfig, ServerConnection};

use crate::door::heeding;
use crate::gate::LogGate;
use crate::registry::Listed;
use crate::stream::Stream;

/// Anybody who reaches the port can make handshakes fail; the log hears of it this often.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// What a handshake came to, for listings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Encryption {
    /// The version, as `TLSv1_3`.
    pub version: String,
    /// The suite of algorithms, as `TLS13_AES_256_GCM_SHA384`.
    pub suite: String,
    /// The certificate that the peer has shown.
    pub certificate: Option<PeerCertificate>,
}

/// What a peer's certificate says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PeerCertificate {
    /// Whose it is: a distinguished name.
    pub subject: String,
    /// Who has signed it: a distinguished name.
    pub issuer: String,
    /// From when to when it counts.
    pub validity: String,
}

/// What a listener with TLS is served with.
pub trait Tls: Send + Sync {
    /// Certificates, versions and the check of peers, as they are now.
    fn config(&self) -> Arc<ServerConfig>;
    /// The user that a peer's certificate stands for; it has been verified already. `None` if it names nobody.
    fn user_of(&self, certificate: &CertificateDer<'_>) -> Option<Arc<str>>;
    /// What a peer's certificate says.
    fn describe(&self, certificate: &CertificateDer<'_>) -> Option<PeerCertificate>;
}

/// The TLS of one listener.
pub(crate) struct Secure {
    tls: Arc<dyn Tls>,
    patience: Duration,
    failed: LogGate,
}

impl Secure {
    /// Handshakes may take as long as `patience`.
    pub(crate) fn new(tls: Arc<dyn Tls>, patience: Duration) -> Self {
        Self { tls, patience, failed: LogGate::new(LOG_INTERVAL) }
    }

    /// Shakes hands: the socket within TLS, and the user that the peer's certificate stands for. `None` when the
    /// handshake failed, took too long, or the connection was ordered to end.
    pub(crate) async fn open(&self, socket: TcpStream, listed: &Listed) -> Option<(Stream, Option<Arc<str>>)> {
        let handshake = async { TlsAcceptor::from(self.tls.config()).accept(socket).await };
        let outcome = heeding(listed, self.patience, "tls.handshake_timeout", handshake).await?;
        match outcome {
            Ok(stream) => {
                let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
                let user = certificate.and_then(|certificate| self.tls.user_of(certificate));
                listed.is_encrypted_by(self.encryption(stream.get_ref().1));
                Some((Stream::Tls(Box::new(stream)), user))
            }
            Err(error) => {
                self.report(&error, listed);
                None
            }
        }
    }

    fn encryption(&self, connection: &ServerConnection) -> Encryption {
        let certificate = connection.peer_certificates().and_then(<[_]>::first);
        let version = connection.protocol_version().and_then(|version| version.as_str());
        let suite = connection.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str());
        Encryption {
            version: version.unwrap_or_default().to_owned(),
            suite: suite.unwrap_or_default().to_owned(),
            certificate: certificate.and_then(|certificate| self.tls.describe(certificate)),
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
