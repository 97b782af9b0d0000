//! The conversation over AMQP 0-9-1, on one channel. Every reply that waits for what was settled
//! before is a fence.

use crate::stamp::DeliveryMode;
use std::collections::VecDeque;
use std::time::Duration;

use amqp091::client::{Client, Event, PublishTemplate};
use amqp091::codec::methods::{
    BasicAck, BasicCancel, BasicConsume, BasicNack, BasicPublish, BasicQos, BasicRecover, ChannelClose, ConfirmSelect,
    ConnectionClose, ExchangeBind, ExchangeDeclare, ExchangeDelete, ExchangeUnbind, QueueBind, QueueDeclare,
    QueueDelete, QueuePurge, QueueUnbind, TxCommit, TxRollback, TxSelect,
};
use amqp091::codec::table::{Value, encode_fields};
use amqp091::codec::{BasicProperties, Method, Table};

use super::link::Link;
use super::shown::{self, headers, properties};
use super::{Broken, Control, End, Handle, Heard, Numbers, Publish, Purpose, Settlement, Talk};
use crate::fence::Fence;
use crate::history::Outcome;
use crate::topology::{FANOUT, NONE, PLAIN, QUEUES, VOID};

/// The one channel of each connection.
pub(super) const CHANNEL: u16 = 1;

/// The class of what concerns the connection, which goes over channel 0.
const CONNECTION: u16 = 10;
/// The class and number of exchange.unbind-ok.
const UNBIND_OK: (u16, u16) = (40, 51);
/// What a client says that closes because it has done.
const CLOSED: u16 = 200;

/// Delivery modes as the protocol numbers them.
const TRANSIENT: u8 = 1;
const PERSISTENT: u8 = 2;

/// One connection with one channel.
pub(super) struct AmqpTalk {
    link: Link,
    client: Client,
    output: Vec<u8>,
    /// Fences whose answers are still to come, in order, and the methods that answer them.
    fences: VecDeque<(u64, (u16, u16))>,
    /// Commits whose answers are still to come, in order.
    commits: VecDeque<u64>,
}

impl AmqpTalk {
    /// Connects and brings the channel into the mode that `purpose` needs.
    pub(super) fn open(port: u16, purpose: Purpose) -> Result<Self, Broken> {
        let mut control = Control::open(port)?;
        match purpose {
            Purpose::Publish => control.call(ConfirmSelect::default())?,
            Purpose::Transact => control.call(TxSelect {})?,
            Purpose::Consume => 0,
        };
        let (link, client) = control.into_parts();
        Ok(Self { link, client, output: Vec::new(), fences: VecDeque::new(), commits: VecDeque::new() })
    }
}

impl AmqpTalk {
    /// Asks a question whose answer has the next number in its class; that of exchange.unbind alone
    /// has not.
    fn ask<'m>(&mut self, fence: u64, method: impl Into<Method<'m>>) {
        let method = method.into();
        let (class, number) = method.id();
        let channel = if class == CONNECTION { 0 } else { CHANNEL };
        let unbinds = matches!(method, Method::ExchangeUnbind(_));
        let answer = if unbinds { UNBIND_OK } else { (class, number + 1) };
        self.client.send(channel, method, &mut self.output);
        self.fences.push_back((fence, answer));
    }

    /// Asks for a fence. What is declared and bound is there, and what is unbound and deleted is
    /// not: while an alarm lasts, nothing new may be declared.
    fn fence(&mut self, fence: u64, kind: Fence) {
        let (passive, durable) = (true, true);
        let (fan, fanout) = (FANOUT, "fanout");
        let (queue, exchange) = (VOID, VOID);
        match kind {
            Fence::LookAtExchange => {
                self.ask(fence, ExchangeDeclare { exchange, kind: fanout, passive, ..ExchangeDeclare::default() });
            }
            Fence::DeclareQueue => self.ask(fence, QueueDeclare { queue, durable, ..QueueDeclare::default() }),
            Fence::DeclareExchange => {
                self.ask(fence, ExchangeDeclare { exchange, kind: fanout, durable, ..ExchangeDeclare::default() });
            }
            Fence::BindQueue => {
                self.ask(fence, QueueBind { queue, exchange, routing_key: VOID, ..QueueBind::default() });
            }
            Fence::UnbindQueue => {
                self.ask(fence, QueueUnbind { queue, exchange, routing_key: NONE, ..QueueUnbind::default() });
            }
            Fence::BindExchange => {
                self.ask(
                    fence,
                    ExchangeBind { destination: fan, source: VOID, routing_key: VOID, ..ExchangeBind::default() },
                );
            }
            Fence::UnbindExchange => {
                let bound =
                    ExchangeUnbind { destination: fan, source: VOID, routing_key: NONE, ..ExchangeUnbind::default() };
                self.ask(fence, bound);
            }
            Fence::DeleteQueue => self.ask(fence, QueueDelete { queue: NONE, ..QueueDelete::default() }),
            Fence::DeleteExchange => self.ask(fence, ExchangeDelete { exchange: NONE, ..ExchangeDelete::default() }),
            Fence::Purge => self.ask(fence, QueuePurge { queue, ..QueuePurge::default() }),
            Fence::Cancel => self.ask(fence, BasicCancel { consumer_tag: NONE, ..BasicCancel::default() }),
            Fence::Recover => self.ask(fence, BasicRecover { requeue: true }),
            Fence::CloseChannel => self.ask(fence, ChannelClose { reply_code: CLOSED, ..ChannelClose::default() }),
            Fence::CloseConnection => {
                self.ask(fence, ConnectionClose { reply_code: CLOSED, ..ConnectionClose::default() });
            }
            _ => {
                let queue = QUEUES[PLAIN].name;
                self.ask(fence, QueueDeclare { queue, passive, ..QueueDeclare::default() });
            }
        }
    }
}

impl Talk for AmqpTalk {
    fn publish(&mut self, publish: &Publish<'_>) {
        let mode = match publish.mode {
            DeliveryMode::Persistent => PERSISTENT,
            DeliveryMode::Transient => TRANSIENT,
        };
        let own = publish.properties();
        let mut fields = headers(&own);
        fields.extend(publish.due.map(|due| ("x-opt-delivery-time".to_owned(), Value::I64(due as i64))));
        fields.extend(publish.id.map(|id| ("x-deduplication-header".to_owned(), Value::from(id))));
        let encoded = encode_fields(&fields);
        // What was just encoded is a table.
        let headers = Table::new(&encoded).ok().filter(|_| !fields.is_empty());
        let (delivery_mode, priority) = (Some(mode), publish.priority);
        let properties = BasicProperties { delivery_mode, priority, headers, ..properties(&own) }.to_bytes();
        let (exchange, routing_key) = (publish.route.exchange, publish.route.key);
        let method = BasicPublish { exchange, routing_key, ..BasicPublish::default() };
        let template = PublishTemplate::new(CHANNEL, method, &properties, self.client.frame_max());
        template.append(publish.body, &mut self.output);
    }

    fn subscribe(&mut self, queue: usize, prefetch: u16) {
        // Each new consumer on the channel gets the prefetch of its own.
        let qos = BasicQos { prefetch_count: prefetch, ..BasicQos::default() };
        self.client.send(CHANNEL, qos, &mut self.output);
        let tag = queue.to_string();
        let consume = BasicConsume { queue: QUEUES[queue].name, consumer_tag: &tag, ..BasicConsume::default() };
        self.client.send(CHANNEL, consume, &mut self.output);
    }

    fn settle(&mut self, settlement: &Settlement<'_>) {
        let Handle::Amqp(delivery_tag) = *settlement.handle else { return };
        match settlement.outcome {
            Outcome::Accepted => {
                self.client.send(CHANNEL, BasicAck { delivery_tag, multiple: false }, &mut self.output)
            }
            outcome => {
                let requeue = outcome == Outcome::Released;
                let nack = BasicNack { delivery_tag, multiple: false, requeue };
                self.client.send(CHANNEL, nack, &mut self.output);
            }
        }
        if let Some((number, kind)) = settlement.fence {
            self.fence(number, kind);
        }
    }

    fn fences(&self) -> (&'static [Fence], &'static [Fence]) {
        (&Fence::AMQP, &Fence::AMQP_LAST)
    }

    fn leave(&mut self, number: u64, kind: Fence) {
        self.fence(number, kind);
    }

    fn end(&mut self, transaction: u64, end: End) {
        match end {
            End::Commit => {
                self.client.send(CHANNEL, TxCommit {}, &mut self.output);
                self.commits.push_back(transaction);
            }
            End::Abort => self.client.send(CHANNEL, TxRollback {}, &mut self.output),
        }
    }

    fn exchange(&mut self, wait: Duration, hear: &mut dyn FnMut(Heard<'_>)) -> Result<(), Broken> {
        let turned = self.link.turn(&mut self.output, wait);
        let mut rest = self.link.input();
        let before = rest.len();
        let outcome = loop {
            match self.client.poll(&mut rest, &mut self.output) {
                Ok(Some(event)) => {
                    if let Some(reason) = refusal(&event) {
                        break Err(Broken::Refused(reason));
                    }
                    if let Some(heard) = translate(event, &mut self.fences, &mut self.commits) {
                        hear(heard);
                    }
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(Broken::Refused(error.to_string())),
            }
        };
        let used = before - rest.len();
        self.link.consume(used);
        outcome.and(turned)
    }
}

fn translate<'a>(
    event: Event<'a>,
    fences: &mut VecDeque<(u64, (u16, u16))>,
    commits: &mut VecDeque<u64>,
) -> Option<Heard<'a>> {
    let numbers = |number, multiple: bool| if multiple { Numbers::UpTo(number) } else { Numbers::One(number) };
    match event {
        Event::Deliver { consumer_tag, delivery_tag, redelivered, message, .. } => {
            let handle = Handle::Amqp(delivery_tag);
            let queue = consumer_tag.parse().ok().filter(|queue| *queue < QUEUES.len())?;
            Some(Heard::Delivered { queue, redelivered, body: message.body, shown: shown::by_amqp(&message), handle })
        }
        Event::Ack { delivery_tag: number, multiple, .. } => Some(Heard::Confirmed(numbers(number, multiple))),
        Event::Nack { delivery_tag: number, multiple, .. } => Some(Heard::Refused(numbers(number, multiple))),
        Event::Blocked { .. } => Some(Heard::Blocked),
        Event::Unblocked => Some(Heard::Unblocked),
        Event::Method { method: Method::TxCommitOk(_), .. } => commits.pop_front().map(Heard::Committed),
        Event::CloseOk => fences.pop_front().map(|(fence, _)| Heard::Fenced(fence)),
        Event::Method { method, .. } if fences.front().is_some_and(|(_, answer)| *answer == method.id()) => {
            fences.pop_front().map(|(fence, _)| Heard::Fenced(fence))
        }
        _ => None,
    }
}

/// What an event refuses, if it does.
pub(super) fn refusal(event: &Event<'_>) -> Option<String> {
    match event {
        Event::Closed { reply_code, reply_text } => {
            Some(format!("the broker closed the connection: {reply_code} {reply_text}"))
        }
        Event::ChannelClosed { reply_code, reply_text, .. } => {
            Some(format!("the broker closed the channel: {reply_code} {reply_text}"))
        }
        Event::Cancelled { consumer_tag, .. } => Some(format!("the broker cancelled the consumer {consumer_tag}")),
        Event::Returned { message, .. } => Some(format!("the broker returned a message to {}", message.routing_key)),
        _ => None,
    }
}
