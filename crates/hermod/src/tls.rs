//! TLS of a listener: its certificates, read at the start and again when their files change. Each
//! client gets the certificate for the name that it asks for (SNI).
//!
//! A connection keeps its certificate. A new connection gets the newest one that could be read. If
//! the files become invalid, that is reported once, and the last valid certificate stays.

mod names;
mod pem;
mod readable;
mod store;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use backends::Shown;
use net::PeerCertificate;
use parking_lot::Mutex;
use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, NoClientAuth, ParsedCertificate, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};

use crate::config::{CertificateFiles, Listening, Tls, Verify, Version};
use crate::exit::{Exit, Failure};
use pem::TlsFile;
use readable::Exposure;

/// The certificates of all listeners. Listeners with the same settings share them.
#[derive(Default)]
pub(crate) struct AllCertificates(Vec<Arc<Certificates>>);

impl AllCertificates {
    /// Reads the files that these listeners need.
    ///
    /// # Errors
    /// If a file is invalid.
    pub(crate) fn load(listeners: &[Listening]) -> Result<Self, Failure> {
        let mut read = Self::default();
        for settings in listeners.iter().filter_map(|listening| listening.tls.as_ref()) {
            if read.of(settings).is_none() {
                read.0.extend(Certificates::load(settings)?);
            }
        }
        Ok(read)
    }

    /// Those of a listener with these settings.
    pub(crate) fn of(&self, settings: &Tls) -> Option<Arc<Certificates>> {
        self.0.iter().find(|certificates| certificates.settings == *settings).cloned()
    }

    /// When the first of them expires.
    pub(crate) fn end(&self) -> Option<SystemTime> {
        self.0.iter().filter_map(|certificates| certificates.end()).min()
    }

    /// Reads the files again, changed or not.
    pub(crate) fn reload(&self) {
        if self.0.is_empty() {
            tracing::info!("SIGHUP: there is no TLS certificate to read again");
        }
        self.0.iter().for_each(|certificates| certificates.reload());
    }
}

/// The certificates of listeners with the same settings, from their files.
pub(crate) struct Certificates {
    settings: Tls,
    certificate: PathBuf,
    current: Mutex<Current>,
}

struct Current {
    config: Arc<ServerConfig>,
    /// When the first certificate expires.
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

    /// When the first certificate of new connections expires.
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
    let own = [Some(certificate), settings.key.as_deref(), settings.ca.as_deref()];
    let others = settings.others.iter().flat_map(|files| [Some(files.certificate.as_path()), files.key.as_deref()]);
    own.into_iter().chain(others).flatten().map(look).collect()
}

/// The configuration of connections, and when its first certificate expires.
fn build(settings: &Tls, certificate: &Path) -> Result<(ServerConfig, Option<SystemTime>), String> {
    let password = secret("tls.key_password_file", &settings.passwords.key, settings.passwords.key_file.as_deref())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let first = CertificateFiles { certificate: certificate.to_owned(), key: settings.key.clone() };
    let mut keys = ByName(Vec::new());
    let mut ends = None;
    for files in [&first].into_iter().chain(&settings.others) {
        let (key, end) = certified(settings, files, password.as_deref(), &provider)?;
        ends = ends.into_iter().chain(end).min();
        keys.0.push(Arc::new(key));
    }
    let builder = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions(settings.least))
        .map_err(|error| format!("tls.least_version: {error}"))?;
    let builder = builder.with_client_cert_verifier(verifier(settings)?);
    Ok((builder.with_cert_resolver(Arc::new(keys)), ends))
}

/// A certificate with its key, and when it expires.
fn certified(
    settings: &Tls,
    files: &CertificateFiles,
    password: Option<&str>,
    provider: &CryptoProvider,
) -> Result<(CertifiedKey, Option<SystemTime>), String> {
    let chain_file = TlsFile { setting: settings.words.certificate, path: &files.certificate, password };
    let chain = chain_file.certificates()?;
    let key_file = match &files.key {
        Some(key) => TlsFile { setting: settings.words.key, path: key, ..chain_file },
        None => chain_file,
    };
    let key = key_file.key()?;
    guard(key_file)?;
    let ends = names::end(&chain[0]);
    if let Some(warning) = names::expiry(&chain[0], SystemTime::now()) {
        tracing::warn!("{}", chain_file.wrong(&warning));
    }
    CertifiedKey::from_der(chain, key, provider).map(|key| (key, ends)).map_err(|error| {
        let path = files.certificate.display();
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

/// Refuses a key that every user of the machine can read.
fn guard(key: TlsFile<'_>) -> Result<(), String> {
    if key.is_encrypted() {
        return Ok(());
    }
    match readable::exposure(key.path) {
        Exposure::Closed => Ok(()),
        Exposure::Mounted => {
            tracing::warn!("{}", key.wrong("every user of this machine can read the key; so it was mounted"));
            Ok(())
        }
        Exposure::Open => Err(key.wrong(&format!(
            "every user of this machine can read the key; close it with `chmod o-r {}`",
            key.path.display()
        ))),
    }
}

/// Certificates with their keys. A client gets the first one that is for the name that it asks for,
/// else the first one of all.
#[derive(Debug)]
struct ByName(Vec<Arc<CertifiedKey>>);

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let (first, others) = self.0.split_first()?;
        let name = hello.server_name().filter(|_| !others.is_empty());
        let name = name.and_then(|name| ServerName::try_from(name).ok());
        let named = name.and_then(|name| self.0.iter().find(|key| is_for(key, &name)));
        Some(named.unwrap_or(first).clone())
    }
}

fn is_for(key: &CertifiedKey, name: &ServerName<'_>) -> bool {
    let certificate = key.end_entity_cert().ok().and_then(|certificate| ParsedCertificate::try_from(certificate).ok());
    certificate.is_some_and(|certificate| verify_server_name(&certificate, name).is_ok())
}

/// The certificate that the broker shows to a directory, with its key.
pub(crate) fn shown(certificate: &Path, key: &Path) -> Result<Shown, String> {
    let file = |setting, path| TlsFile { setting, path, password: None };
    let (certificate, key) =
        (file("auth_ldap.ssl_options.certfile", certificate), file("auth_ldap.ssl_options.keyfile", key));
    let shown = Shown { chain: certificate.certificates()?, key: key.key()? };
    guard(key)?;
    Ok(shown)
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
    let file = TlsFile { setting: settings.words.ca, path: ca, password };
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
