//! What all connections of a simulated broker share: queues, exchanges, consumers, and what is done
//! to chosen messages. Each queue gives its messages out in order; what a consumer did not settle
//! comes back when its connection ends.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use amqp091::codec::methods::{BasicConsume, BasicDeliver, BasicGet, BasicGetEmpty, BasicGetOk, BasicNack};
use amqp091::codec::{Method, frame};

use super::behaviour::{Behaviour, Fault, Timeline};
use super::outbox::Outbox;
use crate::driver::amqp::{PERSISTENT, properties};
use machine::clock::now;

/// A connection's number and a channel of it.
pub(super) type ChannelId = (u64, u16);

/// A message as it was published.
#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) exchange: String,
    pub(super) key: String,
    /// Property flags and values, verbatim.
    pub(super) properties: Vec<u8>,
    pub(super) body: Vec<u8>,
}

/// A message in a queue.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    message: Arc<Message>,
    /// It is not delivered before this.
    due: u64,
    redelivered: bool,
}

#[derive(Debug)]
struct Consumer {
    place: ChannelId,
    tag: String,
    no_ack: bool,
    /// Most messages unsettled at once; 0: no limit.
    prefetch: u16,
    open: u16,
}

/// A queue.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    entries: VecDeque<Entry>,
    consumers: Vec<Consumer>,
    /// Whose turn it is.
    turn: usize,
    owner: Option<u64>,
    /// Most messages it holds before it drops its oldest.
    most: Option<usize>,
    /// A message that the next one overtakes.
    overtaken: Option<Entry>,
}

impl Queue {
    /// How many messages wait in it.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Drops what waits; returns how many there were.
    pub(super) fn purge(&mut self) -> usize {
        self.entries.drain(..).count()
    }
}

/// A channel as deliveries see it.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) outbox: Arc<Outbox>,
    pub(super) frame_max: u32,
    pub(super) prefetch: u16,
    /// Tag of the newest delivery.
    delivered: u64,
    unsettled: VecDeque<Unsettled>,
}

#[derive(Debug)]
struct Unsettled {
    tag: u64,
    queue: String,
    /// None: it was fetched.
    consumer: Option<String>,
    entry: Entry,
}

/// What becomes of a publish.
pub(super) struct Published {
    pub(super) fault: Option<Fault>,
    /// When it may be confirmed.
    pub(super) confirm: u64,
    /// Some queue took it.
    pub(super) routed: bool,
}

/// What becomes of settled messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Gone,
    Requeued,
}

/// The broker without its sockets.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) queues: HashMap<String, Queue>,
    /// Kinds by name.
    pub(super) exchanges: HashMap<String, String>,
    /// Exchange, key, queue.
    pub(super) bindings: Vec<(String, String, String)>,
    pub(super) channels: HashMap<ChannelId, Channel>,
    /// Consumers have their channel closed.
    pub(crate) refuses_consumers: bool,
    faults: HashMap<u64, Fault>,
    time: Timeline,
    published: u64,
    connections: u64,
    names: u64,
}

impl Model {
    pub(super) fn new(behaviour: &Behaviour) -> Self {
        Self {
            queues: HashMap::new(),
            exchanges: HashMap::new(),
            bindings: Vec::new(),
            channels: HashMap::new(),
            refuses_consumers: false,
            faults: behaviour.faults.clone(),
            time: Timeline::new(behaviour),
            published: 0,
            connections: 0,
            names: 0,
        }
    }

    /// A number for a new connection.
    pub(super) fn connect(&mut self) -> u64 {
        self.connections += 1;
        self.connections
    }

    pub(super) fn open(&mut self, place: ChannelId, outbox: &Arc<Outbox>, frame_max: u32) {
        let (outbox, unsettled) = (outbox.clone(), VecDeque::new());
        self.channels.insert(place, Channel { outbox, frame_max, prefetch: 0, delivered: 0, unsettled });
    }

    /// Makes a queue if it is not there. Returns its name, which is made up for an empty one.
    pub(super) fn declare(&mut self, name: &str, owner: Option<u64>, most: Option<usize>) -> String {
        let name = if name.is_empty() {
            self.names += 1;
            format!("amq.gen-{}", self.names)
        } else {
            name.to_owned()
        };
        self.queues.entry(name.clone()).or_insert_with(|| Queue { owner, most, ..Queue::default() });
        name
    }

    /// Removes a queue; returns how many messages went with it.
    pub(super) fn delete(&mut self, name: &str) -> usize {
        self.bindings.retain(|(_, _, queue)| queue != name);
        self.queues.remove(name).map_or(0, |queue| queue.len())
    }

    /// Puts back what an earlier process of this broker wrote down.
    pub(super) fn restore(&mut self, name: &str, body: Vec<u8>) {
        let properties = properties(PERSISTENT);
        let message = Message { exchange: String::new(), key: name.to_owned(), properties, body };
        let entry = Entry { message: Arc::new(message), due: 0, redelivered: true };
        self.queues.entry(name.to_owned()).or_default().entries.push_back(entry);
    }

    /// Takes a publish, as its fault will have it.
    pub(super) fn publish(&mut self, mut message: Message) -> Published {
        self.published += 1;
        let fault = self.faults.get(&self.published).copied();
        let (due, confirm) = self.time.publish(now());
        if fault == Some(Fault::Flip)
            && let Some(last) = message.body.last_mut()
        {
            *last ^= 1;
        }
        let names = self.route(&message);
        let routed = !names.is_empty();
        let entry = Entry { message: Arc::new(message), due, redelivered: false };
        for name in names {
            let Some(queue) = self.queues.get_mut(&name) else { continue };
            match fault {
                Some(Fault::Lose | Fault::Refuse | Fault::Swallow | Fault::Die) => {}
                Some(Fault::Overtake) => queue.overtaken = Some(entry.clone()),
                _ => {
                    queue.entries.push_back(entry.clone());
                    queue.entries.extend((fault == Some(Fault::Double)).then(|| entry.clone()));
                    queue.entries.extend(queue.overtaken.take());
                }
            }
            if queue.most.is_some_and(|most| queue.entries.len() > most) {
                queue.entries.pop_front();
            }
            self.deliver(&name);
        }
        Published { fault, confirm, routed }
    }

    /// Names of the queues that a message goes to.
    fn route(&self, message: &Message) -> Vec<String> {
        if message.exchange.is_empty() {
            return self.queues.contains_key(&message.key).then(|| message.key.clone()).into_iter().collect();
        }
        let all = self.exchanges.get(&message.exchange).is_some_and(|kind| kind == "fanout");
        let bound = self
            .bindings
            .iter()
            .filter(|(exchange, key, _)| *exchange == message.exchange && (all || *key == message.key));
        bound.map(|(_, _, queue)| queue.clone()).collect()
    }

    /// Gives the consumers of a queue what their prefetch allows, one after the other.
    fn deliver(&mut self, name: &str) {
        let Some(queue) = self.queues.get_mut(name) else { return };
        while !queue.entries.is_empty() {
            let count = queue.consumers.len();
            let turn = (0..count).map(|step| (queue.turn + step) % count).find(|at| {
                let consumer = &queue.consumers[*at];
                consumer.no_ack || consumer.prefetch == 0 || consumer.open < consumer.prefetch
            });
            let Some(turn) = turn else { return };
            queue.turn = (turn + 1) % count;
            let consumer = &mut queue.consumers[turn];
            let (Some(entry), Some(channel)) = (queue.entries.pop_front(), self.channels.get_mut(&consumer.place))
            else {
                return;
            };
            channel.delivered += 1;
            let deliver = BasicDeliver {
                consumer_tag: &consumer.tag,
                delivery_tag: channel.delivered,
                redelivered: entry.redelivered,
                exchange: &entry.message.exchange,
                routing_key: &entry.message.key,
            };
            let due = self.time.moving(entry.due.max(now()));
            channel.send(due, consumer.place.1, deliver.into(), &entry.message);
            if !consumer.no_ack {
                consumer.open += 1;
                let (tag, consumer) = (channel.delivered, Some(consumer.tag.clone()));
                channel.unsettled.push_back(Unsettled { tag, queue: name.to_owned(), consumer, entry });
            }
        }
    }

    /// Starts a consumer. False: there is no such queue.
    pub(super) fn consume(&mut self, place: ChannelId, asked: &BasicConsume<'_>, tag: &str) -> bool {
        let (name, no_ack) = (asked.queue, asked.no_ack);
        let prefetch = self.channels.get(&place).map_or(0, |channel| channel.prefetch);
        let Some(queue) = self.queues.get_mut(name) else { return false };
        queue.consumers.push(Consumer { place, tag: tag.to_owned(), no_ack, prefetch, open: 0 });
        true
    }

    /// Starts what a new consumer may have, once it knows that it is one.
    pub(super) fn begin(&mut self, name: &str) {
        self.deliver(name);
    }

    pub(super) fn cancel(&mut self, place: ChannelId, tag: &str) {
        for queue in self.queues.values_mut() {
            queue.consumers.retain(|consumer| consumer.place != place || consumer.tag != tag);
            queue.turn = 0;
        }
    }

    /// Fetches one message.
    pub(super) fn get(&mut self, place: ChannelId, asked: &BasicGet<'_>) {
        let name = asked.queue;
        let Some(channel) = self.channels.get_mut(&place) else { return };
        let queue = self.queues.get_mut(name);
        let left = queue.as_ref().map_or(0, |queue| queue.len().saturating_sub(1));
        let Some(entry) = queue.and_then(|queue| queue.entries.pop_front()) else {
            let empty = Method::from(BasicGetEmpty::default());
            return channel.outbox.put(self.time.moving(now()), |out| empty.encode(place.1, out));
        };
        channel.delivered += 1;
        let got = BasicGetOk {
            delivery_tag: channel.delivered,
            redelivered: entry.redelivered,
            exchange: &entry.message.exchange,
            routing_key: &entry.message.key,
            message_count: left as u32,
        };
        channel.send(self.time.moving(entry.due.max(now())), place.1, got.into(), &entry.message);
        if !asked.no_ack {
            let tag = channel.delivered;
            channel.unsettled.push_back(Unsettled { tag, queue: name.to_owned(), consumer: None, entry });
        }
    }

    /// Settles one delivery, or all up to it; puts them back if they are wanted back. An
    /// acknowledgement is one that wants nothing back.
    pub(super) fn settle(&mut self, place: ChannelId, asked: BasicNack) {
        let tag = asked.delivery_tag;
        let Some(channel) = self.channels.get_mut(&place) else { return };
        let settled: Vec<Unsettled> = if asked.multiple {
            let upto = channel.unsettled.partition_point(|one| tag == 0 || one.tag <= tag);
            channel.unsettled.drain(..upto).collect()
        } else {
            let at = channel.unsettled.binary_search_by_key(&tag, |one| one.tag).ok();
            at.and_then(|at| channel.unsettled.remove(at)).into_iter().collect()
        };
        self.release(place, settled, if asked.requeue { Fate::Requeued } else { Fate::Gone });
    }

    fn release(&mut self, place: ChannelId, settled: Vec<Unsettled>, fate: Fate) {
        let mut names: Vec<String> = Vec::new();
        for one in settled.into_iter().rev() {
            let Some(queue) = self.queues.get_mut(&one.queue) else { continue };
            let of = |consumer: &&mut Consumer| consumer.place == place && Some(&consumer.tag) == one.consumer.as_ref();
            if let Some(consumer) = queue.consumers.iter_mut().find(of) {
                consumer.open = consumer.open.saturating_sub(1);
            }
            if fate == Fate::Requeued {
                queue.entries.push_front(Entry { redelivered: true, ..one.entry });
            }
            if !names.contains(&one.queue) {
                names.push(one.queue);
            }
        }
        names.iter().for_each(|name| self.deliver(name));
    }

    /// Ends a channel: its consumers go, what they did not settle comes back.
    pub(super) fn close_channel(&mut self, place: ChannelId) {
        for queue in self.queues.values_mut() {
            queue.consumers.retain(|consumer| consumer.place != place);
            queue.turn = 0;
        }
        if let Some(channel) = self.channels.remove(&place) {
            self.release(place, channel.unsettled.into(), Fate::Requeued);
        }
    }

    /// Ends a connection, and the queues that are its own.
    pub(super) fn disconnect(&mut self, connection: u64) {
        let own: Vec<String> = self
            .queues
            .iter()
            .filter(|(_, queue)| queue.owner == Some(connection))
            .map(|(name, _)| name.clone())
            .collect();
        for name in &own {
            self.delete(name);
        }
        let places: Vec<ChannelId> = self.channels.keys().filter(|place| place.0 == connection).copied().collect();
        places.into_iter().for_each(|place| self.close_channel(place));
    }

    /// When something that is decided now is said.
    pub(super) fn speaks(&self) -> u64 {
        self.time.moving(now())
    }
}

impl Channel {
    fn send(&self, due: u64, number: u16, method: Method<'_>, message: &Message) {
        self.outbox.put(due, |out| encode_content(out, number, self.frame_max, method, message));
    }
}

/// Appends a method and the message that follows it.
pub(super) fn encode_content(out: &mut Vec<u8>, channel: u16, frame_max: u32, method: Method<'_>, message: &Message) {
    method.encode(channel, out);
    frame::encode_header(out, channel, message.body.len() as u64, &message.properties);
    frame::encode_body(out, channel, frame_max, &message.body);
}
