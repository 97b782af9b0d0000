//! Certificates for tests: a new issuer, and what it issues, as PEM.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, SanType, date_time_ymd,
};

/// An authority that issues certificates.
#[derive(Debug)]
pub struct Issuer {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its private key.
#[derive(Debug, Clone)]
pub struct Issued {
    /// The certificate in PEM.
    pub certificate: String,
    /// Its private key in PEM (PKCS #8).
    pub key: String,
}

/// The one that a certificate is for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Subject<'a> {
    /// Attributes of its name: `O`, `CN`.
    pub name: &'a [(&'a str, &'a str)],
    /// Its alternative names: `DNS`, `email`, `URI`.
    pub alternatives: &'a [(&'a str, &'a str)],
    /// Its time is over.
    pub expired: bool,
}

impl Issuer {
    /// An issuer that signs its own certificate.
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name = distinguished(&[("CN", name)]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        Self { issuer: CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap() }
    }

    /// Its own certificate in PEM.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A certificate for a server on this machine.
    pub fn server(&self) -> Issued {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.distinguished_name = distinguished(&[("CN", "localhost")]);
        for address in [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()] {
            params.subject_alt_names.push(SanType::IpAddress(address));
        }
        self.issue(params, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A certificate for a server of this name.
    pub fn server_named(&self, name: &str) -> Issued {
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        self.issue(params, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A certificate for a client.
    pub fn client(&self, subject: Subject<'_>) -> Issued {
        let mut params = CertificateParams::default();
        params.distinguished_name = distinguished(subject.name);
        for (kind, value) in subject.alternatives {
            let value = (*value).try_into().unwrap();
            params.subject_alt_names.push(match *kind {
                "DNS" => SanType::DnsName(value),
                "email" => SanType::Rfc822Name(value),
                "URI" => SanType::URI(value),
                other => panic!("no such kind of name: {other}"),
            });
        }
        if subject.expired {
            params.not_after = date_time_ymd(2001, 1, 1);
        }
        self.issue(params, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn issue(&self, mut params: CertificateParams, usage: ExtendedKeyUsagePurpose) -> Issued {
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        Issued { certificate: params.signed_by(&key, &self.issuer).unwrap().pem(), key: key.serialize_pem() }
    }
}

fn distinguished(attributes: &[(&str, &str)]) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    for (kind, value) in attributes {
        let kind = match *kind {
            "CN" => DnType::CommonName,
            "O" => DnType::OrganizationName,
            other => panic!("no such attribute: {other}"),
        };
        name.push(kind, *value);
    }
    name
}
