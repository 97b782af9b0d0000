//! A connection to a NATS server that asks and waits: the greeting, and questions to JetStream.

use serde_json::{Value, json};
use wire::Output;

use super::codec::{Said, decode, publish, subscribe};
use crate::driver::link::Link;
use bench_record::failure::{Context, Failure};
use bench_record::target::Target;

/// The number of the subscription that answers come to.
const ANSWERS: u64 = 9;

/// A greeted server.
pub(super) struct Asking {
    link: Link,
    output: Output,
    inbox: String,
    /// The largest body that the server takes.
    largest: u64,
}

impl Asking {
    /// Connects to `target`; answers come to `inbox`, which is for this connection alone.
    pub(super) fn open(target: &Target, inbox: &str) -> Result<Self, Failure> {
        let link = Link::open(&target.address)?;
        let mut asking = Self { link, output: Output::keeping_all(), inbox: inbox.to_owned(), largest: 0 };
        let info = asking.hear("its greeting", &mut |said| match said {
            Said::Info(info) => Some(serde_json::from_slice::<Value>(info).context("the server's INFO")),
            _ => None,
        })??;
        asking.largest = info["max_payload"].as_u64().unwrap_or(u64::MAX);
        let hello = json!({
            "verbose": false, "pedantic": false, "tls_required": false, "name": "hermod-bench", "lang": "rust",
            "version": env!("CARGO_PKG_VERSION"), "protocol": 1, "headers": true, "no_responders": true,
            "user": target.user, "pass": target.password,
        });
        asking.output.put(format!("CONNECT {hello}\r\n").as_bytes());
        asking.subscribe(&format!("{inbox}.a"), None, ANSWERS);
        asking.settle()?;
        Ok(asking)
    }

    /// Fails when the server takes no bodies of `size` bytes.
    pub(super) fn can_take(&self, size: usize) -> Result<(), Failure> {
        if size as u64 <= self.largest {
            return Ok(());
        }
        Err(Failure::new(format!("bodies of {size} bytes are too large: its max_payload is {}", self.largest)))
    }

    /// Subscribes with the next write.
    pub(super) fn subscribe(&mut self, subject: &str, group: Option<&str>, id: u64) {
        subscribe(subject, group, id, self.output.tail());
    }

    /// Waits until the server has taken all that was said.
    pub(super) fn settle(&mut self) -> Result<(), Failure> {
        self.output.put(b"PING\r\n");
        self.hear("PING", &mut |said| matches!(said, Said::Pong).then_some(()))
    }

    /// Asks JetStream and waits for its answer.
    pub(super) fn ask(&mut self, subject: &str, question: &Value) -> Result<Value, Failure> {
        publish(subject, &format!("{}.a", self.inbox), question.to_string().as_bytes(), self.output.tail());
        let answer = self.hear(subject, &mut |said| match said {
            Said::Message(message) if message.subscription == ANSWERS => match message.status {
                Some(503) => Some(Err(Failure::new(format!("{subject}: nobody answers; is JetStream turned on?")))),
                Some(status) => Some(Err(Failure::new(format!("{subject}: status {status}")))),
                None => Some(serde_json::from_slice::<Value>(message.body).context(subject)),
            },
            _ => None,
        })??;
        match answer["error"]["description"].as_str() {
            Some(error) => Err(Failure::new(format!("{subject}: {error}"))),
            None => Ok(answer),
        }
    }

    /// Sends the waiting output, and reads until `pick` finds what it looks for.
    fn hear<T>(&mut self, what: &str, pick: &mut dyn FnMut(&Said<'_>) -> Option<T>) -> Result<T, Failure> {
        loop {
            let (mut used, mut picked) = (0, None);
            while let Some((said, length)) = decode(&self.link.input()[used..])? {
                used += length;
                match said {
                    Said::Ping => self.output.put(b"PONG\r\n"),
                    Said::Refusal(why) => return Err(Failure::new(format!("{what}: the server says: {why}"))),
                    said => picked = pick(&said),
                }
                if picked.is_some() {
                    break;
                }
            }
            self.link.consume(used);
            self.link.write_all(&mut self.output)?;
            if let Some(picked) = picked {
                return Ok(picked);
            }
            if !self.link.read()? {
                return Err(Failure::new(format!("no answer to {what}")));
            }
        }
    }

    /// The socket, to carry messages on it.
    pub(super) fn into_parts(self) -> (Link, Output) {
        (self.link, self.output)
    }
}
