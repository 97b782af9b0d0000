//! One MQTT connection that carries messages. Packet identifiers are the message numbers of a
//! window, which starts over after 65 535 messages.
//!
//! A message of quality 2 is confirmed when its PUBCOMP has come: only then is its identifier free.

use mqtt::codec::{Ack, Packet, PacketId, Properties, Publish, QoS, Version, encode};
use wire::Output;

use super::{IDS, packet};
use crate::driver::{Conversation, Event, in_turn};
use bench_record::failure::Failure;

/// A connection.
pub(super) struct MqttTalk {
    version: Version,
    output: Output,
    /// Message number n goes to the one at n - 1 modulo their number; empty: this connection
    /// publishes nothing.
    topics: Vec<String>,
    qos: QoS,
    published: u64,
}

impl MqttTalk {
    pub(super) fn new(version: Version, output: Output, topics: Vec<String>, qos: QoS) -> Self {
        Self { version, output, topics, qos, published: 0 }
    }

    fn send(&mut self, packet: Packet<'_>) {
        encode(&packet, self.version, self.output.tail());
    }

    /// Reacts to a packet.
    fn hear(&mut self, packet: Packet<'_>, on: &mut dyn FnMut(Event<'_>)) -> Result<(), Failure> {
        match packet {
            Packet::Publish(Publish { dup, qos, id, payload, .. }) => {
                on(Event::Delivery { body: payload, redelivered: dup });
                match (qos, id) {
                    (QoS::AtLeastOnce, Some(id)) => self.send(Packet::PubAck(Ack::success(id))),
                    (QoS::ExactlyOnce, Some(id)) => self.send(Packet::PubRec(Ack::success(id))),
                    _ => {}
                }
            }
            Packet::PubRel(Ack { id, .. }) => self.send(Packet::PubComp(Ack::success(id))),
            Packet::PubRec(Ack { id, reason, .. }) if !reason.is_error() => {
                self.send(Packet::PubRel(Ack::success(id)));
            }
            Packet::PubAck(ack) | Packet::PubComp(ack) | Packet::PubRec(ack) => {
                let upto = number(ack.id.get(), self.published);
                on(Event::Confirm { upto, multiple: false, accepted: !ack.reason.is_error() });
            }
            Packet::Disconnect(notice) => {
                return Err(Failure::new(format!("the broker closed the connection: {}", notice.reason.as_str())));
            }
            _ => {}
        }
        Ok(())
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
        let id = if self.qos == QoS::AtMostOnce { None } else { PacketId::new(identifier(self.published)) };
        let (qos, properties) = (self.qos, Properties::NONE);
        let publish = Publish { qos, topic, id, properties, payload: body, ..Publish::default() };
        encode(&Packet::Publish(publish), self.version, self.output.tail());
        Ok(())
    }

    fn receive(&mut self, input: &[u8], on: &mut dyn FnMut(Event<'_>)) -> Result<usize, Failure> {
        let mut used = 0;
        while let Some((packet, length)) = packet(&input[used..], self.version)? {
            used += length;
            self.hear(packet, on)?;
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
        let mut talk = MqttTalk::new(Version::V3_1_1, Output::default(), vec!["t".to_owned()], QoS::AtLeastOnce);
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
        talk.version = Version::V5;
        let failure = talk.receive(b"\xe0\x01\x8e", &mut |_| {}).unwrap_err().to_string();
        assert!(failure.contains("session taken over"), "{failure}");
        assert!(talk.receive(b"GET /", &mut |_| {}).is_err());
    }

    /// Both halves of quality 2: each answers the other, and a confirm is the end of all of it.
    #[test]
    fn a_message_of_quality_2_is_confirmed_by_its_last_answer() {
        let mut talk = MqttTalk::new(Version::V5, Output::default(), vec!["t".to_owned()], QoS::ExactlyOnce);
        for (heard, said, confirmed) in [
            // PUBREC of the first: PUBREL. Its PUBCOMP is the confirm.
            (&b"\x50\x02\x00\x01"[..], &b"\x62\x02\x00\x01"[..], None),
            (b"\x70\x02\x00\x01", b"", Some((1, true))),
            // A refusal has no PUBREL.
            (b"\x50\x04\x00\x02\x97\x00", b"", Some((2, false))),
            // A message: PUBREC. Its PUBREL: PUBCOMP.
            (b"\x34\x07\x00\x01t\x00\x09\x00x", b"\x50\x02\x00\x09", None),
            (b"\x62\x02\x00\x09", b"\x70\x02\x00\x09", None),
        ] {
            if talk.published < 2 {
                talk.publish(b"body").unwrap();
            }
            talk.output.tail().clear();
            let mut confirms = Vec::new();
            let used = talk.receive(heard, &mut |event| {
                if let Event::Confirm { upto, accepted, .. } = event {
                    confirms.push((upto, accepted));
                }
            });
            assert_eq!(used.unwrap(), heard.len());
            assert_eq!((&talk.output.tail()[..], confirms), (said, confirmed.into_iter().collect()), "{heard:?}");
        }
    }
}
