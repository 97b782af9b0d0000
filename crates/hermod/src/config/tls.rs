//! The settings of TLS, declared once like all others.

use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use super::ConfigError;
use super::ports::SECURE;
use super::reader::{Reader, declare};
use super::value::{self, optional_path};

/// The certificates of listeners with TLS, and the clients that they trust. Without `certificate`
/// there are no such listeners.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tls {
    pub(crate) certificate: Option<PathBuf>,
    /// `None`: the key is in the file of `certificate`.
    pub(crate) key: Option<PathBuf>,
    /// Further certificates, for clients that ask for another name.
    pub(crate) others: Vec<CertificateFiles>,
    /// The settings that name the files.
    pub(crate) words: &'static TlsWords,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) passwords: Passwords,
    pub(crate) verify: Verify,
    /// Oldest version that is accepted; 1.3 is always accepted.
    pub(crate) least: Version,
    pub(crate) login_from: LoginFrom,
    pub(crate) handshake_timeout: Duration,
}

/// A certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CertificateFiles {
    pub(crate) certificate: PathBuf,
    /// `None`: the key is in the file of the certificate.
    pub(crate) key: Option<PathBuf>,
}

/// Names of settings, for errors.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TlsWords {
    pub(crate) certificate: &'static str,
    pub(crate) key: &'static str,
    pub(crate) ca: &'static str,
}

/// The settings of all listeners.
pub(crate) static OF_ALL: TlsWords = TlsWords { certificate: "tls.certificate", key: "tls.key", ca: "tls.ca" };
/// Those of one listener.
pub(super) static OF_LISTENERS: TlsWords =
    TlsWords { certificate: "listeners.certificates", key: "listeners.keys", ca: "listeners.ca" };

/// Whether clients must present certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verify {
    None,
    Peer,
    Required,
}

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    V1_2,
    V1_3,
}

/// The field of a client's certificate that names its user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoginFrom {
    DistinguishedName,
    CommonName,
    SanDns,
    SanEmail,
    SanUri,
}

pub(super) const VERIFY: [(&str, Verify); 3] =
    [("none", Verify::None), ("peer", Verify::Peer), ("required", Verify::Required)];
const VERSIONS: [(&str, Version); 2] = [("1.2", Version::V1_2), ("1.3", Version::V1_3)];
const LOGIN_FROM: [(&str, LoginFrom); 5] = [
    ("distinguished_name", LoginFrom::DistinguishedName),
    ("common_name", LoginFrom::CommonName),
    ("san_dns", LoginFrom::SanDns),
    ("san_email", LoginFrom::SanEmail),
    ("san_uri", LoginFrom::SanUri),
];

static CERTIFICATE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "File with the server's certificate in PEM, followed by the certificates of its issuers, or a key store of \
         PKCS#12. If it is set, {} are \
         opened, except those that are 0. The file is read again when it changes, and on SIGHUP.",
        *SECURE
    )
});

/// The passwords of keys and key stores. They are never shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Passwords {
    pub(crate) key: String,
    /// File that has the password of the key instead.
    pub(crate) key_file: Option<PathBuf>,
    pub(crate) ca: String,
}

impl std::fmt::Debug for Passwords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(hidden)")
    }
}

impl Tls {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let mut file = |name, doc| reader.get(declare(name, "path", "", doc), optional_path);
        let certificate = file("tls.certificate", &CERTIFICATE)?;
        let key = file(
            "tls.key",
            "File with the private key of the certificate, in PEM or as a key store of PKCS#12. By default the key is \
             in the file of `tls.certificate`.",
        )?;
        let key_password_file =
            file("tls.key_password_file", "File whose first line is `tls.key_password`, for mounted secrets.")?;
        let ca = file(
            "tls.ca",
            "File with the certificates of the authorities that may issue certificates of clients, in PEM or as a \
             key store of PKCS#12.",
        )?;
        let key_password = reader.secret(declare(
            "tls.key_password",
            "text",
            "",
            "Password of the encrypted key or of the key store. It is better set by `HERMOD_TLS_KEY_PASSWORD` or \
             `tls.key_password_file` than by a flag, which others can see.",
        ))?;
        let ca_password =
            reader.secret(declare("tls.ca_password", "text", "", "Password of `tls.ca` if it is a key store."))?;
        let verify = reader.get(
            declare(
                "tls.verify",
                "none, peer, required",
                "none",
                "Certificates of clients. `none`: the server does not ask for them. `peer`: if a client presents \
                 one, an authority of `tls.ca` must have issued it. `required`: as `peer`, and a client without a \
                 certificate cannot connect.",
            ),
            |text| value::choice(text, &VERIFY),
        )?;
        let least = reader.get(
            declare(
                "tls.least_version",
                "1.2, 1.3",
                "1.2",
                "Oldest version of TLS that is accepted. 1.3 is always accepted.",
            ),
            |text| value::choice(text, &VERSIONS),
        )?;
        let login_from = reader.get(
            declare(
                "tls.login_from",
                "distinguished_name, common_name, san_dns, san_email, san_uri",
                "distinguished_name",
                "Field of a client's certificate that names its user, for log-ins by EXTERNAL: the whole subject as \
                 in RFC 4514 (`CN=shop,O=Example`), its common name, or the first alternative name of that kind.",
            ),
            |text| value::choice(text, &LOGIN_FROM),
        )?;
        let handshake_timeout = reader.get(
            declare("tls.handshake_timeout", "time", "5 s", "How long a client may take for the TLS handshake."),
            value::duration,
        )?;
        let passwords = Passwords { key: key_password, key_file: key_password_file, ca: ca_password };
        let (others, words) = (Vec::new(), &OF_ALL);
        Ok(Self { certificate, key, others, words, ca, passwords, verify, least, login_from, handshake_timeout })
    }

    /// Checks that need several settings.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let wrong = |text: &str| Err(ConfigError::new(text.to_owned()));
        match (&self.certificate, self.verify, &self.ca) {
            (None, _, _) if self.key.is_some() => {
                wrong("tls.key: there is no certificate for it; set tls.certificate, too")
            }
            (None, Verify::Peer | Verify::Required, _) => {
                wrong("tls.verify: clients cannot be verified without TLS; set tls.certificate and tls.key, too")
            }
            (_, Verify::Peer | Verify::Required, None) => {
                wrong("tls.verify: nobody's certificates would be trusted; name the file of their issuers with tls.ca")
            }
            (_, Verify::None, Some(_)) => wrong(
                "tls.ca: clients are not asked for certificates; set tls.verify to peer or required, or leave tls.ca out",
            ),
            _ => Ok(()),
        }
    }
}
