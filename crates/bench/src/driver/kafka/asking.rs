//! A connection to a Kafka broker that asks and waits: for its versions, topics, offsets and
//! coordinators.

use std::time::{Duration, Instant};

use wire::Output;

use super::codec::{self, Call, Code, End, Request, decode};
use crate::driver::link::Link;
use bench_record::failure::{Context, Failure};

/// How long something may be in the making: the broker's first topic of offsets has fifty
/// partitions.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two questions whether it is made.
const PAUSE: Duration = Duration::from_millis(20);

/// A broker that takes the versions spoken here.
pub(super) struct Asking {
    link: Link,
    output: Output,
    asked: u32,
}

impl Asking {
    /// Connects to `address`.
    pub(super) fn open(address: &str) -> Result<Self, Failure> {
        let mut asking = Self { link: Link::open(address)?, output: Output::keeping_all(), asked: 0 };
        codec::versions(&asking.ask(&Request::Versions)?)?;
        Ok(asking)
    }

    /// Makes `topics` that take batches of `largest` bytes, where they are not there, and waits
    /// until they have leaders.
    pub(super) fn create(&mut self, topics: &[String], largest: usize) -> Result<(), Failure> {
        let codes = codec::created(&self.ask(&Request::Create { topics, largest })?)?;
        for (code, topic) in codes.iter().zip(topics).filter(|(code, _)| !code.is_there()) {
            code.check(&format!("making the topic {topic}"))?;
        }
        self.until_made("the leaders of the topics", &mut |asking| {
            let said = codec::metadata(&asking.ask(&Request::Metadata { topics })?)?;
            if said.brokers > 1 {
                let what = format!("cluster of {} brokers in this program's driver for Kafka", said.brokers);
                return Err(Failure::lacking(what));
            }
            Ok(said.topics.into_iter().find(|code| !code.is_fine()))
        })?;
        self.offsets(topics, End::Earliest).map(drop)
    }

    /// Removes `topics`.
    pub(super) fn delete(&mut self, topics: &[String]) -> Result<(), Failure> {
        let codes = codec::deleted(&self.ask(&Request::Delete { topics })?)?;
        codes.iter().zip(topics).try_for_each(|(code, topic)| code.check(&format!("removing the topic {topic}")))
    }

    /// The offsets at one end of each topic. A broker knows its topics a moment before it leads
    /// them.
    pub(super) fn offsets(&mut self, topics: &[String], end: End) -> Result<Vec<i64>, Failure> {
        let mut offsets = Vec::new();
        self.until_made("asking for offsets", &mut |asking| {
            let said = codec::offsets(&asking.ask(&Request::Offsets { topics, end })?)?;
            let wrong = said.iter().map(|(code, _)| *code).find(|code| !code.is_fine());
            offsets = said.into_iter().map(|(_, offset)| offset).collect();
            Ok(wrong)
        })?;
        if offsets.len() != topics.len() {
            return Err(Failure::new(format!("{} offsets for {} topics", offsets.len(), topics.len())));
        }
        Ok(offsets)
    }

    /// Waits until the broker takes what `group` commits of `topic`: the first group ever makes it
    /// set up where it keeps that.
    pub(super) fn until_it_commits(&mut self, group: &str, topic: &str, offset: i64) -> Result<(), Failure> {
        self.until_made("the coordinator", &mut |asking| {
            let found = codec::coordinator(&asking.ask(&Request::Coordinator { group })?)?;
            if !found.is_fine() {
                return Ok(Some(found));
            }
            let committed = codec::committed(&asking.ask(&Request::Commit { group, topic, offset })?)?;
            Ok(Some(committed).filter(|code| !code.is_fine()))
        })
    }

    /// Asks until nothing is wrong any more, as long as what is wrong will pass.
    fn until_made(
        &mut self,
        what: &str,
        wrong: &mut dyn FnMut(&mut Self) -> Result<Option<Code>, Failure>,
    ) -> Result<(), Failure> {
        let end = Instant::now() + PATIENCE;
        while let Some(code) = wrong(self)? {
            if !code.is_early() || Instant::now() > end {
                return code.check(what);
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Sends a request and waits for the body of its answer.
    fn ask(&mut self, request: &Request<'_>) -> Result<Vec<u8>, Failure> {
        let call: Call = request.call();
        self.asked += 1;
        request.encode(self.asked, self.output.tail());
        self.link.write_all(&mut self.output)?;
        loop {
            if let Some((answer, length)) = decode(self.link.input())? {
                let (correlation, body) = (answer.correlation, answer.body.to_vec());
                self.link.consume(length);
                if correlation != self.asked {
                    return Err(Failure::new(format!("{call:?}: an answer to another question")));
                }
                return Ok(body);
            }
            if !self.link.read().context(format!("{call:?}"))? {
                return Err(Failure::new(format!("no answer to {call:?}")));
            }
        }
    }

    /// The socket, to carry messages on it.
    pub(super) fn into_link(self) -> Link {
        self.link
    }
}
