//! Who a node is: its key, its certificate, and the authority of its cluster, which both are held
//! against.
//!
//! The authority is a key. Its public half is what tokens and nodes trust; no certificate of its
//! own is sent. Each node has the private half, so that any of them can invite others after the
//! first one is lost. Certificates have no end: see ADR 0063.
//!
//! Invariant: a node trusts certificates of its authority and no others. A certificate names its
//! node, so none can say that it is another.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ED25519, PublicKeyData, SignatureAlgorithm,
};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::keeping;
use crate::message::{Membership, NodeId};
use crate::token::{Token, name_of};

/// The name that every node's certificate has.
pub(crate) const NAME: &str = "node.hermod.invalid";
const AUTHORITY_KEY: &str = "authority.key";
const NODE_KEY: &str = "node.key";
const NODE_CERTIFICATE: &str = "node.pem";
const NODE: &str = "node";
const INVITES: &str = "invites";
const PEERS: &str = "peers";
/// Most addresses of nodes that are kept in mind.
const MOST_PEERS: usize = 8;
/// Most invitations that are open at one time.
const MOST_INVITES: usize = 64;

/// See the module.
pub struct Identity {
    folder: PathBuf,
    /// This node.
    pub node: NodeId,
    /// Its cluster.
    pub cluster: NodeId,
    authority: KeyPair,
    pub(crate) key: KeyPair,
    certificate: CertificateDer<'static>,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").field("node", &self.node).field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

fn wrong(what: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_string())
}

impl Identity {
    /// Reads who the node with this data directory is, if it is one of a cluster.
    ///
    /// # Errors
    /// What can't be read, by its name.
    pub fn load(data: &Path) -> io::Result<Option<Self>> {
        let folder = keeping::folder(data);
        let Some(node) = keeping::read(&folder.join(NODE))? else { return Ok(None) };
        let part = |name: &str| {
            let text = keeping::read(&folder.join(name))?;
            text.ok_or_else(|| wrong(format!("{} is missing", folder.join(name).display())))
        };
        let key = |name: &str| {
            let text = part(name)?;
            KeyPair::from_pem(&text).map_err(|error| wrong(format!("{}: {error}", folder.join(name).display())))
        };
        let certificate = part(NODE_CERTIFICATE)?;
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes())
            .map_err(|error| wrong(format!("{}: {error}", folder.join(NODE_CERTIFICATE).display())))?;
        let node = node_of(node.trim()).ok_or_else(|| wrong(format!("{}: no node", folder.join(NODE).display())))?;
        let authority = key(AUTHORITY_KEY)?;
        let (cluster, key) = (cluster_of(authority.der_bytes()), key(NODE_KEY)?);
        Ok(Some(Self { folder, node, cluster, authority, key, certificate }))
    }

    /// Makes the first node of a new cluster of the one with this data directory.
    ///
    /// # Errors
    /// What can't be written.
    pub fn create(data: &Path) -> io::Result<Self> {
        let authority = KeyPair::generate_for(&PKCS_ED25519).map_err(wrong)?;
        let key = KeyPair::generate_for(&PKCS_ED25519).map_err(wrong)?;
        let membership = issue(&authority, key.der_bytes())?;
        Self::keep(data, key, authority, membership)
    }

    /// Makes a node of a cluster of the one with this data directory: it has been given that.
    ///
    /// # Errors
    /// When the authority is not that of the token, or something can't be written.
    pub fn join(data: &Path, key: KeyPair, token: &Token, membership: Membership) -> io::Result<Self> {
        let pkcs8 = rustls::pki_types::PrivatePkcs8KeyDer::from(membership.authority.clone());
        let authority = KeyPair::from_pkcs8_der_and_sign_algo(&pkcs8, &PKCS_ED25519).map_err(wrong)?;
        if authority.der_bytes() != token.authority {
            return Err(wrong("the key of the authority is not that of the token"));
        }
        Self::keep(data, key, authority, membership)
    }

    fn keep(data: &Path, key: KeyPair, authority: KeyPair, membership: Membership) -> io::Result<Self> {
        let folder = keeping::folder(data);
        let certificate = CertificateDer::from(membership.certificate);
        keeping::write(&folder, AUTHORITY_KEY, authority.serialize_pem().as_bytes())?;
        keeping::write(&folder, NODE_KEY, key.serialize_pem().as_bytes())?;
        keeping::write(&folder, NODE_CERTIFICATE, pem_of(&certificate).as_bytes())?;
        // The last: without it there is no node.
        keeping::write(&folder, NODE, membership.node.to_string().as_bytes())?;
        let (node, cluster) = (membership.node, cluster_of(authority.der_bytes()));
        Ok(Self { folder, node, cluster, authority, key, certificate })
    }

    /// Makes an invitation for one node, which ends at `until`, in seconds since 1970. `address` is
    /// where this node listens.
    ///
    /// # Errors
    /// When too many are open, or it can't be written.
    pub fn invite(&self, address: &str, now: u64, until: u64) -> io::Result<Token> {
        let invites = self.folder.join(INVITES);
        if self.open_invites(now)? >= MOST_INVITES {
            return Err(wrong(format!("{MOST_INVITES} invitations are open; wait for their end, or use them")));
        }
        let secret = random()?;
        keeping::write(&invites, &name_of(&secret), until.to_string().as_bytes())?;
        let authority = self.authority.der_bytes().try_into().map_err(wrong)?;
        Ok(Token { until, secret, authority, address: address.to_owned() })
    }

    /// Counts the invitations that are open, and removes those that have ended.
    fn open_invites(&self, now: u64) -> io::Result<usize> {
        let invites = self.folder.join(INVITES);
        keeping::make(&invites)?;
        let mut open = 0;
        for entry in std::fs::read_dir(&invites)? {
            let path = entry?.path();
            let until = keeping::read(&path)?.and_then(|text| text.trim().parse::<u64>().ok());
            if until.is_some_and(|until| until > now) {
                open += 1;
            } else {
                let _ = std::fs::remove_file(path);
            }
        }
        Ok(open)
    }

    /// Admits a node that shows the secret of an invitation: the invitation is over, whatever
    /// becomes of the node.
    ///
    /// # Errors
    /// When there is no such invitation, or it has ended.
    pub fn admit(&self, secret: &[u8; 16], key: &[u8; 32], now: u64) -> io::Result<Membership> {
        let invites = self.folder.join(INVITES);
        let path = invites.join(name_of(secret));
        let until = keeping::read(&path)?.and_then(|text| text.trim().parse::<u64>().ok());
        let unknown = || io::Error::new(io::ErrorKind::PermissionDenied, "the token is not known, or was used before");
        let until = until.ok_or_else(unknown)?;
        // Of two that come at the same time only one removes it.
        std::fs::remove_file(&path).map_err(|_| unknown())?;
        keeping::sync(&invites)?;
        if until <= now {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the token has ended"));
        }
        issue(&self.authority, key)
    }

    /// Keeps in mind where a node listens that follows this one: it may be promoted while this one
    /// is away.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn remember(&self, address: &str) -> io::Result<()> {
        let mut peers = self.peers()?;
        if peers.iter().any(|known| known == address) || address.is_empty() || address.contains(char::is_control) {
            return Ok(());
        }
        peers.push(address.to_owned());
        let first = peers.len().saturating_sub(MOST_PEERS);
        keeping::write(&self.folder, PEERS, peers[first..].join("\n").as_bytes())
    }

    /// Where nodes listen that have followed this one.
    ///
    /// # Errors
    /// When that can't be read.
    pub fn peers(&self) -> io::Result<Vec<String>> {
        let text = keeping::read(&self.folder.join(PEERS))?.unwrap_or_default();
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// The certificates that a node of this cluster trusts.
    pub(crate) fn roots(&self) -> io::Result<Arc<RootCertStore>> {
        roots_of(self.authority.der_bytes())
    }

    /// The certificate that this node shows, and its key.
    pub(crate) fn shown(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let key = rustls::pki_types::PrivatePkcs8KeyDer::from(self.key.serialize_der());
        (vec![self.certificate.clone()], PrivateKeyDer::Pkcs8(key))
    }
}

/// The name in the certificate of a node that says which it is.
pub(crate) fn name_of_node(node: NodeId) -> String {
    // A label of a name has at most 63 characters.
    format!("{node}.{NAME}")
}

/// The public key of a node that has sent no more than that.
struct Raw<'a>(&'a [u8]);

impl PublicKeyData for Raw<'_> {
    fn der_bytes(&self) -> &[u8] {
        self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ED25519
    }
}

fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "Hermod cluster");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params
}

/// Issues a certificate for a key, and a number for its node.
fn issue(authority: &KeyPair, key: &[u8]) -> io::Result<Membership> {
    let node = NodeId(random()?);
    let mut params = CertificateParams::new([NAME.to_owned(), name_of_node(node)]).map_err(wrong)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, node.to_string());
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let issuer = Issuer::new(authority_params(), authority);
    let certificate = params.signed_by(&Raw(key), &issuer).map_err(wrong)?;
    Ok(Membership { node, certificate: certificate.der().to_vec(), authority: authority.serialize_der() })
}

/// What is trusted by one that knows the public key of an authority.
pub(crate) fn roots_of(authority: &[u8]) -> io::Result<Arc<RootCertStore>> {
    // Only name and key of it are looked at, so any key may sign it.
    let signer = KeyPair::generate_for(&PKCS_ED25519).map_err(wrong)?;
    let anchor = authority_params().signed_by(&Raw(authority), &Issuer::new(authority_params(), signer));
    let mut roots = RootCertStore::empty();
    roots.add(anchor.map_err(wrong)?.der().clone()).map_err(wrong)?;
    Ok(Arc::new(roots))
}

/// A new key for a node.
///
/// # Errors
/// When there are no random numbers.
pub fn new_key() -> io::Result<KeyPair> {
    KeyPair::generate_for(&PKCS_ED25519).map_err(wrong)
}

/// The public half of a key.
pub(crate) fn public_half(key: &KeyPair) -> io::Result<[u8; 32]> {
    key.der_bytes().try_into().map_err(wrong)
}

fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| io::Error::other("the system has no random numbers"))?;
    Ok(bytes)
}

fn cluster_of(authority: &[u8]) -> NodeId {
    let whole = digest(&SHA256, authority);
    NodeId(whole.as_ref().first_chunk().copied().unwrap_or_default())
}

fn node_of(text: &str) -> Option<NodeId> {
    let mut bytes = [0; 16];
    if text.len() != 32 || !text.is_ascii() {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(NodeId(bytes))
}

fn pem_of(certificate: &CertificateDer<'_>) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(certificate);
    let mut pem = "-----BEGIN CERTIFICATE-----\n".to_owned();
    for at in (0..text.len()).step_by(64) {
        pem += &text[at..text.len().min(at + 64)];
        pem.push('\n');
    }
    pem + "-----END CERTIFICATE-----\n"
}
