//! A connection of MQTT that asks and waits.

use mqtt::codec::{
    Connect, FilterList, Notice, Options, Packet, PacketId, Properties, PropertyId, Publish, QoS, Reason, Subscribe,
    Version, encode,
};
use wire::Output;

use super::{MQTT5, packet};
use crate::driver::link::Link;
use bench_record::failure::Failure;
use bench_record::target::Target;

/// Unacknowledged messages that a broker takes unless it says otherwise.
const RECEIVE_MAXIMUM: u32 = 65_535;

/// The version that a scheme of targets means.
pub(crate) fn version_of(scheme: &str) -> Version {
    if scheme == MQTT5 { Version::V5 } else { Version::V3_1_1 }
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) link: Link,
    pub(crate) output: Output,
    version: Version,
}

impl Session {
    /// Connects. Returns also how many unacknowledged messages the broker takes.
    pub(crate) fn open(link: Link, connect: Connect<'_>) -> Result<(Self, u32), Failure> {
        let mut session = Self { link, output: Output::keeping_all(), version: connect.version };
        session.say(&Packet::Connect(connect));
        let (reason, takes) = session.hear("CONNECT", &mut |packet| match packet {
            Packet::ConnAck(answer) => {
                Some((answer.reason, answer.properties.number(PropertyId::ReceiveMaximum).unwrap_or(RECEIVE_MAXIMUM)))
            }
            _ => None,
        })?;
        if reason.is_error() {
            return Err(Failure::new(format!("the broker refused the connection: {}", reason.as_str())));
        }
        Ok((session, takes))
    }

    /// Connects with a session that ends with its connection, and without a keep-alive.
    pub(crate) fn clean(link: Link, target: &Target, client_id: &str) -> Result<(Self, u32), Failure> {
        let connect = Connect {
            version: version_of(&target.scheme),
            clean_start: true,
            client_id,
            user: Some(&target.user),
            password: Some(target.password.as_bytes()),
            ..Connect::default()
        };
        Self::open(link, connect)
    }

    /// Appends a packet to the waiting output.
    pub(crate) fn say(&mut self, packet: &Packet<'_>) {
        encode(packet, self.version, self.output.tail());
    }

    /// Appends a message of quality 0 to the waiting output.
    pub(crate) fn publish(&mut self, topic: &str, payload: &[u8]) {
        self.say(&Packet::Publish(Publish { topic, payload, ..Publish::default() }));
    }

    /// Appends a retained message of quality 1; an empty one takes the value of its topic away.
    pub(crate) fn retain(&mut self, topic: &str, id: PacketId, payload: &[u8]) {
        let (qos, id) = (QoS::AtLeastOnce, Some(id));
        self.say(&Packet::Publish(Publish { qos, retain: true, topic, id, payload, ..Publish::default() }));
    }

    /// Sends the waiting output, and reads until `pick` finds what it looks for.
    pub(crate) fn hear<T>(&mut self, what: &str, pick: &mut dyn FnMut(&Packet<'_>) -> Option<T>) -> Result<T, Failure> {
        self.link.write_all(&mut self.output)?;
        loop {
            let (mut used, mut picked) = (0, None);
            while picked.is_none()
                && let Some((said, length)) = packet(&self.link.input()[used..], self.version)?
            {
                used += length;
                refuse_end(what, &said)?;
                picked = pick(&said);
            }
            self.link.consume(used);
            if let Some(picked) = picked {
                return Ok(picked);
            }
            if !self.link.read()? {
                return Err(Failure::new(format!("no answer to {what}")));
            }
        }
    }

    /// Sends the waiting output, waits until a packet is there, and hands over all that are. False:
    /// none came within the link's time.
    pub(crate) fn take(&mut self, on: &mut dyn FnMut(&Packet<'_>)) -> Result<bool, Failure> {
        self.link.write_all(&mut self.output)?;
        loop {
            let mut used = 0;
            while let Some((said, length)) = packet(&self.link.input()[used..], self.version)? {
                used += length;
                refuse_end("a message", &said)?;
                on(&said);
            }
            self.link.consume(used);
            if used > 0 {
                return Ok(true);
            }
            if !self.link.read()? {
                return Ok(false);
            }
        }
    }

    /// Subscribes to `filter`.
    pub(crate) fn subscribe(&mut self, filter: &str, qos: QoS) -> Result<(), Failure> {
        self.ask_for(filter, qos);
        let granted = self.hear("SUBSCRIBE", &mut |packet| match packet {
            Packet::SubAck(granted) => granted.reasons.iter().next(),
            _ => None,
        })?;
        let least = match qos {
            QoS::AtMostOnce => Reason::Success,
            QoS::AtLeastOnce => Reason::GrantedQos1,
            QoS::ExactlyOnce => Reason::GrantedQos2,
        };
        match granted {
            refused if refused.is_error() => {
                Err(Failure::new(format!("the broker refused the subscription: {}", refused.as_str())))
            }
            granted if granted == least => Ok(()),
            granted => {
                Err(Failure::new(format!("the broker granted another quality than {qos:?}: {}", granted.as_str())))
            }
        }
    }

    /// Appends a SUBSCRIBE to the waiting output.
    pub(crate) fn ask_for(&mut self, filter: &str, qos: QoS) {
        let mut list = FilterList::default();
        list.subscribe(filter, Options { qos, ..Options::default() }, self.version);
        let filters = list.as_subscribe(self.version);
        self.say(&Packet::Subscribe(Subscribe { id: PacketId::MIN, properties: Properties::NONE, filters }));
    }

    pub(crate) fn end(mut self) -> Result<(), Failure> {
        self.say(&Packet::Disconnect(Notice::plain(Reason::Success)));
        self.link.write_all(&mut self.output)
    }
}

/// Fails where the broker says that it ends the connection.
fn refuse_end(what: &str, said: &Packet<'_>) -> Result<(), Failure> {
    match said {
        Packet::Disconnect(notice) => {
            Err(Failure::new(format!("{what}: the broker closed the connection: {}", notice.reason.as_str())))
        }
        _ => Ok(()),
    }
}
