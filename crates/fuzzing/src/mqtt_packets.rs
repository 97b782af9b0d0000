//! MQTT packets: a packet that is taken is written as the same packet again, in each version, and
//! an error does not depend on how the bytes arrive.

use mqtt::codec::{PacketError, Version, Violation, decode, encode};

/// A small limit, so that inputs reach it.
const LARGEST: u32 = 1024;

/// The input is the peer's bytes.
pub(super) fn mqtt(input: &[u8]) {
    for version in [Version::V3_1, Version::V3_1_1, Version::V5] {
        let mut rest = input;
        loop {
            match decode(rest, version, LARGEST) {
                Ok(None) => break,
                Ok(Some((packet, length))) => {
                    let mut again = Vec::new();
                    encode(&packet, version, &mut again);
                    // CONNECT says its version itself, and has the same bytes in all.
                    let read = decode(&again, version, LARGEST);
                    assert_eq!(
                        read,
                        Ok(Some((packet, again.len()))),
                        "the packet is another one when it is read again"
                    );
                    assert_eq!(cut(&rest[..length], version), None, "a packet is taken before its end");
                    rest = &rest[length..];
                }
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    break;
                }
            }
        }
    }
}

/// What is made of the packet when its last byte is missing.
fn cut(packet: &[u8], version: Version) -> Option<PacketError> {
    match decode(&packet[..packet.len() - 1], version, LARGEST) {
        Ok(None) => None,
        Ok(Some(_)) => Some(Violation::Trailing.into()),
        Err(error) => Some(error),
    }
}
