//! A request: a method and a path, as in HTTP, in the properties of a message, with one value as
//! its body; and the message that answers it (HTTP over AMQP WD 06, §4 and §5).

use crate::codec::message::{MessageId, Properties, properties_and_value};
use crate::codec::{Encode, Section, Value, ValueRef};
use crate::dialect::address::decoded;
use crate::session::error::Failure;

/// Where the peer wants the response: at the other link of the pair.
const OTHER_LINK: &str = "$me";

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Get,
    Put,
    Post,
    Delete,
}

/// See the module.
pub(super) struct Request<'a> {
    /// `None` if it is none of those that are known.
    pub(super) verb: Option<Verb>,
    /// The words of the method and the path, for errors.
    pub(super) line: String,
    /// What stands between the slashes of the path, not decoded.
    pub(super) segments: Vec<&'a str>,
    /// The pairs behind the question mark, decoded.
    pub(super) query: Vec<(String, String)>,
    pub(super) body: ValueRef<'a>,
    pub(super) id: Option<MessageId<'a>>,
}

/// The outcome of a request.
#[derive(Debug, PartialEq)]
pub(super) struct Response {
    /// The code of HTTP.
    pub(super) status: &'static str,
    pub(super) body: Value,
}

impl<'a> Request<'a> {
    /// Reads a message. A failure ends the link: it is no request.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, Failure> {
        let (properties, body) = properties_and_value(bytes)?;
        let wants = |what: &str| Failure::invalid(format!("a request to /management must have {what}"));
        let method = properties.subject.ok_or_else(|| wants("a method in its property subject"))?;
        let target = properties.to.ok_or_else(|| wants("a path in its property to"))?;
        if properties.reply_to != Some(OTHER_LINK) {
            return Err(wants("$me in its property reply-to"));
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Ok(Self {
            verb: verb(method),
            line: format!("{method} {target}"),
            segments: path.strip_prefix('/').map_or(Vec::new(), |path| path.split('/').collect()),
            query: pairs(query),
            body,
            id: properties.message_id,
        })
    }

    /// A value of the query.
    pub(super) fn asked(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| &**value)
    }
}

fn verb(method: &str) -> Option<Verb> {
    Some(match method {
        "GET" => Verb::Get,
        "PUT" => Verb::Put,
        "POST" => Verb::Post,
        "DELETE" => Verb::Delete,
        _ => return None,
    })
}

/// `a=b&c=d`. What can't be decoded is left out, so that a value that is needed is missed by name.
fn pairs(query: &str) -> Vec<(String, String)> {
    let text = |part: &str| decoded(&part.replace('+', " "));
    let pair = |part: &str| {
        let (name, value) = part.split_once('=')?;
        Some((text(name)?, text(value)?))
    };
    query.split('&').filter_map(pair).collect()
}

impl Response {
    pub(super) fn new(status: &'static str, body: Value) -> Self {
        Self { status, body }
    }

    /// One that says why.
    pub(super) fn refused(status: &'static str, why: impl Into<String>) -> Self {
        Self { status, body: Value::Str(why.into()) }
    }

    /// The message, for the request of this id.
    pub(super) fn encoded(&self, to: Option<MessageId<'_>>) -> Vec<u8> {
        let mut bytes = Vec::new();
        Properties { subject: Some(self.status), correlation_id: to, ..Properties::default() }.encode(&mut bytes);
        let version = (Value::Str("http:response".to_owned()), Value::Str("1.1".to_owned()));
        Section::ApplicationProperties.encode(&Value::Map(vec![version]), &mut bytes);
        Section::Value.encode(&self.body, &mut bytes);
        bytes
    }
}
