//! A web service that knows passwords and rights, by the protocol of RabbitMQ's plugin
//! `rabbitmq_auth_backend_http`: what is asked as the parameters of a request, `allow` or `deny` as
//! the answer.
//!
//! It has a path for users, and may have three for what they may do: enter a vhost, use a resource,
//! use a routing key. Without those, a user may do what the user of that name here may. Any answer
//! but these two lets no one in and allows nothing. No text that is logged has a password.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use auth::{About, Asked, Backend, Credentials, Grant, Judge, No, ResourceKind, Scopes, Tags, Vouched};

use crate::fetch::{Address, Web};

/// The name of this backend.
pub const NAME: &str = "http";
/// Most bytes of an answer.
const MOST_BYTES: u64 = 16 << 10;
/// Statuses of answers that count, as in RabbitMQ.
const SUCCESS: [u16; 2] = [200, 201];

/// How parameters are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// In the query of the URL, which servers and proxies log.
    Get,
    /// As a form.
    Post,
}

/// Where a service is asked what its users may do.
#[derive(Debug, Clone)]
pub struct RightsPaths {
    /// May this user enter this vhost?
    pub vhost: Address,
    /// May it do that with this exchange or queue?
    pub resource: Address,
    /// May it use this routing key with this topic exchange?
    pub topic: Address,
}

/// Asks a web service about passwords, and about rights where it has paths for them.
#[derive(Debug)]
pub struct Http {
    service: Arc<Service>,
    users: Address,
    rights: Option<Arc<Rights>>,
}

/// What all paths have in common.
struct Service {
    web: Web,
    method: Method,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("method", &self.method).finish_non_exhaustive()
    }
}

/// One parameter of a request.
type Parameter<'a> = (&'static str, Cow<'a, str>);

impl Service {
    /// What the service says, or why that can't be known: with the address, without the parameters.
    fn ask(&self, path: &Address, parameters: &[Parameter<'_>]) -> Result<Said, String> {
        let named = |why: String| format!("{}: {why}", path.as_str());
        let answer = self.answer(path, parameters).map_err(named)?;
        read(&answer).ok_or_else(|| named("it answered neither allow nor deny".to_owned()))
    }

    /// The body of the answer.
    fn answer(&self, path: &Address, parameters: &[Parameter<'_>]) -> Result<String, String> {
        let agent = self.web.agent();
        let parameters = parameters.iter().map(|(name, value)| (*name, &**value));
        let send = || match self.method {
            Method::Get => agent.get(path.as_str()).query_pairs(parameters.clone()).call(),
            Method::Post => agent.post(path.as_str()).send_form(parameters.clone()),
        };
        let sent = match send() {
            Err(ureq::Error::Io(error)) if is_of_old_connection(&error) => send(),
            sent => sent,
        };
        let mut answer = sent.map_err(|error| fault(&error))?;
        if !SUCCESS.contains(&answer.status().as_u16()) {
            return Err(format!("it answered {}", answer.status()));
        }
        answer.body_mut().with_config().limit(MOST_BYTES).read_to_string().map_err(|error| fault(&error))
    }
}

impl Http {
    /// Asks at this address. The service is trusted by the certificates of this file, or by those
    /// that the system trusts, and has so long for an answer.
    ///
    /// # Errors
    /// If the file can't be read, or has no certificate.
    pub fn new(users: Address, method: Method, ca: Option<&Path>, timeout: Duration) -> Result<Self, String> {
        let service = Arc::new(Service { web: Web::new(ca, timeout)?, method });
        Ok(Self { service, users, rights: None })
    }

    /// Asks the same service what its users may do, at these addresses.
    #[must_use]
    pub fn with_rights(self, paths: RightsPaths) -> Self {
        let rights = Rights { service: Arc::clone(&self.service), paths };
        Self { rights: Some(Arc::new(rights)), ..self }
    }
}

impl Backend for Http {
    fn name(&self) -> &'static str {
        NAME
    }

    fn takes(&self, secret: &[u8]) -> bool {
        str::from_utf8(secret).is_ok()
    }

    fn ask(&self, credentials: Credentials<'_>) -> Result<Vouched, No> {
        let refused = |why: &str| No::Refused(why.to_owned());
        let user = credentials.user;
        if user.is_empty() {
            return Err(refused("there is no name"));
        }
        let password = str::from_utf8(credentials.secret).map_err(|_| refused("the password is no text"))?;
        let parameters = [("username", user.into()), ("password", password.into())];
        match self.service.ask(&self.users, &parameters).map_err(No::Unavailable)? {
            Said::Allow(words) => {
                // Without rights of its own, tags are those of the user here, like its permissions.
                let tags = self.rights.as_ref().map(|_| Tags::new(words.iter().map(String::as_str)));
                let (tags, scopes) = (tags.unwrap_or_default(), Scopes::default());
                let grant = Grant { user: user.into(), backend: NAME, tags, scopes, expires: None };
                Ok(Vouched { grant, valid_for: Duration::MAX })
            }
            Said::Deny => Err(refused("the service denies it")),
        }
    }

    fn judge(&self) -> Option<Arc<dyn Judge>> {
        self.rights.clone().map(|rights| rights as Arc<dyn Judge>)
    }
}

/// The paths for what users may do.
#[derive(Debug)]
struct Rights {
    service: Arc<Service>,
    paths: RightsPaths,
}

impl Judge for Rights {
    fn decide(&self, asked: &Asked<'_>) -> Result<bool, String> {
        let (path, parameters) = self.question(asked);
        Ok(matches!(self.service.ask(path, &parameters)?, Said::Allow(_)))
    }
}

impl Rights {
    /// The path, and the parameters in RabbitMQ's order.
    fn question<'a>(&'a self, asked: &Asked<'a>) -> (&'a Address, Vec<Parameter<'a>>) {
        let Asked { actor, tags, from, vhost, about } = *asked;
        let mut parameters: Vec<Parameter<'a>> = vec![("username", actor.user.into()), ("vhost", vhost.into())];
        let path = match about {
            About::Vhost => {
                parameters.push(("ip", from.to_string().into()));
                &self.paths.vhost
            }
            About::Resource(resource, right) => {
                let kind = if resource.kind == ResourceKind::Queue { "queue" } else { "exchange" };
                parameters.push(("resource", kind.into()));
                parameters.push(("name", resource.checked_name().into()));
                parameters.push(("permission", right.to_string().into()));
                &self.paths.resource
            }
            About::Topic { exchange, key, right } => {
                parameters.push(("resource", "topic".into()));
                parameters.push(("name", exchange.into()));
                parameters.push(("permission", right.to_string().into()));
                parameters.push(("routing_key", key.into()));
                parameters.push(("variable_map.username", actor.user.into()));
                parameters.push(("variable_map.vhost", vhost.into()));
                parameters.extend(actor.client.map(|client| ("variable_map.client_id", client.into())));
                &self.paths.topic
            }
        };
        parameters.push(("tags", tags.iter().collect::<Vec<_>>().join(" ").into()));
        parameters.extend(actor.client.map(|client| ("client_id", client.into())));
        (path, parameters)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Said {
    /// With the words behind it: tags.
    Allow(Vec<String>),
    Deny,
}

/// What an answer says by its first word. Behind `deny` there may be a reason.
fn read(answer: &str) -> Option<Said> {
    let mut words = answer.split_whitespace();
    let word = words.next()?;
    match () {
        () if word.eq_ignore_ascii_case("allow") => Some(Said::Allow(words.map(str::to_owned).collect())),
        () if word.eq_ignore_ascii_case("deny") => Some(Said::Deny),
        () => None,
    }
}

/// Whether a service may have closed a connection that was kept for the next question at the moment
/// of that question.
fn is_of_old_connection(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

/// What is wrong, without the address: with GET it has the password.
fn fault(error: &ureq::Error) -> String {
    match error {
        ureq::Error::StatusCode(code) => format!("it answered {code}"),
        ureq::Error::Timeout(_) => "it did not answer within auth_http.timeout".to_owned(),
        ureq::Error::BodyExceedsLimit(_) => format!("its answer has more than {MOST_BYTES} bytes"),
        ureq::Error::HostNotFound => "its host is not known".to_owned(),
        ureq::Error::ConnectionFailed => "it can't be reached".to_owned(),
        ureq::Error::Io(error) => format!("it can't be asked: {}", error.kind()),
        ureq::Error::Rustls(error) => format!("TLS: {error}"),
        _ => "what it answered is no HTTP, or not valid".to_owned(),
    }
}

#[cfg(test)]
mod tests;
