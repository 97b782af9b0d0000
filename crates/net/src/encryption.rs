//! What listings say of a connection within TLS.

/// What a handshake came to, for listings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Encryption {
    /// The version, as `TLSv1_3`.
    pub version: String,
    /// The suite of algorithms, as `TLS13_AES_256_GCM_SHA384`.
    pub suite: String,
    /// The certificate that the peer has shown.
    pub certificate: Option<PeerCertificate>,
}

/// What a peer's certificate says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PeerCertificate {
    /// Whose it is: a distinguished name.
    pub subject: String,
    /// Who has signed it: a distinguished name.
    pub issuer: String,
    /// From when to when it counts.
    pub validity: String,
}
