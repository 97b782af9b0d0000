//! The authorization code grant with a proof key (RFC 6749 §4.1, RFC 7636): people log in on the
//! issuer's pages, and the broker takes the code that they come back with for a token.
//!
//! Only the issuer is asked, at the addresses that its discovery names, and without redirects. No
//! text that is logged has a code, a secret or a token.

use std::time::{Duration, Instant};

use auth::{Journey, SignOn};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use parking_lot::Mutex;
use serde_json::Value;

use super::discovery::{self, named};
use crate::fetch::{Address, Web};

/// How long the addresses that discovery named are taken again.
const KNOWN_FOR: Duration = Duration::from_hours(1);
/// Discovery that failed is not tried again for so long.
const LEAST_PAUSE: Duration = Duration::from_secs(5);
/// Most bytes of an answer with a token.
const MOST_BYTES: u64 = 64 << 10;

/// What the issuer knows this broker as.
#[derive(Clone)]
pub struct CodeClient {
    /// Its name.
    pub id: String,
    /// Its password, if it has one.
    pub secret: Option<String>,
    /// What it asks for.
    pub scopes: Vec<String>,
    /// What people call the issuer.
    pub label: String,
    /// The address that people come back to, if it is not the one that they came from.
    pub back: Option<Address>,
}

impl std::fmt::Debug for CodeClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CodeClient").field("id", &self.id).finish_non_exhaustive()
    }
}

/// See the module.
#[derive(Debug)]
pub struct CodeGrant {
    issuer: Address,
    client: CodeClient,
    web: Web,
    known: Mutex<Option<(Instant, Result<Endpoints, String>)>>,
}

/// Where the issuer has its pages and gives tokens.
#[derive(Debug, Clone)]
struct Endpoints {
    page: Address,
    token: Address,
}

impl CodeGrant {
    /// Leads people to this issuer.
    #[must_use]
    pub fn new(issuer: Address, client: CodeClient, web: Web) -> Self {
        Self { issuer, client, web, known: Mutex::default() }
    }

    /// One thread at a time asks.
    fn endpoints(&self) -> Result<Endpoints, String> {
        let mut known = self.known.lock();
        if let Some((at, found)) = &*known
            && at.elapsed() < if found.is_ok() { KNOWN_FOR } else { LEAST_PAUSE }
        {
            return found.clone();
        }
        let found = discovery::read(&self.issuer, &self.web).and_then(|document| {
            Ok(Endpoints {
                page: named(&document, "authorization_endpoint")?,
                token: named(&document, "token_endpoint")?,
            })
        });
        *known = Some((Instant::now(), found.clone()));
        found
    }

    /// Asks for the token of a code. A client with a password shows it as RFC 6749 §2.3.1 says.
    fn ask(&self, at: &Address, code: &str, journey: &Journey) -> Result<String, ureq::Error> {
        let CodeClient { id, secret, .. } = &self.client;
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &journey.back),
            ("code_verifier", &journey.verifier),
        ];
        let mut request = self.web.agent().post(at.as_str());
        match secret {
            Some(secret) => {
                let pair = format!("{}:{}", encoded(id), encoded(secret));
                request = request.header("Authorization", format!("Basic {}", STANDARD.encode(pair)));
            }
            None => form.push(("client_id", id)),
        }
        // A refusal has a reason in its body.
        let mut answer = request.config().http_status_as_error(false).build().send_form(form)?;
        answer.body_mut().with_config().limit(MOST_BYTES).read_to_string()
    }
}

impl SignOn for CodeGrant {
    fn label(&self) -> &str {
        &self.client.label
    }

    fn back(&self) -> Option<&str> {
        self.client.back.as_ref().map(Address::as_str)
    }

    fn page(&self, journey: &Journey) -> Result<String, String> {
        let Endpoints { page, .. } = self.endpoints()?;
        let digest = ring::digest::digest(&ring::digest::SHA256, journey.verifier.as_bytes());
        let (challenge, scopes) = (URL_SAFE_NO_PAD.encode(digest), self.client.scopes.join(" "));
        let query = [
            ("response_type", "code"),
            ("client_id", &self.client.id),
            ("redirect_uri", &journey.back),
            ("scope", &scopes),
            ("state", &journey.state),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ];
        let query: Vec<_> = query.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        let join = if page.as_str().contains('?') { '&' } else { '?' };
        Ok(format!("{}{join}{}", page.as_str(), query.join("&")))
    }

    fn token(&self, code: &str, journey: &Journey) -> Result<String, String> {
        let at = self.endpoints()?.token;
        let wrong = |what: &str| format!("{}: {what}", at.as_str());
        let answer = self.ask(&at, code, journey).map_err(|error| wrong(&error.to_string()))?;
        let answer: Value = serde_json::from_str(&answer).map_err(|_| wrong("the answer is no JSON"))?;
        let text = |name: &str| answer.get(name).and_then(Value::as_str);
        match (text("access_token"), text("error")) {
            (Some(token), _) => Ok(token.to_owned()),
            (None, Some(error)) => Err(wrong(&format!("it refused the code: {}", discovery::shortened(error)))),
            (None, None) => Err(wrong("the answer has no access_token")),
        }
    }
}

/// Text in the query of a URL, or in a form.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().fold(String::new(), |mut all, byte| {
        if plain(byte) {
            all.push(char::from(byte));
        } else {
            all.push_str(&format!("%{byte:02X}"));
        }
        all
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener};
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    /// An issuer on loopback that answers with these bodies, one after the other, and tells what
    /// it was asked.
    fn issuer(bodies: impl Fn(&str) -> Vec<(u16, String)>) -> (Address, Receiver<String>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let (tell, asked) = channel();
        let bodies = bodies(&base);
        std::thread::spawn(move || {
            for (status, body) in bodies {
                let (mut socket, _) = listener.accept().unwrap();
                let mut request = Vec::new();
                let mut piece = [0; 4096];
                while !is_whole(&request) {
                    match socket.read(&mut piece).unwrap() {
                        0 => break,
                        count => request.extend(&piece[..count]),
                    }
                }
                // Not every test looks at it.
                let _ = tell.send(String::from_utf8(request).unwrap());
                let length = body.len();
                let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
                socket.write_all((head + &body).as_bytes()).unwrap();
            }
        });
        (Address::parse(&base).unwrap(), asked)
    }

    fn is_whole(request: &[u8]) -> bool {
        let text = String::from_utf8_lossy(request);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
        let length =
            head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
        body.len() >= length.unwrap_or(0)
    }

    fn discovery(base: &str) -> (u16, String) {
        let page = format!("{base}/page?kind=1");
        let document = serde_json::json!({"issuer": base, "authorization_endpoint": page, "token_endpoint": format!("{base}/token")});
        (200, document.to_string())
    }

    fn grant(issuer: Address, secret: Option<&str>) -> CodeGrant {
        let client = CodeClient {
            id: "broker one".to_owned(),
            secret: secret.map(str::to_owned),
            scopes: vec!["openid".to_owned(), "mq".to_owned()],
            label: "the house".to_owned(),
            back: None,
        };
        CodeGrant::new(issuer, client, Web::new(None, Duration::from_secs(5)).unwrap())
    }

    fn journey() -> Journey {
        // The pair of RFC 7636, appendix B.
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".to_owned();
        Journey { back: "https://mq.example/login/back".to_owned(), state: "s+1".to_owned(), verifier }
    }

    #[test]
    fn people_are_led_to_the_page_with_the_digest_of_the_secret() {
        let (address, _) = issuer(|base| vec![discovery(base)]);
        let grant = grant(address.clone(), None);
        let expected = format!(
            "{}/page?kind=1&response_type=code&client_id=broker%20one&redirect_uri=https%3A%2F%2Fmq.example%2Flogin%2Fback\
             &scope=openid%20mq&state=s%2B1&code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM\
             &code_challenge_method=S256",
            address.as_str()
        );
        assert_eq!(grant.page(&journey()).unwrap(), expected);
        assert_eq!(grant.page(&journey()).unwrap(), expected, "discovery is asked once");
    }

    #[test]
    fn a_code_is_taken_for_a_token_with_the_password_or_the_name_of_the_client() {
        for (secret, in_head, in_form) in
            [(Some("a:b c"), Some("Basic YnJva2VyJTIwb25lOmElM0FiJTIwYw=="), ""), (None, None, "&client_id=broker+one")]
        {
            let token = |_: &str| (200, r#"{"access_token": "ey.a.b", "token_type": "Bearer"}"#.to_owned());
            let (address, asked) = issuer(|base| vec![discovery(base), token(base)]);
            assert_eq!(grant(address, secret).token("c&d", &journey()).as_deref(), Ok("ey.a.b"));
            asked.recv().unwrap();
            let request = asked.recv().unwrap();
            let (head, body) = request.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with("POST /token "), "{head}");
            let shown = head.lines().find(|line| line.to_ascii_lowercase().starts_with("authorization:"));
            assert_eq!(shown.map(|line| line.split_once(": ").unwrap().1), in_head);
            let form = "grant_type=authorization_code&code=c%26d&redirect_uri=https%3A%2F%2Fmq.example%2Flogin%2Fback\
                        &code_verifier=dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
            assert_eq!(body.replace("%20", "+"), format!("{form}{in_form}"));
        }
    }

    #[test]
    fn an_answer_without_a_token_says_why_and_not_the_code() {
        for (status, body, expected) in [
            (
                400,
                r#"{"error": "invalid_grant", "error_description": "the-code"}"#,
                "it refused the code: invalid_grant",
            ),
            (200, "{}", "the answer has no access_token"),
            (502, "<html>", "the answer is no JSON"),
        ] {
            let (address, _) = issuer(|base| vec![discovery(base), (status, body.to_owned())]);
            let error = grant(address, None).token("the-code", &journey()).unwrap_err();
            assert!(error.ends_with(expected) && !error.contains("the-code"), "{error}");
        }
    }

    #[test]
    fn an_issuer_that_names_no_safe_page_is_not_gone_to() {
        for (name, value, expected) in [
            ("authorization_endpoint", "http://id.example/page", "authorization_endpoint: without TLS"),
            ("token_endpoint", "", "token_endpoint: this is no URL"),
            ("issuer", "https://other", "it is of issuer 'https://other'"),
        ] {
            let (address, asked) = issuer(|base| {
                let mut document: Value = serde_json::from_str(&discovery(base).1).unwrap();
                document[name] = value.into();
                vec![(200, document.to_string())]
            });
            let grant = grant(address, None);
            let error = grant.page(&journey()).unwrap_err();
            assert!(error.contains(expected), "{error}");
            assert_eq!(grant.page(&journey()).unwrap_err(), error, "it is not asked again at once");
            assert_eq!(asked.iter().count(), 1);
        }
    }
}
