//! Reads certificates and keys from PEM files and key stores. Errors name the setting, the file,
//! the line and the remedy, and no password.

use std::path::Path;

use pkcs8::{EncryptedPrivateKeyInfoRef, SecretDocument};
use rustls::pki_types::pem::{self, PemObject, SectionKind};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use x509_cert::Certificate;
use x509_cert::der::Decode;

use super::store;

/// A longer file is not a file of certificates.
const MOST_BYTES: u64 = 16 << 20;

/// A file of PEM or a key store, the setting that names it, and the password of what is encrypted
/// in it.
#[derive(Clone, Copy)]
pub(super) struct TlsFile<'a> {
    pub(super) setting: &'static str,
    pub(super) path: &'a Path,
    pub(super) password: Option<&'a str>,
}

/// The contents of a section, and the line where it begins.
struct Section {
    kind: SectionKind,
    der: Vec<u8>,
    line: usize,
}

impl TlsFile<'_> {
    /// All certificates of the file, in its order; at least one.
    pub(super) fn certificates(self) -> Result<Vec<CertificateDer<'static>>, String> {
        let text = self.read()?;
        if store::is_store(&text) {
            let found = store::certificates(&text, self.password.unwrap_or_default());
            return found.map_err(|error| self.wrong(&error)).and_then(|found| match found.is_empty() {
                true => Err(self.wrong("there is no certificate in it")),
                false => Ok(found),
            });
        }
        let mut found = Vec::new();
        for section in self.sections(&text)?.into_iter().filter(|section| section.kind == SectionKind::Certificate) {
            if let Err(error) = Certificate::from_der(&section.der) {
                return Err(self.wrong_at(section.line, &format!("this is no certificate: {error}; write it again")));
            }
            found.push(CertificateDer::from(section.der));
        }
        if found.is_empty() {
            return Err(self.wrong(
                "there is no certificate in it; it must hold at least one section -----BEGIN CERTIFICATE-----",
            ));
        }
        Ok(found)
    }

    /// The only private key of the file.
    pub(super) fn key(self) -> Result<PrivateKeyDer<'static>, String> {
        let text = self.read()?;
        if store::is_store(&text) {
            return store::key(&text, self.password.unwrap_or_default()).map_err(|error| self.wrong(&error));
        }
        if let Some(line) = line_with(&text, b"ENCRYPTED") {
            return self.decrypted(&text, line);
        }
        let keys = self
            .sections(&text)?
            .into_iter()
            .filter_map(|section| PrivateKeyDer::from_pem(section.kind, section.der).map(|key| (section.line, key)));
        let mut keys: Vec<_> = keys.collect();
        match (keys.pop(), keys.pop()) {
            (None, _) => Err(self.wrong("there is no private key in it, like a section -----BEGIN PRIVATE KEY-----")),
            (Some((_, key)), None) => Ok(key),
            (Some((line, _)), Some(_)) => {
                Err(self.wrong_at(line, "this is another private key; leave only the one of the certificate"))
            }
        }
    }

    /// The encrypted key that begins at this line.
    fn decrypted(self, text: &[u8], line: usize) -> Result<PrivateKeyDer<'static>, String> {
        let Some(password) = self.password else {
            let what = "the key is encrypted; set its password with tls.key_password_file or HERMOD_TLS_KEY_PASSWORD";
            return Err(self.wrong_at(line, what));
        };
        let path = self.path.display();
        let Some(section) = section_of(text, "ENCRYPTED PRIVATE KEY") else {
            let what = format!(
                "the key is encrypted in OpenSSL's old way; write it as PKCS#8 with `openssl pkcs8 -topk8 -in {path} -out NEW`"
            );
            return Err(self.wrong_at(line, &what));
        };
        let unreadable =
            |error: &dyn std::fmt::Display| self.wrong_at(line, &format!("the key cannot be read: {error}"));
        let (_, document) = SecretDocument::from_pem(section).map_err(|error| unreadable(&error))?;
        let encrypted =
            EncryptedPrivateKeyInfoRef::try_from(document.as_bytes()).map_err(|error| unreadable(&error))?;
        let decrypted = encrypted.decrypt(password).map_err(|_| {
            self.wrong_at(
                line,
                "the password is not that of the key, or its encryption is not known; set the right one",
            )
        })?;
        Ok(PrivatePkcs8KeyDer::from(decrypted.as_bytes().to_vec()).into())
    }

    fn read(self) -> Result<Vec<u8>, String> {
        let unreadable = |error: std::io::Error| self.wrong(&format!("it cannot be read: {error}"));
        let bytes = std::fs::metadata(self.path).map_err(unreadable)?.len();
        if bytes > MOST_BYTES {
            return Err(self.wrong(&format!("it has {bytes} bytes, too many for a file of certificates")));
        }
        std::fs::read(self.path).map_err(unreadable)
    }

    fn sections(self, text: &[u8]) -> Result<Vec<Section>, String> {
        let mut found = Vec::new();
        let mut sections = <(SectionKind, Vec<u8>)>::pem_slice_iter(text);
        loop {
            let rest = sections.remainder();
            let line = line_of(text, text.len() - rest.len() + begin(rest));
            match sections.next() {
                None => return Ok(found),
                Some(Ok((kind, der))) => found.push(Section { kind, der, line }),
                Some(Err(error)) => return Err(self.wrong_at(line, &explain(&error))),
            }
        }
    }

    /// Whether it is a key store; false if it can't be read.
    pub(super) fn is_store(self) -> bool {
        self.read().is_ok_and(|bytes| store::is_store(&bytes))
    }

    /// Whether a password protects the key in it; false if it can't be read.
    pub(super) fn is_encrypted(self) -> bool {
        let has_password = self.password.is_some_and(|password| !password.is_empty());
        self.read().is_ok_and(|bytes| match store::is_store(&bytes) {
            true => has_password,
            false => line_with(&bytes, b"ENCRYPTED").is_some(),
        })
    }

    pub(super) fn wrong(self, what: &str) -> String {
        format!("{}: {}: {what}", self.setting, self.path.display())
    }

    fn wrong_at(self, line: usize, what: &str) -> String {
        format!("{}: {}:{line}: {what}", self.setting, self.path.display())
    }
}

fn explain(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { .. } => {
            "the section that begins here has no end; is the file cut off?".to_owned()
        }
        pem::Error::IllegalSectionStart { .. } => {
            "a section must begin with five dashes, its kind and five dashes".to_owned()
        }
        pem::Error::Base64Decode(_) => "what is in the section that begins here is not base64".to_owned(),
        other => format!("the section that begins here cannot be read: {other:?}"),
    }
}

/// The text of the section of this kind.
fn section_of<'a>(text: &'a [u8], kind: &str) -> Option<&'a str> {
    let text = std::str::from_utf8(text).ok()?;
    let (begin, end) = (format!("-----BEGIN {kind}-----"), format!("-----END {kind}-----"));
    let from = text.find(&begin)?;
    let to = from + text[from..].find(&end)? + end.len();
    Some(&text[from..to])
}

/// The position of the next section in `text`, or its end.
fn begin(text: &[u8]) -> usize {
    const BEGIN: &[u8] = b"-----BEGIN";
    text.windows(BEGIN.len()).position(|window| window == BEGIN).unwrap_or(text.len())
}

/// The line of the byte at `position`, counted from 1.
fn line_of(text: &[u8], position: usize) -> usize {
    1 + text[..position].iter().filter(|byte| **byte == b'\n').count()
}

/// The first line with `word` in it, if it is a line about a section.
fn line_with(text: &[u8], word: &[u8]) -> Option<usize> {
    let tells = |line: &[u8]| line.starts_with(b"-----BEGIN") || line.starts_with(b"Proc-Type:");
    text.split(|byte| *byte == b'\n')
        .position(|line| tells(line) && line.windows(word.len()).any(|window| window == word))
        .map(|index| index + 1)
}
