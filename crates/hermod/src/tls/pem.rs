//! Reads certificates and keys from PEM files. Errors name the setting, the file, the line and the
//! remedy.

use std::path::Path;

use rustls::pki_types::pem::{self, PemObject, SectionKind};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use x509_cert::Certificate;
use x509_cert::der::Decode;

/// A longer file is not a file of certificates.
const MOST_BYTES: u64 = 16 << 20;

/// A PEM file and the setting that names it.
#[derive(Debug, Clone, Copy)]
pub(super) struct PemFile<'a> {
    pub(super) setting: &'static str,
    pub(super) path: &'a Path,
}

/// The contents of a section, and the line where it begins.
struct Section {
    kind: SectionKind,
    der: Vec<u8>,
    line: usize,
}

impl PemFile<'_> {
    /// All certificates of the file, in its order; at least one.
    pub(super) fn certificates(self) -> Result<Vec<CertificateDer<'static>>, String> {
        let text = self.read()?;
        let mut found = Vec::new();
        for section in self.sections(&text)?.into_iter().filter(|section| section.kind == SectionKind::Certificate) {
            if let Err(error) = Certificate::from_der(&section.der) {
                return Err(self.wrong_at(section.line, &format!("this is no certificate: {error}; write it anew")));
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
        if let Some(line) = line_with(&text, b"ENCRYPTED") {
            let path = self.path.display();
            return Err(self.wrong_at(
                line,
                &format!(
                    "the key is encrypted, and nobody is there to type its password; decrypt it with \
                     `openssl pkey -in {path} -out NEW` into a file that only the server can read"
                ),
            ));
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
