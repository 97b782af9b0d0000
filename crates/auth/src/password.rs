//! Password hashes as PHC strings, and the check of a password against one.
//!
//! New hashes are Argon2id with the parameters OWASP recommends (19 MiB, two passes, one lane). A
//! hash brings its own parameters, so they are capped when it is parsed: a stored or imported
//! string cannot make a login exhaust memory. Where log-ins by SCRAM are wanted, new passwords are
//! kept as a verifier for it instead. Hashes of RabbitMQ's definitions are taken over as they are:
//! one round of SHA-2 over four bytes of salt and the password.

use std::hint::black_box;
use std::sync::Arc;

use argon2::password_hash::phc;
use argon2::password_hash::{CustomizedPasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256, Sha512};

use crate::sasl::scram::{self, Verifier};

/// Longest password that is looked at, in bytes. AMQP itself would allow 4 GiB.
pub(crate) const MAX_PASSWORD: usize = 1024;
/// Longest PHC string that is accepted.
const MAX_PHC: usize = 512;
/// The largest parameters of hashes that are stored already.
const MAX_MEMORY_KIB: u32 = 256 * 1024;
const MAX_PASSES: u32 = 16;
const MAX_LANES: u32 = 16;
/// How many times as much as a hash of the default cost one that comes in may take to check.
const DEARER: u64 = 2;
/// What RabbitMQ calls its algorithms, and what their hashes begin with here.
const IMPORTED: [(&str, &str); 2] =
    [("rabbit_password_hashing_sha256", "$rabbitmq-sha256$"), ("rabbit_password_hashing_sha512", "$rabbitmq-sha512$")];
/// Bytes of salt in front of those.
const SALT: usize = 4;

/// What one Argon2id computation costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// Memory in KiB.
    pub memory_kib: u32,
    /// Passes over that memory.
    pub passes: u32,
    /// Lanes; computed one after another on the same thread.
    pub lanes: u32,
}

impl Default for Cost {
    /// The minimum of OWASP's Password Storage Cheat Sheet.
    fn default() -> Self {
        Self { memory_kib: 19 * 1024, passes: 2, lanes: 1 }
    }
}

impl Cost {
    /// What it takes to compute: KiB gone over.
    fn work(self) -> u64 {
        u64::from(self.memory_kib) * u64::from(self.passes)
    }

    /// Whether it takes more than [`DEARER`] times the default.
    fn is_high(self) -> bool {
        let default = Self::default();
        self.work() > DEARER * default.work() || u64::from(self.memory_kib) > DEARER * u64::from(default.memory_kib)
    }
}

/// Why a password or a stored hash was not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PasswordError {
    /// Empty passwords are never accepted.
    Empty,
    /// The password is longer than 1024 bytes.
    TooLong,
    /// The text is not a PHC string of Argon2id.
    NotArgon2id,
    /// The hash is none of that algorithm; the text says which one was named.
    NotImportable(String),
    /// The parameters are outside what this server computes; the text names them.
    Parameters(String),
    /// A verifier for SCRAM of so many rounds that log-ins would take too long.
    Rounds {
        /// Those.
        rounds: u32,
        /// The most that are taken over.
        most: u32,
    },
}

impl std::fmt::Display for PasswordError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Empty => f.write_str("the password is empty; choose one of at least one byte"),
            Self::TooLong => write!(f, "the password is longer than {MAX_PASSWORD} bytes"),
            Self::NotArgon2id => f.write_str("the password hash is not a PHC string of the form $argon2id$v=19$…"),
            Self::NotImportable(algorithm) => {
                let [(first, _), (second, _)] = IMPORTED;
                write!(
                    f,
                    "the password hash is none of {algorithm}; taken over are base 64 hashes of {first} and {second}"
                )
            }
            Self::Rounds { rounds, most } => {
                write!(f, "the SCRAM verifier has {rounds} rounds, at most {most} are taken over: make it with fewer")
            }
            Self::Parameters(text) => write!(f, "the password hash has unusable Argon2 parameters: {text}"),
        }
    }
}

impl std::error::Error for PasswordError {}

/// A checked PHC string. Its `Debug` output hides salt and hash.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash {
    text: Arc<str>,
}

impl std::fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PasswordHash(hidden)")
    }
}

impl PasswordHash {
    /// Hashes `password`. The salt must be fresh random bytes. Takes tens of milliseconds with the
    /// default cost.
    ///
    /// # Errors
    /// When the password is empty or too long, or the cost is outside the caps.
    pub fn create(password: &[u8], salt: [u8; 16], cost: Cost) -> Result<Self, PasswordError> {
        check_length(password)?;
        check_cost(cost)?;
        let params = Params::new(cost.memory_kib, cost.passes, cost.lanes, None)
            .map_err(|error| PasswordError::Parameters(error.to_string()))?;
        let hash: phc::PasswordHash = Argon2::default()
            .hash_password_customized(password, &salt, Some("argon2id"), Some(Version::V0x13.into()), params)
            .map_err(|error| PasswordError::Parameters(error.to_string()))?;
        Ok(Self { text: hash.to_string().into() })
    }

    /// Derives a verifier for SCRAM-SHA-256 of `password`, which serves other log-ins by password
    /// as well. The salt must be fresh random bytes. Takes some tenths of a second.
    ///
    /// # Errors
    /// When the password is empty or too long.
    pub fn create_scram(password: &[u8], salt: [u8; 16]) -> Result<Self, PasswordError> {
        check_length(password)?;
        Ok(Self { text: Verifier::create(password, &salt, scram::ITERATIONS).to_text().into() })
    }

    /// The verifier for SCRAM-SHA-256, if this is one.
    pub(crate) fn scram(&self) -> Option<Verifier> {
        Verifier::parse(&self.text)
    }

    /// Takes over a hash that comes in: a PHC string of Argon2id, or what [`PasswordHash::as_str`]
    /// shows.
    ///
    /// # Errors
    /// When it is none, or checking it would take more than twice as long as checking one that is
    /// made here.
    pub fn parse(text: &str) -> Result<Self, PasswordError> {
        let hash = Self::parse_stored(text)?;
        if let Some(verifier) = hash.scram()
            && hash.is_costly()
        {
            let (rounds, most) = (verifier.iterations(), scram::ITERATIONS.get().saturating_mul(DEARER as u32));
            return Err(PasswordError::Rounds { rounds, most });
        }
        if hash.is_costly() {
            let default = Cost::default();
            return Err(PasswordError::Parameters(format!(
                "checking it takes more than {DEARER} times as much as m={},t={}: hash the password with those",
                default.memory_kib, default.passes
            )));
        }
        Ok(hash)
    }

    /// Whether checking it takes more than twice as long as checking one that is made here.
    pub(crate) fn is_costly(&self) -> bool {
        if let Some(verifier) = self.scram() {
            return u64::from(verifier.iterations()) > DEARER * u64::from(scram::ITERATIONS.get());
        }
        self.cost().is_some_and(Cost::is_high)
    }

    /// Takes over what is stored; what came in before its cost was bounded is there still.
    ///
    /// # Errors
    /// When it is not a complete hash, or its parameters are above the caps.
    pub(crate) fn parse_stored(text: &str) -> Result<Self, PasswordError> {
        if text.len() > MAX_PHC {
            return Err(PasswordError::NotArgon2id);
        }
        if let Some((name, prefix)) = IMPORTED.iter().find(|(_, prefix)| text.starts_with(prefix)) {
            return Self::import(name, &text[prefix.len()..]);
        }
        if Verifier::parse(text).is_some() {
            return Ok(Self { text: text.into() });
        }
        let hash = phc::PasswordHash::new(text).map_err(|_| PasswordError::NotArgon2id)?;
        let complete = hash.salt.is_some() && hash.hash.is_some() && hash.version == Some(Version::V0x13.into());
        if hash.algorithm.as_str() != Algorithm::Argon2id.as_str() || !complete {
            return Err(PasswordError::NotArgon2id);
        }
        let params = Params::try_from(&hash).map_err(|error| PasswordError::Parameters(error.to_string()))?;
        check_cost(Cost { memory_kib: params.m_cost(), passes: params.t_cost(), lanes: params.p_cost() })?;
        Ok(Self { text: text.into() })
    }

    /// Takes over a hash from RabbitMQ's definitions: the name of its algorithm, and its bytes in
    /// base 64. Without a name it is RabbitMQ's default. What [`PasswordHash::parts`] gives comes
    /// back too.
    ///
    /// # Errors
    /// For another algorithm, and for bytes that are no hash of that one.
    pub fn import(algorithm: &str, hash: &str) -> Result<Self, PasswordError> {
        let algorithm = if algorithm.is_empty() { IMPORTED[0].0 } else { algorithm };
        if algorithm == Algorithm::Argon2id.as_str() || algorithm == scram::NAME {
            return Self::parse(hash);
        }
        let form = IMPORTED.iter().find(|(name, _)| *name == algorithm);
        let (_, prefix) = form.ok_or_else(|| PasswordError::NotImportable(algorithm.to_owned()))?;
        let imported = Self { text: format!("{prefix}{hash}").into() };
        match imported.imported() {
            Some(_) => Ok(imported),
            None => Err(PasswordError::NotImportable(algorithm.to_owned())),
        }
    }

    /// The name of its algorithm, and the hash as [`PasswordHash::import`] takes it.
    pub fn parts(&self) -> (&str, &str) {
        let imported = |(name, prefix): &(&'static str, &str)| Some((*name, self.text.strip_prefix(prefix)?));
        let own = if self.scram().is_some() { scram::NAME } else { Algorithm::Argon2id.as_str() };
        IMPORTED.iter().find_map(imported).unwrap_or((own, &self.text))
    }

    /// The salt, the hash, and what was hashed with, if this is a hash of RabbitMQ.
    fn imported(&self) -> Option<([u8; SALT], Vec<u8>, Hashing)> {
        let (name, encoded) = self.parts();
        let hashing: Hashing = match IMPORTED.iter().position(|(known, _)| *known == name)? {
            0 => |bytes| Sha256::digest(bytes).to_vec(),
            _ => |bytes| Sha512::digest(bytes).to_vec(),
        };
        let bytes = STANDARD.decode(encoded).ok()?;
        let (salt, hash) = bytes.split_first_chunk::<SALT>()?;
        (hash.len() == hashing(b"").len()).then(|| (*salt, hash.to_vec(), hashing))
    }

    /// A well-formed hash that no password matches, at the default cost. To verify against it takes
    /// as long as against a real one, so a refusal does not tell whether the user exists.
    pub(crate) fn decoy(random: [u8; 32]) -> Result<Self, PasswordError> {
        // The hash of random bytes has a password that is not known to anyone. The smallest
        // parameters make it instant, and the text is then given those of a real hash.
        let smallest = Cost { memory_kib: Params::MIN_M_COST, passes: 1, lanes: 1 };
        let quick = Self::create(&random, [0; 16], smallest)?;
        let cost = Cost::default();
        let from = format!("m={},t=1,p=1", Params::MIN_M_COST);
        let to = format!("m={},t={},p={}", cost.memory_kib, cost.passes, cost.lanes);
        Self::parse(&quick.text.replacen(&from, &to, 1))
    }

    /// The PHC string.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it is as a new one of this kind is made here.
    pub(crate) fn is_as_new(&self, kind: Work) -> bool {
        match self.scram() {
            Some(verifier) => kind == Work::Pbkdf2 && verifier.iterations() == scram::ITERATIONS.get(),
            None => kind == Work::Argon2 && self.cost() == Some(Cost::default()),
        }
    }

    /// What it takes, if it is one of Argon2id.
    fn cost(&self) -> Option<Cost> {
        let params = Params::try_from(&phc::PasswordHash::new(&self.text).ok()?).ok()?;
        Some(Cost { memory_kib: params.m_cost(), passes: params.t_cost(), lanes: params.p_cost() })
    }

    /// What [`PasswordHash::matches`] computes.
    fn work(&self) -> Work {
        if self.scram().is_some() { Work::Pbkdf2 } else { Work::Argon2 }
    }

    /// What has to be computed besides, so that a check does all of `kept` whatever this is.
    fn rest_of<'a>(&self, kept: &'a [Work]) -> impl Iterator<Item = Work> + use<'a> {
        let own = self.work();
        kept.iter().copied().filter(move |work| *work != own)
    }

    /// [`PasswordHash::matches`], with as much to compute as for any other hash where some are
    /// `kept` so. How long a refusal takes does not tell which users there are.
    pub(crate) fn matches_among(&self, password: &[u8], kept: &[Work]) -> bool {
        if check_length(password).is_err() {
            return false;
        }
        for work in self.rest_of(kept) {
            match work {
                Work::Argon2 => drop(black_box(Self::create(password, [0; 16], Cost::default()))),
                Work::Pbkdf2 => drop(black_box(Self::create_scram(password, [0; 16]))),
            }
        }
        self.matches(password)
    }

    /// Whether `password` is the one that was hashed. Compares in constant time; takes as long as
    /// hashing.
    pub fn matches(&self, password: &[u8]) -> bool {
        if check_length(password).is_err() {
            return false;
        }
        if let Some((salt, hash, hashing)) = self.imported() {
            // As slow as any other: how long a refusal takes does not tell which users there are.
            let slow = Self::create(password, [0; 16], Cost::default());
            let found = hashing(&[&salt, password].concat());
            return slow.is_ok() && found.iter().zip(&hash).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0;
        }
        if let Some(verifier) = self.scram() {
            return verifier.matches(password);
        }
        match phc::PasswordHash::new(&self.text) {
            Ok(hash) => Argon2::default().verify_password(password, &hash).is_ok(),
            Err(_) => false,
        }
    }
}

/// What is slow about checking a password.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Work {
    /// A hash of the default cost. Hashes of RabbitMQ, which are quick, come with one.
    Argon2,
    /// A verifier for SCRAM-SHA-256.
    Pbkdf2,
}

/// Hashes bytes in one round.
type Hashing = fn(&[u8]) -> Vec<u8>;

fn check_length(password: &[u8]) -> Result<(), PasswordError> {
    match password.len() {
        0 => Err(PasswordError::Empty),
        1..=MAX_PASSWORD => Ok(()),
        _ => Err(PasswordError::TooLong),
    }
}

fn check_cost(cost: Cost) -> Result<(), PasswordError> {
    let caps =
        [("m (KiB)", cost.memory_kib, MAX_MEMORY_KIB), ("t", cost.passes, MAX_PASSES), ("p", cost.lanes, MAX_LANES)];
    for (name, value, cap) in caps {
        if value > cap {
            return Err(PasswordError::Parameters(format!("{name} is {value}, at most {cap} is allowed")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Cost = Cost { memory_kib: 8, passes: 1, lanes: 1 };

    #[test]
    fn a_hash_matches_its_own_password_only() {
        let hash = PasswordHash::create("pässword".as_bytes(), [7; 16], QUICK).unwrap();
        for (password, expected) in
            [("pässword", true), ("passwort", false), ("", false), ("pässword ", false), ("Pässword", false)]
        {
            assert_eq!(hash.matches(password.as_bytes()), expected, "{password:?}");
        }
        let again = PasswordHash::parse(hash.as_str()).unwrap();
        assert_eq!(again, hash);
        assert!(!format!("{hash:?}").contains("argon2"));
    }

    #[test]
    fn the_default_cost_is_written_into_the_hash() {
        let hash = PasswordHash::create(b"x", [1; 16], Cost::default()).unwrap();
        assert!(hash.as_str().starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{}", hash.as_str());
        let decoy = PasswordHash::decoy([3; 32]).unwrap();
        assert!(decoy.as_str().starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{}", decoy.as_str());
        assert!(!decoy.matches(&[3; 32]));
    }

    #[test]
    fn every_check_computes_the_same_whatever_is_checked() {
        let hashes = [
            PasswordHash::create(b"x", [1; 16], QUICK).unwrap(),
            PasswordHash::create_scram(b"x", [1; 16]).unwrap(),
            PasswordHash::import("", "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR").unwrap(),
            PasswordHash::decoy([3; 32]).unwrap(),
        ];
        for hash in &hashes {
            let mut computed: Vec<Work> = hash.rest_of(&[Work::Argon2, Work::Pbkdf2]).collect();
            computed.push(hash.work());
            computed.sort_by_key(|work| *work as u8);
            assert_eq!(computed, [Work::Argon2, Work::Pbkdf2], "{}", hash.as_str());
        }
        for (hash, right) in hashes.iter().zip([true, true, false, false]) {
            assert_eq!(hash.matches_among(b"x", &[Work::Argon2, Work::Pbkdf2]), right, "{}", hash.as_str());
        }
    }

    /// The first is the example of RabbitMQ's documentation.
    #[test]
    fn hashes_of_rabbitmq_are_taken_over() {
        let long = STANDARD.encode([&[1, 2, 3, 4][..], &Sha512::digest(b"\x01\x02\x03\x04secret")].concat());
        for (algorithm, hash, password) in [
            ("rabbit_password_hashing_sha256", "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR", "test12"),
            ("", "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR", "test12"),
            ("rabbit_password_hashing_sha512", &long, "secret"),
        ] {
            let imported = PasswordHash::import(algorithm, hash).unwrap();
            assert!(imported.matches(password.as_bytes()) && !imported.matches(b"other"), "{algorithm}");
            assert_eq!(imported.parts().1, hash);
            assert_eq!(PasswordHash::parse(imported.as_str()).as_ref(), Ok(&imported));
            assert_eq!(PasswordHash::import(imported.parts().0, hash), Ok(imported));
        }
        for (algorithm, hash) in [
            ("rabbit_password_hashing_md5", "kI3GCqW5JLMJa4iX1lo7X4D6XbY="),
            ("rabbit_password_hashing_sha256", "kI3GCqW5"),
            ("rabbit_password_hashing_sha256", "?"),
            ("rabbit_password_hashing_sha512", "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"),
        ] {
            let error = PasswordHash::import(algorithm, hash).unwrap_err().to_string();
            assert!(error.contains(algorithm), "{error}");
        }
    }

    #[test]
    fn passwords_have_limits() {
        assert_eq!(PasswordHash::create(b"", [0; 16], QUICK), Err(PasswordError::Empty));
        assert_eq!(PasswordHash::create(&[1; MAX_PASSWORD + 1], [0; 16], QUICK), Err(PasswordError::TooLong));
        assert!(PasswordHash::create(&[1; MAX_PASSWORD], [0; 16], QUICK).is_ok());
    }

    #[test]
    fn stored_hashes_are_checked() {
        let good = PasswordHash::create(b"x", [1; 16], QUICK).unwrap();
        let good = good.as_str();
        for bad in [
            String::new(),
            "guest".to_owned(),
            good.replace("argon2id", "argon2i"),
            good.replace("v=19", "v=16"),
            good.replace("m=8", "m=4194304"),
            good.replace("t=1", "t=1000"),
            good.rsplit_once('$').unwrap().0.to_owned(),
            format!("{good}{}", "A".repeat(MAX_PHC)),
        ] {
            assert!(PasswordHash::parse(&bad).is_err(), "{bad}");
        }
    }

    /// What comes in must be about as quick to check as what is made here; what is stored already
    /// is read, and is slow.
    #[test]
    fn hashes_that_take_long_to_check_are_not_taken_over() {
        let good = PasswordHash::create(b"x", [1; 16], QUICK).unwrap();
        let scram = PasswordHash::create_scram(b"x", [1; 16]).unwrap();
        for (hash, cost, costly) in [
            (&good, "m=19456,t=2", false),
            (&good, "m=38912,t=2", false),
            (&good, "m=19456,t=4", false),
            (&good, "m=9728,t=8", false),
            (&good, "m=65536,t=1", true),
            (&good, "m=38912,t=3", true),
            (&good, "m=8,t=16", false),
            (&good, "m=262144,t=16", true),
            (&scram, "$1200000$", false),
            (&scram, "$1200001$", true),
        ] {
            let text = hash.as_str().replace("m=8,t=1", cost).replace("$600000$", cost);
            assert!(text.contains(cost));
            let stored = PasswordHash::parse_stored(&text).unwrap();
            assert_eq!(stored.is_costly(), costly, "{text}");
            let taken = PasswordHash::parse(&text);
            assert_eq!(taken.is_err(), costly, "{text}");
            assert_eq!(PasswordHash::import(stored.parts().0, &text).is_err(), costly, "{text}");
        }
        let dear = good.as_str().replace("m=8,t=1", "m=65536,t=1");
        let error = PasswordHash::parse(&dear).unwrap_err().to_string();
        assert!(error.ends_with("more than 2 times as much as m=19456,t=2: hash the password with those"), "{error}");
    }
}
