//! SCRAM-SHA-256 (RFC 5802, RFC 7677), the server's side: the client proves that it knows the
//! password without sending it, and learns that the server has its verifier.
//!
//! What is stored is not enough to log in, and cannot be told from the answer to an unknown user.
//! Channel binding is not offered. Passwords are taken as the bytes they are, without the
//! normalisation of SASLprep.

use std::num::NonZeroU32;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac, pbkdf2};
use subtle::ConstantTimeEq;

use super::MalformedResponse;

/// How definitions name the algorithm of a verifier.
pub(crate) const NAME: &str = "scram-sha-256";
/// What a verifier begins with where it is stored.
pub(crate) const PREFIX: &str = "$scram-sha-256$";
/// Rounds of PBKDF2 in new verifiers: the minimum of OWASP's Password Storage Cheat Sheet.
pub(crate) const ITERATIONS: NonZeroU32 = NonZeroU32::new(600_000).expect("it is not zero");
/// The fewest rounds that are accepted (RFC 7677 §4), and the most.
const FEWEST: u32 = 4096;
const MOST: u32 = 10_000_000;
/// Longest salt, and longest message, in bytes.
const SALT: usize = 64;
const MESSAGE: usize = 2048;
const KEY: usize = digest::SHA256_OUTPUT_LEN;

/// What is kept of a password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Verifier {
    salt: Vec<u8>,
    iterations: NonZeroU32,
    stored_key: [u8; KEY],
    server_key: [u8; KEY],
}

impl Verifier {
    /// That of `password`. The salt must be fresh random bytes.
    pub(crate) fn create(password: &[u8], salt: &[u8], iterations: NonZeroU32) -> Self {
        let mut salted = [0; KEY];
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, iterations, salt, password, &mut salted);
        let client_key = sign(&salted, b"Client Key");
        let (stored_key, server_key) = (hash(&client_key), sign(&salted, b"Server Key"));
        Self { salt: salt.to_vec(), iterations, stored_key, server_key }
    }

    /// One that no password matches, the same for the same user and secret.
    pub(crate) fn decoy(secret: &[u8; 32], user: &str) -> Self {
        let of = |what: &str| sign(secret, format!("{what} {user}").as_bytes());
        Self {
            salt: of("salt")[..16].to_vec(),
            iterations: ITERATIONS,
            stored_key: of("stored"),
            server_key: of("server"),
        }
    }

    /// Reads what [`Verifier::to_text`] wrote.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix(PREFIX)?.split('$');
        let iterations: u32 = parts.next()?.parse().ok()?;
        let mut bytes = || STANDARD.decode(parts.next()?).ok();
        let (salt, stored_key, server_key) = (bytes()?, bytes()?, bytes()?);
        if !(FEWEST..=MOST).contains(&iterations) || !(1..=SALT).contains(&salt.len()) || parts.next().is_some() {
            return None;
        }
        let iterations = NonZeroU32::new(iterations)?;
        Some(Self {
            salt,
            iterations,
            stored_key: stored_key.try_into().ok()?,
            server_key: server_key.try_into().ok()?,
        })
    }

    /// The form that is stored.
    pub(crate) fn to_text(&self) -> String {
        let [salt, stored, server] =
            [&self.salt[..], &self.stored_key, &self.server_key].map(|bytes| STANDARD.encode(bytes));
        format!("{PREFIX}{}${salt}${stored}${server}", self.iterations)
    }

    /// Rounds of PBKDF2.
    pub(crate) fn iterations(&self) -> u32 {
        self.iterations.get()
    }

    /// Whether `password` is its password. Takes as long as making it.
    pub(crate) fn matches(&self, password: &[u8]) -> bool {
        let found = Self::create(password, &self.salt, self.iterations);
        found.stored_key.ct_eq(&self.stored_key).into()
    }
}

/// What a client begins with: its user, and what the exchange goes on with.
#[derive(Debug, PartialEq, Eq)]
pub struct First<'a> {
    user: String,
    /// The header that says that there is no channel binding, repeated in the last message.
    header: &'a str,
    nonce: &'a str,
    bare: &'a str,
}

impl<'a> First<'a> {
    /// Takes `n,,n=user,r=nonce` apart.
    ///
    /// # Errors
    /// When it is something else, or asks for channel binding or to act for another user.
    pub fn parse(message: &'a [u8]) -> Result<Self, MalformedResponse> {
        const WRONG: MalformedResponse = MalformedResponse("a SCRAM exchange begins with n,,n=user,r=nonce");
        let message = text(message)?;
        let mut parts = message.splitn(3, ',');
        let (Some(binding), Some(authorize), Some(bare)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(WRONG);
        };
        match binding {
            "n" | "y" => {}
            _ if binding.starts_with("p=") => return Err(MalformedResponse("channel binding is not offered")),
            _ => return Err(WRONG),
        }
        let mut attributes = bare.split(',');
        let user = attributes.next().and_then(|user| user.strip_prefix("n=")).ok_or(WRONG)?;
        let nonce = attributes.next().and_then(|nonce| nonce.strip_prefix("r=")).ok_or(WRONG)?;
        if nonce.is_empty() || !nonce.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(WRONG);
        }
        let user = unescape(user).ok_or(WRONG)?;
        match authorize.strip_prefix("a=").map(unescape) {
            None if authorize.is_empty() => {}
            Some(Some(other)) if other == user => {}
            _ => return Err(MalformedResponse("acting for another user is not supported")),
        }
        let header = &message[..message.len() - bare.len()];
        Ok(Self { user, header, nonce, bare })
    }

    /// The user that the client wants to be.
    pub fn user(&self) -> &str {
        &self.user
    }
}

/// An exchange whose first half is done.
pub struct Exchange {
    user: Arc<str>,
    verifier: Verifier,
    /// What the last message must begin with.
    expected: String,
    /// What both sides sign, up to that message.
    signed: String,
}

impl std::fmt::Debug for Exchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exchange").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Exchange {
    /// The user that the client wants to be.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Whether it was begun with this verifier: the password may have changed since.
    pub(crate) fn is_with(&self, verifier: &Verifier) -> bool {
        self.verifier == *verifier
    }

    /// Answers the first message: the exchange, and the challenge. `nonce` must never have been
    /// used before.
    pub(crate) fn start(first: &First<'_>, verifier: Verifier, nonce: &str) -> (Self, String) {
        let nonce = format!("{}{nonce}", first.nonce);
        let challenge = format!("r={nonce},s={},i={}", STANDARD.encode(&verifier.salt), verifier.iterations);
        let expected = format!("c={},r={nonce}", STANDARD.encode(first.header));
        let signed = format!("{},{challenge}", first.bare);
        (Self { user: first.user.as_str().into(), verifier, expected, signed }, challenge)
    }

    /// Checks the proof in the last message; the answer, by which the server proves itself, if it
    /// is right.
    ///
    /// # Errors
    /// When the message is none, or belongs to another exchange.
    pub(crate) fn finish(&self, message: &[u8]) -> Result<Option<String>, MalformedResponse> {
        const WRONG: MalformedResponse = MalformedResponse("a SCRAM exchange ends with c=…,r=nonce,p=proof");
        let message = text(message)?;
        let (without_proof, proof) = message.rsplit_once(",p=").ok_or(WRONG)?;
        if without_proof != self.expected {
            return Err(MalformedResponse("the last message of SCRAM does not belong to this exchange"));
        }
        let proof: [u8; KEY] = STANDARD.decode(proof).ok().and_then(|proof| proof.try_into().ok()).ok_or(WRONG)?;
        let signed = format!("{},{without_proof}", self.signed);
        let mut client_key = sign(&self.verifier.stored_key, signed.as_bytes());
        for (byte, proven) in client_key.iter_mut().zip(proof) {
            *byte ^= proven;
        }
        if !bool::from(hash(&client_key).ct_eq(&self.verifier.stored_key)) {
            return Ok(None);
        }
        let signature = sign(&self.verifier.server_key, signed.as_bytes());
        Ok(Some(format!("v={}", STANDARD.encode(signature))))
    }
}

/// The client's half: the last message that answers `challenge` after the first message `n,,` and
/// `bare`. `None` when the challenge is none. For clients and tests.
pub fn answer(password: &[u8], bare: &str, challenge: &str) -> Option<String> {
    let mut parts = challenge.split(',');
    let nonce = parts.next()?.strip_prefix("r=")?;
    let salt = STANDARD.decode(parts.next()?.strip_prefix("s=")?).ok()?;
    let iterations = parts.next()?.strip_prefix("i=")?.parse().ok()?;
    let mut salted = [0; KEY];
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, iterations, &salt, password, &mut salted);
    let mut proof = sign(&salted, b"Client Key");
    let without_proof = format!("c=biws,r={nonce}");
    let signature = sign(&hash(&proof), format!("{bare},{challenge},{without_proof}").as_bytes());
    for (byte, signed) in proof.iter_mut().zip(signature) {
        *byte ^= signed;
    }
    Some(format!("{without_proof},p={}", STANDARD.encode(proof)))
}

/// HMAC-SHA-256.
pub(crate) fn sign(key: &[u8], bytes: &[u8]) -> [u8; KEY] {
    let mut tag = [0; KEY];
    tag.copy_from_slice(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), bytes).as_ref());
    tag
}

fn hash(bytes: &[u8]) -> [u8; KEY] {
    let mut hash = [0; KEY];
    hash.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
    hash
}

fn text(message: &[u8]) -> Result<&str, MalformedResponse> {
    if message.len() > MESSAGE {
        return Err(MalformedResponse("the message of SCRAM is too long"));
    }
    std::str::from_utf8(message).map_err(|_| MalformedResponse("the message of SCRAM is not UTF-8"))
}

/// A name as it was before `,` and `=` in it were written as `=2C` and `=3D`.
fn unescape(name: &str) -> Option<String> {
    let mut parts = name.split('=');
    let mut plain = parts.next()?.to_owned();
    for part in parts {
        match part.split_at_checked(2)? {
            ("2C", rest) => plain.extend([",", rest]),
            ("3D", rest) => plain.extend(["=", rest]),
            _ => return None,
        }
    }
    (!plain.is_empty() && !plain.contains('\0')).then_some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SALT: &str = "W22ZaJ0SNY7soEsUEjb6gQ==";
    const FIRST: &[u8] = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
    const LAST: &[u8] =
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";

    fn pencil() -> Verifier {
        Verifier::create(b"pencil", &STANDARD.decode(SALT).unwrap(), NonZeroU32::new(4096).unwrap())
    }

    fn started(verifier: Verifier) -> (Exchange, String) {
        Exchange::start(&First::parse(FIRST).unwrap(), verifier, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    }

    /// RFC 7677 §3.
    #[test]
    fn the_example_of_the_specification() {
        let (exchange, challenge) = started(pencil());
        assert_eq!(challenge, format!("r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s={SALT},i=4096"));
        let bare = std::str::from_utf8(&FIRST[3..]).unwrap();
        assert_eq!(answer(b"pencil", bare, &challenge).unwrap().as_bytes(), LAST);
        let answer = exchange.finish(LAST).unwrap();
        assert_eq!(answer.as_deref(), Some("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
    }

    #[test]
    fn another_verifier_refuses_the_same_proof() {
        let other = Verifier::create(b"Pencil", &STANDARD.decode(SALT).unwrap(), NonZeroU32::new(4096).unwrap());
        for verifier in [other, Verifier::decoy(&[1; 32], "user")] {
            assert_eq!(started(verifier).0.finish(LAST), Ok(None));
        }
        let decoy = |user| Verifier::decoy(&[1; 32], user).to_text();
        assert_eq!(decoy("a"), decoy("a"));
        assert_ne!(decoy("a"), decoy("b"));
    }

    #[test]
    fn a_verifier_comes_back_and_checks_passwords() {
        let text = pencil().to_text();
        let verifier = Verifier::parse(&text).unwrap();
        assert!(verifier == pencil() && verifier.matches(b"pencil") && !verifier.matches(b"pencil "));
        for bad in [
            "$scram-sha-256$".to_owned(),
            text.replace("4096", "4095"),
            text.replace("4096", "4294967295"),
            text.replace(SALT, ""),
            format!("{text}$"),
            text[..text.len() - 4].to_owned(),
        ] {
            assert!(Verifier::parse(&bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn first_messages() {
        for (message, expected) in [
            ("n,,n=user,r=abc", Some("user")),
            ("y,,n=user,r=abc", Some("user")),
            ("n,a=user,n=user,r=abc", Some("user")),
            ("n,,n=a=2Cb=3Dc,r=abc,ext=1", Some("a,b=c")),
            ("n,a=other,n=user,r=abc", None),
            ("p=tls-exporter,,n=user,r=abc", None),
            ("n,,n=,r=abc", None),
            ("n,,n=a=2Db,r=abc", None),
            ("n,,n=a=,r=abc", None),
            ("n,,n=user,r=", None),
            ("n,,n=user,r=a b", None),
            ("n,,m=ext,n=user,r=abc", None),
            ("n,,r=abc,n=user", None),
            ("", None),
            ("n,,", None),
        ] {
            assert_eq!(First::parse(message.as_bytes()).ok().map(|first| first.user).as_deref(), expected, "{message}");
        }
        assert!(First::parse(&[b'n'; MESSAGE + 1]).is_err() && First::parse(b"n,,n=\xff,r=abc").is_err());
    }

    #[test]
    fn a_last_message_of_another_exchange_or_none_is_refused() {
        let (exchange, _) = started(pencil());
        let last = std::str::from_utf8(LAST).unwrap();
        for bad in [
            last.replace("biws", "eSws"),
            last.replace("%hvYD", "%hvYE"),
            last.replace("p=dHzb", "p=*Hzb"),
            last.replace("p=dHzb", "p="),
            last.replace(",p=", ",q="),
            last.replace(",p=", ",x=1,p="),
            String::new(),
        ] {
            assert!(exchange.finish(bad.as_bytes()).is_err(), "{bad}");
        }
        for end in 0..LAST.len() {
            assert_ne!(exchange.finish(&LAST[..end]).ok().flatten(), exchange.finish(LAST).unwrap(), "cut at {end}");
        }
    }
}
