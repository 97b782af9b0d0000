//! The public keys that tokens are signed for: a JSON Web Key Set (RFC 7517), read again from
//! time to time and when a token names a key that is not known.
//!
//! However many tokens name unknown keys, the set is read at most once in [`LEAST_PAUSE`]. If it
//! can't be read, keys that are known go on for [`LONGEST_WITHOUT`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey};
use parking_lot::Mutex;
use serde_json::Value;

/// Most keys of a set that are used.
const MOST_KEYS: usize = 100;
/// The set is read at most once in so long.
pub(super) const LEAST_PAUSE: Duration = Duration::from_secs(10);
/// How long keys are used without a newer set.
pub(super) const LONGEST_WITHOUT: Duration = Duration::from_hours(24);

/// One key.
#[derive(Debug)]
pub(super) struct Key {
    id: Option<String>,
    pub(super) key: DecodingKey,
    /// The algorithms that it may be used with, all of one family.
    pub(super) algorithms: Vec<Algorithm>,
}

/// A set of keys.
#[derive(Debug, Default)]
pub(super) struct Keys(Vec<Key>);

impl Keys {
    /// Reads a set. Keys for other uses, and of kinds that are not known, are left out; so are
    /// those for HMAC.
    pub(super) fn parse(document: &str) -> Result<Self, String> {
        let document: Value = serde_json::from_str(document).map_err(|error| format!("no set of keys: {error}"))?;
        let keys = document.get("keys").and_then(Value::as_array).ok_or("no set of keys: it has no list `keys`")?;
        let found: Vec<_> = keys.iter().filter_map(Key::parse).take(MOST_KEYS).collect();
        if found.is_empty() {
            return Err(format!("none of its {} keys can check a signature", keys.len()));
        }
        Ok(Self(found))
    }

    /// The keys that a token with this head may be signed for.
    pub(super) fn fitting(&self, id: Option<&str>, algorithm: Algorithm) -> impl Iterator<Item = &Key> {
        self.0.iter().filter(move |key| key.is_meant(id) && key.algorithms.contains(&algorithm))
    }

    /// Whether there is a key of this name; or any, for a token that names none.
    fn has(&self, id: Option<&str>) -> bool {
        self.0.iter().any(|key| key.is_meant(id))
    }
}

impl Key {
    fn parse(document: &Value) -> Option<Self> {
        let jwk: Jwk = serde_json::from_value(document.clone()).ok()?;
        if !matches!(jwk.common.public_key_use, None | Some(PublicKeyUse::Signature)) {
            return None;
        }
        let fitting = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => AlgorithmFamily::Rsa.algorithms(),
            AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => &[Algorithm::ES256],
            AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P384 => &[Algorithm::ES384],
            AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => &[Algorithm::EdDSA],
            _ => return None,
        };
        let named = document.get("alg").and_then(Value::as_str);
        let is_meant = |algorithm: &Algorithm| named.is_none_or(|named| named.parse() == Ok(*algorithm));
        let algorithms: Vec<_> = fitting.iter().copied().filter(is_meant).collect();
        let key = DecodingKey::from_jwk(&jwk).ok()?;
        (!algorithms.is_empty()).then_some(Self { id: jwk.common.key_id, key, algorithms })
    }

    fn is_meant(&self, id: Option<&str>) -> bool {
        id.is_none_or(|id| self.id.as_deref() == Some(id))
    }
}

/// Where a set is read from.
pub(super) type Read = Box<dyn Fn() -> Result<String, String> + Send + Sync>;

/// The set as it was read last.
pub(super) struct KeyStore {
    read: Read,
    /// How old a set may become before it is read again.
    refresh: Duration,
    known: Mutex<Known>,
    /// Held while the set is read, so that one thread does.
    reading: Mutex<()>,
}

#[derive(Debug, Default)]
struct Known {
    keys: Arc<Keys>,
    read_at: Option<Instant>,
    tried_at: Option<Instant>,
    problem: Option<String>,
}

impl std::fmt::Debug for KeyStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyStore").field("known", &self.known).finish_non_exhaustive()
    }
}

impl KeyStore {
    pub(super) fn new(read: Read, refresh: Duration) -> Self {
        Self { read, refresh, known: Mutex::default(), reading: Mutex::default() }
    }

    /// The keys, read again if they are old or have none of this name.
    ///
    /// # Errors
    /// Why there are no keys at all.
    pub(super) fn keys(&self, id: Option<&str>, now: Instant) -> Result<Arc<Keys>, String> {
        if self.wants_to_read(id, now) {
            let _alone = self.reading.lock();
            // Another thread may just have done so.
            if self.wants_to_read(id, now) {
                self.read_anew(now);
            }
        }
        let known = self.known.lock();
        match known.read_at {
            Some(at) if now.saturating_duration_since(at) < LONGEST_WITHOUT => Ok(Arc::clone(&known.keys)),
            _ => Err(known.problem.clone().unwrap_or_else(|| "its keys have not been read yet".to_owned())),
        }
    }

    fn wants_to_read(&self, id: Option<&str>, now: Instant) -> bool {
        let known = self.known.lock();
        let since = |at: Option<Instant>| at.map(|at| now.saturating_duration_since(at));
        let is_due = since(known.read_at).is_none_or(|age| age >= self.refresh) || !known.keys.has(id);
        is_due && since(known.tried_at).is_none_or(|pause| pause >= LEAST_PAUSE)
    }

    fn read_anew(&self, now: Instant) {
        self.known.lock().tried_at = Some(now);
        let outcome = (self.read)().and_then(|document| Keys::parse(&document));
        let mut known = self.known.lock();
        match outcome {
            Ok(keys) => {
                if known.problem.take().is_some() {
                    tracing::info!(target: "audit", keys = keys.0.len(), "the keys of tokens can be read again");
                }
                (known.keys, known.read_at) = (Arc::new(keys), Some(now));
            }
            Err(problem) => {
                tracing::warn!(target: "audit", %problem, "the keys of tokens can't be read");
                known.problem = Some(problem);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;

    const RSA: &str = r#"{"kty":"RSA","kid":"a","n":"AQAB","e":"AQAB"}"#;

    #[test]
    fn a_set_has_the_keys_that_check_signatures() {
        for (keys, expected) in [
            (RSA, Some(6)),
            (r#"{"kty":"RSA","kid":"a","alg":"RS256","use":"sig","n":"AQAB","e":"AQAB"}"#, Some(1)),
            (r#"{"kty":"RSA","kid":"a","alg":"RSA-OAEP","use":"enc","n":"AQAB","e":"AQAB"}"#, None),
            (r#"{"kty":"RSA","kid":"a","alg":"ES256","n":"AQAB","e":"AQAB"}"#, None),
            (r#"{"kty":"EC","kid":"a","crv":"P-256","x":"AQAB","y":"AQAB"}"#, Some(1)),
            (r#"{"kty":"EC","kid":"a","crv":"P-521","x":"AQAB","y":"AQAB"}"#, None),
            (r#"{"kty":"OKP","kid":"a","crv":"Ed25519","x":"AQAB"}"#, Some(1)),
            (r#"{"kty":"oct","kid":"a","k":"AQAB"}"#, None),
            (r#"{"kty":"oct","kid":"a","alg":"HS256","k":"AQAB"}"#, None),
            (r#"{"kty":"new","kid":"a"}"#, None),
        ] {
            let parsed = Keys::parse(&format!(r#"{{"keys":[{keys}]}}"#));
            assert_eq!(parsed.map(|keys| keys.0[0].algorithms.len()).ok(), expected, "{keys}");
        }
        assert_eq!(Keys::parse(&format!(r#"{{"keys":[{{"kty":"new"}},{RSA}]}}"#)).unwrap().0.len(), 1);
        let many = vec![RSA; 3 * MOST_KEYS].join(",");
        assert_eq!(Keys::parse(&format!(r#"{{"keys":[{many}]}}"#)).unwrap().0.len(), MOST_KEYS);
        for document in ["", "[]", "{}", r#"{"keys":7}"#, r#"{"keys":[]}"#] {
            assert!(Keys::parse(document).is_err(), "{document}");
        }
    }

    #[test]
    fn unknown_keys_make_no_storm_and_an_outage_is_outlasted() {
        let (reads, is_down) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (counted, down) = (Arc::clone(&reads), Arc::clone(&is_down));
        let read: Read = Box::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            if down.load(Ordering::Relaxed) {
                Err("no answer".to_owned())
            } else {
                Ok(format!(r#"{{"keys":[{RSA}]}}"#))
            }
        });
        let store = KeyStore::new(read, Duration::from_secs(300));
        let start = Instant::now();
        let ask = |id: &str, after: u64| store.keys(Some(id), start + Duration::from_secs(after)).is_ok();
        let count = || reads.load(Ordering::Relaxed);
        assert!(ask("a", 0));
        for number in 0..1000 {
            assert!(ask(&format!("unknown {number}"), number / 200));
        }
        assert_eq!(count(), 1, "once within ten seconds");
        ask("unknown", 10);
        assert_eq!(count(), 2);
        ask("a", 309);
        assert_eq!(count(), 2, "a known key is not old yet");
        ask("a", 310);
        assert_eq!(count(), 3, "it is old");
        is_down.store(true, Ordering::Relaxed);
        assert!(ask("a", 1000), "keys that are known go on");
        assert!(ask("a", 310 + 24 * 3600 - 1));
        assert!(!ask("a", 310 + 24 * 3600), "but not for ever");
        is_down.store(false, Ordering::Relaxed);
        assert!(ask("a", 310 + 24 * 3600 + 10));
    }
}
