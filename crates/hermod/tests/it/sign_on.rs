//! Logging in to the console on the pages of an issuer, as a browser does: there, and back with a
//! code. The issuer is the test, which has a page that no one needs to see.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;
use tempfile::TempDir;

use crate::oauth2::Issuer;
use crate::server::{Reply, Server, hermod, run};

/// The parts of a URL's query, decoded.
fn query(url: &str) -> Vec<(String, String)> {
    let (_, query) = url.split_once('?').unwrap();
    form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}

fn of<'a>(query: &'a [(String, String)], name: &str) -> &'a str {
    query.iter().find(|(its, _)| its == name).map_or("", |(_, value)| value)
}

/// Answers discovery, and takes the code `TAG` for a token of `ada` with that tag.
fn serve_issuer(issuer: Issuer) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let id = base.clone();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let (mut socket, mut request, mut piece) = (socket.unwrap(), Vec::new(), [0; 4096]);
            let body = loop {
                let count = socket.read(&mut piece).unwrap_or_default();
                request.extend(&piece[..count]);
                let text = String::from_utf8_lossy(&request).into_owned();
                match text.split_once("\r\n\r\n") {
                    Some((head, _)) if head.starts_with("GET ") => break String::new(),
                    Some((_, body)) if body.contains("code_verifier=") => break body.to_owned(),
                    _ if count == 0 => break String::new(),
                    _ => {}
                }
            };
            let answer = if body.is_empty() {
                json!({"issuer": id, "authorization_endpoint": format!("{id}/page"), "token_endpoint": format!("{id}/token")})
            } else {
                let form = query(&format!("?{body}"));
                match of(&form, "code") {
                    "stolen" => json!({"error": "invalid_grant"}),
                    tag => json!({"access_token": token(&issuer, &id, tag), "token_type": "Bearer"}),
                }
            };
            let text = answer.to_string();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", text.len());
            let _ = socket.write_all((head + &text).as_bytes());
        }
    });
    base
}

fn token(issuer: &Issuer, id: &str, tag: &str) -> String {
    let ends = (SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + Duration::from_secs(600)).as_secs();
    let scope = format!("mq.read:*/* mq.tag:{tag}");
    issuer.sign(&json!({"iss": id, "aud": "mq", "sub": "ada", "scope": scope, "exp": ends}))
}

fn server(flags: &[&str]) -> (Server, String, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let (keys, issuer) = (dir.path().join("keys.json"), Issuer::new("first"));
    issuer.write_keys(&keys);
    let base = serve_issuer(issuer);
    let keys = format!("--auth-oauth2-jwks-file={}", keys.display());
    let id = format!("--auth-oauth2-issuer={base}");
    let mut all = vec!["--auth-backends=internal,oauth2", "--auth-oauth2-resource-server-id=mq", &keys, &id];
    all.extend(["--auth-oauth2-client-id=console", "--auth-oauth2-label=the house"]);
    all.extend(flags);
    let server = Server::start(&dir.path().join("data"), &all);
    (server, base, dir)
}

/// Goes to the issuer: the address of its page, and the cookie.
fn go(server: &Server, path: &str) -> (Vec<(String, String)>, String) {
    let reply = server.send("GET", path, "", "");
    assert_eq!(reply.status, 303, "{}", reply.body);
    let cookie = reply.header("set-cookie");
    assert!(
        cookie.starts_with("hermod-login=") && cookie.contains("; HttpOnly; SameSite=Lax; Max-Age=600"),
        "{cookie}"
    );
    (query(reply.header("location")), cookie.split(';').next().unwrap().to_owned())
}

/// Comes back, as the issuer's page leads a browser.
fn come_back(server: &Server, cookie: &str, code: &str, state: &str) -> Reply {
    let path = format!("/login/back?code={code}&state={state}");
    server.send("GET", &path, &format!("Cookie: {cookie}\r\nSec-Fetch-Site: cross-site\r\n"), "")
}

#[test]
fn a_person_logs_in_on_the_issuers_page_and_comes_back_to_the_page_that_it_wanted() {
    let (server, base, _dir) = server(&[]);
    let page = server.send("GET", "/login?to=%2Fqueues%3Fname%3Da", "", "");
    assert!(page.body.contains("href=\"/login/elsewhere?to=%2Fqueues%3Fname%3Da\""), "{}", page.body);
    assert!(page.body.contains("Log in with the house"), "{}", page.body);
    let reply = server.send("GET", "/login/elsewhere", "", "");
    assert!(reply.header("location").starts_with(&format!("{base}/page?")), "{}", reply.header("location"));
    let (asked, cookie) = go(&server, "/login/elsewhere?to=%2Fqueues%3Fname%3Da");
    let names = ["response_type", "client_id", "scope", "code_challenge_method"].map(|name| of(&asked, name));
    assert_eq!(names, ["code", "console", "openid", "S256"]);
    assert!(of(&asked, "redirect_uri").ends_with("/login/back"));
    let arrived = come_back(&server, &cookie, "administrator", of(&asked, "state"));
    assert_eq!((arrived.status, arrived.header("refresh")), (200, "0; url=/queues?name=a"), "{}", arrived.body);
    let session = arrived.header("set-cookie").split(';').next().unwrap();
    let shown = server.send("GET", "/queues", &format!("Cookie: {session}\r\n"), "");
    assert!(shown.status == 200 && shown.body.contains("ada"), "{}", shown.body);
    // Not a second time, with the same code.
    let again = come_back(&server, &cookie, "administrator", of(&asked, "state"));
    assert!(again.status == 403 && again.body.contains("has ended"), "{}", again.body);
}

#[test]
fn who_comes_back_without_having_gone_is_not_let_in() {
    let (server, _, _dir) = server(&[]);
    let (asked, cookie) = go(&server, "/login/elsewhere");
    let (other_asked, other) = go(&server, "/login/elsewhere");
    let (state, other_state) = (of(&asked, "state"), of(&other_asked, "state"));
    for (cookie, code, state, why) in [
        // Another made this browser come back with a code of its own.
        ("", "administrator", state, "not begun in this browser"),
        (other.as_str(), "administrator", state, "not begun in this browser"),
        (&cookie, "administrator", "", "not begun in this browser"),
        (&cookie, "administrator", "guessed", "not begun in this browser"),
        (&cookie, "stolen", state, "cannot be asked, or refused"),
        (&other, "none", other_state, "needs one of the tags"),
    ] {
        let reply = come_back(&server, cookie, code, state);
        assert!(reply.status == 403 && reply.body.contains(why), "{why}: {}", reply.body);
        assert!(!reply.header("set-cookie").starts_with("hermod="), "no session");
    }
    let line = server.until_logged("log-in elsewhere failed");
    assert!(line.contains("invalid_grant") && !line.contains("stolen"), "{line}");
    let (asked, cookie) = go(&server, "/login/elsewhere");
    let path = |error: &str| format!("/login/back?error={error}&state={}", of(&asked, "state"));
    let reply = server.send("GET", &path("access_denied"), &format!("Cookie: {cookie}\r\n"), "");
    assert!(reply.body.contains("the house did not let you in: access_denied."), "{}", reply.body);
    let (asked, cookie) = go(&server, "/login/elsewhere");
    let path = format!("/login/back?error=Call+this+number&state={}", of(&asked, "state"));
    let reply = server.send("GET", &path, &format!("Cookie: {cookie}\r\n"), "");
    assert!(reply.body.contains("the house did not let you in."), "words of others are not shown: {}", reply.body);
}

#[test]
fn behind_a_proxy_the_way_back_is_the_one_that_is_set() {
    let (server, _, _dir) = server(&["--auth-oauth2-redirect-uri=https://mq.example/mq/login/back"]);
    let (asked, _) = go(&server, "/login/elsewhere");
    assert_eq!(of(&asked, "redirect_uri"), "https://mq.example/mq/login/back");
}

#[test]
fn an_issuer_that_does_not_answer_leaves_the_form() {
    // It takes connections, and says nothing.
    let dead = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let (keys, dir) = (Issuer::new("first"), tempfile::tempdir().unwrap());
    keys.write_keys(&dir.path().join("keys.json"));
    let issuer = format!("--auth-oauth2-issuer=http://{}", dead.local_addr().unwrap());
    let keys = format!("--auth-oauth2-jwks-file={}", dir.path().join("keys.json").display());
    let flags = ["--auth-backends=internal,oauth2", "--auth-oauth2-resource-server-id=mq", &keys, &issuer];
    let flags = [&flags[..], &["--auth-oauth2-client-id=console", "--auth-oauth2-timeout=1 s"]].concat();
    let server = Server::start(&dir.path().join("data"), &flags);
    let reply = server.send("GET", "/login/elsewhere", "", "");
    assert!(reply.status == 403 && reply.body.contains("cannot be asked"), "{}", reply.body);
    assert!(reply.body.contains("name=\"password\""), "the form is there: {}", reply.body);
}

#[test]
fn settings_that_lead_nowhere_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let base = ["--auth-backends=internal,oauth2", "--auth-oauth2-resource-server-id=mq"];
    let file = "--auth-oauth2-jwks-file=/tmp/keys";
    for (flags, why) in [
        (
            &[file, "--auth-oauth2-client-id=c"][..],
            "auth_oauth2.issuer: where does auth_oauth2.client_id log people in",
        ),
        (&[file, "--auth-oauth2-client-secret=s"], "auth_oauth2.client_id: whose secret"),
        (
            &[
                "--auth-oauth2-issuer=https://id",
                "--auth-oauth2-client-id=c",
                "--auth-oauth2-client-secret=s",
                "--auth-oauth2-client-secret-file=/tmp/s",
            ],
            "auth_oauth2.client_secret_file: the secret is set, too",
        ),
        (
            &["--auth-oauth2-issuer=https://id", "--auth-oauth2-redirect-uri=http://mq.example/login/back"],
            "redirect-uri: 'http://mq.example/login/back': without TLS",
        ),
    ] {
        let (code, _, said) = run(hermod("serve", dir.path()).args(base).args(flags));
        assert!(code == 78 && said.contains(why), "{code} {said}");
    }
}
