//! Reads key stores: PKCS#12, as Java and Windows write it. Java's own format is refused with the
//! command that converts it.

use p12_keystore::{KeyStore, Pkcs12Archive, Pkcs12ImportPolicy};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// What is wrong with a key store, and what to do.
pub(super) type Wrong = String;

/// Whether these bytes are a key store: they begin as a DER sequence or as a store of Java does.
/// The second byte says how the length is written. It is never ASCII, so no text is taken for one.
pub(super) fn is_store(bytes: &[u8]) -> bool {
    matches!(bytes, [0x30, 0x80..=0x84, ..]) || is_java(bytes)
}

fn is_java(bytes: &[u8]) -> bool {
    // JKS and JCEKS.
    bytes.starts_with(&[0xfe, 0xed, 0xfe, 0xed]) || bytes.starts_with(&[0xce, 0xce, 0xce, 0xce])
}

/// The certificates of the only private key, its own first; without a key all certificates.
pub(super) fn certificates(bytes: &[u8], password: &str) -> Result<Vec<CertificateDer<'static>>, Wrong> {
    let store =
        open(bytes, password, |bytes, password| KeyStore::from_pkcs12(bytes, password, Pkcs12ImportPolicy::Relaxed))?;
    let der = |certificate: &p12_keystore::Certificate| CertificateDer::from(certificate.as_der().to_vec());
    if let Some((_, chain)) = store.private_key_chain() {
        return Ok(chain.certs().iter().map(der).collect());
    }
    let archive = open(bytes, password, Pkcs12Archive::from_pkcs12)?;
    Ok(archive.certs.iter().map(|bag| der(&bag.cert)).collect())
}

/// The only private key.
pub(super) fn key(bytes: &[u8], password: &str) -> Result<PrivateKeyDer<'static>, Wrong> {
    let archive = open(bytes, password, Pkcs12Archive::from_pkcs12)?;
    match archive.keys.as_slice() {
        [] => Err("there is no private key in it; export it with the key".to_owned()),
        [bag] => Ok(PrivatePkcs8KeyDer::from(bag.key.as_der().to_vec()).into()),
        several => Err(format!("it has {} private keys; leave only the one of the certificate", several.len())),
    }
}

fn open<T>(
    bytes: &[u8],
    password: &str,
    read: impl FnOnce(&[u8], &str) -> p12_keystore::Result<T>,
) -> Result<T, Wrong> {
    if is_java(bytes) {
        return Err("it is a key store of Java's own format; convert it with `keytool -importkeystore -srckeystore \
                    OLD -destkeystore NEW.p12 -deststoretype PKCS12`"
            .to_owned());
    }
    read(bytes, password).map_err(|error| match error {
        p12_keystore::error::Error::MacError(_) => "the password is not that of this key store".to_owned(),
        error => format!("this is no key store of PKCS#12 that can be read: {error}"),
    })
}
