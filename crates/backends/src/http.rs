//! A web service that knows passwords, by the protocol of RabbitMQ's plugin
//! `rabbitmq_auth_backend_http`: name and password as the parameters of a request, `allow` or
//! `deny` as the answer.
//!
//! Only its path for users is asked. What a user may do are the permissions of the user of that
//! name here: a service that is asked at each operation would stop the connection that waits for
//! it. Any answer but these two lets no one in, and no text that is logged has the password.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use auth::{Backend, Credentials, Grant, No, Scopes, Tags, Vouched};

use crate::fetch::{Address, Web};

/// The name of this backend.
pub const NAME: &str = "http";
/// Most bytes of an answer.
const MOST_BYTES: u64 = 16 << 10;

/// How parameters are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// In the query of the URL, which servers and proxies log.
    Get,
    /// As a form.
    Post,
}

/// Asks a web service about passwords.
pub struct Http {
    web: Web,
    users: Address,
    method: Method,
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").field("users", &self.users).field("method", &self.method).finish_non_exhaustive()
    }
}

impl Http {
    /// Asks at this address. The service is trusted by the certificates of this file, or by those
    /// that the system trusts, and has so long for an answer.
    ///
    /// # Errors
    /// If the file can't be read, or has no certificate.
    pub fn new(users: Address, method: Method, ca: Option<&Path>, timeout: Duration) -> Result<Self, String> {
        Ok(Self { web: Web::new(ca, timeout)?, users, method })
    }

    /// The body of the answer, or why there is none.
    fn answer(&self, parameters: [(&str, &str); 2]) -> Result<String, String> {
        let agent = self.web.agent();
        let sent = match self.method {
            Method::Get => agent.get(self.users.as_str()).query_pairs(parameters).call(),
            Method::Post => agent.post(self.users.as_str()).send_form(parameters),
        };
        let mut answer = sent.map_err(|error| fault(&error))?;
        if answer.status() != 200 {
            return Err(format!("it answered {}", answer.status()));
        }
        answer.body_mut().with_config().limit(MOST_BYTES).read_to_string().map_err(|error| fault(&error))
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
        let unavailable = |why: String| No::Unavailable(format!("{}: {why}", self.users.as_str()));
        let answer = self.answer([("username", user), ("password", password)]).map_err(unavailable)?;
        match read(&answer) {
            Some(Said::Allow) => {
                // Tags are those of the user here, like its permissions.
                let (tags, scopes) = (Tags::default(), Scopes::default());
                let grant = Grant { user: user.into(), backend: NAME, tags, scopes, expires: None };
                Ok(Vouched { grant, valid_for: Duration::MAX })
            }
            Some(Said::Deny) => Err(refused("the service denies it")),
            None => Err(unavailable("it answered neither allow nor deny".to_owned())),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    Allow,
    Deny,
}

/// What an answer says: its first word. Behind `allow` there may be tags, behind `deny` a reason.
fn read(answer: &str) -> Option<Said> {
    let word = answer.split_whitespace().next()?;
    [("allow", Said::Allow), ("deny", Said::Deny)]
        .into_iter()
        .find_map(|(known, said)| word.eq_ignore_ascii_case(known).then_some(said))
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
