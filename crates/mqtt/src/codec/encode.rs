//! Turns packets into bytes.
//!
//! What a version lacks is left out: before MQTT 5 reason codes and properties, and the options of
//! subscriptions but their quality.

use super::fields::{PacketId, TEXT_MAX, put_binary, put_text, put_variable, variable_length};
use super::kind::PacketKind;
use super::packet::{
    Ack, ConnAck, Connect, Filters, Granted, Notice, Options, Packet, Peer, Publish, Reasons, SubscribeFilters,
};
use super::property::Properties;
use super::reason::Reason;
use super::version::{BRIDGE, Version};

/// Appends a packet.
pub fn encode(packet: &Packet<'_>, version: Version, out: &mut Vec<u8>) {
    match packet {
        Packet::Connect(connect) => framed(PacketKind::Connect, out, |out| put_connect(connect, out)),
        Packet::ConnAck(ack) => framed(PacketKind::ConnAck, out, |out| put_conn_ack(ack, version, out)),
        Packet::Publish(publish) => {
            publish.write_head(version, publish.payload.len(), out);
            out.extend_from_slice(publish.payload);
        }
        Packet::PubAck(ack) => ack.write(PacketKind::PubAck, version, out),
        Packet::PubRec(ack) => ack.write(PacketKind::PubRec, version, out),
        Packet::PubRel(ack) => ack.write(PacketKind::PubRel, version, out),
        Packet::PubComp(ack) => ack.write(PacketKind::PubComp, version, out),
        Packet::Subscribe(subscribe) => framed(PacketKind::Subscribe, out, |out| {
            put_id(subscribe.id, out);
            put_properties(subscribe.properties, version, out);
            for asked in subscribe.filters.iter() {
                put_text(out, asked.written);
                out.push(options_byte(asked.options, version));
            }
        }),
        Packet::SubAck(granted) => put_granted(PacketKind::SubAck, granted, version, out),
        Packet::Unsubscribe(unsubscribe) => framed(PacketKind::Unsubscribe, out, |out| {
            put_id(unsubscribe.id, out);
            put_properties(unsubscribe.properties, version, out);
            unsubscribe.filters.iter().for_each(|filter| put_text(out, filter));
        }),
        Packet::UnsubAck(granted) => put_granted(PacketKind::UnsubAck, granted, version, out),
        Packet::PingReq => out.extend_from_slice(&[(PacketKind::PingReq as u8) << 4, 0]),
        Packet::PingResp => out.extend_from_slice(&[(PacketKind::PingResp as u8) << 4, 0]),
        Packet::Disconnect(notice) => put_notice(PacketKind::Disconnect, notice, version, out),
        Packet::Auth(notice) => put_notice(PacketKind::Auth, notice, version, out),
    }
}

/// Appends a packet whose length is known only when it is written. Such packets are small, or seen
/// once in a connection.
fn framed(kind: PacketKind, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let mut body = Vec::new();
    write(&mut body);
    out.push((kind as u8) << 4 | kind.flags().unwrap_or_default());
    put_variable(out, body.len() as u32);
    out.extend_from_slice(&body);
}

fn put_id(id: PacketId, out: &mut Vec<u8>) {
    out.extend_from_slice(&id.get().to_be_bytes());
}

fn put_properties(properties: Properties<'_>, version: Version, out: &mut Vec<u8>) {
    if version.has_properties() {
        properties.write(out);
    }
}

fn put_connect(connect: &Connect<'_>, out: &mut Vec<u8>) {
    let version = connect.version;
    let (name, level) = version.name_and_level();
    put_text(out, name);
    out.push(level | if connect.peer == Peer::Bridge { BRIDGE } else { 0 });
    let mut flags = u8::from(connect.clean_start) << 1;
    if let Some(will) = &connect.will {
        flags |= 1 << 2 | (will.qos as u8) << 3 | u8::from(will.retain) << 5;
    }
    flags |= u8::from(connect.password.is_some()) << 6 | u8::from(connect.user.is_some()) << 7;
    out.push(flags);
    out.extend_from_slice(&connect.keep_alive.to_be_bytes());
    put_properties(connect.properties, version, out);
    put_text(out, connect.client_id);
    if let Some(will) = &connect.will {
        put_properties(will.properties, version, out);
        put_text(out, will.topic);
        put_binary(out, will.payload);
    }
    connect.user.into_iter().for_each(|user| put_text(out, user));
    connect.password.into_iter().for_each(|password| put_binary(out, password));
}

fn put_conn_ack(ack: &ConnAck<'_>, version: Version, out: &mut Vec<u8>) {
    // MQTT 3.1 has a reserved byte there.
    out.push(u8::from(ack.session_present && version != Version::V3_1));
    out.push(ack.reason.code(PacketKind::ConnAck, version));
    put_properties(ack.properties, version, out);
}

impl Publish<'_> {
    /// Appends everything but the payload, whose length is `payload`. The caller appends that.
    #[inline]
    pub fn write_head(&self, version: Version, payload: usize, out: &mut Vec<u8>) {
        debug_assert!(self.topic.len() <= TEXT_MAX);
        out.push(
            (PacketKind::Publish as u8) << 4 | u8::from(self.dup) << 3 | (self.qos as u8) << 1 | u8::from(self.retain),
        );
        put_variable(out, (self.head_length(version) + payload) as u32);
        put_binary(out, self.topic.as_bytes());
        self.id.into_iter().for_each(|id| put_id(id, out));
        put_properties(self.properties, version, out);
    }

    /// The bytes of a packet with a payload of this length.
    pub fn total_length(&self, version: Version, payload: usize) -> usize {
        let remaining = self.head_length(version) + payload;
        1 + variable_length(remaining) + remaining
    }

    fn head_length(&self, version: Version) -> usize {
        let properties = if version.has_properties() { self.properties.encoded_length() } else { 0 };
        2 + self.topic.len() + if self.id.is_some() { 2 } else { 0 } + properties
    }
}

impl Ack<'_> {
    /// Appends this answer as a packet of this kind.
    #[inline]
    pub fn write(&self, kind: PacketKind, version: Version, out: &mut Vec<u8>) {
        let first = (kind as u8) << 4 | kind.flags().unwrap_or_default();
        let [high, low] = self.id.get().to_be_bytes();
        let has_properties = !self.properties.bytes().is_empty();
        if !version.has_properties() || (self.reason == Reason::Success && !has_properties) {
            return out.extend_from_slice(&[first, 2, high, low]);
        }
        let reason = self.reason.code(kind, version);
        if !has_properties {
            return out.extend_from_slice(&[first, 3, high, low, reason]);
        }
        out.push(first);
        put_variable(out, (3 + self.properties.encoded_length()) as u32);
        out.extend_from_slice(&[high, low, reason]);
        self.properties.write(out);
    }
}

fn options_byte(options: Options, version: Version) -> u8 {
    if !version.has_properties() {
        return options.qos as u8;
    }
    options.qos as u8
        | u8::from(options.no_local) << 2
        | u8::from(options.retain_as_published) << 3
        | (options.retain_handling as u8) << 4
}

fn put_granted(kind: PacketKind, granted: &Granted<'_>, version: Version, out: &mut Vec<u8>) {
    framed(kind, out, |out| {
        put_id(granted.id, out);
        put_properties(granted.properties, version, out);
        out.extend_from_slice(granted.reasons.bytes);
    });
}

/// The filters of a SUBSCRIBE or UNSUBSCRIBE, in the form that these take.
#[derive(Debug, Default)]
pub struct FilterList(Vec<u8>);

impl FilterList {
    /// Adds a filter to subscribe to.
    pub fn subscribe(&mut self, filter: &str, options: Options, version: Version) -> &mut Self {
        put_text(&mut self.0, filter);
        self.0.push(options_byte(options, version));
        self
    }

    /// Adds a filter to unsubscribe from.
    pub fn unsubscribe(&mut self, filter: &str) -> &mut Self {
        put_text(&mut self.0, filter);
        self
    }

    /// What was added by [`Self::subscribe`].
    pub fn as_subscribe(&self, version: Version) -> SubscribeFilters<'_> {
        SubscribeFilters { bytes: &self.0, version }
    }

    /// What was added by [`Self::unsubscribe`].
    pub fn as_unsubscribe(&self) -> Filters<'_> {
        Filters(&self.0)
    }
}

/// Codes for an answer to filters, in the form that [`Granted`] takes.
#[derive(Debug, Default)]
pub struct ReasonList(Vec<u8>);

impl ReasonList {
    /// Adds the code of the next filter.
    pub fn push(&mut self, reason: Reason, kind: PacketKind, version: Version) {
        self.0.push(reason.code(kind, version));
    }

    /// What was added. UNSUBACK has none before MQTT 5.
    pub fn as_reasons(&self, kind: PacketKind, version: Version) -> Reasons<'_> {
        let has_reasons = kind == PacketKind::SubAck || version.has_properties();
        Reasons { bytes: if has_reasons { &self.0 } else { &[] }, kind, version }
    }
}

fn put_notice(kind: PacketKind, notice: &Notice<'_>, version: Version, out: &mut Vec<u8>) {
    framed(kind, out, |out| {
        let has_properties = !notice.properties.bytes().is_empty();
        if !version.has_properties() || (notice.reason == Reason::Success && !has_properties) {
            return;
        }
        out.push(notice.reason.code(kind, version));
        if has_properties {
            notice.properties.write(out);
        }
    });
}
