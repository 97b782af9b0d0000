//! The contents of certificates: the user of a client's certificate, after it was verified, and
//! when the server's certificate expires.
//!
//! An ambiguous certificate has no user: two common names do not name one.

use std::time::{Duration, SystemTime};

use net::PeerCertificate;
use rustls::pki_types::CertificateDer;
use x509_cert::Certificate;
use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::der::Decode;
use x509_cert::der::asn1::{Ia5StringRef, ObjectIdentifier, PrintableStringRef, TeletexStringRef, Utf8StringRef};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

use crate::config::LoginFrom;

/// `id-at-commonName` (RFC 5280 appendix A.1).
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

/// The name of the user, if the certificate has the field `from`.
pub(super) fn user(certificate: &CertificateDer<'_>, from: LoginFrom) -> Option<String> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let name = match from {
        LoginFrom::DistinguishedName => Some(certificate.tbs_certificate.subject.to_string()),
        LoginFrom::CommonName => common_name(&certificate),
        LoginFrom::SanDns => alternative(&certificate, |name| match name {
            GeneralName::DnsName(name) => Some(name.as_str()),
            _ => None,
        }),
        LoginFrom::SanEmail => alternative(&certificate, |name| match name {
            GeneralName::Rfc822Name(name) => Some(name.as_str()),
            _ => None,
        }),
        LoginFrom::SanUri => alternative(&certificate, |name| match name {
            GeneralName::UniformResourceIdentifier(name) => Some(name.as_str()),
            _ => None,
        }),
    };
    name.filter(|name| !name.is_empty())
}

/// When a certificate expires.
pub(super) fn end(certificate: &CertificateDer<'_>) -> Option<SystemTime> {
    let certificate = Certificate::from_der(certificate).ok()?;
    Some(certificate.tbs_certificate.validity.not_after.to_system_time())
}

/// A certificate's subject, issuer and validity, for listings.
pub(super) fn describe(certificate: &CertificateDer<'_>) -> Option<PeerCertificate> {
    let certificate = Certificate::from_der(certificate).ok()?.tbs_certificate;
    let (from, until) = (certificate.validity.not_before, certificate.validity.not_after);
    Some(PeerCertificate {
        subject: certificate.subject.to_string(),
        issuer: certificate.issuer.to_string(),
        validity: format!("{from} - {until}"),
    })
}

/// A warning about a certificate that has expired or will soon.
pub(super) fn expiry(certificate: &CertificateDer<'_>, now: SystemTime) -> Option<String> {
    const SOON: Duration = Duration::from_secs(14 * 24 * 3600);
    let certificate = Certificate::from_der(certificate).ok()?;
    let validity = certificate.tbs_certificate.validity;
    let (from, until) = (validity.not_before, validity.not_after);
    if now > until.to_system_time() {
        Some(format!("the certificate has ended on {until}; clients will refuse it"))
    } else if now + SOON > until.to_system_time() {
        Some(format!("the certificate ends on {until}; put a new one in its place, which needs no restart"))
    } else if now < from.to_system_time() {
        Some(format!("the certificate begins on {from} only; clients will refuse it until then"))
    } else {
        None
    }
}

fn common_name(certificate: &Certificate) -> Option<String> {
    let parts = certificate.tbs_certificate.subject.0.iter().flat_map(|part| part.0.iter());
    let mut names = parts.filter(|attribute| attribute.oid == COMMON_NAME);
    match (names.next(), names.next()) {
        (Some(only), None) => text(only),
        _ => None,
    }
}

/// The text of an attribute, in the encodings that issuers use for names.
fn text(attribute: &AttributeTypeAndValue) -> Option<String> {
    let value = &attribute.value;
    if let Ok(text) = value.decode_as::<Utf8StringRef<'_>>() {
        return Some(text.as_str().to_owned());
    }
    if let Ok(text) = value.decode_as::<PrintableStringRef<'_>>() {
        return Some(text.as_str().to_owned());
    }
    if let Ok(text) = value.decode_as::<Ia5StringRef<'_>>() {
        return Some(text.as_str().to_owned());
    }
    value.decode_as::<TeletexStringRef<'_>>().ok().map(|text| text.as_str().to_owned())
}

/// The first alternative name that `pick` accepts.
fn alternative(certificate: &Certificate, pick: impl Fn(&GeneralName) -> Option<&str>) -> Option<String> {
    let (_, names) = certificate.tbs_certificate.get::<SubjectAltName>().ok()??;
    names.0.iter().find_map(pick).map(str::to_owned)
}
