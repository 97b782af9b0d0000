//! TLS of all listeners: one certificate, read at the start and again when its files change.
//!
//! A connection keeps its certificate. A new connection gets the newest one that could be read. If
//! the files become invalid, that is reported once, and the last valid certificate stays.

mod names;
mod pem;
mod store;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use net::PeerCertificate;
use parking_lot::Mutex;
use rustls::pki_types::CertificateDer;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoClientAuth, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};

use crate::config::{Tls, Verify, Version};
use crate::exit::{Exit, Failure};
use pem::TlsFile;

/// The certificates of this server, from their files.
pub(crate) struct Certificates {
    settings: Tls,
    certificate: PathBuf,
    current: Mutex<Current>,
}

struct Current {
    config: Arc<ServerConfig>,
    /// When the certificate expires.
    ends: Option<SystemTime>,
    /// The state of the files when they were read, whether or not they were valid.
    seen: Vec<Look>,
}

/// Time of the last change and length of a file; `None` if it does not exist.
type Look = Option<(SystemTime, u64)>;

impl Certificates {
    /// Reads the files of the settings; `None` if they name no certificate.
    ///
    /// # Errors
    /// If a file is invalid.
    pub(crate) fn load(settings: &Tls) -> Result<Option<Arc<Self>>, Failure> {
        let Some(certificate) = settings.certificate.clone() else { return Ok(None) };
        let seen = look(settings, &certificate);
        let (config, ends) = build(settings, &certificate).map_err(|text| Exit::Config.because(text))?;
        let current = Mutex::new(Current { config: Arc::new(config), ends, seen });
        Ok(Some(Arc::new(Self { settings: settings.clone(), certificate, current })))
    }

    /// When the certificate of new connections expires.
    pub(crate) fn end(&self) -> Option<SystemTime> {
        self.current.lock().ends
    }

    /// Reads the files again, changed or not.
    pub(crate) fn reload(&self) {
        let seen = look(&self.settings, &self.certificate);
        self.renew(&mut self.current.lock(), seen);
    }

    fn renew(&self, current: &mut Current, seen: Vec<Look>) {
        current.seen = seen;
        match build(&self.settings, &self.certificate) {
            Ok((config, ends)) => {
                (current.config, current.ends) = (Arc::new(config), ends);
                tracing::info!("the TLS certificate was read again from {}", self.certificate.display());
            }
            Err(error) => tracing::error!("{error}; new connections get the certificate that was read before"),
        }
    }
}

impl net::Tls for Certificates {
    fn config(&self) -> Arc<ServerConfig> {
        // Checking three files costs nothing beside the handshake that follows.
        let seen = look(&self.settings, &self.certificate);
        let mut current = self.current.lock();
        if seen != current.seen {
            self.renew(&mut current, seen);
        }
        current.config.clone()
    }

    fn user_of(&self, certificate: &CertificateDer<'_>) -> Option<Arc<str>> {
        names::user(certificate, self.settings.login_from).map(Arc::from)
    }

    fn describe(&self, certificate: &CertificateDer<'_>) -> Option<PeerCertificate> {
        names::describe(certificate)
    }
}

fn look(settings: &Tls, certificate: &Path) -> Vec<Look> {
    let look = |path: &Path| {
        let found = std::fs::metadata(path).ok()?;
        Some((found.modified().ok()?, found.len()))
    };
    [Some(certificate), settings.key.as_deref(), settings.ca.as_deref()].into_iter().flatten().map(look).collect()
}

/// The configuration of connections, and when its certificate expires.
fn build(settings: &Tls, certificate: &Path) -> Result<(ServerConfig, Option<SystemTime>), String> {
    let password = secret("tls.key_password_file", &settings.passwords.key, settings.passwords.key_file.as_deref())?;
    let chain_file = TlsFile { setting: "tls.certificate", path: certificate, password: password.as_deref() };
    let chain = chain_file.certificates()?;
    let key_file = match &settings.key {
        Some(key) => TlsFile { setting: "tls.key", path: key, ..chain_file },
        None => chain_file,
    };
    let key = key_file.key()?;
    let ends = names::end(&chain[0]);
    if let Some(warning) = names::expiry(&chain[0], SystemTime::now()) {
        tracing::warn!("{}", chain_file.wrong(&warning));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions(settings.least))
        .map_err(|error| format!("tls.least_version: {error}"))?;
    let config = builder.with_client_cert_verifier(verifier(settings)?).with_single_cert(chain, key);
    config.map(|config| (config, ends)).map_err(|error| {
        let path = certificate.display();
        match error {
            rustls::Error::InconsistentKeys(_) => {
                key_file.wrong(&format!("the key does not belong to the first certificate in {path}"))
            }
            // Java leaves it out of keys on elliptic curves; `ring` does not compute it.
            rustls::Error::General(_) if key_file.is_store() => key_file.wrong(&format!(
                "the key has no public half, as Java writes it, or is of a kind that is not known; convert it with \
                 `openssl pkcs12 -in {} -nodes | openssl pkey -out NEW`",
                key_file.path.display()
            )),
            error => key_file.wrong(&format!("certificate and key cannot be used together: {error}")),
        }
    })
}

/// A password from its setting, or from the first line of a file.
pub(crate) fn secret(setting: &str, given: &str, file: Option<&Path>) -> Result<Option<String>, String> {
    let Some(file) = file else { return Ok(Some(given.to_owned()).filter(|given| !given.is_empty())) };
    let text = std::fs::read_to_string(file)
        .map_err(|error| format!("{setting}: {}: it cannot be read: {error}", file.display()))?;
    Ok(text.lines().next().map(str::to_owned))
}

fn versions(least: Version) -> Vec<&'static SupportedProtocolVersion> {
    match least {
        Version::V1_2 => vec![&rustls::version::TLS13, &rustls::version::TLS12],
        Version::V1_3 => vec![&rustls::version::TLS13],
    }
}

/// The verifier of clients' certificates.
fn verifier(settings: &Tls) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let (Some(ca), Verify::Peer | Verify::Required) = (&settings.ca, settings.verify) else {
        return Ok(Arc::new(NoClientAuth));
    };
    let password = Some(settings.passwords.ca.as_str()).filter(|password| !password.is_empty());
    let file = TlsFile { setting: "tls.ca", path: ca, password };
    let mut roots = RootCertStore::empty();
    for certificate in file.certificates()? {
        roots.add(certificate).map_err(|error| file.wrong(&format!("a certificate cannot be trusted: {error}")))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let builder = if settings.verify == Verify::Peer { builder.allow_unauthenticated() } else { builder };
    let built = builder.build().map_err(|error| file.wrong(&error.to_string()))?;
    Ok(built)
}
