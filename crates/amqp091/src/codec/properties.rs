//! The properties of a message: fourteen optional values after a word of flags (specification
//! §4.2.6.1).
//!
//! The server keeps a publisher's bytes verbatim and reads them once, with [`scan_properties`].
//! [`BasicProperties`] has all values. Short strings are kept as bytes: a consumer gets what the
//! publisher sent.

use wire::{DecodeError, Reader};

use crate::codec::Table;
use crate::limits::SHORT_STRING_MAX;

const CONTENT_TYPE: u16 = 1 << 15;
const CONTENT_ENCODING: u16 = 1 << 14;
const HEADERS: u16 = 1 << 13;
const DELIVERY_MODE: u16 = 1 << 12;
const PRIORITY: u16 = 1 << 11;
const CORRELATION_ID: u16 = 1 << 10;
const REPLY_TO: u16 = 1 << 9;
const EXPIRATION: u16 = 1 << 8;
const MESSAGE_ID: u16 = 1 << 7;
const TIMESTAMP: u16 = 1 << 6;
const KIND: u16 = 1 << 5;
const USER_ID: u16 = 1 << 4;
const APP_ID: u16 = 1 << 3;
const CLUSTER_ID: u16 = 1 << 2;
/// Another word of flags follows. Class `basic` never needs one.
const CONTINUED: u16 = 1;

/// No properties at all, encoded.
pub const NO_PROPERTIES: [u8; 2] = [0, 0];

/// The properties that a broker acts on. One pass finds them and validates all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PropertyScan<'a> {
    /// 2 if the message should survive a restart; absent if it need not.
    pub delivery_mode: Option<u8>,
    /// Messages of higher priority go first, in queues with priorities.
    pub priority: Option<u8>,
    /// Milliseconds to live, as decimal digits if it is valid.
    pub expiration: Option<&'a [u8]>,
    /// Where replies should go.
    pub reply_to: Option<&'a [u8]>,
    /// The user that the publisher claims to be.
    pub user_id: Option<&'a [u8]>,
    /// The headers.
    pub headers: Option<Table<'a>>,
}

impl PropertyScan<'_> {
    /// Whether the delivery mode is 2.
    #[inline]
    pub fn is_persistent(&self) -> bool {
        self.delivery_mode == Some(2)
    }
}

/// Validates the property bytes of a content header (flags and values) and returns those that a
/// broker acts on.
///
/// # Errors
/// If a value is cut off or malformed, or bytes are left over.
#[inline]
pub fn scan_properties(raw: &[u8]) -> Result<PropertyScan<'_>, DecodeError> {
    let mut scan = PropertyScan::default();
    // The two most frequent cases by far: nothing, and a delivery mode alone.
    match *raw {
        [0, 0] => return Ok(scan),
        [0x10, 0, mode] => {
            scan.delivery_mode = Some(mode);
            return Ok(scan);
        }
        _ => {}
    }
    let all = decode_properties(raw)?;
    scan.delivery_mode = all.delivery_mode;
    scan.priority = all.priority;
    scan.expiration = all.expiration;
    scan.reply_to = all.reply_to;
    scan.user_id = all.user_id;
    scan.headers = all.headers;
    Ok(scan)
}

/// All properties of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BasicProperties<'a> {
    /// MIME type of the body.
    pub content_type: Option<&'a [u8]>,
    /// MIME encoding of the body.
    pub content_encoding: Option<&'a [u8]>,
    /// Application headers.
    pub headers: Option<Table<'a>>,
    /// 1 is transient, 2 persistent.
    pub delivery_mode: Option<u8>,
    /// 0 to 9 by the specification, any octet in practice.
    pub priority: Option<u8>,
    /// Identifies the request that this message answers.
    pub correlation_id: Option<&'a [u8]>,
    /// Where to reply.
    pub reply_to: Option<&'a [u8]>,
    /// Milliseconds to live, in decimal digits.
    pub expiration: Option<&'a [u8]>,
    /// The application's name for the message.
    pub message_id: Option<&'a [u8]>,
    /// Seconds since 1970.
    pub timestamp: Option<u64>,
    /// The application's type of the message.
    pub kind: Option<&'a [u8]>,
    /// The publisher's user name.
    pub user_id: Option<&'a [u8]>,
    /// The publishing application.
    pub app_id: Option<&'a [u8]>,
    /// Deprecated; it is passed on all the same.
    pub cluster_id: Option<&'a [u8]>,
}

/// Reads the property bytes of a content header: flags and values.
///
/// # Errors
/// As [`scan_properties`].
pub fn decode_properties(raw: &[u8]) -> Result<BasicProperties<'_>, DecodeError> {
    let mut reader = Reader::new(raw);
    let flags = reader.u16()?;
    if flags & CONTINUED != 0 {
        return Err(DecodeError::Malformed("property flags of class basic do not continue"));
    }
    let r = &mut reader;
    let properties = BasicProperties {
        content_type: short(r, flags, CONTENT_TYPE)?,
        content_encoding: short(r, flags, CONTENT_ENCODING)?,
        headers: if flags & HEADERS != 0 { Some(Table::new(r.long_bytes()?)?) } else { None },
        delivery_mode: octet(r, flags, DELIVERY_MODE)?,
        priority: octet(r, flags, PRIORITY)?,
        correlation_id: short(r, flags, CORRELATION_ID)?,
        reply_to: short(r, flags, REPLY_TO)?,
        expiration: short(r, flags, EXPIRATION)?,
        message_id: short(r, flags, MESSAGE_ID)?,
        timestamp: if flags & TIMESTAMP != 0 { Some(r.u64()?) } else { None },
        kind: short(r, flags, KIND)?,
        user_id: short(r, flags, USER_ID)?,
        app_id: short(r, flags, APP_ID)?,
        cluster_id: short(r, flags, CLUSTER_ID)?,
    };
    if !reader.is_empty() {
        return Err(DecodeError::Malformed("bytes follow the last property"));
    }
    Ok(properties)
}

#[inline]
fn short<'a>(reader: &mut Reader<'a>, flags: u16, flag: u16) -> Result<Option<&'a [u8]>, DecodeError> {
    if flags & flag == 0 { Ok(None) } else { reader.short_bytes().map(Some) }
}

#[inline]
fn octet(reader: &mut Reader<'_>, flags: u16, flag: u16) -> Result<Option<u8>, DecodeError> {
    if flags & flag == 0 { Ok(None) } else { reader.u8().map(Some) }
}

impl BasicProperties<'_> {
    /// Appends flags and values. Short strings longer than 255 bytes are cut.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&NO_PROPERTIES);
        let mut flags = 0;
        put_short(out, &mut flags, CONTENT_TYPE, self.content_type);
        put_short(out, &mut flags, CONTENT_ENCODING, self.content_encoding);
        if let Some(table) = self.headers {
            let length = (table.as_bytes().len() as u32).to_be_bytes();
            put(out, &mut flags, HEADERS, &length);
            out.extend_from_slice(table.as_bytes());
        }
        if let Some(mode) = self.delivery_mode {
            put(out, &mut flags, DELIVERY_MODE, &[mode]);
        }
        if let Some(priority) = self.priority {
            put(out, &mut flags, PRIORITY, &[priority]);
        }
        put_short(out, &mut flags, CORRELATION_ID, self.correlation_id);
        put_short(out, &mut flags, REPLY_TO, self.reply_to);
        put_short(out, &mut flags, EXPIRATION, self.expiration);
        put_short(out, &mut flags, MESSAGE_ID, self.message_id);
        if let Some(timestamp) = self.timestamp {
            put(out, &mut flags, TIMESTAMP, &timestamp.to_be_bytes());
        }
        put_short(out, &mut flags, KIND, self.kind);
        put_short(out, &mut flags, USER_ID, self.user_id);
        put_short(out, &mut flags, APP_ID, self.app_id);
        put_short(out, &mut flags, CLUSTER_ID, self.cluster_id);
        out[start..start + 2].copy_from_slice(&flags.to_be_bytes());
    }

    /// Flags and values in a vector.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }
}

fn put(out: &mut Vec<u8>, flags: &mut u16, flag: u16, bytes: &[u8]) {
    *flags |= flag;
    out.extend_from_slice(bytes);
}

fn put_short(out: &mut Vec<u8>, flags: &mut u16, flag: u16, value: Option<&[u8]>) {
    if let Some(bytes) = value {
        let bytes = &bytes[..bytes.len().min(SHORT_STRING_MAX)];
        put(out, flags, flag, &[bytes.len() as u8]);
        out.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn full<'a>(headers: Table<'a>) -> BasicProperties<'a> {
        BasicProperties {
            content_type: Some(b"text/plain"),
            content_encoding: Some(b"gzip"),
            headers: Some(headers),
            delivery_mode: Some(2),
            priority: Some(4),
            correlation_id: Some(b"c"),
            reply_to: Some(b"r"),
            expiration: Some(b"1000"),
            message_id: Some(b"m"),
            timestamp: Some(7),
            kind: Some(b"t"),
            user_id: Some(b"guest"),
            app_id: Some(b"a"),
            cluster_id: Some(b""),
        }
    }

    #[test]
    fn known_bytes_in_both_directions() {
        let none = BasicProperties::default();
        let vectors: &[(&[u8], BasicProperties<'_>)] = &[
            (&[0, 0], none),
            (&[0x10, 0, 2], BasicProperties { delivery_mode: Some(2), ..none }),
            (&[0x18, 0, 2, 9], BasicProperties { delivery_mode: Some(2), priority: Some(9), ..none }),
            (b"\x80\x00\x01x", BasicProperties { content_type: Some(b"x"), ..none }),
            (b"\x00\x04\x01x", BasicProperties { cluster_id: Some(b"x"), ..none }),
            (b"\x00\x40\0\0\0\0\0\0\0\x05", BasicProperties { timestamp: Some(5), ..none }),
            (b"\x20\x00\0\0\0\0", BasicProperties { headers: Some(Table::default()), ..none }),
        ];
        for (bytes, properties) in vectors {
            assert_eq!(decode_properties(bytes), Ok(*properties));
            assert_eq!(properties.to_bytes(), *bytes);
            for cut in 0..bytes.len() {
                assert_eq!(decode_properties(&bytes[..cut]), Err(DecodeError::Truncated));
                assert_eq!(scan_properties(&bytes[..cut]), Err(DecodeError::Truncated));
            }
        }
    }

    #[test]
    fn all_properties_together_and_cut_anywhere() {
        let headers = Table::new(b"\x01kt\x01").expect("a valid table");
        let properties = full(headers);
        let bytes = properties.to_bytes();
        assert_eq!(bytes[..2], [0xFF, 0xFC]);
        assert_eq!(decode_properties(&bytes), Ok(properties));
        let scan = scan_properties(&bytes).expect("valid properties");
        let expected = PropertyScan {
            delivery_mode: Some(2),
            priority: Some(4),
            expiration: Some(b"1000"),
            reply_to: Some(b"r"),
            user_id: Some(b"guest"),
            headers: Some(headers),
        };
        assert_eq!(scan, expected);
        assert!(scan.is_persistent());
        for cut in 0..bytes.len() {
            assert_eq!(decode_properties(&bytes[..cut]), Err(DecodeError::Truncated), "cut at {cut}");
        }
    }

    #[test]
    fn malformed_properties_are_refused() {
        let table: &[(&[u8], &str)] = &[
            (&[0, 1], "property flags of class basic do not continue"),
            (&[0, 0, 0], "bytes follow the last property"),
            (&[0x10, 0, 2, 2], "bytes follow the last property"),
            (b"\x20\x00\0\0\0\x03\x01kZ", "unknown type octet of a field value"),
        ];
        for (bytes, text) in table {
            assert_eq!(scan_properties(bytes).map_err(|error| error.to_string()), Err((*text).to_owned()));
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_decoder_panic_and_what_decodes_round_trips(
            flags: u16, values in proptest::collection::vec(0u8..8, 0..80),
        ) {
            let bytes = [&(flags & 0xFFFC).to_be_bytes()[..], &values].concat();
            if let Ok(properties) = decode_properties(&bytes) {
                prop_assert_eq!(properties.to_bytes(), bytes);
            }
        }
    }
}
