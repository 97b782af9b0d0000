//! Small documents from a web server: one request, within bounds of size and time.
//!
//! TLS is a must, except on loopback. A program that can change the keys of tokens can log in as
//! any user.
//! Neither redirects nor proxies are followed.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ureq::http::Uri;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::trust;

/// Most bytes of a document.
const MOST_BYTES: u64 = 256 << 10;

/// Where a document is read from.
pub trait Fetch: fmt::Debug + Send + Sync {
    /// The document at an address.
    ///
    /// # Errors
    /// Why there is none, in words for the log.
    fn fetch(&self, address: &Address) -> Result<String, String>;
}

/// An address of the web that is safe to read keys from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address(String);

/// Why an address is not safe to read keys from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddressError {
    /// It is no URL of HTTP.
    NoUrl,
    /// It has a user in it, which the log would show.
    HasUser,
    /// It is neither encrypted nor on this machine.
    Plain,
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoUrl => "this is no URL; write it as https://host/path",
            Self::HasUser => "a URL with a user in it would be shown in the log; leave the user out",
            Self::Plain => {
                "without TLS anybody on the way could read it or put in answers of their own; write https://, or use \
                            an address of this machine"
            }
        })
    }
}

impl std::error::Error for AddressError {}

impl Address {
    /// Reads an address.
    ///
    /// # Errors
    /// If it is none, or not safe.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let uri: Uri = text.parse().map_err(|_| AddressError::NoUrl)?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(AddressError::NoUrl);
        };
        if authority.as_str().contains('@') {
            return Err(AddressError::HasUser);
        }
        match scheme {
            "https" => Ok(Self(text.to_owned())),
            "http" if is_loopback(authority.host()) => Ok(Self(text.to_owned())),
            "http" => Err(AddressError::Plain),
            _ => Err(AddressError::NoUrl),
        }
    }

    /// The URL.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

pub(crate) fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The web.
#[derive(Debug)]
pub struct Web {
    agent: ureq::Agent,
}

impl Web {
    /// Trusts the certificates of this file, or those that the system trusts. A request takes at
    /// most this long.
    ///
    /// # Errors
    /// If the file can't be read, or has no certificate.
    pub fn new(ca_file: Option<&Path>, timeout: Duration) -> Result<Self, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let roots = trust::certificates(ca_file)?;
        let roots = roots.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect();
        let roots = RootCerts::Specific(Arc::new(roots));
        let tls = TlsConfig::builder().unversioned_rustls_crypto_provider(provider).root_certs(roots).build();
        let config = ureq::Agent::config_builder()
            .max_redirects(0)
            .proxy(None)
            .timeout_global(Some(timeout))
            .user_agent(concat!("hermod/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls)
            .build();
        Ok(Self { agent: config.into() })
    }

    pub(crate) fn agent(&self) -> &ureq::Agent {
        &self.agent
    }
}

impl Fetch for Web {
    fn fetch(&self, address: &Address) -> Result<String, String> {
        let failed = |error: ureq::Error| format!("{}: {error}", address.as_str());
        let mut answer = self.agent.get(address.as_str()).call().map_err(failed)?;
        if answer.status() != 200 {
            return Err(format!("{} answered {}", address.as_str(), answer.status()));
        }
        answer.body_mut().with_config().limit(MOST_BYTES).read_to_string().map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    #[test]
    fn an_address_is_encrypted_or_of_this_machine() {
        for (text, expected) in [
            ("https://id.example/realms/a", Ok(())),
            ("http://localhost:8080/certs", Ok(())),
            ("http://127.0.0.1/certs", Ok(())),
            ("http://[::1]:1/certs", Ok(())),
            ("http://id.example/certs", Err(AddressError::Plain)),
            ("http://localhost.id.example/certs", Err(AddressError::Plain)),
            ("http://127.0.0.1.id.example/certs", Err(AddressError::Plain)),
            ("https://user:password@id.example/", Err(AddressError::HasUser)),
            ("http://localhost@id.example/", Err(AddressError::HasUser)),
            ("ftp://id.example/", Err(AddressError::NoUrl)),
            ("id.example", Err(AddressError::NoUrl)),
            ("file:///etc/passwd", Err(AddressError::NoUrl)),
            ("", Err(AddressError::NoUrl)),
        ] {
            assert_eq!(Address::parse(text).map(drop), expected, "{text}");
        }
    }

    /// Serves each of these answers once.
    fn serve(answers: Vec<Vec<u8>>) -> Address {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for answer in answers {
                let (mut socket, _) = listener.accept().unwrap();
                let mut head = [0; 4096];
                let _ = socket.read(&mut head);
                let _ = socket.write_all(&answer);
            }
        });
        Address::parse(&format!("http://{address}/keys")).unwrap()
    }

    #[test]
    fn answers_are_bounded_and_redirects_are_not_followed() {
        let large = format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{}", "x".repeat(MOST_BYTES as usize + 1));
        let address = serve(vec![
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}".to_vec(),
            b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                .to_vec(),
            b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec(),
            large.into_bytes(),
            b"no HTTP\r\n\r\n".to_vec(),
        ]);
        let web = Web::new(None, Duration::from_secs(5)).unwrap();
        assert_eq!(web.fetch(&address).as_deref(), Ok("{}"));
        for expected in ["302", "404", "limit", ""] {
            let error = web.fetch(&address).unwrap_err();
            assert!(error.contains(expected) && error.starts_with(address.as_str()), "{error}");
        }
    }

    #[test]
    fn a_server_that_does_not_answer_is_given_up() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = Address::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
        let web = Web::new(None, Duration::from_millis(50)).unwrap();
        assert!(web.fetch(&address).unwrap_err().contains("timeout"));
    }
}
