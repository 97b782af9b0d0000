//! A broker on another machine, asked over its HTTP API.
//!
//! Lists are those of the API, with the rights of the user. Everything else is a request of the
//! control socket, for administrators. TLS trusts the certificates of the system, or those of
//! `--ca-file` alone. Redirects and proxies are not followed: they would get the password.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use management::control::{Answer, PATH, Request};
use management::{Listed, Promotion, percent_encoded};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::exit::{Exit, Failure};

/// How long the connection and the head of an answer to a short request may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Where a node is promoted.
const PROMOTE: &str = "/hermod/v1/cluster/promote";
/// Most bytes of an answer.
const LONGEST_ANSWER: u64 = 1 << 30;

/// Where a broker is, and who asks.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// With the scheme, without a slash at its end.
    pub(crate) url: String,
    pub(crate) user: String,
    pub(crate) password: String,
    pub(crate) ca_file: Option<String>,
}

impl Address {
    /// Checks and shortens a URL.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn url(text: &str) -> Result<String, Failure> {
        let wrong = |why: &str| Exit::Usage.because(format!("'{text}' {why}; write it such as http://host:15672"));
        let Some(rest) = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://")) else {
            return Err(wrong("is no URL of HTTP"));
        };
        if rest.contains('@') {
            return Err(wrong("has a user in it, and other users of this machine can read a command line"));
        }
        let host = rest.trim_end_matches('/');
        if host.is_empty() || host.contains(['/', '?', '#']) || host.chars().any(char::is_whitespace) {
            return Err(wrong("is more or less than a scheme, a host and a port"));
        }
        Ok(text.trim_end_matches('/').to_owned())
    }
}

/// The refusal of a request.
#[derive(Deserialize)]
struct Reason {
    #[serde(default)]
    reason: String,
}

/// The answer to a publish.
#[derive(Deserialize)]
struct Routed {
    routed: bool,
}

/// The answer to a promotion.
#[derive(Deserialize)]
struct Promoted {
    text: String,
}

/// A broker that is asked over HTTP.
pub(crate) struct Remote {
    address: Address,
    agent: ureq::Agent,
}

impl Remote {
    pub(crate) fn new(address: Address) -> Result<Self, Failure> {
        let mut tls =
            TlsConfig::builder().unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()));
        if address.url.starts_with("https://") {
            tls = tls.root_certs(RootCerts::Specific(Arc::new(trusted(address.ca_file.as_deref())?)));
        }
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .timeout_connect(Some(PATIENCE))
            .user_agent(concat!("hermod/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls.build())
            .build();
        Ok(Self { address, agent: config.into() })
    }

    /// Asks the broker.
    pub(crate) fn ask(&self, request: &Request) -> Result<Answer, Failure> {
        match request {
            Request::List { what, vhost, fields } if let Some(path) = path(*what, vhost.as_deref()) => {
                let columns = match &fields[..] {
                    [] => String::new(),
                    fields => format!("?columns={}", percent_encoded(&fields.join(","))),
                };
                let text = self.get(&format!("/api/{path}{columns}"))?;
                self.parse(&text).map(Answer::List)
            }
            Request::Publish { vhost, exchange, message } => {
                let exchange = if exchange.is_empty() { "amq.default" } else { exchange };
                let path = format!("/api/exchanges/{}/{}/publish", percent_encoded(vhost), percent_encoded(exchange));
                let document = serde_json::to_vec(message).map_err(|error| Exit::Bug.because(error))?;
                let routed: Routed = self.parse(&self.post(&path, &document)?)?;
                Ok(Answer::Published(routed.routed))
            }
            Request::Fetch { vhost, queue, count } => {
                let path = format!("/api/queues/{}/{}/get", percent_encoded(vhost), percent_encoded(queue));
                let how = json!({ "count": count, "ackmode": "ack_requeue_false", "encoding": "auto" });
                self.parse(&self.post(&path, how.to_string().as_bytes())?).map(Answer::Fetched)
            }
            Request::Promote(promotion) => {
                let how = match promotion {
                    Promotion::Planned => json!({ "planned": true }),
                    Promotion::Now => json!({ "accept_loss": true }),
                };
                let made: Promoted = self.parse(&self.post(PROMOTE, how.to_string().as_bytes())?)?;
                Ok(Answer::Promoted(made.text))
            }
            Request::Backup { .. } | Request::Repair { .. } => Err(Exit::Usage.because(
                "backup and repair work on the files of a server: run them on its machine, without --url and context",
            )),
            request => {
                let document = serde_json::to_vec(request).map_err(|error| Exit::Bug.because(error))?;
                let text = self.post(PATH, &document)?;
                match self.parse(&text)? {
                    Answer::Error(text) => Err(Exit::Unavailable.because(text)),
                    answer => Ok(answer),
                }
            }
        }
    }

    /// What a path of the API answers, read from JSON.
    pub(crate) fn fetch<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        self.parse(&self.get(path)?)
    }

    fn get(&self, path: &str) -> Result<String, Failure> {
        let url = format!("{}{path}", self.address.url);
        self.read(self.agent.get(url).header("authorization", self.authorization()).call())
    }

    fn post(&self, path: &str, document: &[u8]) -> Result<String, Failure> {
        let url = format!("{}{path}", self.address.url);
        let request = self.agent.post(url).header("authorization", self.authorization());
        self.read(request.header("content-type", "application/json").send(document))
    }

    fn authorization(&self) -> String {
        format!("Basic {}", STANDARD.encode(format!("{}:{}", self.address.user, self.address.password)))
    }

    /// The document of an answer, if it is none of a refusal.
    fn read(&self, answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<String, Failure> {
        let url = &self.address.url;
        let failed = |error: ureq::Error| Exit::Unavailable.because(format!("no answer from {url}: {error}"));
        let mut answer = answer.map_err(failed)?;
        let status = answer.status().as_u16();
        let text = answer.body_mut().with_config().limit(LONGEST_ANSWER).read_to_string().map_err(failed)?;
        if (200..300).contains(&status) {
            return Ok(text);
        }
        let reason = serde_json::from_str::<Reason>(&text).map(|said| said.reason).unwrap_or_default();
        Err(match status {
            401 | 403 => {
                let user = &self.address.user;
                Exit::NoPermission.because(format!(
                    "{url} refuses user '{user}': {reason}; check the password and the user's tags, and note that \
                     guest may log in from the server's own machine only"
                ))
            }
            404 if reason.is_empty() || reason == "not found" => {
                Exit::Unavailable.because(format!("{url} is no Hermod that the command line can ask"))
            }
            404 => Exit::NotFound.because(format!("{url}: {reason}")),
            400..500 => Exit::CannotCreate.because(format!("{url}: {reason}")),
            _ => Exit::Unavailable.because(format!("{url} answered {status}: {reason}")),
        })
    }

    fn parse<T: DeserializeOwned>(&self, text: &str) -> Result<T, Failure> {
        let url = &self.address.url;
        serde_json::from_str(text)
            .map_err(|error| Exit::Unavailable.because(format!("{url} answered what can't be read: {error}")))
    }
}

/// The path of a list under `/api`; `None` for lists that RabbitMQ's API does not have.
fn path(what: Listed, vhost: Option<&str>) -> Option<String> {
    let (name, below_vhosts) = match what {
        Listed::Queues => ("queues", false),
        Listed::Exchanges => ("exchanges", false),
        Listed::Bindings => ("bindings", false),
        Listed::Consumers => ("consumers", false),
        Listed::AllConsumers => ("all-consumers", false),
        Listed::Policies => ("policies", false),
        Listed::OperatorPolicies => ("operator-policies", false),
        Listed::VhostLimits => ("vhost-limits", false),
        Listed::Tasks => ("tasks", false),
        Listed::Shovels => ("parameters/shovel", false),
        Listed::ShovelStates => ("shovels", false),
        Listed::Connections => ("connections", true),
        Listed::Channels => ("channels", true),
        Listed::Permissions => ("permissions", true),
        Listed::TopicPermissions => ("topic-permissions", true),
        Listed::Users => return Some("users".to_owned()),
        Listed::Vhosts => return Some("vhosts".to_owned()),
        Listed::UserLimits => return Some("user-limits".to_owned()),
        Listed::GlobalParameters => return Some("global-parameters".to_owned()),
        Listed::Losses
        | Listed::Strangers
        | Listed::Log
        | Listed::Audit
        | Listed::Endings
        | Listed::Retained
        | Listed::Subscriptions
        | Listed::Wills => return None,
    };
    Some(match vhost.map(percent_encoded) {
        None => name.to_owned(),
        Some(vhost) if below_vhosts => format!("vhosts/{vhost}/{name}"),
        Some(vhost) => format!("{name}/{vhost}"),
    })
}

/// The certificates that a server's may be signed by.
fn trusted(file: Option<&str>) -> Result<Vec<Certificate<'static>>, Failure> {
    let found: Vec<CertificateDer<'static>> = match file {
        Some(file) => {
            let wrong = |error: &dyn std::fmt::Display| {
                Exit::Usage.because(format!("--ca-file {file}: {error}; name a PEM file with certificates"))
            };
            let sections = CertificateDer::pem_file_iter(Path::new(file)).map_err(|error| wrong(&error))?;
            let found = sections.collect::<Result<Vec<_>, _>>().map_err(|error| wrong(&error))?;
            if found.is_empty() {
                return Err(wrong(&"there is no certificate in it"));
            }
            found
        }
        None => rustls_native_certs::load_native_certs().certs,
    };
    Ok(found.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_a_scheme_a_host_and_a_port() {
        for (text, url) in [
            ("http://localhost:15672", "http://localhost:15672"),
            ("https://broker.example/", "https://broker.example"),
            ("http://[::1]:15672/", "http://[::1]:15672"),
        ] {
            assert_eq!(Address::url(text).unwrap(), url);
        }
        for (text, words) in [
            ("broker:15672", "is no URL of HTTP"),
            ("amqp://broker", "is no URL of HTTP"),
            ("http://", "is more or less than"),
            ("http://a/b", "is more or less than"),
            ("http://u:p@host", "has a user in it"),
            ("http://a b", "is more or less than"),
        ] {
            let error = Address::url(text).unwrap_err();
            assert!(error.exit == Exit::Usage && error.text.contains(words), "{text}: {}", error.text);
        }
    }

    #[test]
    fn lists_have_the_paths_of_the_api() {
        for (what, vhost, expected) in [
            (Listed::Queues, None, Some("queues")),
            (Listed::Queues, Some("/"), Some("queues/%2F")),
            (Listed::Permissions, Some("a b"), Some("vhosts/a%20b/permissions")),
            (Listed::Users, Some("/"), Some("users")),
            (Listed::Losses, None, None),
        ] {
            assert_eq!(path(what, vhost).as_deref(), expected);
        }
    }
}
