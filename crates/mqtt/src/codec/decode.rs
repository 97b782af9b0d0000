//! Turns bytes into packets. It keeps no state: a packet that is not complete is offered again.
//!
//! The length is checked before the rest has come, so nothing that is too large is waited for.

use wire::Reader;

use super::fields::{PacketId, read_binary, read_id, read_text, variable};
use super::kind::PacketKind;
use super::packet::{
    Ack, Asked, ConnAck, Connect, Filters, Granted, Notice, Options, Packet, Peer, Publish, Reasons, RetainHandling,
    Subscribe, SubscribeFilters, Unsubscribe, Will,
};
use super::property::{Place, Properties, PropertyId};
use super::reason::Reason;
use super::topic::{Filter, check_name};
use super::version::{BRIDGE, QoS, Version};
use super::violation::{PacketError, Violation};

/// The flag of a packet that is sent again. Besides PUBLISH, those with the flags below have it in
/// MQTT 3.1 (2.1), and in no later version.
const DUP: u8 = 1 << 3;
/// The flags of PUBREL, SUBSCRIBE and UNSUBSCRIBE.
const REPEATABLE: u8 = 1 << 1;

/// The first bytes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The kind of packet.
    pub kind: PacketKind,
    flags: u8,
    /// The bytes of the header itself.
    pub length: usize,
    /// The bytes that follow it.
    pub remaining: usize,
}

impl Header {
    /// Reads the header at the front of `input`; `None` if it is not complete.
    ///
    /// # Errors
    /// The rule that it breaks, which may be `largest`, the most bytes of a packet.
    pub fn read(input: &[u8], largest: u32) -> Result<Option<Self>, PacketError> {
        let Some((&first, rest)) = input.split_first() else { return Ok(None) };
        let kind = PacketKind::of(first).ok_or(Violation::UnknownKind)?;
        let flags = first & 0x0f;
        match kind.flags() {
            // What MQTT 3.1 alone takes is seen when the packet is read. It does not use those of
            // CONNECT, which says its version itself.
            Some(REPEATABLE) if flags == REPEATABLE | DUP => {}
            Some(_) if kind == PacketKind::Connect => {}
            Some(expected) if expected != flags => return Err(Violation::Flags.of(kind)),
            None if QoS::of(flags >> 1 & 3).is_none() => return Err(Violation::PublishQos.of(kind)),
            _ => {}
        }
        let Some((remaining, bytes)) = variable(rest).map_err(|violation| violation.of(kind))? else { return Ok(None) };
        let header = Self { kind, flags, length: 1 + bytes, remaining: remaining as usize };
        if header.total() > largest as usize { Err(Violation::TooLarge(largest).of(kind)) } else { Ok(Some(header)) }
    }

    /// The bytes of the packet.
    #[inline]
    pub fn total(&self) -> usize {
        self.length + self.remaining
    }
}

/// Decodes the packet at the front of `input`, in the version that its CONNECT agreed on. Returns
/// it with its length; `None` if it is not complete. `largest` is the most bytes of a packet.
///
/// # Errors
/// The first rule that it breaks.
#[inline]
pub fn decode(input: &[u8], version: Version, largest: u32) -> Result<Option<(Packet<'_>, usize)>, PacketError> {
    let Some(header) = Header::read(input, largest)? else { return Ok(None) };
    let Some(body) = input.get(header.length..header.total()) else { return Ok(None) };
    let mut reader = Reader::new(body);
    let packet = read(&header, &mut reader, version).and_then(|packet| {
        let is_read = reader.is_empty();
        if is_read { Ok(packet) } else { Err(Violation::Trailing) }
    });
    packet.map(|packet| Some((packet, header.total()))).map_err(|violation| violation.of(header.kind))
}

fn read<'a>(header: &Header, reader: &mut Reader<'a>, version: Version) -> Result<Packet<'a>, Violation> {
    let kind = header.kind;
    if kind.flags() == Some(REPEATABLE) && header.flags & DUP != 0 && version != Version::V3_1 {
        return Err(Violation::Flags);
    }
    Ok(match kind {
        PacketKind::Publish => Packet::Publish(publish(header.flags, reader, version)?),
        PacketKind::PubAck => Packet::PubAck(ack(kind, reader, version)?),
        PacketKind::PubRec => Packet::PubRec(ack(kind, reader, version)?),
        PacketKind::PubRel => Packet::PubRel(ack(kind, reader, version)?),
        PacketKind::PubComp => Packet::PubComp(ack(kind, reader, version)?),
        PacketKind::Connect => Packet::Connect(connect(header.flags, reader)?),
        PacketKind::ConnAck => Packet::ConnAck(conn_ack(reader, version)?),
        PacketKind::Subscribe => Packet::Subscribe(subscribe(reader, version)?),
        PacketKind::SubAck => Packet::SubAck(granted(kind, reader, version)?),
        PacketKind::Unsubscribe => Packet::Unsubscribe(unsubscribe(reader, version)?),
        PacketKind::UnsubAck => Packet::UnsubAck(granted(kind, reader, version)?),
        PacketKind::PingReq => Packet::PingReq,
        PacketKind::PingResp => Packet::PingResp,
        PacketKind::Disconnect => Packet::Disconnect(notice(kind, reader, version)?),
        PacketKind::Auth if !version.has_properties() => return Err(Violation::UnknownKind),
        PacketKind::Auth => Packet::Auth(notice(kind, reader, version)?),
    })
}

/// The properties of a packet, which only MQTT 5 has.
fn properties<'a>(kind: PacketKind, reader: &mut Reader<'a>, version: Version) -> Result<Properties<'a>, Violation> {
    if version.has_properties() { Properties::read(reader, Place::In(kind)) } else { Ok(Properties::NONE) }
}

fn rest<'a>(reader: &mut Reader<'a>) -> &'a [u8] {
    let rest = reader.rest();
    *reader = Reader::new(&[]);
    rest
}

/// A topic name that may not be empty.
fn topic<'a>(reader: &mut Reader<'a>) -> Result<&'a str, Violation> {
    let topic = read_text(reader)?;
    check_name(topic)?;
    if topic.is_empty() { Err(Violation::NoTopic) } else { Ok(topic) }
}

/// The flags of CONNECT.
#[derive(Clone, Copy)]
struct ConnectFlags(u8);

impl ConnectFlags {
    fn has(self, bit: u8) -> bool {
        self.0 & 1 << bit != 0
    }

    /// Returns the quality of the will. MQTT 3.1 leaves open what is in flags that are not used.
    fn check(self, version: Version) -> Result<QoS, Violation> {
        let is_open = version == Version::V3_1;
        if self.has(0) && !is_open {
            return Err(Violation::ConnectReserved);
        }
        if !self.has(2) && self.0 & 0b0011_1000 != 0 && !is_open {
            return Err(Violation::NoWill);
        }
        if self.has(6) && !self.has(7) && !version.has_properties() {
            return Err(Violation::PasswordAlone);
        }
        if !self.has(2) {
            return Ok(QoS::AtMostOnce);
        }
        QoS::of(self.0 >> 3 & 3).ok_or(Violation::WillQos)
    }
}

fn connect<'a>(unused: u8, reader: &mut Reader<'a>) -> Result<Connect<'a>, Violation> {
    let name = read_binary(reader)?;
    let level = reader.u8()?;
    let version = Version::of(name, level).ok_or(Violation::Protocol)?;
    if unused != 0 && version != Version::V3_1 {
        return Err(Violation::Flags);
    }
    let flags = ConnectFlags(reader.u8()?);
    let qos = flags.check(version)?;
    let keep_alive = reader.u16()?;
    let properties = properties(PacketKind::Connect, reader, version)?;
    let client_id = read_text(reader)?;
    let will = if flags.has(2) {
        let properties =
            if version.has_properties() { Properties::read(reader, Place::Will)? } else { Properties::NONE };
        let topic = topic(reader)?;
        Some(Will { qos, retain: flags.has(5), properties, topic, payload: read_binary(reader)? })
    } else {
        None
    };
    let user = if flags.has(7) { Some(read_text(reader)?) } else { None };
    let password = if flags.has(6) { Some(read_binary(reader)?) } else { None };
    let peer = if level & BRIDGE == 0 { Peer::Client } else { Peer::Bridge };
    Ok(Connect { version, peer, clean_start: flags.has(1), keep_alive, properties, client_id, will, user, password })
}

fn conn_ack<'a>(reader: &mut Reader<'a>, version: Version) -> Result<ConnAck<'a>, Violation> {
    let flags = reader.u8()?;
    // In 3.1 this byte means nothing (3.2 of its specification).
    let flags = if version == Version::V3_1 { 0 } else { flags };
    if flags > 1 {
        return Err(Violation::ConnAckFlags);
    }
    let code = reader.u8()?;
    let reason = Reason::read(code, PacketKind::ConnAck, version).ok_or(Violation::ReasonCode(code))?;
    let properties = properties(PacketKind::ConnAck, reader, version)?;
    Ok(ConnAck { session_present: flags == 1, reason, properties })
}

#[inline]
fn publish<'a>(flags: u8, reader: &mut Reader<'a>, version: Version) -> Result<Publish<'a>, Violation> {
    let qos = QoS::of(flags >> 1 & 3).ok_or(Violation::PublishQos)?;
    let dup = flags & 8 != 0;
    if dup && qos == QoS::AtMostOnce {
        return Err(Violation::PublishDup);
    }
    let topic = read_text(reader)?;
    check_name(topic)?;
    let id = if qos == QoS::AtMostOnce { None } else { Some(read_id(reader)?) };
    let properties = properties(PacketKind::Publish, reader, version)?;
    if topic.is_empty() && properties.number(PropertyId::TopicAlias).is_none() {
        return Err(Violation::NoTopic);
    }
    Ok(Publish { dup, qos, retain: flags & 1 != 0, topic, id, properties, payload: rest(reader) })
}

/// The reason of a packet that may end before it.
fn reason(kind: PacketKind, reader: &mut Reader<'_>, version: Version) -> Result<Reason, Violation> {
    if !version.has_properties() || reader.is_empty() {
        return Ok(Reason::Success);
    }
    let code = reader.u8()?;
    Reason::read(code, kind, version).ok_or(Violation::ReasonCode(code))
}

/// Properties that may be missing with their length.
fn cut_properties<'a>(
    kind: PacketKind,
    reader: &mut Reader<'a>,
    version: Version,
) -> Result<Properties<'a>, Violation> {
    if reader.is_empty() { Ok(Properties::NONE) } else { properties(kind, reader, version) }
}

fn ack<'a>(kind: PacketKind, reader: &mut Reader<'a>, version: Version) -> Result<Ack<'a>, Violation> {
    let id: PacketId = read_id(reader)?;
    let reason = reason(kind, reader, version)?;
    Ok(Ack { id, reason, properties: cut_properties(kind, reader, version)? })
}

fn notice<'a>(kind: PacketKind, reader: &mut Reader<'a>, version: Version) -> Result<Notice<'a>, Violation> {
    let reason = reason(kind, reader, version)?;
    Ok(Notice { reason, properties: cut_properties(kind, reader, version)? })
}

fn options(byte: u8, version: Version) -> Result<Options, Violation> {
    let reserved = if version.has_properties() { 0b1100_0000 } else { 0b1111_1100 };
    if byte & reserved != 0 {
        return Err(Violation::OptionsReserved);
    }
    let retain_handling = match byte >> 4 & 3 {
        0 => RetainHandling::Send,
        1 => RetainHandling::SendIfNew,
        2 => RetainHandling::Never,
        _ => return Err(Violation::RetainHandling),
    };
    let qos = QoS::of(byte & 3).ok_or(Violation::SubscribeQos)?;
    Ok(Options { qos, no_local: byte & 4 != 0, retain_as_published: byte & 8 != 0, retain_handling })
}

fn asked<'a>(reader: &mut Reader<'a>, version: Version) -> Result<Asked<'a>, Violation> {
    let written = read_text(reader)?;
    let filter = Filter::parse(written)?;
    let options = options(reader.u8()?, version)?;
    if options.no_local && filter.share.is_some() {
        return Err(Violation::SharedNoLocal);
    }
    Ok(Asked { written, filter, options })
}

fn subscribe<'a>(reader: &mut Reader<'a>, version: Version) -> Result<Subscribe<'a>, Violation> {
    let id = read_id(reader)?;
    let properties = properties(PacketKind::Subscribe, reader, version)?;
    let filters = SubscribeFilters { bytes: rest(reader), version };
    if filters.bytes.is_empty() {
        return Err(Violation::NoFilter);
    }
    let mut checked = Reader::new(filters.bytes);
    while !checked.is_empty() {
        asked(&mut checked, version)?;
    }
    Ok(Subscribe { id, properties, filters })
}

impl<'a> SubscribeFilters<'a> {
    /// All, in their order.
    pub fn iter(self) -> impl Iterator<Item = Asked<'a>> + use<'a> {
        let mut reader = Reader::new(self.bytes);
        std::iter::from_fn(move || if reader.is_empty() { None } else { asked(&mut reader, self.version).ok() })
    }
}

fn unsubscribe<'a>(reader: &mut Reader<'a>, version: Version) -> Result<Unsubscribe<'a>, Violation> {
    let id = read_id(reader)?;
    let properties = properties(PacketKind::Unsubscribe, reader, version)?;
    let filters = Filters(rest(reader));
    if filters.0.is_empty() {
        return Err(Violation::NoFilter);
    }
    let mut checked = Reader::new(filters.0);
    while !checked.is_empty() {
        Filter::parse(read_text(&mut checked)?)?;
    }
    Ok(Unsubscribe { id, properties, filters })
}

impl<'a> Filters<'a> {
    /// All as written, in their order.
    pub fn iter(self) -> impl Iterator<Item = &'a str> + use<'a> {
        let mut reader = Reader::new(self.0);
        std::iter::from_fn(move || if reader.is_empty() { None } else { read_text(&mut reader).ok() })
    }
}

fn granted<'a>(kind: PacketKind, reader: &mut Reader<'a>, version: Version) -> Result<Granted<'a>, Violation> {
    let id = read_id(reader)?;
    let properties = properties(kind, reader, version)?;
    let has_reasons = kind == PacketKind::SubAck || version.has_properties();
    let bytes = if has_reasons { rest(reader) } else { &[] };
    match bytes.iter().find(|code| Reason::read(**code, kind, version).is_none()) {
        Some(code) => Err(Violation::ReasonCode(*code)),
        None if has_reasons && bytes.is_empty() => Err(Violation::Truncated),
        None => Ok(Granted { id, properties, reasons: Reasons { bytes, kind, version } }),
    }
}
