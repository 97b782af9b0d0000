//! RabbitMQ's management nodes: HTTP-like requests in messages, over a pair of links with one name
//! to and from `/management`.

use amqp10::client::{Event as Said, LinkId, SendMode};
use amqp10::codec::message::{MessageId, Properties};
use amqp10::codec::performative::{Attach, Role, SenderSettleMode};
use amqp10::codec::{
    AttachTarget, Body, DeliveryState, Encode, Map, Message, Outcome, Section, Source, Target as Terminus, Value,
    ValueRef,
};

use super::session::Session;
use bench_record::failure::{Context, Failure};

const NODE: &str = "/management";
const LINK: &str = "management-link-pair";

/// The links, ready for requests.
pub(super) struct Management {
    session: Session,
    requests: LinkId,
    answers: LinkId,
    asked: u64,
}

/// How a link names the queue `name`.
pub(super) fn queue_address(name: &str) -> String {
    let mut address = "/queues/".to_owned();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => address.push(byte.into()),
            other => address.push_str(&format!("%{other:02X}")),
        }
    }
    address
}

impl Management {
    pub(super) fn open(mut session: Session) -> Result<Self, Failure> {
        let paired = Value::Map(vec![(Value::Symbol("paired".to_owned()), Value::Bool(true))]).to_bytes();
        let properties = Some(Map::new(&paired).context("the properties of a link")?);
        let (source, target) = (Some(Source { address: Some(NODE), ..Source::default() }), terminus(Some(NODE)));
        let pair = Attach { name: LINK, snd_settle_mode: SenderSettleMode::Settled, properties, ..Attach::default() };
        let receiver = Attach { role: Role::Receiver, source, target: terminus(None), ..pair };
        let answers = session.attach(&receiver)?;
        let requests = session.attach(&Attach { source: Some(Source::default()), target, ..pair })?;
        Ok(Self { session, requests, answers, asked: 0 })
    }

    /// Makes a durable queue, of the type `kind` if one is given.
    pub(super) fn declare(&mut self, name: &str, kind: Option<&str>) -> Result<(), Failure> {
        let text = |text: &str| Value::Str(text.to_owned());
        let arguments = kind.map(|kind| (text("x-queue-type"), text(kind))).into_iter().collect();
        let pairs = vec![(text("durable"), Value::Bool(true)), (text("arguments"), Value::Map(arguments))];
        self.ask("PUT", name, &Value::Map(pairs)).map(|_| ())
    }

    pub(super) fn delete(&mut self, name: &str) -> Result<(), Failure> {
        self.ask("DELETE", name, &Value::Null).map(|_| ())
    }

    /// The messages that the queue holds.
    pub(super) fn depth(&mut self, name: &str) -> Result<u64, Failure> {
        self.ask("GET", name, &Value::Null)
    }

    /// Asks, and returns the count of messages in the answer; 0 if it has none.
    fn ask(&mut self, method: &str, name: &str, body: &Value) -> Result<u64, Failure> {
        let what = format!("{method} {}", queue_address(name));
        self.asked += 1;
        let mut message = Vec::new();
        let properties = Properties {
            message_id: Some(MessageId::Number(self.asked)),
            subject: Some(method),
            to: Some(&queue_address(name)),
            reply_to: Some("$me"),
            ..Properties::default()
        };
        properties.encode(&mut message);
        Section::Value.encode(body, &mut message);
        let Self { session, requests, answers, .. } = self;
        session.client.grant(*answers, 1, session.output.tail()).context(&what)?;
        let mode = SendMode { settled: true, transaction: None };
        session.client.send(*requests, mode, &[&message], session.output.tail()).context(&what)?;
        let channel = session.channel;
        let mut settle = None;
        let answer = session.wait(&what, &mut |said| {
            let Said::Delivery { delivery, .. } = said else { return None };
            settle = (!delivery.settled).then_some(delivery.id);
            Some(count_of(&delivery.message))
        })?;
        if let Some(id) = settle {
            let accepted = DeliveryState::Outcome(Outcome::Accepted);
            session.client.settle(channel, id..=id, accepted, session.output.tail()).context(&what)?;
        }
        answer.context(&what)
    }
}

fn terminus(address: Option<&str>) -> Option<AttachTarget<'_>> {
    Some(AttachTarget::Target(Terminus { address, ..Terminus::default() }))
}

/// The `message_count` of a successful answer.
fn count_of(message: &[u8]) -> Result<u64, Failure> {
    let message = Message::decode(message).context("an answer that cannot be read")?;
    let status = message.properties.and_then(|properties| properties.subject).unwrap_or_default().to_owned();
    let Body::Value(body) = message.body else { return Err(Failure::new("an answer without a value")) };
    let value = amqp10::codec::read_value(&mut wire::Reader::new(body), &mut Default::default());
    let value = value.context("an answer that cannot be read")?;
    if !status.starts_with('2') {
        return Err(Failure::new(format!("{status} {}", value.as_text().unwrap_or_default())));
    }
    let ValueRef::Map(map) = value else { return Ok(0) };
    Ok(match map.get("message_count") {
        Some(ValueRef::U64(count)) => count,
        Some(ValueRef::U32(count)) => count.into(),
        _ => 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded_in_addresses() {
        assert_eq!(queue_address("hermod-bench.1/ä b"), "/queues/hermod-bench.1%2F%C3%A4%20b");
    }

    #[test]
    fn an_answer_has_a_count_or_a_reason() {
        let answer = |status: &str, body: &Value| {
            let mut message = Vec::new();
            Properties { subject: Some(status), ..Properties::default() }.encode(&mut message);
            Section::Value.encode(body, &mut message);
            count_of(&message)
        };
        let text = |text: &str| Value::Str(text.to_owned());
        let map = Value::Map(vec![(text("name"), text("q")), (text("message_count"), Value::U64(7))]);
        assert_eq!(answer("200", &map).unwrap(), 7);
        assert_eq!(answer("204", &Value::Null).unwrap(), 0);
        assert_eq!(answer("404", &text("no queue")).unwrap_err().to_string(), "404 no queue");
    }
}
