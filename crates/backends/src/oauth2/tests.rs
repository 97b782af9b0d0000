//! Tokens that are signed here, and those that attackers make.

use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use serde_json::json;

use super::*;
use crate::AddressError;

const NOW: Duration = Duration::from_secs(1_000_000);

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Signs tokens, as an issuer does.
struct Issuer {
    key: EcdsaKeyPair,
    random: SystemRandom,
}

impl Issuer {
    fn new() -> Self {
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &random).unwrap();
        Self { key, random }
    }

    fn jwk(&self, id: &str) -> Value {
        let point = self.key.public_key().as_ref();
        json!({"kty": "EC", "crv": "P-256", "use": "sig", "kid": id, "x": encoded(&point[1..33]), "y": encoded(&point[33..])})
    }

    fn sign(&self, head: &Value, claims: &Value) -> String {
        let message = format!("{}.{}", encoded(head.to_string()), encoded(claims.to_string()));
        let signature = self.key.sign(&self.random, message.as_bytes()).unwrap();
        format!("{message}.{}", encoded(signature))
    }
}

/// Gives the same document for any address, and counts.
#[derive(Debug)]
struct Fixed {
    document: String,
    asked: AtomicUsize,
}

impl Fetch for Fixed {
    fn fetch(&self, _: &Address) -> Result<String, String> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Ok(self.document.clone())
    }
}

fn reading() -> Reading {
    Reading {
        resource_server_id: "hermod".to_owned(),
        issuer: Some("https://id".to_owned()),
        scope_prefix: "hermod.".to_owned(),
        username_claims: vec!["sub".to_owned()],
        ..Reading::default()
    }
}

fn backend(keys: &[Value], algorithms: &[&str]) -> (OAuth2, Arc<Fixed>) {
    let web = Arc::new(Fixed { document: json!({"keys": keys}).to_string(), asked: AtomicUsize::new(0) });
    let from = KeysFrom::Address(Address::parse("https://id/certs").unwrap());
    let algorithms: Vec<_> = algorithms.iter().map(|name| (*name).to_owned()).collect();
    let backend = OAuth2::new(reading(), &algorithms, (from, web.clone(), Duration::from_secs(300)));
    (backend.unwrap(), web)
}

fn claims() -> Value {
    json!({"iss": "https://id", "aud": "hermod", "sub": "ada", "exp": NOW.as_secs() + 60, "scope": "hermod.tag:monitoring"})
}

fn head() -> Value {
    json!({"alg": "ES256", "typ": "JWT", "kid": "a"})
}

fn check(backend: &OAuth2, token: &str) -> Result<String, String> {
    match backend.check(token, (Instant::now(), NOW)) {
        Ok(vouched) => Ok(vouched.grant.user.to_string()),
        Err(No::Refused(why)) => Err(why),
        Err(No::Unavailable(why)) => unreachable!("{why}"),
    }
}

#[test]
fn a_token_of_the_issuer_lets_in_until_it_expires() {
    let issuer = Issuer::new();
    let (backend, _) = backend(&[issuer.jwk("b"), issuer.jwk("a")], &[]);
    let token = issuer.sign(&head(), &claims());
    assert!(backend.takes(token.as_bytes()));
    let vouched = backend.check(&token, (Instant::now(), NOW)).unwrap();
    assert_eq!(vouched.valid_for, Duration::from_secs(60));
    assert!(vouched.grant.tags.has("monitoring"));
    assert_eq!(vouched.grant.expires, Some((NOW.as_secs() + 60) * 1000));
    // A head without a key's name is tried with all keys.
    let other = Issuer::new();
    let (several, _) = self::backend(&[other.jwk("x"), issuer.jwk("a")], &[]);
    assert_eq!(check(&several, &issuer.sign(&json!({"alg": "ES256"}), &claims())).as_deref(), Ok("ada"));
}

#[test]
fn forged_tokens_let_no_one_in() {
    let (issuer, stranger) = (Issuer::new(), Issuer::new());
    let (backend, _) = backend(&[issuer.jwk("a")], &[]);
    let good = issuer.sign(&head(), &claims());
    let parts: Vec<_> = good.split('.').collect();
    let unsigned = |alg: &str| format!("{}.{}.", encoded(json!({"alg": alg}).to_string()), parts[1]);
    // The public key taken for the secret of an HMAC.
    let mut confused = format!("{}.{}", encoded(json!({"alg": "HS256", "kid": "a"}).to_string()), parts[1]);
    let point = issuer.key.public_key().as_ref();
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, point), confused.as_bytes());
    confused = format!("{confused}.{}", encoded(tag));
    let admin = json!({"sub": "root", "aud": "hermod", "iss": "https://id", "exp": u64::MAX, "scope": "hermod.tag:administrator"});
    let of_stranger = stranger.sign(&head(), &admin);
    // Its own key comes along.
    let jwk = stranger.jwk("a");
    let brought = stranger.sign(&json!({"alg": "ES256", "jwk": jwk, "jku": "https://evil/"}), &admin);
    let with = |member: &str, value: Value| {
        let mut head = head();
        head[member] = value;
        issuer.sign(&head, &claims())
    };
    for (what, token, expected) in [
        ("none", unsigned("none"), "algorithm is not one that is known"),
        ("None", unsigned("None"), "algorithm is not one that is known"),
        ("no signature", unsigned("ES256"), "signature of the token is wrong"),
        ("empty algorithm", unsigned(""), "algorithm is not one that is known"),
        ("HMAC by the public key", confused, "no key 'a' for HS256"),
        ("a stranger's key", of_stranger.clone(), "signature of the token is wrong"),
        ("a key in the head", brought, "signature of the token is wrong"),
        (
            "other claims",
            format!("{}.{}.{}", parts[0], encoded(admin.to_string()), parts[2]),
            "signature of the token is wrong",
        ),
        (
            "another head",
            format!("{}.{}.{}", encoded(json!({"alg": "ES256", "kid": "a", "x": 1}).to_string()), parts[1], parts[2]),
            "signature of the token is wrong",
        ),
        ("RSA for a key of a curve", with("alg", json!("RS256")), "no key 'a' for RS256"),
        ("an unknown key", with("kid", json!("../../etc/passwd")), "no key '../../etc/passwd' for ES256"),
        ("a long name of a key", with("kid", json!("k".repeat(9000))), "no key 'kkk"),
        ("crit", with("crit", json!(["exp"])), "extension that is not known"),
        ("a list of claims", issuer.sign(&head(), &json!([claims()])), "can't be read"),
        ("four parts", format!("{good}.x"), "this is no token"),
        ("two parts", parts[..2].join("."), "this is no token"),
        ("nothing", "..".to_owned(), "the head of the token"),
    ] {
        let why = check(&backend, &token).unwrap_err();
        assert!(why.contains(expected) && why.len() < 200, "{what}: {why}");
        assert!(
            parts.iter().chain(&of_stranger.split('.').collect::<Vec<_>>()).all(|part| !why.contains(part)),
            "{what}: {why}"
        );
    }
}

#[test]
fn every_cut_and_every_changed_letter_is_refused() {
    let issuer = Issuer::new();
    let (backend, _) = backend(&[issuer.jwk("a")], &[]);
    let token = issuer.sign(&head(), &claims());
    for end in 0..token.len() {
        assert!(check(&backend, &token[..end]).is_err(), "cut at {end}");
        let mut bytes = token.clone().into_bytes();
        bytes[end] = if bytes[end] == b'A' { b'B' } else { b'A' };
        // The last letter of base 64 may have bits that count for nothing.
        let changed = String::from_utf8(bytes).unwrap();
        assert!(check(&backend, &changed).is_err(), "{changed} at {end}");
    }
}

#[test]
fn algorithms_can_be_narrowed_and_hmac_cannot_be_allowed() {
    let issuer = Issuer::new();
    let ed = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
    let jwk = json!({"kty": "OKP", "crv": "Ed25519", "kid": "e", "x": encoded(ed.public_key())});
    let message = format!("{}.{}", encoded(r#"{"alg":"EdDSA","kid":"e"}"#), encoded(claims().to_string()));
    let by_ed = format!("{message}.{}", encoded(ed.sign(message.as_bytes())));
    let by_ec = issuer.sign(&head(), &claims());
    for (allowed, ec, edwards) in [(&[][..], true, true), (&["ES256"], true, false), (&["EdDSA", "RS256"], false, true)]
    {
        let (backend, _) = backend(&[issuer.jwk("a"), jwk.clone()], allowed);
        assert_eq!((check(&backend, &by_ec).is_ok(), check(&backend, &by_ed).is_ok()), (ec, edwards), "{allowed:?}");
    }
    for (name, expected) in [("HS256", "is signed with a secret"), ("none", "is none of"), ("rs256", "is none of")] {
        assert!(algorithm(name).unwrap_err().contains(expected), "{name}");
    }
}

#[test]
fn only_tokens_are_taken() {
    let (backend, web) = backend(&[Issuer::new().jwk("a")], &[]);
    for (secret, expected) in [
        ("eyJh.eyJz.c2ln", true),
        ("eyJh.eyJz.", true),
        ("secret", false),
        ("eyJh.eyJz", false),
        ("eyJh.eyJz.c2ln.x", false),
        ("eyJh.eyJz.c2 n", false),
        ("xyJh.eyJz.c2ln", false),
        ("", false),
    ] {
        assert_eq!(backend.takes(secret.as_bytes()), expected, "{secret}");
    }
    // What is no token at all makes no one read keys.
    for number in 0..100 {
        assert!(check(&backend, &format!("ey{number}.x.y")).is_err());
    }
    assert_eq!(web.asked.load(Ordering::Relaxed), 0);
}

#[test]
fn an_issuer_must_name_itself_and_a_safe_place() {
    for (document, expected) in [
        (json!({"issuer": "https://id/realm", "jwks_uri": "https://id/certs"}), Ok("https://id/certs")),
        (
            json!({"issuer": "https://id/other", "jwks_uri": "https://id/certs"}),
            Err("it is of issuer 'https://id/other'"),
        ),
        (json!({"issuer": "https://id/realm", "jwks_uri": "http://id/certs"}), Err("jwks_uri: without TLS")),
        (json!({"issuer": "https://id/realm"}), Err("jwks_uri: this is no URL")),
        (json!({}), Err("it is of issuer ''")),
        (json!([]), Err("it is of issuer ''")),
    ] {
        let web = Fixed { document: document.to_string(), asked: AtomicUsize::new(0) };
        let issuer = Address::parse("https://id/realm").unwrap();
        match (key_address(&issuer, &web), expected) {
            (Ok(address), Ok(expected)) => assert_eq!(address.as_str(), expected),
            (Err(why), Err(expected)) => assert!(why.contains(expected), "{document}: {why}"),
            (outcome, _) => unreachable!("{document}: {outcome:?}"),
        }
    }
    assert_eq!(Address::parse("http://id/realm"), Err(AddressError::Plain));
}

#[test]
fn a_backend_without_keys_is_unavailable_and_says_why() {
    let from = KeysFrom::File("/nonexistent/keys.json".into());
    let web = Arc::new(Fixed { document: String::new(), asked: AtomicUsize::new(0) });
    let backend = OAuth2::new(reading(), &[], (from, web, Duration::from_secs(1))).unwrap();
    let token = Issuer::new().sign(&head(), &claims());
    let answer = backend.check(&token, (Instant::now(), NOW)).unwrap_err();
    assert!(matches!(&answer, No::Unavailable(why) if why.starts_with("/nonexistent/keys.json: ")), "{answer:?}");
}
