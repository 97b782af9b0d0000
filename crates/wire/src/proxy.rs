//! The PROXY protocol, versions 1 and 2: the header in which a proxy says whose connection it
//! forwards (`proxy-protocol.txt` of HAProxy, revision 2020/03/05).
//!
//! A header is taken from the peer piece by piece, and never a byte more than it has. What comes
//! after it belongs to TLS or to the protocol. It has at most [`LONGEST`] bytes; the fields (TLV)
//! after the addresses are skipped.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Most bytes of a header. Version 2 may have up to 64 KiB, of which addresses take 36; proxies add
/// some hundred bytes of fields.
pub const LONGEST: usize = 4096;

/// The first bytes of version 2.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// The first bytes of version 1.
const WORD: &[u8; 6] = b"PROXY ";
/// The longest line of version 1, with its end.
const LONGEST_LINE: usize = 107;
/// Bytes of version 2 before the addresses.
const FIXED: usize = 16;

/// The two ends of a connection as the proxy saw them: the client, and the address that it reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forwarded {
    /// The client.
    pub client: SocketAddr,
    /// The address of the proxy that the client reached.
    pub reached: SocketAddr,
}

/// Why a header was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyError {
    /// The first bytes are no header.
    Missing,
    /// It is longer than it may be.
    TooLong,
    /// This is wrong with it.
    Malformed(&'static str),
}

impl std::fmt::Display for ProxyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing => f.write_str("the connection does not begin with a header of the PROXY protocol"),
            Self::TooLong => write!(f, "the header of the PROXY protocol is longer than it may be ({LONGEST} bytes)"),
            Self::Malformed(what) => write!(f, "the header of the PROXY protocol is malformed: {what}"),
        }
    }
}

impl std::error::Error for ProxyError {}

/// A header that arrives.
#[derive(Debug, Default)]
pub struct ProxyHeader {
    /// What has been taken of it.
    bytes: Vec<u8>,
}

/// What to do with bytes that were offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// All of them belong to the header, and more must come.
    All,
    /// The header ends after this many of them. `None`: the proxy speaks for itself (a health
    /// check), or does not know the client.
    End(usize, Option<Forwarded>),
}

impl ProxyHeader {
    /// Takes the next bytes from the peer.
    ///
    /// # Errors
    /// If they continue no header. Then the connection must end.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Taken, ProxyError> {
        let before = self.bytes.len();
        // No more is kept than a header may have, and one byte that tells that it is longer.
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(LONGEST + 1 - before)]);
        match parse(&self.bytes)? {
            Some((length, forwarded)) => Ok(Taken::End(length - before, forwarded)),
            None if self.bytes.len() > LONGEST => Err(ProxyError::TooLong),
            None => Ok(Taken::All),
        }
    }
}

/// The length of the header at the start of `bytes`, and what it says; `None` while it is not
/// complete.
fn parse(bytes: &[u8]) -> Result<Option<(usize, Option<Forwarded>)>, ProxyError> {
    let begins = |word: &[u8]| bytes.iter().zip(word).all(|(byte, expected)| byte == expected);
    if begins(SIGNATURE) {
        version_2(bytes)
    } else if begins(WORD) {
        version_1(bytes)
    } else {
        Err(ProxyError::Missing)
    }
}

fn version_1(bytes: &[u8]) -> Result<Option<(usize, Option<Forwarded>)>, ProxyError> {
    let Some(end) = bytes.iter().take(LONGEST_LINE).position(|byte| *byte == b'\n') else {
        return if bytes.len() >= LONGEST_LINE {
            Err(ProxyError::Malformed("a line of version 1 has at most 107 bytes"))
        } else {
            Ok(None)
        };
    };
    let line = bytes[..end].strip_suffix(b"\r").ok_or(ProxyError::Malformed("the line does not end with CR LF"))?;
    let line = std::str::from_utf8(line).map_err(|_| ProxyError::Malformed("version 1 is ASCII"))?;
    let mut words = line.split(' ').skip(1);
    let family = words.next().unwrap_or_default();
    if family == "UNKNOWN" {
        return Ok(Some((end + 1, None)));
    }
    let words: Vec<&str> = words.collect();
    let [from, to, from_port, to_port] = words[..] else {
        return Err(ProxyError::Malformed("version 1 has two addresses and two ports"));
    };
    let address = |text: &str| match family {
        "TCP4" => text.parse::<Ipv4Addr>().map(IpAddr::from).map_err(|_| ProxyError::Malformed("no IPv4 address")),
        "TCP6" => text.parse::<Ipv6Addr>().map(IpAddr::from).map_err(|_| ProxyError::Malformed("no IPv6 address")),
        _ => Err(ProxyError::Malformed("the family is none of TCP4, TCP6, UNKNOWN")),
    };
    let port = |text: &str| match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => text.parse::<u16>().map_err(|_| ProxyError::Malformed("no port")),
        false => Err(ProxyError::Malformed("no port")),
    };
    let client = SocketAddr::new(address(from)?.to_canonical(), port(from_port)?);
    let reached = SocketAddr::new(address(to)?.to_canonical(), port(to_port)?);
    Ok(Some((end + 1, Some(Forwarded { client, reached }))))
}

fn version_2(bytes: &[u8]) -> Result<Option<(usize, Option<Forwarded>)>, ProxyError> {
    let Some((head, _)) = bytes.split_first_chunk::<FIXED>() else { return Ok(None) };
    let (version, family) = (head[12], head[13]);
    let length = FIXED + usize::from(u16::from_be_bytes([head[14], head[15]]));
    if length > LONGEST {
        return Err(ProxyError::TooLong);
    }
    let is_local = match version {
        0x20 => true,
        0x21 => false,
        _ => return Err(ProxyError::Malformed("the version is not 2, or the command is neither LOCAL nor PROXY")),
    };
    let Some(rest) = bytes.get(FIXED..length) else { return Ok(None) };
    // Families: unspecified, IPv4, IPv6, UNIX. Only streams are forwarded to here.
    let forwarded = match family {
        _ if is_local => None,
        0x00 => None,
        0x11 => Some(ends::<4>(rest)?),
        0x21 => Some(ends::<16>(rest)?),
        0x31 if rest.len() >= 216 => None,
        0x31 => return Err(ProxyError::Malformed("the addresses are cut off")),
        _ => return Err(ProxyError::Malformed("the transport is no stream of IPv4, IPv6 or UNIX")),
    };
    Ok(Some((length, forwarded)))
}

/// Two addresses of `N` bytes, and their ports.
fn ends<const N: usize>(bytes: &[u8]) -> Result<Forwarded, ProxyError>
where
    IpAddr: From<[u8; N]>,
{
    let cut = ProxyError::Malformed("the addresses are cut off");
    let (from, rest) = bytes.split_first_chunk::<N>().ok_or(cut)?;
    let (to, rest) = rest.split_first_chunk::<N>().ok_or(cut)?;
    let ([a, b, c, d], _) = rest.split_first_chunk::<4>().ok_or(cut)?;
    let address = |bytes: &[u8; N]| IpAddr::from(*bytes).to_canonical();
    Ok(Forwarded {
        client: SocketAddr::new(address(from), u16::from_be_bytes([*a, *b])),
        reached: SocketAddr::new(address(to), u16::from_be_bytes([*c, *d])),
    })
}

/// The addresses of a connection that came through a proxy: of the client, and the one it reached.
///
/// A client of the proxy's own machine is no client of this machine. So a loopback address counts
/// only if the proxy has one, too; else the connection keeps the proxy's own addresses.
pub fn seen_through(forwarded: Option<Forwarded>, proxy: SocketAddr, local: SocketAddr) -> (SocketAddr, SocketAddr) {
    match forwarded {
        Some(Forwarded { client, reached }) if !client.ip().is_loopback() || proxy.ip().is_loopback() => {
            (client, reached)
        }
        _ => (proxy, local),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forwarded(client: &str, reached: &str) -> Option<Forwarded> {
        Some(Forwarded { client: client.parse().unwrap(), reached: reached.parse().unwrap() })
    }

    fn binary(version: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
        [&SIGNATURE[..], &[version, family], &length, rest].concat()
    }

    /// Headers, and what they say.
    fn good() -> Vec<(Vec<u8>, Option<Forwarded>)> {
        let four = [10, 0, 0, 1, 10, 0, 0, 2, 0x30, 0x39, 0x16, 0x28];
        let six = [&[0; 15][..], &[1], &[0xfe, 0x80], &[0; 13], &[9], &[0x30, 0x39, 0x16, 0x28]].concat();
        let mapped =
            [&[0; 10][..], &[255, 255, 10, 0, 0, 1], &[0; 10], &[255, 255, 10, 0, 0, 2], &[0x30, 0x39, 0x16, 0x28]]
                .concat();
        let v4 = forwarded("10.0.0.1:12345", "10.0.0.2:5672");
        vec![
            (b"PROXY TCP4 10.0.0.1 10.0.0.2 12345 5672\r\n".to_vec(), v4),
            (b"PROXY TCP6 ::1 fe80::9 12345 5672\r\n".to_vec(), forwarded("[::1]:12345", "[fe80::9]:5672")),
            (b"PROXY TCP6 ::ffff:10.0.0.1 ::ffff:10.0.0.2 12345 5672\r\n".to_vec(), v4),
            (b"PROXY UNKNOWN\r\n".to_vec(), None),
            (b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n".to_vec(), None),
            (binary(0x21, 0x11, &four), v4),
            (binary(0x21, 0x11, &[&four[..], b"\x04\0\x03abc"].concat()), v4),
            (binary(0x21, 0x21, &six), forwarded("[::1]:12345", "[fe80::9]:5672")),
            (binary(0x21, 0x21, &mapped), v4),
            (binary(0x21, 0x31, &[0; 216]), None),
            (binary(0x21, 0x00, &[]), None),
            (binary(0x20, 0x00, &[]), None),
            (binary(0x20, 0x11, &four), None),
            (binary(0x21, 0x11, &[&four[..], &[0; 4000]].concat()), v4),
        ]
    }

    #[test]
    fn headers_say_whose_the_connection_is_however_they_are_cut() {
        for (header, expected) in good() {
            let with_more = [&header[..], b"AMQP\0\0\x09\x01"].concat();
            for cut in 0..=header.len() {
                let mut taken = ProxyHeader::default();
                if cut < header.len() {
                    assert_eq!(taken.take(&header[..cut]), Ok(Taken::All), "{cut} of {header:?}");
                    assert_eq!(taken.take(&with_more[cut..]), Ok(Taken::End(header.len() - cut, expected)));
                } else {
                    assert_eq!(taken.take(&with_more), Ok(Taken::End(header.len(), expected)));
                }
            }
        }
    }

    #[test]
    fn what_is_no_header_is_refused_as_soon_as_it_can_be_told() {
        use ProxyError::{Malformed, Missing, TooLong};
        for (bytes, expected) in [
            (b"AMQP\0\0\x09\x01".to_vec(), Missing),
            (b"PROXI".to_vec(), Missing),
            (b"\r\n\r\nGET".to_vec(), Missing),
            (b"CONNECT\n".to_vec(), Missing),
            (b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\n".to_vec(), Malformed("the line does not end with CR LF")),
            (b"PROXY TCP4 10.0.0.1 10.0.0.2 1\r\n".to_vec(), Malformed("version 1 has two addresses and two ports")),
            (b"PROXY TCP4 ::1 10.0.0.2 1 2\r\n".to_vec(), Malformed("no IPv4 address")),
            (b"PROXY TCP6 10.0.0.1 ::1 1 2\r\n".to_vec(), Malformed("no IPv6 address")),
            (b"PROXY TCP4 10.0.0.1 10.0.0.2 +1 2\r\n".to_vec(), Malformed("no port")),
            (b"PROXY TCP4 10.0.0.1 10.0.0.2 1 65536\r\n".to_vec(), Malformed("no port")),
            (b"PROXY UDP4 1.1.1.1 1.1.1.1 1 2\r\n".to_vec(), Malformed("the family is none of TCP4, TCP6, UNKNOWN")),
            (b"PROXY TCP4 \xff\r\n".to_vec(), Malformed("version 1 is ASCII")),
            ([&b"PROXY UNKNOWN "[..], &[b'x'; 200]].concat(), Malformed("a line of version 1 has at most 107 bytes")),
            (binary(0x21, 0x11, &[0; 11]), Malformed("the addresses are cut off")),
            (binary(0x21, 0x21, &[0; 35]), Malformed("the addresses are cut off")),
            (binary(0x21, 0x31, &[0; 215]), Malformed("the addresses are cut off")),
            (binary(0x21, 0x12, &[0; 12]), Malformed("the transport is no stream of IPv4, IPv6 or UNIX")),
            (
                binary(0x11, 0x11, &[0; 12]),
                Malformed("the version is not 2, or the command is neither LOCAL nor PROXY"),
            ),
            (
                binary(0x22, 0x11, &[0; 12]),
                Malformed("the version is not 2, or the command is neither LOCAL nor PROXY"),
            ),
            (binary(0x21, 0x11, &[0; LONGEST]), TooLong),
        ] {
            assert_eq!(ProxyHeader::default().take(&bytes), Err(expected), "{bytes:?}");
            let mut by_byte = ProxyHeader::default();
            let refused = bytes.iter().find_map(|byte| by_byte.take(&[*byte]).err());
            assert_eq!(refused, Some(expected), "{bytes:?} byte by byte");
        }
        assert_eq!(parse(b""), Ok(None));
    }

    #[test]
    fn a_client_of_the_proxys_machine_is_none_of_this_machine() {
        let [there, here, other] = ["127.0.0.1:9", "127.0.0.1:5672", "10.0.0.9:4"].map(|text| text.parse().unwrap());
        let at = |text: &str| Some(Forwarded { client: text.parse().unwrap(), reached: here });
        let local = "10.0.0.1:5672".parse().unwrap();
        assert_eq!(seen_through(at("10.1.1.1:7"), other, local), ("10.1.1.1:7".parse().unwrap(), here));
        assert_eq!(seen_through(at("127.0.0.1:7"), other, local), (other, local));
        assert_eq!(seen_through(at("127.0.0.1:7"), there, local), ("127.0.0.1:7".parse().unwrap(), here));
        assert_eq!(seen_through(None, other, local), (other, local));
    }
}
