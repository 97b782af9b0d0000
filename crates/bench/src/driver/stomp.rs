//! STOMP: messages go to `/queue/NAME`, confirms are receipts, acknowledgements are ACK frames.

use std::io::Write as _;

use stomp::client::{AckId, AckMode, Client, ClientError, Connect, Event as Said, Requests, Send, Settle, Subscribe};
use stomp::codec::Version;
use stomp::limits::Limits;
use wire::Output;

use super::link::Link;
use super::{AckCount, Conversation, Driver, Event, Line, Part};
use crate::failure::{Context, Failure};
use crate::scenario::Scenario;
use crate::target::Target;

/// Bytes of an answer beside the body that was sent.
const HEADROOM: usize = 64 * 1024;
/// The receipt that closes the opening of a connection.
const READY: &str = "ready";

/// A broker that speaks STOMP.
pub(super) struct StompDriver {
    target: Target,
    scenario: Scenario,
    run: u32,
}

impl StompDriver {
    pub(super) fn new(target: Target, scenario: Scenario, run: u32) -> Result<Self, Failure> {
        if scenario.fanout {
            return Err(Failure::new(
                "fan-out over STOMP is not measured: exchanges are made by AMQP; use amqp:// for it",
            ));
        }
        Ok(Self { target, scenario, run })
    }

    fn destination(&self, queue: usize) -> String {
        match &self.scenario.queue_name {
            Some(name) => format!("/queue/{name}"),
            None => format!("/queue/hermod-bench.{:08x}.{queue}", self.run),
        }
    }

    fn talk(&self) -> StompTalk {
        let limits = Limits { body: self.scenario.size + HEADROOM, ..Limits::default() };
        StompTalk {
            client: Client::new(limits),
            destination: String::new(),
            persistent: self.scenario.persistent,
            confirms: self.scenario.window > 0,
            published: 0,
            receipt: Vec::new(),
            acks: AckCount::new(self.scenario.ack_every),
            newest: None,
        }
    }
}

impl Driver for StompDriver {
    /// Queues come into being with the first frame that names them.
    fn prepare(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn open(&mut self, part: Part) -> Result<Line, Failure> {
        let (publish, consume) = match part {
            Part::Produce(id) => (Some(id % self.scenario.queues), None),
            Part::Consume(id) => (None, Some(id % self.scenario.queues)),
            Part::PingPong { far } => (Some(usize::from(far)), Some(usize::from(!far))),
        };
        let mut link = Link::open(&self.target.address)?;
        let mut talk = self.talk();
        let connect = Connect {
            host: &self.target.vhost,
            login: Some(&self.target.user),
            passcode: Some(&self.target.password),
            versions: &Version::ALL,
            ..Connect::default()
        };
        talk.client.requests().connect(&connect);
        await_answer(&mut link, &mut talk.client, "CONNECTED", |said| matches!(said, Said::Connected(_)))?;
        if let Some(queue) = publish {
            talk.destination = self.destination(queue);
        }
        if let Some(queue) = consume {
            let prefetch = self.scenario.prefetch.to_string();
            let headers = [("prefetch-count", prefetch.as_str())];
            let ack = match self.scenario.ack_every {
                0 => AckMode::Auto,
                1 => AckMode::ClientIndividual,
                _ => AckMode::Client,
            };
            let headers: &[(&str, &str)] = if self.scenario.prefetch > 0 { &headers } else { &[] };
            let destination = self.destination(queue);
            let receipt = Some(READY);
            talk.client.requests().subscribe(&Subscribe { id: "0", destination: &destination, ack, receipt, headers });
            let is_ready = |said: &Said<'_>| matches!(said, Said::Receipt(id) if id == READY);
            await_answer(&mut link, &mut talk.client, "the receipt of SUBSCRIBE", is_ready)?;
        }
        Ok(Line { link, talk: Box::new(talk) })
    }

    fn depth(&mut self) -> Result<Option<u64>, Failure> {
        Ok(None)
    }

    /// STOMP has no way to delete a queue; its name is this run's own.
    fn clean(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}

/// Reads until the awaited frame has come.
fn await_answer(
    link: &mut Link,
    client: &mut Client,
    what: &str,
    is_it: impl Fn(&Said<'_>) -> bool,
) -> Result<(), Failure> {
    link.write_all(client.requests().output())?;
    let mut answer = None;
    while answer.is_none() {
        if !link.read()? {
            return Err(Failure::new(format!("no answer while waiting for {what}")));
        }
        let used = client.feed(link.input(), |said, _| {
            if let Said::Error(report) = &said {
                answer = Some(Err(refusal(report)));
            } else if is_it(&said) && answer.is_none() {
                answer = Some(Ok(()));
            }
        });
        link.consume(used.context(what)?);
    }
    answer.unwrap_or(Ok(()))
}

fn refusal(report: &stomp::client::ErrorReport<'_>) -> Failure {
    Failure::new(format!("the broker answered ERROR: {} {}", report.message(), report.detail().trim()))
}

/// One STOMP connection.
struct StompTalk {
    client: Client,
    destination: String,
    persistent: bool,
    confirms: bool,
    published: u64,
    /// The text of the receipt last asked for.
    receipt: Vec<u8>,
    acks: AckCount,
    /// The newest delivery that no ACK covers yet; kept only where ACKs are cumulative.
    newest: Option<AckId<'static>>,
}

impl Conversation for StompTalk {
    fn publish(&mut self, body: &[u8]) -> Result<(), Failure> {
        self.published += 1;
        let mut receipt = None;
        if self.confirms {
            self.receipt.clear();
            write!(self.receipt, "{}", self.published)?;
            receipt = Some(std::str::from_utf8(&self.receipt).context("receipt")?);
        }
        let headers: &[(&str, &str)] = if self.persistent { &[("persistent", "true")] } else { &[] };
        let send = Send { destination: &self.destination, receipt, headers, ..Send::default() };
        self.client.requests().send(&send, body);
        Ok(())
    }

    fn receive(&mut self, input: &[u8], on: &mut dyn FnMut(Event<'_>)) -> Result<usize, Failure> {
        let Self { client, acks, newest, .. } = self;
        let mut failure = None;
        let used = client.feed(input, |said, requests| match said {
            Said::Message(message) => {
                on(Event::Delivery {
                    body: message.body(),
                    redelivered: message.headers.get("redelivered").as_deref() == Some("true"),
                });
                if acks.due()
                    && let Some(id) = message.ack_id()
                {
                    acknowledge(requests, &id);
                    *newest = None;
                } else if acks.waits() {
                    *newest = message.ack_id().map(AckId::into_owned);
                }
            }
            Said::Receipt(id) => match id.parse() {
                Ok(upto) => on(Event::Confirm { upto, multiple: false, accepted: true }),
                Err(_) => failure = Some(Failure::new(format!("a receipt that nobody asked for: {id}"))),
            },
            Said::Error(report) => failure = Some(refusal(&report)),
            Said::Connected(_) => {}
        });
        let used = used.map_err(|error: ClientError| Failure::new(error.to_string()))?;
        failure.map_or(Ok(used), Err)
    }

    fn settle(&mut self) -> Result<(), Failure> {
        if self.acks.take_rest()
            && let Some(id) = self.newest.take()
        {
            acknowledge(self.client.requests(), &id);
        }
        Ok(())
    }

    fn output(&mut self) -> &mut Output {
        self.client.requests().output()
    }
}

fn acknowledge(requests: &mut Requests, id: &AckId<'_>) {
    requests.ack(id, &Settle::default());
}
