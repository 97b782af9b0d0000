//! The same loop with TLS around it: what differs is where bytes may wait, and how a connection
//! begins.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use parking_lot::Mutex;
use testkit::certificates::{Issued, Issuer, Subject};
use tokio_rustls::rustls::client::ClientConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::sign::{CertifiedKey, Signer, SigningKey, SingleCertAndKey};
use tokio_rustls::rustls::{
    ClientConnection, Error, RootCertStore, ServerConfig, SignatureAlgorithm, SignatureScheme, StreamOwned,
};

use super::*;

pub(crate) type Client = StreamOwned<ClientConnection, TcpStream>;

/// The authorities, and the certificates that they vouch for.
pub(crate) struct Pki {
    issuer: Issuer,
    roots: Arc<RootCertStore>,
}

struct Fixed(Arc<ServerConfig>);

impl net::Tls for Fixed {
    fn config(&self) -> Arc<ServerConfig> {
        self.0.clone()
    }

    /// The length tells certificates apart well enough here.
    fn user_of(&self, certificate: &CertificateDer<'_>) -> Option<Arc<str>> {
        Some(certificate.len().to_string().into())
    }

    fn describe(&self, certificate: &CertificateDer<'_>) -> Option<net::PeerCertificate> {
        let subject = certificate.len().to_string();
        Some(net::PeerCertificate { subject, ..net::PeerCertificate::default() })
    }
}

pub(crate) fn pki() -> Pki {
    let issuer = Issuer::new("tests");
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(issuer.pem().as_bytes()).unwrap()).unwrap();
    Pki { issuer, roots: Arc::new(roots) }
}

fn parts(issued: &Issued) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let certificate = CertificateDer::from_pem_slice(issued.certificate.as_bytes()).unwrap();
    (vec![certificate], PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).unwrap())
}

impl Pki {
    fn serve(&self, settings: Settings, toy: &Toy) -> (Net, SocketAddr) {
        let net = Net::start(1, settings).unwrap();
        let listener = Listener::bind(([127, 0, 0, 1], 0).into(), Nagle::Off).unwrap();
        let address = listener.address().unwrap();
        net.serve(listener, &[Arc::new(toy.clone())], Some(self.server()), None).unwrap();
        (net, address)
    }

    /// Asks clients for certificates, and takes those without.
    pub(crate) fn server(&self) -> Arc<dyn net::Tls> {
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(self.roots.clone(), provider.clone())
            .allow_unauthenticated()
            .build()
            .unwrap();
        let (chain, key) = parts(&self.issuer.server());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .unwrap();
        Arc::new(Fixed(Arc::new(config)))
    }

    /// A client that offers these names of ALPN.
    pub(crate) fn connect_with(&self, address: SocketAddr, alpn: &[&str]) -> Client {
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(self.roots.clone())
            .with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        let name = ServerName::try_from("localhost").unwrap();
        StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), super::connect(address))
    }

    fn connect(&self, address: SocketAddr, client: Option<&Issued>) -> Client {
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(self.roots.clone());
        let config = match client {
            None => builder.with_no_client_auth(),
            Some(client) => {
                let (chain, key) = parts(client);
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        let name = ServerName::try_from("localhost").unwrap();
        StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), super::connect(address))
    }
}

fn expect(socket: &mut Client, expected: &[u8]) {
    let mut received = vec![0; expected.len()];
    socket.read_exact(&mut received).unwrap();
    assert_eq!(String::from_utf8_lossy(&received), String::from_utf8_lossy(expected));
}

#[test]
fn lines_come_back_within_tls_however_they_are_cut() {
    let pki = pki();
    let (net, address) = pki.serve(Settings::default(), &Toy::default());
    let mut socket = pki.connect(address, None);
    for byte in b"echo one\necho two\n" {
        socket.write_all(&[*byte]).unwrap();
    }
    expect(&mut socket, b"one\ntwo\n");
    for round in 0..20 {
        let many: String = (0..1000).map(|i| format!("echo {round} {i}\n")).collect();
        let expected: String = (0..1000).map(|i| format!("{round} {i}\n")).collect();
        socket.write_all(many.as_bytes()).unwrap();
        expect(&mut socket, expected.as_bytes());
    }
    assert!(net.registry().list()[0].encrypted);
    drop(socket);
    until("an empty registry", || net.registry().open() == 0);
}

/// Records wait in the session when the kernel takes no more: they leave although the protocol has
/// nothing to add.
#[test]
fn what_waits_within_tls_is_written_to_its_end_and_its_last_words_arrive() {
    let pki = pki();
    let toy = Toy::default();
    let (net, address) = pki.serve(Settings::default(), &toy);
    let mut socket = pki.connect(address, None);
    let total = 12 * 1024 * 1024;
    socket.write_all(format!("flood {total}\ntick 100\n").as_bytes()).unwrap();
    until("a tick", || toy.saw("tick") == 1);
    let mut received = vec![0; total + b"tick\n".len()];
    socket.read_exact(&mut received).unwrap();
    assert_eq!(received.iter().filter(|byte| **byte == b'x').count(), total);
    // The end of the stream is said within TLS, too; without it this would be an error.
    socket.write_all(b"quit\n").unwrap();
    expect(&mut socket, b"bye\n");
    assert_eq!(socket.read(&mut [0]).unwrap(), 0);
    drop(socket);
    until("an empty registry", || net.registry().open() == 0);
}

#[test]
fn a_peer_that_reads_nothing_within_tls_is_closed_after_the_write_timeout() {
    let pki = pki();
    let toy = Toy::default();
    let settings = Settings { write_timeout: Duration::from_millis(200), ..Settings::default() };
    let (net, address) = pki.serve(settings, &toy);
    let mut slow = pki.connect(address, None);
    slow.write_all(format!("flood {}\n", 64 * 1024 * 1024).as_bytes()).unwrap();
    until("the end of the slow one", || toy.saw("Gone") == 1 && net.registry().open() == 0);
}

#[test]
fn who_does_not_shake_hands_in_time_or_at_all_is_closed_and_makes_room() {
    let pki = pki();
    let settings = Settings { tls_timeout: Duration::from_millis(200), pending_per_address: 3, ..Settings::default() };
    let toy = Toy::default();
    let (net, address) = pki.serve(settings, &toy);
    let mut silent = super::connect(address);
    assert_eq!(drain(&mut silent), 0);
    let mut dribbling = super::connect(address);
    // The head of a record of which nothing follows.
    dribbling.write_all(&[22, 3, 1, 2, 0, 1]).unwrap();
    assert_eq!(drain(&mut dribbling), 0);
    let mut plain = super::connect(address);
    plain.write_all(b"echo hello\n").unwrap();
    drain(&mut plain);
    until("an empty registry", || net.registry().open() == 0);
    assert_eq!(toy.wakers.lock().len(), 0, "none of them has reached the protocol");
    let mut good = pki.connect(address, None);
    good.write_all(b"echo in\n").unwrap();
    expect(&mut good, b"in\n");
}

#[test]
fn the_protocol_learns_whom_a_verified_certificate_stands_for() {
    let pki = pki();
    let (_net, address) = pki.serve(Settings::default(), &Toy::default());
    let client = pki.issuer.client(Subject { name: &[("CN", "shop")], ..Subject::default() });
    let length = parts(&client).0[0].len().to_string();
    for (client, expected) in [(None, "unknown"), (Some(&client), length.as_str())] {
        let mut socket = pki.connect(address, client);
        socket.write_all(b"who\n").unwrap();
        expect(&mut socket, format!("{expected}\n").as_bytes());
    }
    // A certificate that is not trusted, and one whose time is over, reach nothing.
    let stranger = Issuer::new("tests").client(Subject { name: &[("CN", "shop")], ..Subject::default() });
    let expired = pki.issuer.client(Subject { name: &[("CN", "shop")], expired: true, ..Subject::default() });
    for client in [stranger, expired] {
        let mut socket = pki.connect(address, Some(&client));
        let answered = socket.write_all(b"who\n").and_then(|()| socket.read_exact(&mut [0]));
        assert!(answered.is_err());
    }
}

#[test]
fn shutdown_ends_handshakes_too() {
    let pki = pki();
    let (net, address) = pki.serve(Settings::default(), &Toy::default());
    let _silent = super::connect(address);
    until("a connection", || net.registry().open() == 1);
    assert_eq!(net.shutdown(HANG), 0);
}

/// The end of TLS is an end, too: it comes after the peer's own.
#[test]
fn the_peer_ends_what_is_answered_within_tls() {
    let pki = pki();
    let settings = Settings { linger: HANG, ..Settings::default() };
    let (net, address) = pki.serve(settings, &Toy::default());
    let mut socket = pki.connect(address, None);
    socket.write_all(b"echo in\n").unwrap();
    expect(&mut socket, b"in\n");
    socket.write_all(b"answer\n").unwrap();
    expect(&mut socket, b"bye\n");
    socket.sock.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let error = socket.read(&mut [0]).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
    socket.sock.set_read_timeout(Some(HANG)).unwrap();
    socket.write_all(&vec![b'x'; 1 << 20]).unwrap();
    socket.conn.send_close_notify();
    socket.flush().unwrap();
    assert_eq!(socket.read(&mut [0]).unwrap(), 0, "an end that is said");
    drop(socket);
    until("an empty registry", || net.registry().open() == 0);
}

/// A key of a server's that signs when the test lets it, and tells on which thread.
#[derive(Debug, Clone)]
struct Slow {
    key: Arc<dyn SigningKey>,
    signing: Sender<String>,
    go_on: Arc<Mutex<Receiver<()>>>,
}

#[derive(Debug)]
struct SlowSigner(Slow, Box<dyn Signer>);

impl SigningKey for Slow {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        Some(Box::new(SlowSigner(self.clone(), self.key.choose_scheme(offered)?)))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.key.algorithm()
    }
}

impl Signer for SlowSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let Self(Slow { signing, go_on, .. }, signer) = self;
        signing.send(std::thread::current().name().unwrap_or_default().to_owned()).unwrap();
        // A test that ends without a word lets it go, too.
        let _ = go_on.lock().recv();
        signer.sign(message)
    }

    fn scheme(&self) -> SignatureScheme {
        self.1.scheme()
    }
}

/// A signature with a long RSA key takes milliseconds; here it takes as long as the test wants.
#[test]
fn a_handshake_that_computes_holds_up_no_other_connection() {
    let pki = pki();
    let (signing, signs) = channel();
    let (lets, go_on) = channel();
    let (chain, key) = parts(&pki.issuer.server());
    let slow = Slow { key: ring::sign::any_supported_type(&key).unwrap(), signing, go_on: Arc::new(Mutex::new(go_on)) };
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(CertifiedKey::new(chain, Arc::new(slow)))));
    let (net, plain) = start(Settings::default(), &[Toy::default()]);
    let listener = Listener::bind(([127, 0, 0, 1], 0).into(), Nagle::Off).unwrap();
    let address = listener.address().unwrap();
    net.serve(listener, &[Arc::new(Toy::default())], Some(Arc::new(Fixed(Arc::new(config)))), None).unwrap();

    let mut secure = pki.connect(address, None);
    let shaking = std::thread::spawn(move || {
        secure.write_all(b"echo within\n").unwrap();
        expect(&mut secure, b"within\n");
    });
    assert_eq!(signs.recv_timeout(HANG).unwrap(), "hermod-tls-0");
    // The only thread of the sockets serves others meanwhile.
    let mut other = super::connect(plain);
    other.write_all(b"echo meanwhile\n").unwrap();
    super::expect(&mut other, b"meanwhile\n");
    // And those that end: one that waits behind the slow one is closed when it is told to.
    let mut behind = super::connect(address);
    behind.write_all(&[22, 3, 1]).unwrap();
    until("three connections", || net.registry().open() == 3);
    let last = net.registry().list().pop().unwrap();
    assert!(net.registry().close(last.id, "not needed"));
    until("its end", || net.registry().open() == 2);
    assert_eq!(drain(&mut behind), 0);
    lets.send(()).unwrap();
    shaking.join().unwrap();
}
