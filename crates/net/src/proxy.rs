//! The header of the PROXY protocol that the connections of a listener begin with, if the listener
//! is behind proxies.
//!
//! Only peers of named networks may send one: it makes a connection that of another address, for
//! every limit and every log. It is read before the connection is admitted, because the limits are
//! those of the client. How many may wait for their headers at the same time is bounded.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;
use wire::{Forwarded, LONGEST_PROXY_HEADER, ProxyError, ProxyHeader, Subnet, Taken, seen_through};

/// How long a proxy may take for its header. It sends it with the first packet.
const PATIENCE: Duration = Duration::from_secs(3);
/// Connections of all listeners that may wait for their headers at the same time.
pub(crate) const MOST_WAITING: usize = 64;

/// Why a connection without a valid header was refused.
#[derive(Debug)]
pub enum Unproxied {
    /// It comes from none of the networks.
    Stranger,
    /// The header did not come in time.
    Slow,
    /// The peer left before the header's end. A health check does so.
    Left,
    /// It is malformed, or missing.
    Invalid(ProxyError),
    /// The socket failed.
    Socket(io::Error),
}

impl std::fmt::Display for Unproxied {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stranger => f.write_str(
                "this listener serves proxies alone, and the address is in none of its proxy_protocol networks",
            ),
            Self::Slow => {
                write!(f, "the header of the PROXY protocol did not come within {} s", PATIENCE.as_secs())
            }
            Self::Left => f.write_str("the peer left before its header of the PROXY protocol was complete"),
            Self::Invalid(error) => error.fmt(f),
            Self::Socket(error) => write!(f, "the header of the PROXY protocol cannot be read: {error}"),
        }
    }
}

/// Reads the header of a connection that another server has accepted: the connection, and the
/// client's address.
///
/// # Errors
/// If the peer is none of `proxies`, or no valid header comes in time.
pub async fn introduce(
    socket: TcpStream,
    peer: SocketAddr,
    proxies: &[Subnet],
) -> Result<(TcpStream, SocketAddr), Unproxied> {
    check(peer, proxies)?;
    let local = socket.local_addr().map_err(Unproxied::Socket)?;
    let forwarded = read(&socket).await?;
    Ok((socket, seen_through(forwarded, peer, local).0))
}

/// Whether `peer` may send headers.
pub(crate) fn check(peer: SocketAddr, proxies: &[Subnet]) -> Result<(), Unproxied> {
    match proxies.iter().any(|network| network.contains(peer.ip())) {
        true => Ok(()),
        false => Err(Unproxied::Stranger),
    }
}

/// Reads the header, and not a byte more.
pub(crate) async fn read(socket: &TcpStream) -> Result<Option<Forwarded>, Unproxied> {
    tokio::time::timeout(PATIENCE, Box::pin(header(socket))).await.unwrap_or(Err(Unproxied::Slow))
}

async fn header(socket: &TcpStream) -> Result<Option<Forwarded>, Unproxied> {
    let mut header = ProxyHeader::default();
    let mut bytes = [0; LONGEST_PROXY_HEADER];
    loop {
        let count = socket.peek(&mut bytes).await.map_err(Unproxied::Socket)?;
        if count == 0 {
            return Err(Unproxied::Left);
        }
        match header.take(&bytes[..count]).map_err(Unproxied::Invalid)? {
            Taken::All => consume(socket, &mut bytes[..count])?,
            Taken::End(count, forwarded) => {
                consume(socket, &mut bytes[..count])?;
                return Ok(forwarded);
            }
        }
    }
}

/// Takes bytes that have arrived off the socket.
fn consume(socket: &TcpStream, mut bytes: &mut [u8]) -> Result<(), Unproxied> {
    while !bytes.is_empty() {
        match socket.try_read(bytes).map_err(Unproxied::Socket)? {
            0 => return Err(Unproxied::Left),
            count => bytes = &mut bytes[count..],
        }
    }
    Ok(())
}
