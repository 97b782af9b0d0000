//! Log-ins by tokens, over each protocol that has a password: what they let in, until when, and
//! what a renewal changes. The issuer is the test, with a key of its own.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use amqp091::codec::methods::{
    BasicConsume, ChannelOpen, ConnectionOpen, ConnectionTuneOk, ConnectionUpdateSecret, QueueDeclare,
};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::attacks::Amqp;
use crate::server::{Ports, Server, run, serve};
use crate::stomp::Stomp;

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Signs tokens whose key a file has.
pub(crate) struct Issuer {
    key: EcdsaKeyPair,
    random: SystemRandom,
    id: &'static str,
}

impl Issuer {
    pub(crate) fn new(id: &'static str) -> Self {
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &random).unwrap();
        Self { key, random, id }
    }

    pub(crate) fn write_keys(&self, file: &Path) {
        let point = self.key.public_key().as_ref();
        let (x, y) = (encoded(&point[1..33]), encoded(&point[33..]));
        let keys = json!({"keys": [{"kty": "EC", "crv": "P-256", "kid": self.id, "x": x, "y": y}]});
        std::fs::write(file, keys.to_string()).unwrap();
    }

    /// A token for a user with these scopes, which ends after so many seconds.
    fn token(&self, user: &str, scope: &str, seconds: u64) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let ends = (now + Duration::from_secs(seconds)).as_secs();
        self.sign(&json!({"iss": "https://id", "aud": "mq", "sub": user, "scope": scope, "exp": ends}))
    }

    pub(crate) fn sign(&self, claims: &Value) -> String {
        let head = json!({"alg": "ES256", "kid": self.id});
        let message = format!("{}.{}", encoded(head.to_string()), encoded(claims.to_string()));
        let signature = self.key.sign(&self.random, message.as_bytes()).unwrap();
        format!("{message}.{}", encoded(signature))
    }
}

const ALL: &str = "mq.configure:*/* mq.write:*/* mq.read:*/*";

/// A server that takes tokens, and passwords besides.
fn server(flags: &[&str]) -> (Server, Issuer, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let (keys, issuer) = (dir.path().join("keys.json"), Issuer::new("first"));
    issuer.write_keys(&keys);
    let keys = format!("--auth-oauth2-jwks-file={}", keys.display());
    let mut all = vec!["--auth-oauth2-resource-server-id=mq", "--auth-oauth2-issuer=https://id", &keys];
    if !flags.iter().any(|flag| flag.starts_with("--auth-backends")) {
        all.push("--auth-backends=internal,oauth2");
    }
    all.extend(flags);
    let server = Server::start(&dir.path().join("data"), &all);
    (server, issuer, dir)
}

/// The answer to a log-in by a password or a token, and the client.
fn log_in(server: &Server, user: &str, secret: &str) -> (Amqp, String) {
    let mut client = Amqp::started(server.ports.amqp);
    client.start_ok("PLAIN", format!("\0{user}\0{secret}").as_bytes());
    let answer = client.method();
    (client, answer)
}

/// A client that has logged in by a token, with channel 1 open.
fn open(server: &Server, token: &str) -> Amqp {
    let (mut client, answer) = log_in(server, "", token);
    assert!(answer.starts_with("ConnectionTune"), "{answer}");
    client.send(0, ConnectionTuneOk { channel_max: 10, frame_max: 131_072, heartbeat: 0 });
    client.send(0, ConnectionOpen { virtual_host: "/", ..Default::default() });
    client.expect("ConnectionOpenOk");
    client.send(1, ChannelOpen::default());
    client.expect("ChannelOpenOk");
    client
}

fn declare(client: &mut Amqp, queue: &'static str) -> String {
    client.send(1, QueueDeclare { queue, durable: true, ..Default::default() });
    client.method()
}

#[test]
fn a_token_is_a_password_of_each_protocol_and_scopes_are_rights() {
    let (server, issuer, _dir) = server(&[]);
    let token = issuer.token("ada", "mq.configure:%2F/own.* mq.write:%2F/own.* mq.read:%2F/*", 600);
    let mut client = open(&server, &token);
    let line = server.until_logged("connection open");
    assert!(line.contains("ada") && line.contains("oauth2") && !line.contains(&token), "{line}");
    assert!(declare(&mut client, "own.1").starts_with("QueueDeclareOk"));
    let refused = declare(&mut client, "theirs");
    assert!(refused.contains("403") && refused.contains("refused for user 'ada'"), "{refused}");
    // Over STOMP.
    let mut stomp = Stomp::connect_with(server.ports.stomp, "whoever", &token);
    assert!(stomp.frame().starts_with("CONNECTED\n"));
    // The users of this broker still log in by their passwords.
    assert!(log_in(&server, "guest", "guest").1.starts_with("ConnectionTune"));
    assert!(log_in(&server, "guest", "wrong").1.starts_with("ConnectionClose"));
}

#[test]
fn what_is_no_token_for_this_broker_is_refused_and_the_log_says_why_without_it() {
    let (server, issuer, _dir) = server(&[]);
    let stranger = Issuer::new("first");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let with = |issuer: &str, audience: &str, ends: u64| json!({"iss": issuer, "aud": audience, "sub": "ada", "scope": ALL, "exp": ends});
    for (token, reason) in [
        (issuer.sign(&with("https://id", "other", now + 60)), "not meant for 'mq'"),
        (issuer.sign(&with("https://other", "mq", now + 60)), "another issuer"),
        (issuer.sign(&with("https://id", "mq", now - 60)), "has expired"),
        (stranger.token("ada", ALL, 60), "the signature of the token is wrong"),
        (Issuer::new("second").token("ada", ALL, 60), "no key 'second' for ES256 is known"),
    ] {
        let (_, answer) = log_in(&server, "ada", &token);
        assert!(answer.starts_with("ConnectionClose { reply_code: 403"), "{answer}");
        let line = server.until_logged("login refused");
        assert!(line.contains(reason) && !line.contains(&token), "{reason}: {line}");
    }
}

#[test]
fn http_takes_bearer_tokens_and_tags_come_from_scopes() {
    let (server, issuer, _dir) = server(&[]);
    let get = |path: &str, token: &str| server.ask("GET", path, &format!("Authorization: Bearer {token}\r\n"));
    let admin = issuer.token("root", &format!("{ALL} mq.tag:administrator"), 600);
    let (status, document) = get("/api/whoami", &admin);
    assert_eq!(status, 200, "{document}");
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!((&document["name"], &document["tags"]), (&json!("root"), &json!(["administrator"])));
    assert_eq!(get("/api/users", &admin).0, 200);
    let viewer = issuer.token("ada", "mq.read:%2F/* mq.tag:management", 600);
    assert_eq!((get("/api/queues", &viewer).0, get("/api/users", &viewer).0), (200, 401));
    let untagged = issuer.token("bob", ALL, 600);
    assert_eq!(get("/api/whoami", &untagged).0, 401);
    assert_eq!(get("/api/whoami", "no.token").0, 401);
    assert_eq!(get("/api/whoami", &Issuer::new("first").token("root", "mq.tag:administrator", 60)).0, 401);
    // As a password, too, as tools that know Basic alone send it.
    let basic = STANDARD.encode(format!("root:{admin}"));
    assert_eq!(server.ask("GET", "/api/whoami", &format!("Authorization: Basic {basic}\r\n")).0, 200);
}

#[test]
fn the_session_of_a_token_ends_with_it() {
    let (server, issuer, _dir) = server(&[]);
    let token = issuer.token("root", "mq.tag:administrator", 2);
    let form = format!("username=root&password={token}");
    let reply = server.send("POST", "/api/login", "Content-Type: application/x-www-form-urlencoded\r\n", &form);
    assert_eq!(reply.status, 200, "{}", reply.body);
    let cookie = reply.header("set-cookie").split(';').next().unwrap().to_owned();
    let status = || server.ask("GET", "/api/whoami", &format!("Cookie: {cookie}\r\n")).0;
    assert_eq!(status(), 200);
    crate::server::until("the session is over", || status() == 401);
}

#[test]
fn a_connection_ends_with_its_token_unless_it_is_renewed() {
    let (server, issuer, _dir) = server(&[]);
    let (mut left, mut renewed) =
        (open(&server, &issuer.token("ada", ALL, 2)), open(&server, &issuer.token("bob", ALL, 2)));
    let secret = issuer.token("bob", ALL, 600);
    renewed.send(0, ConnectionUpdateSecret { new_secret: secret.as_bytes(), reason: "" });
    renewed.expect("ConnectionUpdateSecretOk");
    let close = left.method();
    assert!(close.contains("reply_code: 320") && close.contains("credentials of user 'ada' have expired"), "{close}");
    assert!(declare(&mut renewed, "q").starts_with("QueueDeclareOk"), "it goes on");
}

#[test]
fn a_renewal_brings_the_new_rights_and_another_user_or_a_bad_token_ends_the_connection() {
    let (server, issuer, _dir) = server(&[]);
    let mut client = open(&server, &issuer.token("ada", ALL, 600));
    assert!(declare(&mut client, "q").starts_with("QueueDeclareOk"));
    client.send(1, BasicConsume { queue: "q", consumer_tag: "c", ..Default::default() });
    client.expect("BasicConsumeOk");
    // It may read no longer: its consumer goes before anything else happens.
    let narrow = issuer.token("ada", "mq.configure:*/*", 600);
    client.send(0, ConnectionUpdateSecret { new_secret: narrow.as_bytes(), reason: "" });
    client.expect("ConnectionUpdateSecretOk");
    crate::server::until("the consumer is gone", || {
        let (_, document) = server.ask("GET", "/api/queues/%2F/q", &basic("guest", "guest"));
        serde_json::from_str::<Value>(&document).is_ok_and(|queue| queue["consumers"] == 0)
    });
    assert!(declare(&mut client, "r").starts_with("QueueDeclareOk"));
    client.send(1, BasicConsume { queue: "q", ..Default::default() });
    let refused = client.method();
    assert!(refused.contains("403") && refused.contains("read access"), "{refused}");
    for (secret, reason) in [
        (issuer.token("eve", ALL, 600), "the new secret is of another user"),
        (issuer.token("ada", "mq.read:other/*", 600), ""),
        ("ey.no.token".to_owned(), "oauth2: "),
        ("guest".to_owned(), "unknown user or wrong password"),
    ] {
        let mut client = open(&server, &issuer.token("ada", ALL, 600));
        client.send(0, ConnectionUpdateSecret { new_secret: secret.as_bytes(), reason: "" });
        if reason.is_empty() {
            client.expect("ConnectionUpdateSecretOk");
            client.expect_close(320);
            continue;
        }
        client.expect_close(530);
        let line = server.until_logged("secret not renewed");
        assert!(line.contains(reason) && !line.contains(&secret), "{line}");
    }
}

fn basic(user: &str, password: &str) -> String {
    format!("Authorization: Basic {}\r\n", STANDARD.encode(format!("{user}:{password}")))
}

#[test]
fn rights_may_be_those_of_the_user_of_that_name_here() {
    let (server, issuer, _dir) = server(&["--auth-backends=oauth2/internal"]);
    // The token's scopes count for nothing.
    let token = issuer.token("guest", "", 600);
    let mut client = open(&server, &token);
    assert!(declare(&mut client, "q").starts_with("QueueDeclareOk"));
    for (user, secret, reason) in [
        ("ada", issuer.token("ada", ALL, 600), "user here that is missing"),
        ("guest", "guest".to_owned(), "unknown user or wrong password"),
    ] {
        assert!(log_in(&server, user, &secret).1.starts_with("ConnectionClose"), "{user}");
        let line = server.until_logged("login refused");
        assert!(line.contains(reason), "{line}");
    }
}

#[test]
fn settings_that_do_not_fit_stop_the_start() {
    let dir = tempfile::tempdir().unwrap();
    for (flags, reason) in [
        (&["--auth-backends=http"][..], "where is the service for http?"),
        (&["--auth-backends=http", "--auth-http-user-path=https://id"], "auth_http.vhost_path: http asks the service"),
        (&["--auth-http-topic-path=https://id"], "http is not among them"),
        (
            &["--auth-backends=http/internal", "--auth-http-user-path=https://id", "--auth-http-topic-path=https://id"],
            "with http/internal the service is not asked",
        ),
        (&["--auth-backends=oauth2"], "which service are tokens for?"),
        (&["--auth-backends=oauth2", "--auth-oauth2-resource-server-id=mq"], "where do the keys of tokens come from?"),
        (&["--auth-oauth2-resource-server-id=mq"], "oauth2 is not among them"),
        (&["--auth-oauth2-issuer=http://id.example"], "without TLS"),
        (&["--auth-oauth2-algorithms=HS256"], "signed with a secret"),
        (&["--auth-oauth2-jwks-refresh=1s"], "the least is 10 s"),
    ] {
        let (code, _, said) = run(serve(dir.path(), Ports::free()).args(flags));
        assert!(code != 0 && said.contains(reason), "{flags:?}: {code} {said}");
    }
}
