//! How the other side is reached: by a socket, within TLS or not, if that address may be reached.
//!
//! A user that may set a shovel lets the broker connect somewhere. So an address is checked after
//! its name was resolved, and it is that address that is connected to. What a shovel of an ordinary
//! user must not reach is the machine itself, where being local is a credential, and the addresses
//! at which clouds hand out theirs.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::uri::{Tls, Uri};

/// A dead peer is noticed after that, where no heartbeats are agreed.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// A connection.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection that is being made.
pub type Dialing<'a> = Pin<Box<dyn Future<Output = Result<Box<dyn Stream>, String>> + Send + 'a>>;

/// How brokers are reached.
pub trait Dial: Send + Sync {
    /// Connects to a broker. Nothing is said yet.
    fn dial<'a>(&'a self, to: &'a Uri) -> Dialing<'a>;
}

/// What may be connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Anything.
    Anywhere,
    /// Other machines, but not the addresses of one link, at which clouds hand out credentials.
    Remote,
}

impl Reach {
    /// # Errors
    /// If this address must not be connected to.
    fn check(self, address: IpAddr) -> Result<(), String> {
        let address = address.to_canonical();
        if self == Self::Anywhere || is_remote(address) {
            return Ok(());
        }
        Err(format!("{address} is not an address that this user's shovels may connect to; an administrator's may"))
    }
}

/// The address at which Amazon's machines find their credentials, by IPv6.
const METADATA_V6: u128 = 0xfd00_0ec2_0000_0000_0000_0000_0000_0254;
/// The same of Alibaba's.
const METADATA_V4: [u8; 4] = [100, 100, 100, 200];

fn is_remote(address: IpAddr) -> bool {
    if address.is_loopback() || address.is_unspecified() || address.is_multicast() {
        return false;
    }
    match address {
        IpAddr::V4(address) => {
            let is_this_network = address.octets()[0] == 0;
            !(address.is_link_local() || address.is_broadcast() || is_this_network || address.octets() == METADATA_V4)
        }
        IpAddr::V6(address) => !(address.is_unicast_link_local() || address.to_bits() == METADATA_V6),
    }
}

/// Reaches brokers by the network.
pub struct Network {
    /// What may be connected to.
    pub reach: Reach,
}

impl Dial for Network {
    fn dial<'a>(&'a self, to: &'a Uri) -> Dialing<'a> {
        Box::pin(async move {
            let dialed = tokio::time::timeout(to.timeout(), self.connect(to)).await;
            dialed.unwrap_or_else(|_| Err(format!("{to} does not answer")))
        })
    }
}

impl Network {
    async fn connect(&self, to: &Uri) -> Result<Box<dyn Stream>, String> {
        let host = to.host().ok_or_else(|| "a URI without a host can't be reached by the network".to_owned())?;
        let wrong = |error: &dyn std::fmt::Display| format!("{to} can't be reached: {error}");
        let addresses = tokio::net::lookup_host((host, to.port())).await.map_err(|error| wrong(&error))?;
        let mut refused = "its name has no address".to_owned();
        for address in addresses {
            match self.connect_to(address).await {
                Ok(socket) => return encrypt(socket, to.tls(), host).await.map_err(|error| wrong(&error)),
                Err(error) => refused = error,
            }
        }
        Err(wrong(&refused))
    }

    async fn connect_to(&self, address: SocketAddr) -> Result<TcpStream, String> {
        self.reach.check(address.ip())?;
        let socket = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
        // Wishes: a connection works without them.
        let _ = socket.set_nodelay(true);
        let _ = SockRef::from(&socket).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE));
        Ok(socket)
    }
}

async fn encrypt(socket: TcpStream, tls: Option<&Tls>, host: &str) -> Result<Box<dyn Stream>, String> {
    let Some(tls) = tls else { return Ok(Box::new(socket)) };
    let name = tls.name.as_deref().unwrap_or(host);
    let name =
        ServerName::try_from(name.to_owned()).map_err(|_| format!("'{name}' can't be the name of a certificate"))?;
    let config = trust(tls.authorities.as_deref())?;
    let stream = TlsConnector::from(config).connect(name, socket).await.map_err(|error| error.to_string())?;
    Ok(Box::new(stream))
}

/// A client that trusts the authorities of this file, or else those of the system.
///
/// # Errors
/// If the file has none. The text says nothing of what else is in it.
fn trust(file: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    let found = match file {
        None => rustls_native_certs::load_native_certs().certs,
        Some(file) => {
            let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
            read.map_err(|_| format!("cacertfile: {} can't be read as certificates in PEM", file.display()))?
        }
    };
    let (taken, _) = roots.add_parsable_certificates(found);
    if let (Some(file), 0) = (file, taken) {
        return Err(format!("cacertfile: {} has no certificate that can be trusted", file.display()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = versions.map_err(|error| error.to_string())?.with_root_certificates(roots).with_no_client_auth();
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinary_users_shovel_reaches_other_machines_alone() {
        let near = [
            "127.0.0.1",
            "127.8.9.1",
            "::1",
            "0.0.0.0",
            "0.1.2.3",
            "::",
            "169.254.169.254",
            "fe80::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "224.0.0.1",
            "255.255.255.255",
            "fd00:ec2::254",
            "100.100.100.200",
            "ff02::1",
        ];
        for address in near {
            let address: IpAddr = address.parse().unwrap();
            assert!(Reach::Remote.check(address).is_err(), "{address}");
            assert!(Reach::Anywhere.check(address).is_ok(), "{address}");
        }
        for address in ["10.0.0.1", "192.168.1.1", "8.8.8.8", "2001:db8::1", "fd00::1"] {
            assert!(Reach::Remote.check(address.parse().unwrap()).is_ok(), "{address}");
        }
    }

    #[test]
    fn a_name_is_checked_by_what_it_resolves_to() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let uri = Uri::parse("amqp://localhost:1").unwrap();
        let dialed = runtime.block_on(Network { reach: Reach::Remote }.dial(&uri));
        let Err(error) = dialed else { panic!("it connected") };
        assert!(error.contains("not an address that this user's shovels may connect to"), "{error}");
    }
}
