//! One of the two connections: its socket, and the bytes on their way. How each client introduces
//! itself.

use std::io;
use std::time::{Duration, Instant};

use amqp10::codec::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};

use crate::dial::Stream;
use crate::uri::Uri;

/// Bytes of the largest message that is moved.
const LARGEST_MESSAGE: usize = 512 << 20;
/// Room for a read.
const READ: usize = 64 * 1024;
/// A buffer of this size is given back when it is empty.
const LARGE: usize = 1 << 20;

/// How a client of AMQP 0-9-1 introduces itself.
pub(crate) fn options091(uri: &Uri, end: &str) -> amqp091::client::Options {
    use amqp091::client::{Mechanism, Options};
    Options {
        user: uri.user().to_owned(),
        password: uri.password().to_owned(),
        mechanism: if uri.is_local() { Mechanism::External } else { Mechanism::Plain },
        virtual_host: uri.vhost().unwrap_or("/").to_owned(),
        connection_name: format!("shovel {end}"),
        heartbeat: uri.heartbeat(),
        max_message_size: LARGEST_MESSAGE as u64,
        ..Options::default()
    }
}

/// How a client of AMQP 1.0 introduces itself.
pub(crate) fn options10(uri: &Uri, end: &str) -> amqp10::client::Options {
    use amqp10::client::{Login, Options};
    let login = if uri.is_local() { Login::External } else { Login::plain(uri.user(), uri.password()) };
    // RabbitMQ's way to name a vhost; others take the host.
    let hostname = uri.vhost().map(|vhost| format!("vhost:{vhost}")).or_else(|| uri.host().map(str::to_owned));
    Options {
        login,
        container_id: format!("shovel-{end}-{:x}", unique()),
        hostname,
        idle_time_out: (uri.heartbeat() > 0).then(|| u32::from(uri.heartbeat()) * 2000),
        max_message_size: LARGEST_MESSAGE,
        ..Options::default()
    }
}

/// A number that another connection of this process does not have: a container that comes twice
/// counts as one client, with some brokers.
fn unique() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or_default().wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed))
}

/// An error of AMQP 1.0 as a text.
pub(crate) fn condition(error: Option<&Error<'_>>) -> String {
    match error {
        None => "it gave no reason".to_owned(),
        Some(Error { condition, description: None, .. }) => condition.0.to_owned(),
        Some(Error { condition, description: Some(text), .. }) => format!("{}: {text}", condition.0),
    }
}

/// One connection.
pub(crate) struct Peer {
    reader: ReadHalf<Box<dyn Stream>>,
    writer: WriteHalf<Box<dyn Stream>>,
    /// What came and was not taken yet.
    pub(crate) input: Vec<u8>,
    /// What has to be written.
    pub(crate) out: Vec<u8>,
    /// How much of it is written.
    written: usize,
    /// Whether the socket may hold something back.
    held: Held,
    heard: Instant,
    said: Instant,
    /// The longest silence of ours; `None`: any.
    silence: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    Nothing,
    Something,
}

impl Peer {
    pub(crate) fn new(stream: Box<dyn Stream>, uri: &Uri) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        let now = Instant::now();
        let silence = (uri.heartbeat() > 0).then(|| Duration::from_secs(uri.heartbeat().into()) / 2);
        let (input, out, written, held) = (Vec::new(), Vec::new(), 0, Held::Nothing);
        Self { reader, writer, input, out, written, held, heard: now, said: now, silence }
    }

    /// Waits until more bytes came, or some could be written; reads only if `reads`. It can be
    /// dropped at any time.
    ///
    /// # Errors
    /// If the connection has ended.
    pub(crate) async fn progress(&mut self, reads: Reads) -> io::Result<()> {
        let Self { reader, writer, input, out, written, held, heard, said, .. } = self;
        if input.is_empty() && input.capacity() > LARGE {
            *input = Vec::new();
        }
        input.reserve(READ);
        tokio::select! {
            read = reader.read_buf(input), if reads == Reads::On => {
                *heard = Instant::now();
                match read? {
                    0 => Err(io::ErrorKind::UnexpectedEof.into()),
                    _ => Ok(()),
                }
            }
            wrote = push(writer, &out[*written..]), if !out.is_empty() || *held == Held::Something => {
                let Some(count) = wrote? else {
                    *held = Held::Nothing;
                    return Ok(());
                };
                *written += count;
                if *written == out.len() {
                    *written = 0;
                    if out.capacity() > LARGE { *out = Vec::new() } else { out.clear() }
                } else if *written > LARGE.max(out.len() / 2) {
                    out.drain(..std::mem::take(written));
                }
                (*said, *held) = (Instant::now(), Held::Something);
                Ok(())
            }
            else => std::future::pending().await,
        }
    }

    /// Bytes that wait to be written.
    pub(crate) fn waiting(&self) -> usize {
        self.out.len() - self.written
    }

    /// Drops what was taken from the front of the input.
    pub(crate) fn took(&mut self, bytes: usize) {
        self.input.drain(..bytes);
    }

    /// Whether a sign of life is due.
    pub(crate) fn owes_heartbeat(&self, now: Instant) -> bool {
        self.silence.is_some_and(|silence| now.duration_since(self.said) >= silence)
    }

    /// Whether nothing came for too long, although it was read.
    pub(crate) fn is_silent(&self, now: Instant) -> bool {
        self.silence.is_some_and(|silence| now.duration_since(self.heard) > silence * 6)
    }

    /// It was not read, so its silence says nothing.
    pub(crate) fn was_not_heard(&mut self, now: Instant) {
        self.heard = now;
    }
}

/// Writes some of these bytes, and returns how many; without any, it has the socket give up what it
/// holds back.
async fn push(writer: &mut WriteHalf<Box<dyn Stream>>, bytes: &[u8]) -> io::Result<Option<usize>> {
    match bytes {
        [] => writer.flush().await.map(|()| None),
        bytes => writer.write(bytes).await.map(Some),
    }
}

/// Whether a connection is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reads {
    On,
    Off,
}
