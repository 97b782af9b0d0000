//! One Kafka connection that carries messages. Those that are published between two writes share a
//! batch, within the bounds that the load sets; a consumer reads its partition itself, and an
//! offset that it commits is its acknowledgement.
//!
//! A broker works off one request of a connection after the other, and a commit takes milliseconds.
//! So the acknowledgements that are due for what a Fetch brought are one commit, which goes out
//! before more is asked for. For the same reason an end that publishes and consumes asks for
//! messages only behind what it publishes.

use std::collections::VecDeque;
use std::time::{SystemTime, UNIX_EPOCH};

use wire::Output;

use super::batch::{Acks, OpenBatch, RECORD, Records};
use super::codec::{self, Request, decode};
use crate::driver::{AckCount, Conversation, Event};
use bench_record::failure::{Context, Failure};

/// How one connection publishes.
#[derive(Debug)]
pub(super) struct Publishing {
    pub(super) topic: String,
    pub(super) confirms: bool,
    /// Most bytes of a batch of several messages.
    pub(super) most_bytes: usize,
    /// Most messages of a batch.
    pub(super) most_messages: u32,
}

/// How one connection consumes.
#[derive(Debug)]
pub(super) struct Consuming {
    pub(super) topic: String,
    /// Whose offset it commits.
    pub(super) group: String,
    pub(super) acks: AckCount,
    /// Most bytes of a Fetch.
    pub(super) most_bytes: u32,
    /// The offset of the next message.
    pub(super) next: i64,
}

/// A request that will be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// What was published up to this number.
    Produce(u64),
    Fetch,
    Commit,
}

/// A connection.
pub(super) struct KafkaTalk {
    output: Output,
    publishing: Option<Publishing>,
    consuming: Option<Consuming>,
    open: Option<OpenBatch>,
    published: u64,
    /// A Fetch is to follow the next message.
    fetch_behind: bool,
    correlation: u32,
    asked: VecDeque<(u32, Asked)>,
}

impl KafkaTalk {
    pub(super) fn new(publishing: Option<Publishing>, consuming: Option<Consuming>) -> Self {
        Self {
            output: Output::keeping_all(),
            publishing,
            consuming,
            open: None,
            published: 0,
            fetch_behind: false,
            correlation: 0,
            asked: VecDeque::new(),
        }
    }

    /// Asks for the first messages.
    pub(super) fn fetch_now(&mut self) {
        self.fetch();
    }

    /// Asks for the first messages behind the first that is published.
    pub(super) fn fetch_after_publish(&mut self) {
        self.fetch_behind = true;
    }

    /// The number of the next request.
    fn next_correlation(&mut self) -> u32 {
        self.correlation = self.correlation.wrapping_add(1);
        self.correlation
    }

    /// Ends the batch that is open.
    fn end_batch(&mut self) {
        let Some(batch) = self.open.take() else { return };
        batch.end(self.output.tail());
        if self.publishing.as_ref().is_some_and(|publishing| publishing.confirms) {
            self.asked.push_back((self.correlation, Asked::Produce(self.published)));
        }
        if std::mem::take(&mut self.fetch_behind) {
            self.fetch();
        }
    }

    fn fetch(&mut self) {
        self.end_batch();
        let correlation = self.next_correlation();
        let Some(Consuming { topic, next, most_bytes, .. }) = &self.consuming else { return };
        Request::Fetch { topic, from: *next, most: *most_bytes }.encode(correlation, self.output.tail());
        self.asked.push_back((correlation, Asked::Fetch));
    }

    /// Acknowledges all before `offset`.
    fn commit(&mut self, offset: i64) {
        self.end_batch();
        let correlation = self.next_correlation();
        let Some(Consuming { topic, group, .. }) = &self.consuming else { return };
        Request::Commit { group, topic, offset }.encode(correlation, self.output.tail());
        self.asked.push_back((correlation, Asked::Commit));
    }

    /// True when a message of `size` bytes must not go into the batch that is open.
    fn is_full_for(&mut self, size: usize) -> bool {
        let (Some(open), Some(publishing)) = (&self.open, &self.publishing) else { return false };
        let length = open.length(self.output.tail());
        open.count() >= publishing.most_messages || length + RECORD + size > publishing.most_bytes
    }

    /// Hands the messages of a Fetch on, acknowledges those that are due, and asks for more.
    fn take(&mut self, body: &[u8], on: &mut dyn FnMut(Event<'_>)) -> Result<(), Failure> {
        let fetched = codec::fetched(body)?;
        fetched.code.check("Fetch")?;
        let mut records = Records::new(fetched.records);
        let (mut count, mut due) = (0_u64, None);
        for record in &mut records {
            let (offset, body) = record.context("messages of the broker")?;
            let Some(consuming) = self.consuming.as_mut().filter(|consuming| offset >= consuming.next) else {
                continue;
            };
            consuming.next = offset + 1;
            count += 1;
            on(Event::Delivery { body, redelivered: false });
            if consuming.acks.due() {
                due = Some(consuming.next);
            }
        }
        if let Some(offset) = due {
            self.commit(offset);
        }
        let Some(consuming) = &mut self.consuming else { return Ok(()) };
        consuming.next = consuming.next.max(records.next_offset());
        // Who publishes too answers first.
        if self.publishing.is_some() && count > 0 {
            self.fetch_behind = true;
        } else {
            self.fetch();
        }
        Ok(())
    }
}

impl Conversation for KafkaTalk {
    fn publish(&mut self, body: &[u8]) -> Result<(), Failure> {
        if self.is_full_for(body.len()) {
            self.end_batch();
        }
        let mut open = match self.open.take() {
            Some(open) => open,
            None => {
                let correlation = self.next_correlation();
                let Some(Publishing { topic, confirms, .. }) = &self.publishing else {
                    return Err(Failure::new("a consumer of Kafka does not publish"));
                };
                let acks = if *confirms { Acks::All } else { Acks::None };
                OpenBatch::begin(topic, correlation, acks, now_ms(), self.output.tail())
            }
        };
        open.push(body, self.output.tail());
        self.open = Some(open);
        self.published += 1;
        Ok(())
    }

    fn receive(&mut self, input: &[u8], on: &mut dyn FnMut(Event<'_>)) -> Result<usize, Failure> {
        let mut used = 0;
        while let Some((answer, length)) = decode(&input[used..])? {
            used += length;
            let asked = self.asked.pop_front().filter(|(correlation, _)| *correlation == answer.correlation);
            let Some((_, asked)) = asked else { return Err(Failure::new("an answer to another question")) };
            match asked {
                Asked::Produce(upto) => {
                    let accepted = codec::produced(answer.body)?.is_fine();
                    // Answers come in order: what is not confirmed before is of this batch.
                    on(Event::Confirm { upto, multiple: true, accepted });
                }
                Asked::Fetch => self.take(answer.body, on)?,
                Asked::Commit => codec::committed(answer.body)?.check("OffsetCommit")?,
            }
        }
        Ok(used)
    }

    fn settle(&mut self) -> Result<(), Failure> {
        if let Some(consuming) = self.consuming.as_mut().filter(|consuming| consuming.acks.waits()) {
            consuming.acks.take_rest();
            let next = consuming.next;
            self.commit(next);
        }
        Ok(())
    }

    fn waiting(&mut self) -> usize {
        self.output.len()
    }

    /// What goes out has its length in front: the batch that is open ends here.
    fn output(&mut self) -> &mut Output {
        self.end_batch();
        &mut self.output
    }
}

/// Milliseconds since 1970, which brokers remove old messages by.
fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests;
