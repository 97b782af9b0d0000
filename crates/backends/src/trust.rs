//! The certificates that servers elsewhere are trusted by, and the broker's own for them.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

/// Those of this file, or those that the system trusts.
pub(crate) fn certificates(file: Option<&Path>) -> Result<Vec<CertificateDer<'static>>, String> {
    let Some(file) = file else { return Ok(rustls_native_certs::load_native_certs().certs) };
    let wrong = |what: &dyn fmt::Display| format!("{}: {what}", file.display());
    let sections = CertificateDer::pem_file_iter(file).map_err(|error| wrong(&error))?;
    let found = sections.collect::<Result<Vec<_>, _>>().map_err(|error| wrong(&error))?;
    if found.is_empty() {
        return Err(wrong(&"there is no certificate in it; name a PEM file with certificates"));
    }
    Ok(found)
}

/// A certificate that a client shows, and its key.
pub struct Shown {
    /// The certificate, and behind it those of its issuers.
    pub chain: Vec<CertificateDer<'static>>,
    /// The key of the first one.
    pub key: PrivateKeyDer<'static>,
}

/// A client that trusts servers with these certificates, and shows its own to those that ask.
pub(crate) fn client(file: Option<&Path>, shown: Option<Shown>) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    // The system's may have some that the library does not take; a file is meant whole.
    let found = certificates(file)?;
    let (taken, _) = roots.add_parsable_certificates(found);
    if let (Some(file), 0) = (file, taken) {
        return Err(format!("{}: none of its certificates can be trusted", file.display()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let trusting = versions.map_err(|error| error.to_string())?.with_root_certificates(roots);
    let config = match shown {
        None => trusting.with_no_client_auth(),
        Some(Shown { chain, key }) => trusting
            .with_client_auth_cert(chain, key)
            .map_err(|error| format!("its own certificate and key cannot be used together: {error}"))?,
    };
    Ok(Arc::new(config))
}
