//! Connections that a node begins: to follow another one, to join its cluster, and to tell it that
//! it was replaced.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::frames::{Frames, LONGEST_ASKED};
use crate::identity::{Identity, new_key, public_half, roots_of};
use crate::link::{Came, Credentials, Link};
use crate::message::{Hello, Message, Refusal};
use crate::token::Token;

/// How long a connection, a handshake or an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The same, where a start waits for it.
const ASKING: Duration = Duration::from_secs(2);

/// Connects to the node at an address.
///
/// # Errors
/// Why it can't be reached, or is none of this cluster.
pub fn connect(address: &str, credentials: &Credentials) -> io::Result<Link> {
    Link::connect(reach(address, PATIENCE)?, credentials, PATIENCE)
}

/// Makes a node of a token's cluster of the one with this data directory.
///
/// # Errors
/// Why it is not let in.
pub fn join(token: &Token, data: &Path) -> io::Result<Identity> {
    let key = new_key()?;
    let mut link = Link::connect_to(reach(&token.address, PATIENCE)?, roots_of(&token.authority)?, PATIENCE)?;
    let mut out = Vec::new();
    Message::Join { secret: token.secret, key: public_half(&key)? }.write(&mut out);
    link.write(&out)?;
    match answer(&mut link)? {
        Message::Joined(membership) => Identity::join(data, key, token, membership),
        Message::Refused { words, .. } => Err(io::Error::new(io::ErrorKind::PermissionDenied, words)),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "it answers something else than was asked")),
    }
}

/// Tells a node that this one was promoted. True when it has kept that.
///
/// # Errors
/// When it can't be reached.
pub fn tell(address: &str, credentials: &Credentials, me: &Hello) -> io::Result<bool> {
    let mut link = connect(address, credentials)?;
    let mut out = Vec::new();
    Message::Hello(me.clone()).write(&mut out);
    link.write(&out)?;
    Ok(matches!(answer(&mut link)?, Message::Refused { why: Refusal::Replaced, .. }))
}

/// Asks the node at an address in which term it serves, and who it is. None if it does not serve.
///
/// # Errors
/// When it can't be reached.
pub fn ask(address: &str, credentials: &Credentials, me: &Hello) -> io::Result<Option<Hello>> {
    let mut link = Link::connect(reach(address, ASKING)?, credentials, ASKING)?;
    let mut out = Vec::new();
    Message::Hello(me.clone()).write(&mut out);
    link.write(&out)?;
    match answer(&mut link)? {
        Message::Hello(other) if link.is_of(other.node) => Ok(Some(other)),
        _ => Ok(None),
    }
}

/// The first message that comes.
fn answer(link: &mut Link) -> io::Result<Message> {
    let (mut frames, until) = (Frames::new(LONGEST_ASKED), Instant::now() + PATIENCE);
    loop {
        match frames.next_message().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))? {
            Some(message) => return Ok(message),
            None => match link.read(until.saturating_duration_since(Instant::now()))? {
                Came::Bytes(bytes) => frames.push(&bytes),
                Came::Nothing => return Err(io::ErrorKind::TimedOut.into()),
                Came::End => return Err(io::ErrorKind::UnexpectedEof.into()),
            },
        }
    }
}

fn reach(address: &str, patience: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, patience) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}
