//! The conversation over STOMP 1.2. Receipts are the confirms, the fences and the answers to
//! commits.

use crate::stamp::DeliveryMode;
use std::time::{Duration, Instant};

use stomp::client::{AckMode, Client, Connect, Event, Send, Settle, Subscribe};
use stomp::codec::Version;
use stomp::limits::Limits;

use super::link::Link;
use super::shown;
use super::{Broken, End, Handle, Heard, Numbers, Publish, Purpose, Settlement, Talk};
use crate::fence::Fence;
use crate::history::Outcome;
use crate::topology::{QUEUES, Route, VOID};

/// How long the handshake may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// What a receipt stands for is its first letter; its number follows.
const CONFIRM: char = 'p';
const FENCE: char = 'f';
const COMMIT: char = 't';

/// One connection.
pub(super) struct StompTalk {
    link: Link,
    client: Client,
    output: Vec<u8>,
    purpose: Purpose,
    published: u64,
    /// The transaction that has begun and not ended.
    open: Option<u64>,
}

impl StompTalk {
    /// Connects as guest.
    pub(super) fn open(port: u16, purpose: Purpose) -> Result<Self, Broken> {
        let mut client = Client::new(Limits::default());
        let guest = Some("guest");
        client.requests().connect(&Connect {
            login: guest,
            passcode: guest,
            versions: &[Version::V1_2],
            ..Connect::default()
        });
        let mut talk = Self { link: Link::open(port)?, client, output: Vec::new(), purpose, published: 0, open: None };
        let end = Instant::now() + PATIENCE;
        let mut connected = false;
        while !connected {
            if Instant::now() > end {
                return Err(Broken::Refused(format!("CONNECT: no answer within {PATIENCE:?}")));
            }
            talk.turn(Duration::from_millis(100), &mut |event| {
                connected |= matches!(event, Event::Connected(_));
                None
            })?;
        }
        Ok(talk)
    }

    /// Writes, reads once, and hands each event to `take`, which may say what is wrong with it.
    fn turn(&mut self, wait: Duration, take: &mut dyn FnMut(Event<'_>) -> Option<String>) -> Result<(), Broken> {
        self.output.extend(self.client.requests().output().take());
        let turned = self.link.turn(&mut self.output, wait);
        let mut wrong = None;
        let used = self.client.feed(self.link.input(), |event, _| {
            let said = match event {
                Event::Error(error) => Some(format!("ERROR: {}: {}", error.message(), error.detail())),
                event => take(event),
            };
            if wrong.is_none() {
                wrong = said;
            }
        });
        let used = used.map_err(|error| Broken::Refused(error.to_string()))?;
        self.link.consume(used);
        wrong.map_or(turned, |reason| Err(Broken::Refused(reason)))
    }

    /// The name of a transaction, which is begun if it is not open yet.
    fn transaction(&mut self, number: Option<u64>) -> Option<String> {
        let name = format!("{COMMIT}{}", number?);
        if self.open != number {
            self.client.requests().begin(&name, None);
            self.open = number;
        }
        Some(name)
    }
}

impl StompTalk {
    /// Asks for a receipt on something that concerns none of the load's messages.
    fn fence(&mut self, number: u64, kind: Fence) {
        let (name, destination) = (format!("{FENCE}{number}"), format!("/amq/queue/{VOID}"));
        let receipt = Some(name.as_str());
        let requests = self.client.requests();
        let (ack, headers): (_, &[(&str, &str)]) = (AckMode::ClientIndividual, &[("prefetch-count", "1")]);
        let (id, destination) = (name.as_str(), destination.as_str());
        match kind {
            Fence::SendReceipt => {
                let send = Send { destination, receipt, transaction: None, headers: &[], text: false };
                requests.send(&send, b"void");
            }
            Fence::SubscribeReceipt => {
                requests.subscribe(&Subscribe { id, destination, ack, receipt, headers });
                requests.unsubscribe(id, None);
            }
            Fence::UnsubscribeReceipt => {
                requests.subscribe(&Subscribe { id, destination, ack, receipt: None, headers });
                requests.unsubscribe(id, receipt);
            }
            Fence::BeginReceipt => {
                requests.begin(&name, receipt);
                requests.abort(&name, None);
            }
            Fence::CommitReceipt => {
                requests.begin(&name, None);
                requests.commit(&name, receipt);
            }
            Fence::AbortReceipt => {
                requests.begin(&name, None);
                requests.abort(&name, receipt);
            }
            // The frame that settles asks for its own receipt.
            kind => debug_assert_eq!(kind, Fence::SettleReceipt, "never asked for, so never answered"),
        }
    }
}

impl Talk for StompTalk {
    fn publish(&mut self, publish: &Publish<'_>) {
        let transaction = self.transaction(publish.transaction);
        self.published += 1;
        let receipt = format!("{CONFIRM}{}", self.published);
        let (due, priority) = (publish.due.map(|due| due.to_string()), publish.priority.map(|most| most.to_string()));
        let own = publish.properties();
        let mut headers: Vec<(&str, &str)> = own.iter().map(|(name, text)| (*name, text.as_str())).collect();
        headers.extend((publish.mode == DeliveryMode::Persistent).then_some(("persistent", "true")));
        headers.extend(due.as_deref().map(|due| ("_AMQ_SCHED_DELIVERY", due)));
        headers.extend(publish.id.map(|id| ("_AMQ_DUPL_ID", id)));
        headers.extend(priority.as_deref().map(|priority| ("priority", priority)));
        let send = Send {
            destination: &destination(publish.route),
            receipt: (self.purpose == Purpose::Publish).then_some(&receipt),
            transaction: transaction.as_deref(),
            headers: &headers,
            text: false,
        };
        self.client.requests().send(&send, publish.body);
    }

    fn subscribe(&mut self, queue: usize, prefetch: u16) {
        self.client.requests().subscribe(&Subscribe {
            id: &queue.to_string(),
            destination: &format!("/amq/queue/{}", QUEUES[queue].name),
            ack: AckMode::ClientIndividual,
            receipt: None,
            headers: &[("prefetch-count", &prefetch.to_string())],
        });
    }

    fn settle(&mut self, settlement: &Settlement<'_>) {
        let Handle::Stomp(id) = settlement.handle else { return };
        let transaction = self.transaction(settlement.transaction);
        let (number, kind) = settlement.fence.unzip();
        let own = number.filter(|_| kind == Some(Fence::SettleReceipt));
        let receipt = own.map(|number| format!("{FENCE}{number}"));
        let reject: &[(&str, &str)] = &[("requeue", "false")];
        let settle = Settle {
            transaction: transaction.as_deref(),
            receipt: receipt.as_deref(),
            headers: if settlement.outcome == Outcome::Rejected { reject } else { &[] },
        };
        match settlement.outcome {
            Outcome::Accepted => self.client.requests().ack(id, &settle),
            Outcome::Released | Outcome::Rejected => self.client.requests().nack(id, &settle),
        }
        if let Some((number, kind)) = settlement.fence {
            self.fence(number, kind);
        }
    }

    fn fences(&self) -> (&'static [Fence], &'static [Fence]) {
        (&Fence::STOMP, &Fence::STOMP_LAST)
    }

    fn leave(&mut self, number: u64, _kind: Fence) {
        self.client.requests().disconnect(Some(&format!("{FENCE}{number}")));
    }

    fn end(&mut self, transaction: u64, end: End) {
        let Some(name) = self.transaction(Some(transaction)) else { return };
        match end {
            End::Commit => self.client.requests().commit(&name, Some(&name)),
            End::Abort => self.client.requests().abort(&name, None),
        }
        self.open = None;
    }

    fn exchange(&mut self, wait: Duration, hear: &mut dyn FnMut(Heard<'_>)) -> Result<(), Broken> {
        self.turn(wait, &mut |event| match event {
            Event::Message(message) => {
                if message.subscription().is_some_and(|id| id.starts_with(FENCE)) {
                    return None;
                }
                let queue = message.subscription().and_then(|id| id.parse().ok()).filter(|id| *id < QUEUES.len());
                let (Some(queue), Some(id)) = (queue, message.ack_id()) else {
                    return Some("a MESSAGE without a subscription of ours or without an ack header".to_owned());
                };
                let redelivered = message.headers.get("redelivered").is_some_and(|text| text == "true");
                let handle = Handle::Stomp(id.into_owned());
                let shown = shown::by_stomp(&message.headers);
                hear(Heard::Delivered { queue, redelivered, body: message.body(), shown, handle });
                None
            }
            Event::Receipt(text) => match receipt(&text) {
                Some(heard) => {
                    hear(heard);
                    None
                }
                None => Some(format!("a RECEIPT that nobody asked for: {text}")),
            },
            _ => None,
        })
    }
}

fn receipt(text: &str) -> Option<Heard<'static>> {
    let kind = text.chars().next()?;
    let number = text.get(1..)?.parse().ok()?;
    match kind {
        CONFIRM => Some(Heard::Confirmed(Numbers::One(number))),
        FENCE => Some(Heard::Fenced(number)),
        COMMIT => Some(Heard::Committed(number)),
        _ => None,
    }
}

fn destination(route: Route) -> String {
    match (route.exchange, route.key) {
        ("", queue) => format!("/amq/queue/{queue}"),
        (exchange, "") => format!("/exchange/{exchange}"),
        (exchange, key) => format!("/exchange/{exchange}/{key}"),
    }
}
