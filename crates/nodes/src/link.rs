//! A connection between two nodes: TLS over a socket, with a limit on the time of each step.
//!
//! Invariant: nothing but TLS 1.3 with certificates of the cluster's authority is spoken, from the
//! first byte on. One that has none may show a token, and nothing else. A handshake ends in bounded
//! time, however slowly its bytes come.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::client::{Resumption, verify_server_name};
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection};

use crate::identity::{Identity, NAME, name_of_node};
use crate::message::NodeId;

/// What both sides call the protocol.
const ALPN: &[u8] = b"hermod-nodes/1";
/// How long one write may take.
const WRITE_PATIENCE: Duration = Duration::from_secs(10);
/// How much is written to TLS at once.
const PIECE: usize = 64 << 10;

/// What one side begins connections with.
#[derive(Clone)]
pub struct Credentials {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

impl Credentials {
    /// Those of a node.
    ///
    /// # Errors
    /// When its certificate and its key do not fit.
    pub fn of(identity: &Identity) -> io::Result<Self> {
        let provider = Arc::new(ring::default_provider());
        let roots = identity.roots()?;
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
            .allow_unauthenticated()
            .build()
            .map_err(io::Error::other)?;
        let (chain, key) = identity.shown();
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(io::Error::other)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.clone(), key.clone_key())
            .map_err(io::Error::other)?;
        server.alpn_protocols = vec![ALPN.to_vec()];
        server.send_tls13_tickets = 0;
        let client = client_config(roots)?.with_client_auth_cert(chain, key).map_err(io::Error::other)?;
        Ok(Self { server: Arc::new(server), client: Arc::new(plain(client)) })
    }
}

type WithRoots = rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert>;

fn client_config(roots: Arc<RootCertStore>) -> io::Result<WithRoots> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    Ok(builder.with_protocol_versions(&[&TLS13]).map_err(io::Error::other)?.with_root_certificates(roots))
}

fn plain(mut config: ClientConfig) -> ClientConfig {
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.resumption = Resumption::disabled();
    config
}

/// See the module.
pub struct Link {
    tls: Connection,
    socket: TcpStream,
    /// What is read into: as much as a piece, filled with zeros once.
    buffer: Vec<u8>,
}

/// What a read has brought.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Came {
    /// Bytes.
    Bytes(Vec<u8>),
    /// None in time.
    Nothing,
    /// The other side has ended the connection.
    End,
}

impl Link {
    /// Takes a connection, and does its handshake in at most this time.
    ///
    /// # Errors
    /// Why it fails.
    pub fn accept(socket: TcpStream, credentials: &Credentials, patience: Duration) -> io::Result<Self> {
        let tls = ServerConnection::new(Arc::clone(&credentials.server)).map_err(io::Error::other)?;
        Self::begin(tls.into(), socket, patience)
    }

    /// Begins a connection as a node.
    ///
    /// # Errors
    /// As [`Link::accept`].
    pub fn connect(socket: TcpStream, credentials: &Credentials, patience: Duration) -> io::Result<Self> {
        Self::as_client(socket, Arc::clone(&credentials.client), patience)
    }

    /// Begins a connection of one that only has a token.
    ///
    /// # Errors
    /// As [`Link::accept`].
    pub(crate) fn connect_to(socket: TcpStream, roots: Arc<RootCertStore>, patience: Duration) -> io::Result<Self> {
        let config = plain(client_config(roots)?.with_no_client_auth());
        Self::as_client(socket, Arc::new(config), patience)
    }

    fn as_client(socket: TcpStream, config: Arc<ClientConfig>, patience: Duration) -> io::Result<Self> {
        let name = ServerName::try_from(NAME).map_err(io::Error::other)?;
        let tls = ClientConnection::new(config, name).map_err(io::Error::other)?;
        Self::begin(tls.into(), socket, patience)
    }

    fn begin(tls: Connection, socket: TcpStream, patience: Duration) -> io::Result<Self> {
        let until = Instant::now() + patience;
        socket.set_nodelay(true)?;
        socket.set_nonblocking(false)?;
        socket.set_write_timeout(Some(patience))?;
        let mut link = Self { tls, socket, buffer: vec![0; PIECE] };
        while link.tls.is_handshaking() {
            link.flush()?;
            if link.tls.is_handshaking() {
                link.receive(until)?;
            }
        }
        link.flush()?;
        link.socket.set_write_timeout(Some(WRITE_PATIENCE))?;
        Ok(link)
    }

    /// Reads some of TLS before `until`.
    fn receive(&mut self, until: Instant) -> io::Result<()> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            if is_readable_within(&self.socket, left)? {
                break;
            }
        }
        match self.tls.read_tls(&mut self.socket) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => self.process(),
            Err(error) if is_late(&error) => Err(io::ErrorKind::TimedOut.into()),
            Err(error) => Err(error),
        }
    }

    fn process(&mut self) -> io::Result<()> {
        match self.tls.process_new_packets() {
            Ok(_) => Ok(()),
            Err(error) => {
                // The other side is told why.
                let _ = self.flush();
                Err(io::Error::new(io::ErrorKind::InvalidData, error))
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            self.tls.write_tls(&mut self.socket)?;
        }
        Ok(())
    }

    /// What comes within this time.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn read(&mut self, patience: Duration) -> io::Result<Came> {
        let until = Instant::now() + patience;
        loop {
            match self.tls.reader().read(&mut self.buffer) {
                Ok(0) => return Ok(Came::End),
                Ok(count) => return Ok(Came::Bytes(self.buffer[..count].to_vec())),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            match self.receive(until) {
                Ok(()) => self.flush()?,
                Err(error) if error.kind() == io::ErrorKind::TimedOut => return Ok(Came::Nothing),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Came::End),
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes bytes.
    ///
    /// # Errors
    /// When the connection fails, or takes none for ten seconds.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        for piece in bytes.chunks(PIECE) {
            self.tls.writer().write_all(piece)?;
            self.flush()?;
        }
        Ok(())
    }

    /// Whether the other side has shown a certificate.
    pub fn is_of_a_node(&self) -> bool {
        self.tls.peer_certificates().is_some_and(|shown| !shown.is_empty())
    }

    /// Whether the certificate of the other side is that of this node.
    pub fn is_of(&self, node: NodeId) -> bool {
        let shown = self.tls.peer_certificates().and_then(|shown| shown.first());
        let parsed = shown.and_then(|shown| ParsedCertificate::try_from(shown).ok());
        let name = ServerName::try_from(name_of_node(node)).ok();
        parsed.zip(name).is_some_and(|(shown, name)| verify_server_name(&shown, &name).is_ok())
    }

    /// Ends the connection, and lets the other side read what was written.
    pub fn close(mut self) {
        self.tls.send_close_notify();
        let _ = self.flush();
        let _ = self.socket.shutdown(std::net::Shutdown::Write);
        // Until it has ended its side, bounded: a reset would take what it has not read yet.
        let until = Instant::now() + Duration::from_secs(1);
        let mut rest = [0; 4096];
        let _ = self.socket.set_read_timeout(Some(Duration::from_millis(200)));
        while Instant::now() < until && matches!(self.socket.read(&mut rest), Ok(1..)) {}
    }
}

/// Waits until something can be read, at most so long. The time-out of a read is counted in ticks
/// of the kernel, up to ten milliseconds each, and confirms may wait for what is read here.
#[cfg(unix)]
fn is_readable_within(socket: &TcpStream, time: Duration) -> io::Result<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    socket.set_read_timeout(Some(time))?;
    let time = Timespec::try_from(time).map_err(io::Error::other)?;
    match poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&time)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(unix))]
fn is_readable_within(socket: &TcpStream, time: Duration) -> io::Result<bool> {
    // The read itself waits.
    socket.set_read_timeout(Some(time)).map(|()| true)
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
