//! Signatures of tokens, checked by ring: the library that reads tokens brings no cryptography of
//! its own here.
//!
//! HMAC is left out on purpose. Who can check such a signature can make one, and a public key that
//! is taken for its secret lets anyone in.

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result, new_error};
use jsonwebtoken::signature::{Error, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use ring::signature as of_ring;
use ring::signature::{RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm};

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(new_error(ErrorKind::UnsupportedAlgorithm)),
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

/// Has tokens checked by ring in this process.
pub(super) fn install() {
    // It is installed already when there was a backend before.
    let _ = PROVIDER.install_default();
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    let key = match (key.kind(), rsa(*algorithm), curve(*algorithm)) {
        (DecodingKeyKind::RsaModulusExponent { n, e }, Some(parameters), _) => {
            Key::Rsa(parameters, RsaPublicKeyComponents { n: n.clone(), e: e.clone() })
        }
        (DecodingKeyKind::SecretOrDer(point), _, Some(curve)) => {
            Key::Curve(UnparsedPublicKey::new(curve, point.clone()))
        }
        _ => return Err(new_error(ErrorKind::InvalidAlgorithm)),
    };
    Ok(Box::new(Checked { algorithm: *algorithm, key }))
}

fn rsa(algorithm: Algorithm) -> Option<&'static RsaParameters> {
    Some(match algorithm {
        Algorithm::RS256 => &of_ring::RSA_PKCS1_2048_8192_SHA256,
        Algorithm::RS384 => &of_ring::RSA_PKCS1_2048_8192_SHA384,
        Algorithm::RS512 => &of_ring::RSA_PKCS1_2048_8192_SHA512,
        Algorithm::PS256 => &of_ring::RSA_PSS_2048_8192_SHA256,
        Algorithm::PS384 => &of_ring::RSA_PSS_2048_8192_SHA384,
        Algorithm::PS512 => &of_ring::RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

fn curve(algorithm: Algorithm) -> Option<&'static dyn VerificationAlgorithm> {
    Some(match algorithm {
        Algorithm::ES256 => &of_ring::ECDSA_P256_SHA256_FIXED,
        Algorithm::ES384 => &of_ring::ECDSA_P384_SHA384_FIXED,
        Algorithm::EdDSA => &of_ring::ED25519,
        _ => return None,
    })
}

/// A key, to be used with one algorithm.
struct Checked {
    algorithm: Algorithm,
    key: Key,
}

enum Key {
    Rsa(&'static RsaParameters, RsaPublicKeyComponents<Vec<u8>>),
    Curve(UnparsedPublicKey<Vec<u8>>),
}

impl Verifier<Vec<u8>> for Checked {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        match &self.key {
            Key::Rsa(parameters, key) => key.verify(parameters, message, signature),
            Key::Curve(key) => key.verify(message, signature),
        }
        .map_err(|_| Error::new())
    }
}

impl JwtVerifier for Checked {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
