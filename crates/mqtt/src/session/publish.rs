//! PUBLISH from a client: a message for the broker, and its answers.

use broker::{Confirm, Publish as Published, Unroutable};
use wire::Output;

use super::QOS_2;
use super::failure::{Failure, check_topic};
use super::open::{Scratch, Session};
use super::store::EXCHANGE;
use super::will::time_to_live;
use crate::address::key_of_topic;
use crate::codec::{Ack, PropertyBlock, PropertyId, PropertyValue, Publish, QoS, Reason};
use crate::dialect;

impl Session {
    pub(super) fn publish(&mut self, publish: &Publish<'_>) -> Result<(), Failure> {
        if publish.qos > self.max_qos {
            return Err(Failure::new(Reason::QosNotSupported, QOS_2));
        }
        if publish.properties.number(PropertyId::SubscriptionId).is_some() {
            return Err(Failure::protocol("a client must not send a subscription identifier [MQTT-3.3.4-6]"));
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let taken = self.publish_with(publish, &mut scratch);
        self.scratch = scratch;
        taken
    }

    fn publish_with(&mut self, publish: &Publish<'_>, scratch: &mut Scratch) -> Result<(), Failure> {
        let Scratch { key, properties } = scratch;
        let topic = self.delivering.incoming.topic(publish)?;
        check_topic(topic)?;
        key.clear();
        key_of_topic(topic, key);
        let how = dialect::Published { qos: publish.qos, retain: publish.retain, by: self.mark };
        dialect::store(how, publish.properties, properties);
        let is_instruction = |value| matches!(value, PropertyValue::Pair(name, _) if broker::is_instruction(name));
        let mut published = Published {
            exchange: EXCHANGE,
            routing_key: key,
            dialect: dialect::ENCODING,
            properties,
            persistent: publish.qos != QoS::AtMostOnce || publish.retain,
            priority: None,
            expiration: publish.properties.number(PropertyId::MessageExpiry).map(time_to_live),
            body: publish.payload.into(),
            confirm: Confirm::None,
            unroutable: Unroutable::Drop,
            copies: false,
            instructed: publish.retain || publish.properties.iter().any(|(_, value)| is_instruction(value)),
        };
        let Some(id) = publish.id else { return Ok(self.client.publish(self.id, published)?) };
        let Some(number) = self.delivering.incoming.expect(id, publish.qos)? else { return Ok(()) };
        if self.delivering.incoming.is_first() {
            self.client.show_confirming(self.id);
        }
        if publish.qos == QoS::ExactlyOnce && self.fences.has_released(id) {
            // The identifier is used again within a turn: its end comes before its new beginning.
            self.fences.hand_over(&mut self.client, self.id)?;
        }
        published.confirm = match publish.qos {
            QoS::ExactlyOnce => Confirm::Once { number, id: id.get() },
            _ => Confirm::Numbered(number),
        };
        published.unroutable = Unroutable::Tell;
        if let Err(error) = self.client.publish(self.id, published) {
            if !self.delivering.version.has_properties() {
                // An older version has no answer that says so, and a message must not be lost in
                // silence.
                return Err(error.into());
            }
            self.delivering.incoming.explain(number, error.text);
            self.client.refuse(self.id, number, error.kind)?;
        }
        Ok(())
    }

    /// Writes the answers that are known, in the order of the messages.
    pub(super) fn answer(&mut self, output: &mut Output) -> Result<(), Failure> {
        if self.delivering.incoming.is_empty() {
            return Ok(());
        }
        let version = self.delivering.version;
        let mut block = PropertyBlock::default();
        while let Some(answer) = self.delivering.incoming.answer() {
            let text = answer.text.as_deref().unwrap_or_default();
            if answer.reason.is_error() && !version.has_properties() {
                return Err(Failure::new(answer.reason, format!("a message was not taken: {text}")));
            }
            let properties = if text.is_empty() { Default::default() } else { self.reason(text, &mut block) };
            let before = output.len();
            let ack = Ack { id: answer.id, reason: answer.reason, properties };
            ack.write(answer.kind, version, output.tail());
            output.count_answer(output.len() - before);
        }
        Ok(())
    }
}
