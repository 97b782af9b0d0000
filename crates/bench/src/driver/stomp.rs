//! STOMP: messages go to `/queue/NAME`, confirms are receipts, acknowledgements are ACK frames.

use std::io::Write as _;
use std::time::Duration;

use stomp::client::{AckId, AckMode, Client, ClientError, Connect, Event as Said, Requests, Send, Settle, Subscribe};
use stomp::codec::Version;
use stomp::limits::Limits;
use wire::Output;

use super::link::Link;
use super::{AckCount, Conversation, Driver, Event, Line, Part, SELECTED, SELECTOR, in_turn};
use bench_record::failure::{Context, Failure};
use bench_record::scenario::{Destination, Scenario};
use bench_record::target::Target;

/// Bytes of an answer beside the body that was sent.
const HEADROOM: usize = 64 * 1024;
/// The receipt that closes the opening of a connection.
const READY: &str = "ready";

/// How long a message that was not asked for has time to come.
const UNWANTED: Duration = Duration::from_millis(250);

/// A broker that speaks STOMP.
pub(super) struct StompDriver {
    target: Target,
    scenario: Scenario,
    run: u32,
    /// What the broker calls itself.
    server: String,
}

impl StompDriver {
    pub(super) fn new(target: Target, scenario: Scenario, run: u32) -> Result<Self, Failure> {
        let exchange =
            matches!(scenario.topology.destination, Destination::Fanout | Destination::Direct | Destination::Pattern);
        let several = scenario.topology.destination == Destination::Spread && scenario.clients.ack_every > 1;
        let lacks = [
            (exchange, "exchanges in STOMP (they are made by AMQP 0-9-1: use amqp:// for them)"),
            (scenario.clients.poll, "request for a single message in STOMP"),
            (several, "acknowledgement in STOMP that covers messages of several subscriptions"),
        ];
        match lacks.iter().find(|(wanted, _)| *wanted) {
            Some((_, what)) => Err(Failure::lacking(*what)),
            None => Ok(Self { target, scenario, run, server: String::new() }),
        }
    }

    fn destination(&self, queue: usize) -> String {
        match &self.scenario.topology.queue_name {
            Some(name) => format!("/queue/{name}"),
            None if self.scenario.is_topic() => format!("/topic/hermod-bench.{:08x}", self.run),
            None => format!("/queue/hermod-bench.{:08x}.{queue}", self.run),
        }
    }

    /// Where the consumers of producer `id` send their replies.
    fn reply_destination(&self, id: usize) -> String {
        format!("/queue/hermod-bench.{:08x}.reply.{id}", self.run)
    }

    /// The name of the durable subscription of consumer `id`, and of the client that it belongs to.
    fn subscription(&self, id: usize) -> String {
        format!("hermod-bench.{:08x}.{id}", self.run)
    }

    fn talk(&self) -> StompTalk {
        let limits = Limits { body: self.scenario.message.size + HEADROOM, ..Limits::default() };
        StompTalk {
            client: Client::new(limits),
            destinations: Vec::new(),
            persistent: self.scenario.message.persistent,
            priority: self.scenario.message.priority.map(|priority| priority.to_string()),
            selects: self.scenario.clients.selector,
            confirms: self.scenario.clients.window > 0,
            published: 0,
            receipt: Vec::new(),
            acks: AckCount::new(0),
            newest: None,
        }
    }

    /// Opens a connection of a producer, or of a consumer, which may be at another broker of a
    /// network; `client` is its `client-id`, where it owns a durable subscription.
    fn connect(&mut self, side: Side, client: Option<&str>) -> Result<(Link, StompTalk), Failure> {
        let elsewhere = self.target.consume_at.as_ref().filter(|_| side == Side::Consumer);
        let mut link = Link::open(elsewhere.unwrap_or(&self.target.address))?;
        let mut talk = self.talk();
        let identity = [("client-id", client.unwrap_or_default())];
        let connect = Connect {
            host: &self.target.vhost,
            login: Some(&self.target.user),
            passcode: Some(&self.target.password),
            versions: &Version::ALL,
            headers: if client.is_some() { &identity } else { &[] },
            ..Connect::default()
        };
        talk.client.requests().connect(&connect);
        let mut server = String::new();
        await_answer(&mut link, &mut talk.client, "CONNECTED", |said| {
            let Said::Connected(connected) = said else { return false };
            server = connected.server().unwrap_or_default().into_owned();
            true
        })?;
        self.server = server;
        Ok((link, talk))
    }

    /// The headers that make the subscription of consumer `id` a durable one, as this broker calls
    /// them.
    fn durable_headers(&self, id: usize) -> Vec<(&'static str, String)> {
        let name = self.subscription(id);
        if self.server.contains("Artemis") {
            vec![("durable-subscription-name", name)]
        } else if self.server.contains("ActiveMQ") {
            vec![("activemq.subscriptionName", name)]
        } else {
            vec![("durable", "true".to_owned()), ("auto-delete", "false".to_owned())]
        }
    }

    /// Starts to consume what the consumer `id` reads.
    fn subscribe(&self, link: &mut Link, talk: &mut StompTalk, id: usize) -> Result<(), Failure> {
        let scenario = &self.scenario;
        let mut headers: Vec<(&str, String)> = Vec::new();
        if scenario.clients.prefetch > 0 {
            let artemis = self.server.contains("Artemis");
            let classic = self.server.contains("ActiveMQ") && !artemis;
            headers.push((
                if classic { "activemq.prefetchSize" } else { "prefetch-count" },
                scenario.clients.prefetch.to_string(),
            ));
        }
        if scenario.clients.selector.is_some() {
            headers.push(("selector", SELECTOR.to_owned()));
        }
        if scenario.topology.destination == Destination::DurableTopic {
            headers.extend(self.durable_headers(id));
        }
        let ack = match scenario.clients.ack_every {
            0 => AckMode::Auto,
            1 => AckMode::ClientIndividual,
            _ => AckMode::Client,
        };
        let numbers = scenario.queues_of(id);
        let last = numbers.end - 1;
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        for number in numbers {
            // Nothing may come before the time of a drain is taken: it leaves with the consumer's
            // first turn.
            let receipt = (number == last && !scenario.clients.drain).then_some(READY);
            let (destination, own) = (self.destination(number), self.subscription(number));
            talk.client.requests().subscribe(&Subscribe {
                id: &own,
                destination: &destination,
                ack,
                receipt,
                headers: &headers,
            });
        }
        if scenario.clients.drain {
            return Ok(());
        }
        await_answer(link, &mut talk.client, "the receipt of SUBSCRIBE", is_ready)
    }

    /// Consumes the replies to producer `id`.
    fn await_replies(&self, link: &mut Link, talk: &mut StompTalk, id: usize) -> Result<(), Failure> {
        let (destination, receipt) = (self.reply_destination(id), Some(READY));
        let subscribe = Subscribe { id: "replies", destination: &destination, receipt, ..Subscribe::default() };
        talk.client.requests().subscribe(&subscribe);
        await_answer(link, &mut talk.client, "the receipt of SUBSCRIBE", is_ready)
    }

    /// Fails where consumers can't ask for some messages: a broker may well take the header and not
    /// know it.
    fn need_selectors(&mut self) -> Result<(), Failure> {
        let (mut link, mut talk) = self.connect(Side::Producer, None)?;
        let destination = format!("/topic/hermod-bench.{:08x}.probe", self.run);
        let headers = [("selector", "kind = 'nothing of this kind'")];
        let subscribe = Subscribe { id: "0", destination: &destination, headers: &headers, ..Subscribe::default() };
        talk.client.requests().subscribe(&subscribe);
        let send = Send { destination: &destination, receipt: Some(READY), ..Send::default() };
        talk.client.requests().send(&send, b"probe");
        let lacking = || Failure::lacking(format!("selectors over STOMP in {}", self.server));
        let mut came = false;
        await_answer(&mut link, &mut talk.client, "the receipt of SEND", |said| {
            came |= matches!(said, Said::Message(_));
            is_ready(said)
        })
        .map_err(|_| lacking())?;
        link.set_read_timeout(UNWANTED)?;
        came |= link.read()?;
        if came { Err(lacking()) } else { Ok(()) }
    }
}

/// Product and version, as CONNECTED has them: `PRODUCT/VERSION`.
pub(super) fn server(target: &Target) -> Result<(String, String), Failure> {
    let mut driver = StompDriver::new(target.clone(), Scenario::default(), 0)?;
    driver.connect(Side::Producer, None)?;
    let (product, version) = driver.server.split_once('/').unwrap_or((&driver.server, ""));
    Ok((product.to_owned(), version.to_owned()))
}

impl Driver for StompDriver {
    /// Queues come into being with the first frame that names them.
    fn prepare(&mut self) -> Result<(), Failure> {
        if self.scenario.clients.selector.is_some() { self.need_selectors() } else { Ok(()) }
    }

    fn open(&mut self, part: Part) -> Result<Line, Failure> {
        let queues = self.scenario.topology.queues;
        let (publish, consume) = match part {
            Part::Produce(id) => (Some(id % queues), None),
            Part::Consume(id) => (None, Some(id % queues)),
            Part::PingPong { far } => (Some(usize::from(far)), Some(usize::from(!far))),
        };
        let durable = consume.filter(|_| self.scenario.topology.destination == Destination::DurableTopic);
        let client = durable.map(|id| self.subscription(id));
        let (mut link, mut talk) =
            self.connect(if consume.is_some() { Side::Consumer } else { Side::Producer }, client.as_deref())?;
        if let Some(queue) = publish {
            talk.destinations = self.scenario.queues_of(queue).map(|number| self.destination(number)).collect();
        }
        if let Some(id) = consume {
            talk.acks = AckCount::new(self.scenario.clients.ack_every);
            self.subscribe(&mut link, &mut talk, id)?;
        }
        match part {
            Part::Produce(id) if self.scenario.clients.reply => self.await_replies(&mut link, &mut talk, id)?,
            Part::Consume(id) if self.scenario.clients.reply => {
                talk.destinations.push(self.reply_destination(id % self.scenario.topology.producers));
                (talk.persistent, talk.confirms) = (false, false);
            }
            _ => {}
        }
        link.set_delay(&self.scenario)?;
        Ok(Line { link, talk: Box::new(talk) })
    }

    fn depth(&mut self) -> Result<Option<u64>, Failure> {
        Ok(None)
    }

    /// STOMP has no way to delete a queue; its name is this run's own. Durable subscriptions are
    /// ended.
    fn clean(&mut self) -> Result<(), Failure> {
        if self.scenario.topology.destination != Destination::DurableTopic {
            return Ok(());
        }
        for id in 0..self.scenario.topology.consumers {
            let name = self.subscription(id);
            let (mut link, mut talk) = self.connect(Side::Consumer, Some(&name))?;
            // Some brokers end only what is in use on the same connection.
            self.subscribe(&mut link, &mut talk, id)?;
            let mut headers = self.durable_headers(id);
            headers.push(("destination", self.destination(id)));
            let headers: Vec<(&str, &str)> = headers.iter().map(|(key, value)| (*key, value.as_str())).collect();
            talk.client.requests().unsubscribe_durable(&name, Some(READY), &headers);
            await_answer(&mut link, &mut talk.client, "the receipt of UNSUBSCRIBE", is_ready)?;
        }
        Ok(())
    }
}

fn is_ready(said: &Said<'_>) -> bool {
    matches!(said, Said::Receipt(id) if id == READY)
}

/// Reads until the awaited frame has come.
fn await_answer(
    link: &mut Link,
    client: &mut Client,
    what: &str,
    mut is_it: impl FnMut(&Said<'_>) -> bool,
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
    /// Message number n goes to the one at n modulo their number.
    destinations: Vec<String>,
    persistent: bool,
    priority: Option<String>,
    /// One of this many messages is such a one as consumers select.
    selects: Option<u64>,
    confirms: bool,
    published: u64,
    /// The text of the receipt last asked for.
    receipt: Vec<u8>,
    acks: AckCount,
    /// The newest delivery that no ACK covers yet; kept only where ACKs are cumulative.
    newest: Option<AckId<'static>>,
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Producer,
    Consumer,
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
        let (mut headers, mut count) = ([("", ""); 3], 0);
        let mut add = |name, value| {
            headers[count] = (name, value);
            count += 1;
        };
        if self.persistent {
            add("persistent", "true");
        }
        if let Some(priority) = &self.priority {
            add("priority", priority);
        }
        if let Some(selects) = self.selects {
            add("kind", if self.published.is_multiple_of(selects) { SELECTED } else { "B" });
        }
        let destination = in_turn(&self.destinations, self.published)?;
        let send = Send { destination, receipt, headers: &headers[..count], ..Send::default() };
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
