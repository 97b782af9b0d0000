//! One MQTT connection that carries messages. Packet identifiers are the message numbers of a
//! window, which starts over after 65 535 messages.

use wire::Output;

use super::IDS;
use super::codec::{Qos, Said, Version, acknowledge, decode, publish};
use crate::driver::{Conversation, Event, in_turn};
use bench_record::failure::Failure;

/// A connection.
pub(super) struct MqttTalk {
    version: Version,
    output: Output,
    /// Message number n goes to the one at n - 1 modulo their number; empty: this connection
    /// publishes nothing.
    topics: Vec<String>,
    qos: Qos,
    published: u64,
}

impl MqttTalk {
    pub(super) fn new(version: Version, output: Output, topics: Vec<String>, qos: Qos) -> Self {
        Self { version, output, topics, qos, published: 0 }
    }
}

/// The identifier of a message.
fn identifier(number: u64) -> u16 {
    ((number - 1) % IDS + 1) as u16
}

/// The newest message with this identifier, when `published` were sent; 0: there is none.
fn number(id: u16, published: u64) -> u64 {
    if published == 0 || id == 0 {
        return 0;
    }
    let behind = (u64::from(identifier(published)) + IDS - u64::from(id)) % IDS;
    published.saturating_sub(behind)
}

impl Conversation for MqttTalk {
    fn publish(&mut self, body: &[u8]) -> Result<(), Failure> {
        let topic = in_turn(&self.topics, self.published)?;
        self.published += 1;
        let id = (self.qos == Qos::AtLeastOnce).then(|| identifier(self.published));
        publish(self.version, topic, id, body, self.output.tail());
        Ok(())
    }

    fn receive(&mut self, input: &[u8], on: &mut dyn FnMut(Event<'_>)) -> Result<usize, Failure> {
        let mut used = 0;
        while let Some((said, length)) = decode(&input[used..], self.version)? {
            used += length;
            match said {
                Said::Publish { id, duplicate, body } => {
                    on(Event::Delivery { body, redelivered: duplicate });
                    if let Some(id) = id {
                        acknowledge(id, self.output.tail());
                    }
                }
                Said::Acknowledged { id, accepted } => {
                    on(Event::Confirm { upto: number(id, self.published), multiple: false, accepted });
                }
                Said::Closing(reason) => {
                    return Err(Failure::new(format!("the broker closed the connection: reason {reason}")));
                }
                Said::Connected { .. } | Said::Subscribed(_) | Said::Other => {}
            }
        }
        Ok(used)
    }

    /// Each message is acknowledged at once.
    fn settle(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn output(&mut self) -> &mut Output {
        &mut self.output
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_start_over_and_lead_back_to_their_messages() {
        let cases =
            [(1, 1, 1), (65_535, 65_535, 65_535), (65_536, 1, 65_536), (65_536, 65_535, 65_535), (65_540, 2, 65_537)];
        for (published, id, message) in cases {
            assert_eq!(number(id, published), message, "{id} of {published}");
            assert_eq!(identifier(message), id);
        }
        assert_eq!([number(5, 0), number(0, 5), number(9, 5)], [0, 0, 0]);
    }

    #[test]
    fn messages_are_acknowledged_and_confirms_counted() {
        let mut talk = MqttTalk::new(Version::V3, Output::default(), vec!["t".to_owned()], Qos::AtLeastOnce);
        talk.publish(b"a").unwrap();
        talk.publish(b"b").unwrap();
        talk.output.tail().clear();
        let mut events = Vec::new();
        let input = b"\x40\x02\x00\x02\x3a\x06\x00\x01t\x00\x05x\x30\x04\x00\x01ty\x40\x02\x00";
        let used = talk.receive(input, &mut |event| events.push(format!("{event:?}"))).unwrap();
        assert_eq!(used, input.len() - 3, "the last is not whole");
        let expected = [
            Event::Confirm { upto: 2, multiple: false, accepted: true },
            Event::Delivery { body: b"x", redelivered: true },
            Event::Delivery { body: b"y", redelivered: false },
        ];
        assert_eq!(events, expected.map(|event| format!("{event:?}")));
        assert_eq!(talk.output.tail(), b"\x40\x02\x00\x05");
        assert!(talk.receive(b"\xe0\x01\x8e", &mut |_| {}).is_err());
    }
}
