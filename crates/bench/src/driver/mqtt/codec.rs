//! MQTT on the wire, versions 3.1.1 and 5.0, as far as a client needs it that publishes and
//! consumes with QoS 0 and 1. Decoding takes what is whole and waits for the rest; what is no MQTT
//! is an error.

use wire::{DecodeError, Reader};

use bench_record::failure::{Context, Failure};

/// The number of the version in CONNECT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// 3.1.1.
    V3 = 4,
    /// 5.0: packets carry properties, and acknowledgements a reason.
    V5 = 5,
}

/// Packet types with their fixed flags.
const CONNECT: u8 = 0x10;
const CONNACK: u8 = 0x20;
const PUBLISH: u8 = 0x30;
const PUBLISH_LAST: u8 = 0x3f;
const PUBACK: u8 = 0x40;
const SUBSCRIBE: u8 = 0x82;
const SUBACK: u8 = 0x90;
const DISCONNECT: u8 = 0xe0;
/// Flags of PUBLISH.
const DUPLICATE: u8 = 0x08;
const QOS_1: u8 = 0x02;
/// Reasons from here on are failures.
const FAILURES: u8 = 0x80;
/// Unacknowledged messages that a peer takes unless it says otherwise.
const RECEIVE_MAXIMUM: u16 = u16::MAX;
/// Identifiers of properties.
const SESSION_EXPIRY: u8 = 0x11;
const RECEIVE: u8 = 0x21;
/// A session that outlives its connection.
const NEVER: u32 = u32::MAX;

/// Something that a broker says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said<'a> {
    /// The answer to CONNECT; 0 is success.
    Connected {
        reason: u8,
        /// QoS 1 messages that it takes without having acknowledged them.
        receive_maximum: u16,
    },
    Publish {
        /// Set where an acknowledgement is expected.
        id: Option<u16>,
        duplicate: bool,
        body: &'a [u8],
    },
    Acknowledged {
        id: u16,
        accepted: bool,
    },
    /// The answer to SUBSCRIBE: the QoS granted, or a failure.
    Subscribed(u8),
    /// It closes the connection.
    Closing(u8),
    /// What needs no reaction here.
    Other,
}

/// What is whole at the front of `input`, and its length.
pub(super) fn decode(input: &[u8], version: Version) -> Result<Option<(Said<'_>, usize)>, Failure> {
    let mut reader = Reader::new(input);
    let kind = reader.u8();
    let body = variable(&mut reader).and_then(|length| reader.bytes(length as usize));
    match (kind, body) {
        (Ok(kind), Ok(body)) => {
            let said = packet(kind, body, version).context("a packet from the broker; does it speak MQTT?")?;
            Ok(Some((said, input.len() - reader.rest().len())))
        }
        (Err(DecodeError::Truncated), _) | (_, Err(DecodeError::Truncated)) => Ok(None),
        (Err(error), _) | (_, Err(error)) => Err(error).context("a packet from the broker; does it speak MQTT?"),
    }
}

fn packet(kind: u8, body: &[u8], version: Version) -> Result<Said<'_>, DecodeError> {
    let mut reader = Reader::new(body);
    let v5 = version == Version::V5;
    Ok(match kind {
        CONNACK => {
            let (_, reason) = (reader.u8()?, reader.u8()?);
            let receive_maximum = if v5 { receive_maximum(properties(&mut reader)?)? } else { RECEIVE_MAXIMUM };
            Said::Connected { reason, receive_maximum }
        }
        PUBLISH..=PUBLISH_LAST => {
            let topic = reader.u16()?;
            reader.bytes(topic.into())?;
            let qos = kind & 0x06;
            if qos > QOS_1 {
                return Err(DecodeError::Malformed("a QoS that was not subscribed with"));
            }
            let id = if qos == QOS_1 { Some(reader.u16()?) } else { None };
            if v5 {
                properties(&mut reader)?;
            }
            Said::Publish { id, duplicate: kind & DUPLICATE != 0, body: reader.rest() }
        }
        PUBACK => {
            let id = reader.u16()?;
            // Success may be left away, and is in version 3.
            let reason = if v5 && !reader.is_empty() { reader.u8()? } else { 0 };
            Said::Acknowledged { id, accepted: reason < FAILURES }
        }
        SUBACK => {
            reader.u16()?;
            if v5 {
                properties(&mut reader)?;
            }
            Said::Subscribed(reader.u8()?)
        }
        DISCONNECT => Said::Closing(reader.u8().unwrap_or(0)),
        // PINGRESP and the answer to an UNSUBSCRIBE.
        0xd0 | 0xb0 => Said::Other,
        _ => return Err(DecodeError::Malformed("a packet that no broker sends")),
    })
}

/// A number of up to four bytes, seven bits each.
fn variable(reader: &mut Reader<'_>) -> Result<u32, DecodeError> {
    let mut value = 0;
    for shift in [0, 7, 14, 21] {
        let byte = reader.u8()?;
        value |= u32::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(DecodeError::Malformed("a length of more than four bytes"))
}

fn properties<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], DecodeError> {
    let length = variable(reader)?;
    reader.bytes(length as usize)
}

/// The receive maximum among the properties of CONNACK.
fn receive_maximum(properties: &[u8]) -> Result<u16, DecodeError> {
    let mut reader = Reader::new(properties);
    while !reader.is_empty() {
        match reader.u8()? {
            RECEIVE => return reader.u16(),
            0x24 | 0x25 | 0x28 | 0x29 | 0x2a => drop(reader.u8()?),
            0x13 | 0x22 => drop(reader.u16()?),
            SESSION_EXPIRY | 0x27 => drop(reader.u32()?),
            0x12 | 0x15 | 0x16 | 0x1a | 0x1c | 0x1f => skip_text(&mut reader)?,
            0x26 => {
                skip_text(&mut reader)?;
                skip_text(&mut reader)?;
            }
            _ => return Err(DecodeError::Malformed("a property that CONNACK does not have")),
        }
    }
    Ok(RECEIVE_MAXIMUM)
}

fn skip_text(reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    let length = reader.u16()?;
    reader.bytes(length.into()).map(drop)
}

/// What a client says first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hello<'a> {
    pub(super) version: Version,
    pub(super) client: &'a str,
    pub(super) user: &'a str,
    pub(super) password: &'a str,
    /// Begin afresh: what is kept under this client's name is forgotten.
    pub(super) clean: bool,
    /// Keep subscriptions and messages when the connection ends.
    pub(super) kept: bool,
    /// Unacknowledged messages that it takes; 0: as many as there can be.
    pub(super) receive_maximum: u16,
}

/// Appends CONNECT.
pub(super) fn connect(hello: &Hello<'_>, out: &mut Vec<u8>) {
    let v5 = hello.version == Version::V5;
    // Version 3 has one flag for both: a session that begins afresh ends with its connection.
    let clean = if v5 { hello.clean } else { !hello.kept };
    let mut body = Vec::new();
    text("MQTT", &mut body);
    body.push(hello.version as u8);
    body.push(0xc0 | if clean { 0x02 } else { 0 });
    // No keep-alive: nothing is to be sent that the load does not send.
    body.extend_from_slice(&[0, 0]);
    if v5 {
        let mut properties = Vec::new();
        if hello.kept {
            properties.push(SESSION_EXPIRY);
            properties.extend_from_slice(&NEVER.to_be_bytes());
        }
        if hello.receive_maximum > 0 {
            properties.push(RECEIVE);
            properties.extend_from_slice(&hello.receive_maximum.to_be_bytes());
        }
        length(properties.len(), &mut body);
        body.extend_from_slice(&properties);
    }
    text(hello.client, &mut body);
    text(hello.user, &mut body);
    text(hello.password, &mut body);
    whole(CONNECT, &body, out);
}

/// What becomes of a message whose receipt is not certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Qos {
    /// QoS 0: it is lost.
    AtMostOnce = 0,
    /// QoS 1: it comes again until it is acknowledged.
    AtLeastOnce = 1,
}

/// Appends a subscription to `filter`.
pub(super) fn subscribe(version: Version, filter: &str, qos: Qos, out: &mut Vec<u8>) {
    let mut body = vec![0, 1];
    if version == Version::V5 {
        body.push(0);
    }
    text(filter, &mut body);
    body.push(qos as u8);
    whole(SUBSCRIBE, &body, out);
}

/// Appends a message, with QoS 1 where it has an `id`.
pub(super) fn publish(version: Version, topic: &str, id: Option<u16>, body: &[u8], out: &mut Vec<u8>) {
    let own = 2 + topic.len() + if id.is_some() { 2 } else { 0 } + usize::from(version == Version::V5);
    out.push(PUBLISH | if id.is_some() { QOS_1 } else { 0 });
    length(own + body.len(), out);
    text(topic, out);
    if let Some(id) = id {
        out.extend_from_slice(&id.to_be_bytes());
    }
    if version == Version::V5 {
        out.push(0);
    }
    out.extend_from_slice(body);
}

/// Appends the acknowledgement of a message.
pub(super) fn acknowledge(id: u16, out: &mut Vec<u8>) {
    let [high, low] = id.to_be_bytes();
    out.extend_from_slice(&[PUBACK, 2, high, low]);
}

/// Appends the end of a connection.
pub(super) fn disconnect(out: &mut Vec<u8>) {
    out.extend_from_slice(&[DISCONNECT, 0]);
}

fn whole(kind: u8, body: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    length(body.len(), out);
    out.extend_from_slice(body);
}

fn text(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&(text.len() as u16).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn length(mut value: usize, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a broker sends, and what it means.
    fn vectors() -> Vec<(Version, &'static [u8], Said<'static>)> {
        use Version::{V3, V5};
        let connected = |reason, receive_maximum| Said::Connected { reason, receive_maximum };
        let message = |id, duplicate, body| Said::Publish { id, duplicate, body };
        vec![
            (V3, b"\x20\x02\x00\x00", connected(0, u16::MAX)),
            (V3, b"\x20\x02\x00\x05", connected(5, u16::MAX)),
            (V5, b"\x20\x03\x00\x00\x00", connected(0, u16::MAX)),
            (V5, b"\x20\x0b\x00\x00\x08\x22\x00\x0a\x21\x00\x14\x24\x01", connected(0, 20)),
            (V5, b"\x20\x0a\x00\x00\x07\x12\x00\x01x\x21\x00\x14", connected(0, 20)),
            (V3, b"\x30\x05\x00\x01thi", message(None, false, b"hi")),
            (V3, b"\x32\x07\x00\x01t\x01\x02hi", message(Some(258), false, b"hi")),
            (V3, b"\x3a\x05\x00\x01t\x00\x01", message(Some(1), true, b"")),
            (V5, b"\x32\x0a\x00\x01t\x00\x07\x02\x01\x01hi", message(Some(7), false, b"hi")),
            (V3, b"\x40\x02\x01\x00", Said::Acknowledged { id: 256, accepted: true }),
            (V5, b"\x40\x03\x00\x01\x10", Said::Acknowledged { id: 1, accepted: true }),
            (V5, b"\x40\x04\x00\x01\x97\x00", Said::Acknowledged { id: 1, accepted: false }),
            (V3, b"\x90\x03\x00\x01\x01", Said::Subscribed(1)),
            (V5, b"\x90\x04\x00\x01\x00\x80", Said::Subscribed(0x80)),
            (V5, b"\xe0\x02\x93\x00", Said::Closing(0x93)),
            (V3, b"\xd0\x00", Said::Other),
        ]
    }

    #[test]
    fn whole_ones_are_understood_and_cut_ones_are_waited_for() {
        for (version, bytes, said) in vectors() {
            assert_eq!(decode(bytes, version).unwrap(), Some((said, bytes.len())), "{bytes:x?}");
            for cut in 0..bytes.len() {
                assert_eq!(decode(&bytes[..cut], version).unwrap(), None, "{cut} of {bytes:x?}");
            }
        }
    }

    #[test]
    fn what_is_no_mqtt_is_refused() {
        let cases: [&[u8]; 6] = [
            b"\x00\x00",
            b"\x48\x02\x00\x01",
            b"\x20\xff\xff\xff\xff\x01",
            b"\x20\x01\x00",
            b"\x34\x05\x00\x01t\x00\x01",
            b"\x30\x02\x00\x09",
        ];
        for bytes in cases {
            assert!(decode(bytes, Version::V5).is_err(), "{bytes:x?}");
        }
    }

    #[test]
    fn what_is_sent_is_what_the_protocol_says() {
        let mut out = Vec::new();
        let hello = Hello {
            version: Version::V3,
            client: "c",
            user: "u",
            password: "p",
            clean: true,
            kept: false,
            receive_maximum: 9,
        };
        connect(&hello, &mut out);
        assert_eq!(out, b"\x10\x13\x00\x04MQTT\x04\xc2\x00\x00\x00\x01c\x00\x01u\x00\x01p");
        out.clear();
        connect(&Hello { version: Version::V5, kept: true, clean: false, ..hello }, &mut out);
        let properties = b"\x08\x11\xff\xff\xff\xff\x21\x00\x09";
        assert_eq!(
            out,
            [b"\x10\x1c\x00\x04MQTT\x05\xc0\x00\x00".as_slice(), properties, b"\x00\x01c\x00\x01u\x00\x01p"].concat()
        );
        out.clear();
        subscribe(Version::V5, "t", Qos::AtLeastOnce, &mut out);
        publish(Version::V3, "t", None, b"hi", &mut out);
        publish(Version::V5, "t", Some(258), b"", &mut out);
        acknowledge(3, &mut out);
        assert_eq!(
            out,
            b"\x82\x07\x00\x01\x00\x00\x01t\x01\x30\x05\x00\x01thi\x32\x06\x00\x01t\x01\x02\x00\x40\x02\x00\x03"
        );
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_read(bytes: Vec<u8>) {
            let _ = decode(&bytes, Version::V3);
            let _ = decode(&bytes, Version::V5);
        }

        #[test]
        fn a_message_comes_back(body in proptest::collection::vec(any::<u8>(), 0..20_000), id: Option<u16>, v5 in any::<bool>()) {
            let version = if v5 { Version::V5 } else { Version::V3 };
            let mut out = Vec::new();
            publish(version, "a/b", id, &body, &mut out);
            let said = Said::Publish { id, duplicate: false, body: &body };
            prop_assert_eq!(decode(&out, version).unwrap(), Some((said, out.len())));
        }
    }
}
