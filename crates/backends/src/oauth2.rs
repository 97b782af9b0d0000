//! OAuth 2.0 and OpenID Connect: users whose password is a token, signed by a server that the
//! operator trusts (RFC 7519, RFC 9068).
//!
//! A token is looked at where it is: no server is asked about it, only for its keys. What the token
//! says of its user is true until it expires.

mod claims;
mod code;
mod discovery;
mod keys;
mod signatures;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use auth::{Backend, Credentials, No, Vouched};
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, Header, Validation, decode, decode_header};
use serde_json::Value;

use self::claims::Claims;
pub use self::claims::Reading;
pub use self::code::{CodeClient, CodeGrant};
use self::discovery::shortened;
use self::keys::{Key, KeyStore, Keys, Read};
use crate::fetch::{Address, Fetch};

/// The name of this backend.
pub const NAME: &str = "oauth2";
/// Most bytes of a set of keys in a file.
const MOST_FILE: u64 = 256 << 10;

/// Where the keys of tokens come from.
#[derive(Debug, Clone)]
pub enum KeysFrom {
    /// A file with a JSON Web Key Set.
    File(PathBuf),
    /// The set at this address.
    Address(Address),
    /// The set that the issuer at this address names.
    Issuer(Address),
}

/// Checks tokens.
#[derive(Debug)]
pub struct OAuth2 {
    reading: Reading,
    algorithms: Vec<Algorithm>,
    keys: KeyStore,
}

impl OAuth2 {
    /// Reads claims in this way, and keys from there, again after `refresh`. Signatures by other
    /// algorithms than these are refused; none named stands for all that are known.
    ///
    /// # Errors
    /// If an algorithm is not known, or would let everybody in who knows a public key.
    pub fn new(
        reading: Reading,
        algorithms: &[String],
        (from, web, refresh): (KeysFrom, Arc<dyn Fetch>, Duration),
    ) -> Result<Self, String> {
        signatures::install();
        let algorithms = algorithms.iter().map(|name| algorithm(name)).collect::<Result<_, _>>()?;
        Ok(Self { reading, algorithms, keys: KeyStore::new(reader(from, web), refresh) })
    }

    /// What a token says, at this time.
    fn check(&self, token: &str, (now, unix): (Instant, Duration)) -> Result<Vouched, No> {
        let refused = |why: &str| No::Refused(why.to_owned());
        let header = decode_header(token).map_err(|error| refused(head_fault(error.kind())))?;
        if header.crit.is_some() {
            return Err(refused("the token needs an extension that is not known (crit)"));
        }
        if !self.algorithms.is_empty() && !self.algorithms.contains(&header.alg) {
            return Err(No::Refused(format!("the algorithm {:?} is none of auth_oauth2.algorithms", header.alg)));
        }
        let keys = self.keys.keys(header.kid.as_deref(), now).map_err(No::Unavailable)?;
        let claims = verified(token, &header, &keys)?;
        let grant = self.reading.grant(&claims, unix.as_secs()).map_err(No::Refused)?;
        let left = grant.expires.map(|at| Duration::from_millis(at).saturating_sub(unix));
        Ok(Vouched { grant, valid_for: left.unwrap_or_default() })
    }
}

impl Backend for OAuth2 {
    fn name(&self) -> &'static str {
        NAME
    }

    /// Three parts of base 64, of which the first begins as an object of JSON does.
    fn takes(&self, secret: &[u8]) -> bool {
        secret.starts_with(b"ey")
            && secret.iter().filter(|byte| **byte == b'.').count() == 2
            && secret.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
    }

    fn ask(&self, credentials: Credentials<'_>) -> Result<Vouched, No> {
        let token = str::from_utf8(credentials.secret).map_err(|_| No::Refused("this is no token".to_owned()))?;
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.check(token, (Instant::now(), unix))
    }
}

/// The claims of a token that one of the keys has signed.
fn verified(token: &str, header: &Header, keys: &Keys) -> Result<Claims, No> {
    let mut why = match &header.kid {
        Some(id) => format!("no key '{}' for {:?} is known", shortened(id), header.alg),
        None => format!("no key for {:?} is known", header.alg),
    };
    for key in keys.fitting(header.kid.as_deref(), header.alg) {
        match decode::<Value>(token, &key.key, &validation(key)) {
            Ok(data) => match data.claims {
                Value::Object(claims) => return Ok(claims),
                _ => return Err(No::Refused("the claims of the token are no object".to_owned())),
            },
            Err(error) if matches!(error.kind(), ErrorKind::InvalidSignature) => {
                "the signature of the token is wrong".clone_into(&mut why);
            }
            Err(error) => return Err(No::Refused(format!("the token can't be read: {error}"))),
        }
    }
    Err(No::Refused(why))
}

/// Only the signature is checked by the library: times and names are by the claims' reading.
fn validation(key: &Key) -> Validation {
    let mut validation = Validation::new(Algorithm::RS256);
    validation.algorithms.clone_from(&key.algorithms);
    validation.required_spec_claims.clear();
    (validation.validate_exp, validation.validate_nbf, validation.validate_aud) = (false, false, false);
    validation
}

/// What is wrong with a head, without anything of the token.
fn head_fault(kind: &ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Json(_) => "the head of the token is none, or its algorithm is not one that is known",
        _ => "this is no token",
    }
}

/// Fails for an algorithm that tokens may not be signed by.
///
/// # Errors
/// What is wrong with it, and which ones there are.
pub fn check_algorithm(name: &str) -> Result<(), String> {
    algorithm(name).map(drop)
}

fn algorithm(name: &str) -> Result<Algorithm, String> {
    let known = "RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, EdDSA";
    match name.parse() {
        Ok(Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512) => {
            Err(format!("'{name}' is signed with a secret that the one who checks it knows too; use one of {known}"))
        }
        Ok(algorithm) => Ok(algorithm),
        Err(_) => Err(format!("'{name}' is none of {known}")),
    }
}

fn reader(from: KeysFrom, web: Arc<dyn Fetch>) -> Read {
    match from {
        KeysFrom::File(path) => Box::new(move || {
            let wrong = |what: &dyn std::fmt::Display| format!("{}: {what}", path.display());
            match std::fs::metadata(&path).map_err(|error| wrong(&error))?.len() {
                length if length > MOST_FILE => Err(wrong(&format!("{length} bytes are too many for a set of keys"))),
                _ => std::fs::read_to_string(&path).map_err(|error| wrong(&error)),
            }
        }),
        KeysFrom::Address(address) => Box::new(move || web.fetch(&address)),
        KeysFrom::Issuer(issuer) => Box::new(move || web.fetch(&key_address(&issuer, &*web)?)),
    }
}

/// The address of the keys that an issuer names.
fn key_address(issuer: &Address, web: &dyn Fetch) -> Result<Address, String> {
    discovery::named(&discovery::read(issuer, web)?, "jwks_uri")
}

#[cfg(test)]
mod tests;
