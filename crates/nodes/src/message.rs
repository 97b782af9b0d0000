//! The messages between two nodes, and their bytes.
//!
//! Invariant: every message has one form, and nothing is behind it. So a message that was read is
//! written as the same bytes. A limit stands before each part that is kept.

use std::fmt;

use bytes::Bytes;
use journal::{Entry, LogEnd, LogId};

/// The version of the messages. Nodes of two versions do not talk to each other.
pub const FORMAT: u16 = 3;
/// Most bytes of a name, of a node or of a file.
pub const LONGEST_NAME: usize = 255;
/// Most bytes of the words of a refusal.
const LONGEST_WORDS: usize = 1024;
/// Most bytes of a piece of a file.
pub const PIECE: usize = 1 << 20;

/// The number of a node, or of a cluster: random bytes, never used again.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct NodeId(pub [u8; 16]);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What a node is given that comes with a token.
#[derive(Clone, PartialEq, Eq)]
pub struct Membership {
    /// The number that it has from now on.
    pub node: NodeId,
    /// Its certificate.
    pub certificate: Vec<u8>,
    /// The private key of the authority, PKCS #8.
    pub authority: Vec<u8>,
}

impl fmt::Debug for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Membership").field("node", &self.node).finish_non_exhaustive()
    }
}

/// What both sides begin with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hello {
    /// The version of the messages.
    pub format: u16,
    /// The cluster that the node is of.
    pub cluster: NodeId,
    /// The node.
    pub node: NodeId,
    /// How often a node of the cluster was promoted, as far as this one knows.
    pub term: u64,
    /// What people call the node.
    pub name: String,
    /// Where it listens for nodes; empty if it does not.
    pub address: String,
}

/// Where the one that serves is, told at least once a second.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Beat {
    /// Its time, in milliseconds since 1970.
    pub unix_ms: u64,
    /// All that it had flushed so many milliseconds before has been sent.
    pub age_ms: u64,
    /// Entries that are flushed there and not sent, at most.
    pub entries: u64,
    /// The bytes of these, at most.
    pub bytes: u64,
    /// The last stamp that the other node has sent. So this was said after that, however long it
    /// was on its way.
    pub stamp: u64,
}

/// Why a node does not go on.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The other one is of another cluster, or of another version.
    Stranger,
    /// What comes next has left the log: a new copy has to be made.
    Gone,
    /// The other one has what this one does not have. One of both went back, or both have served.
    Apart,
    /// The other one was replaced: a node was promoted in a later term.
    Replaced,
    /// This node follows, too, or does not serve yet.
    NotServing,
    /// It has as many followers as it may have.
    Full,
    /// It failed, or stops.
    Failed,
}

impl Refusal {
    const ALL: [Self; 7] =
        [Self::Stranger, Self::Gone, Self::Apart, Self::Replaced, Self::NotServing, Self::Full, Self::Failed];

    fn code(self) -> u8 {
        self as u8
    }
}

/// A message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// The first of both sides.
    Hello(Hello),
    /// Asks for a copy of all there is; so many bytes are free for it.
    Copy {
        /// The bytes.
        free: u64,
    },
    /// Asks for the entries behind these ends, of all logs.
    Follow(Vec<LogEnd>),
    /// Takes so many bytes more.
    Want(u64),
    /// How far this node is.
    Reached {
        /// So many entries of this connection are durable.
        count: u64,
        /// Its time, which the next beat repeats. It never goes back.
        stamp: u64,
    },
    /// Asks the other one to stop serving, and to send the rest.
    HandOver,
    /// Asks to be a node of the cluster; the first message, of one that has no certificate yet.
    Join {
        /// The secret of its token.
        secret: [u8; 16],
        /// Its public key, Ed25519.
        key: [u8; 32],
    },
    /// It is one.
    Joined(Membership),
    /// A copy begins.
    CopyBegins {
        /// Its size, zeros included.
        bytes: u64,
    },
    /// The next pieces are of this file.
    File(String),
    /// A piece of a file.
    Piece {
        /// Where it belongs.
        offset: u64,
        /// At most [`PIECE`] bytes.
        bytes: Bytes,
    },
    /// A piece of a file that is all zeros.
    Zeros {
        /// Where it belongs.
        offset: u64,
        /// How long it is, at most [`PIECE`].
        length: u32,
    },
    /// The copy is whole.
    CopyEnds,
    /// The next entry of a log.
    Entry(Entry),
    /// See [`journal::Fed::Horizon`].
    Horizon(u32),
    /// The sender is alive.
    Beat(Beat),
    /// The sender does not serve any more, and this was all.
    HandedOver,
    /// The last message.
    Refused {
        /// Why.
        why: Refusal,
        /// The same for people.
        words: String,
    },
}

/// What a message is called in the table of its kinds.
#[derive(Copy, Clone, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    Hello = 1,
    Copy,
    Follow,
    Want,
    Reached,
    HandOver,
    Join,
    CopyBegins = 16,
    File,
    Piece,
    Zeros,
    CopyEnds,
    Entry,
    Horizon,
    Beat,
    HandedOver,
    Joined,
    Refused = 32,
}

/// Bytes that are no message.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Malformed {}

impl Message {
    /// Appends the message, with its length before it.
    pub fn write(&self, out: &mut Vec<u8>) {
        let begin = out.len();
        out.extend_from_slice(&[0; 4]);
        self.write_body(out);
        let length = u32::try_from(out.len() - begin - 4).unwrap_or(u32::MAX);
        out[begin..begin + 4].copy_from_slice(&length.to_le_bytes());
    }

    fn write_body(&self, out: &mut Vec<u8>) {
        out.push(self.kind() as u8);
        let mut number = |number: u64| out.extend_from_slice(&number.to_le_bytes());
        match self {
            Self::Hello(hello) => write_hello(hello, out),
            Self::Copy { free: count } | Self::Want(count) | Self::CopyBegins { bytes: count } => number(*count),
            Self::Reached { count, stamp } => [*count, *stamp].into_iter().for_each(number),
            Self::Follow(ends) => {
                for end in ends {
                    write_end(end, out);
                }
            }
            Self::File(name) => out.extend_from_slice(name.as_bytes()),
            Self::Piece { offset, bytes } => {
                number(*offset);
                out.extend_from_slice(bytes);
            }
            Self::Zeros { offset, length } => {
                number(*offset);
                out.extend_from_slice(&length.to_le_bytes());
            }
            Self::Entry(entry) => write_entry(entry, out),
            Self::Horizon(file) => out.extend_from_slice(&file.to_le_bytes()),
            Self::Beat(Beat { unix_ms, age_ms, entries, bytes, stamp }) => {
                [*unix_ms, *age_ms, *entries, *bytes, *stamp].into_iter().for_each(number);
            }
            Self::HandOver | Self::CopyEnds | Self::HandedOver => {}
            Self::Join { secret, key } => {
                out.extend_from_slice(secret);
                out.extend_from_slice(key);
            }
            Self::Joined(membership) => write_membership(membership, out),
            Self::Refused { why, words } => {
                out.push(why.code());
                out.extend_from_slice(clipped(words, LONGEST_WORDS).as_bytes());
            }
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Self::Hello(_) => Kind::Hello,
            Self::Copy { .. } => Kind::Copy,
            Self::Follow(_) => Kind::Follow,
            Self::Want(_) => Kind::Want,
            Self::Reached { .. } => Kind::Reached,
            Self::HandOver => Kind::HandOver,
            Self::Join { .. } => Kind::Join,
            Self::Joined(_) => Kind::Joined,
            Self::CopyBegins { .. } => Kind::CopyBegins,
            Self::File(_) => Kind::File,
            Self::Piece { .. } => Kind::Piece,
            Self::Zeros { .. } => Kind::Zeros,
            Self::CopyEnds => Kind::CopyEnds,
            Self::Entry(_) => Kind::Entry,
            Self::Horizon(_) => Kind::Horizon,
            Self::Beat(_) => Kind::Beat,
            Self::HandedOver => Kind::HandedOver,
            Self::Refused { .. } => Kind::Refused,
        }
    }

    /// Reads a message without its length.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(frame: Bytes) -> Result<Self, Malformed> {
        let mut rest = Reader(frame);
        let message = match rest.bytes::<1>()?[0] {
            kind if kind == Kind::Hello as u8 => Self::Hello(read_hello(&mut rest)?),
            kind if kind == Kind::Copy as u8 => Self::Copy { free: rest.u64()? },
            kind if kind == Kind::Follow as u8 => Self::Follow(read_ends(&mut rest)?),
            kind if kind == Kind::Want as u8 => Self::Want(rest.u64()?),
            kind if kind == Kind::Reached as u8 => Self::Reached { count: rest.u64()?, stamp: rest.u64()? },
            kind if kind == Kind::HandOver as u8 => Self::HandOver,
            kind if kind == Kind::Join as u8 => Self::Join { secret: rest.bytes()?, key: rest.bytes()? },
            kind if kind == Kind::Joined as u8 => Self::Joined(read_membership(&mut rest)?),
            kind if kind == Kind::CopyBegins as u8 => Self::CopyBegins { bytes: rest.u64()? },
            kind if kind == Kind::File as u8 => Self::File(rest.text(LONGEST_NAME)?),
            kind if kind == Kind::Piece as u8 => Self::Piece { offset: rest.u64()?, bytes: rest.piece()? },
            kind if kind == Kind::Zeros as u8 => Self::Zeros { offset: rest.u64()?, length: rest.u32()? },
            kind if kind == Kind::CopyEnds as u8 => Self::CopyEnds,
            kind if kind == Kind::Entry as u8 => Self::Entry(read_entry(&mut rest)?),
            kind if kind == Kind::Horizon as u8 => Self::Horizon(rest.u32()?),
            kind if kind == Kind::Beat as u8 => Self::Beat(read_beat(&mut rest)?),
            kind if kind == Kind::HandedOver as u8 => Self::HandedOver,
            kind if kind == Kind::Refused as u8 => read_refused(&mut rest)?,
            _ => return Err(Malformed("a message of no known kind")),
        };
        if let Self::Zeros { length, .. } = message
            && length as usize > PIECE
        {
            return Err(Malformed("a piece of more than a mebibyte"));
        }
        if rest.0.is_empty() { Ok(message) } else { Err(Malformed("bytes behind a message")) }
    }

    /// What it costs of what the receiver said that it takes: the bytes that it is of, and
    /// something for the message itself. Zero for those that are always taken.
    pub(crate) fn cost(&self) -> u64 {
        const EACH: u64 = 64;
        match self {
            Self::Entry(entry) => EACH + entry.records().len() as u64,
            Self::Piece { bytes, .. } => EACH + bytes.len() as u64,
            Self::File(_) | Self::Zeros { .. } => EACH,
            _ => 0,
        }
    }
}

fn write_hello(hello: &Hello, out: &mut Vec<u8>) {
    out.extend_from_slice(&hello.format.to_le_bytes());
    out.extend_from_slice(&hello.cluster.0);
    out.extend_from_slice(&hello.node.0);
    out.extend_from_slice(&hello.term.to_le_bytes());
    let name = clipped(&hello.name, LONGEST_NAME);
    out.push(name.len() as u8);
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(clipped(&hello.address, LONGEST_NAME).as_bytes());
}

fn write_membership(membership: &Membership, out: &mut Vec<u8>) {
    out.extend_from_slice(&membership.node.0);
    out.extend_from_slice(&(membership.authority.len() as u32).to_le_bytes());
    out.extend_from_slice(&membership.authority);
    out.extend_from_slice(&membership.certificate);
}

fn read_membership(rest: &mut Reader) -> Result<Membership, Malformed> {
    let (node, length) = (NodeId(rest.bytes()?), rest.u32()? as usize);
    let authority = rest.part(length)?.to_vec();
    Ok(Membership { node, authority, certificate: rest.all().to_vec() })
}

fn read_hello(rest: &mut Reader) -> Result<Hello, Malformed> {
    let format = u16::from_le_bytes(rest.bytes()?);
    if format != FORMAT {
        // What follows may have another form.
        rest.0.clear();
        let (cluster, node) = (NodeId::default(), NodeId::default());
        return Ok(Hello { format, cluster, node, term: 0, name: String::new(), address: String::new() });
    }
    let (cluster, node, term) = (NodeId(rest.bytes()?), NodeId(rest.bytes()?), rest.u64()?);
    let [length] = rest.bytes()?;
    let name = Reader(rest.part(length.into())?).text(LONGEST_NAME)?;
    Ok(Hello { format, cluster, node, term, name, address: rest.text(LONGEST_NAME)? })
}

fn write_entry(entry: &Entry, out: &mut Vec<u8>) {
    write_end(&entry.end(), out);
    out.extend_from_slice(&entry.file().to_le_bytes());
    out.extend_from_slice(entry.records());
}

fn read_entry(rest: &mut Reader) -> Result<Entry, Malformed> {
    let (end, file) = (read_end(rest)?, rest.u32()?);
    Entry::new(end, file, rest.all()).map_err(Malformed)
}

fn write_end(end: &LogEnd, out: &mut Vec<u8>) {
    let LogEnd { log, term, index, link } = end;
    out.extend_from_slice(&log.number().to_le_bytes());
    out.extend_from_slice(&term.to_le_bytes());
    out.extend_from_slice(&index.to_le_bytes());
    out.extend_from_slice(&link.to_le_bytes());
}

fn read_end(rest: &mut Reader) -> Result<LogEnd, Malformed> {
    Ok(LogEnd { log: rest.log()?, term: rest.u64()?, index: rest.u64()?, link: rest.u32()? })
}

fn read_ends(rest: &mut Reader) -> Result<Vec<LogEnd>, Malformed> {
    let mut ends = Vec::with_capacity(rest.0.len() / 24);
    while !rest.0.is_empty() {
        ends.push(read_end(rest)?);
    }
    Ok(ends)
}

fn read_beat(rest: &mut Reader) -> Result<Beat, Malformed> {
    Ok(Beat { unix_ms: rest.u64()?, age_ms: rest.u64()?, entries: rest.u64()?, bytes: rest.u64()?, stamp: rest.u64()? })
}

fn read_refused(rest: &mut Reader) -> Result<Message, Malformed> {
    let [code] = rest.bytes()?;
    let why = Refusal::ALL.into_iter().find(|why| why.code() == code);
    let why = why.ok_or(Malformed("a refusal for no known reason"))?;
    Ok(Message::Refused { why, words: rest.text(LONGEST_WORDS)? })
}

/// The first bytes of a text, whole characters only.
fn clipped(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// What is left to read.
struct Reader(Bytes);

impl Reader {
    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let found = self.0.first_chunk().copied().ok_or(Malformed("a message that ends too early"))?;
        self.0 = self.0.slice(N..);
        Ok(found)
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        self.bytes().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        self.bytes().map(u64::from_le_bytes)
    }

    fn log(&mut self) -> Result<LogId, Malformed> {
        LogId::new(self.u32()?).ok_or(Malformed("a log whose number has more than 24 bits"))
    }

    fn part(&mut self, length: usize) -> Result<Bytes, Malformed> {
        if length > self.0.len() {
            return Err(Malformed("a message that ends too early"));
        }
        Ok(self.0.split_to(length))
    }

    fn all(&mut self) -> Bytes {
        std::mem::take(&mut self.0)
    }

    fn text(&mut self, most: usize) -> Result<String, Malformed> {
        if self.0.len() > most {
            return Err(Malformed("a text that is too long"));
        }
        String::from_utf8(self.all().into()).map_err(|_| Malformed("a text that is not UTF-8"))
    }

    fn piece(&mut self) -> Result<Bytes, Malformed> {
        if self.0.len() > PIECE {
            return Err(Malformed("a piece of more than a mebibyte"));
        }
        Ok(self.all())
    }
}
