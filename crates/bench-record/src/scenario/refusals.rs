//! What a scenario can't ask for, with the option that would change it. A scenario that passes can
//! be run by some driver.

use super::{Destination, EXCHANGE_QUEUES, LARGEST_COUNT, Mode, Payload, QueueKind, Rate, Scenario, Tail};
use crate::failure::Failure;

/// Bytes of a counter.
const COUNTER_DIGITS: usize = 6;
/// The shortest last messages, bytes: what a full stamp needs.
const SMALLEST_TAIL: usize = 40;
/// Largest body, in bytes.
const LARGEST_BODY: usize = 128 * 1024 * 1024;

impl Scenario {
    /// Says what can't be done.
    pub fn check(&self) -> Result<(), Failure> {
        let refuse = |text: &str| Err(Failure::new(text));
        if self.topology.queues == 0 || self.topology.producers == 0 {
            return refuse("at least one producer and one queue are needed");
        }
        if self.topology.producers > usize::from(u16::MAX) {
            return refuse("at most 65535 producers");
        }
        let unread = self.is_topic() && self.topology.consumers == 0;
        let own = self.topology.consumers == self.topology.queues || unread || self.mode != Mode::Throughput;
        if self.topology.queue == QueueKind::Exclusive && !own {
            return refuse("exclusive queues need exactly one consumer each; use --queue durable");
        }
        if self.topology.consumers > 0
            && self.topology.consumers < self.topology.queues
            && self.topology.destination != Destination::Spread
        {
            return refuse(
                "a queue without a consumer would never be emptied; use as many consumers as queues, or none, or --idle-queues",
            );
        }
        let each =
            !self.copies_all() && self.topology.destination != Destination::Spread && self.mode == Mode::Throughput;
        if each && self.topology.producers < self.topology.queues {
            return refuse("producer i sends to queue i modulo queues: queues without a producer measure nothing");
        }
        if self.topology.idle_queues > 0 && self.topology.destination != Destination::Fanout {
            return refuse("--idle-queues needs --fanout: only then do they match");
        }
        if self.topology.queue_name.is_some()
            && (self.topology.queues != 1
                || self.topology.destination != Destination::Queue
                || self.mode == Mode::Pingpong)
        {
            return refuse("a queue can be named where there is one only");
        }
        if self.mode == Mode::Pingpong && self.pace.rate != Rate::Saturate {
            return refuse("ping-pong has no rate: one message is under way at a time");
        }
        if self.length.duration <= 0.0
            || self.length.warmup < 0.0
            || !(self.length.duration + self.length.warmup).is_finite()
        {
            return refuse("--duration must be more than 0 seconds and --warmup not less than 0");
        }
        if !(self.length.patience > 0.0 && self.length.patience.is_finite()) {
            return refuse("--patience must be more than 0 seconds");
        }
        if self.batch == 0 || self.message.size > LARGEST_BODY || self.length.messages == Some(0) {
            return refuse("--batch and --messages must be at least 1, --size at most 134217728");
        }
        self.check_places()?;
        self.check_steps()
    }

    /// Says what can't be done with this destination and these bodies.
    fn check_places(&self) -> Result<(), Failure> {
        let refuse = |text: &str| Err(Failure::new(text));
        if self.is_topic() && self.topology.consumers.max(1) != self.topology.queues {
            return refuse("each consumer of a topic has a subscription of its own: give as many queues as consumers");
        }
        if self.is_topic() && self.topology.consumers > 0 && self.topology.queue != self.natural_kind() {
            return refuse("subscriptions of a topic are exclusive queues, those of a durable one durable queues");
        }
        if self.topology.destination == Destination::Spread && self.topology.queue == QueueKind::Exclusive {
            return refuse("exclusive queues belong to one consumer, and here all read all; use --queue durable");
        }
        if self.topology.bindings == 0
            || (self.topology.bindings > 1 && self.topology.destination != Destination::Pattern)
        {
            return refuse("at least one binding is needed, and more than one with --destination pattern only");
        }
        if self.message.payload == Payload::Counter
            && (self.topology.producers > 1 || self.message.size < COUNTER_DIGITS)
        {
            return refuse("a counter is one producer's, and its bodies have at least 6 bytes");
        }
        if self.message.payload == Payload::Counter && self.quota(0) > LARGEST_COUNT {
            return refuse("a counter has six hexadecimal digits: at most 16777215 messages, warm-up included");
        }
        if self.selects() == 0 || (self.selects() > 1 && self.topology.destination == Destination::Spread) {
            return refuse("a selector takes one of at least 1 messages, and can't leave any out of several queues");
        }
        let short =
            |tail: Tail| (SMALLEST_TAIL..=self.message.size).contains(&tail.size) && self.topology.producers == 1;
        if self.message.tail.is_some_and(|tail| !short(tail) || self.message.payload == Payload::Counter) {
            return refuse(
                "the last messages of one producer may be shorter than the others; no counters, at least 40 bytes",
            );
        }
        Ok(())
    }

    /// Says what the stock exchange can't do.
    fn check_exchange(&self) -> Result<(), Failure> {
        let fixed = matches!(self.pace.rate, Rate::Fixed(_));
        let parts = (self.topology.producers, self.topology.consumers, self.topology.queues)
            == (1, EXCHANGE_QUEUES, EXCHANGE_QUEUES);
        let orders = self.length.messages.is_some_and(|orders| u32::try_from(orders).is_ok());
        if fixed
            && parts
            && orders
            && self.clients.window == 0
            && self.clients.ack_every == 0
            && self.length.warmup_messages == 0
        {
            return Ok(());
        }
        Err(Failure::new("the stock exchange has a rate, a number of orders, three queues, and confirms nothing"))
    }

    /// Says what can't be done in this order.
    fn check_steps(&self) -> Result<(), Failure> {
        let refuse = |text: &str| Err(Failure::new(text));
        if self.mode == Mode::Pingpong
            && (self.clients.drain || self.clients.poll || self.clients.reply || self.clients.selector.is_some())
        {
            return refuse("ping-pong is one message there and back, and nothing else");
        }
        if self.mode == Mode::Exchange {
            return self.check_exchange();
        }
        if self.clients.drain && (self.length.messages.is_none() || self.topology.consumers == 0 || self.is_topic()) {
            return refuse("a drain needs --messages, consumers, and queues that keep what they get");
        }
        if self.clients.drain
            && (self.topology.queue == QueueKind::Exclusive || self.clients.reply || self.selects() > 1)
        {
            return refuse("a drain needs shared queues, no replies, and consumers that take all");
        }
        if self.clients.drain && self.pace.rate != Rate::Saturate {
            return refuse(
                "a drain has no --rate: the queue is full before it is measured, and its consumers take what they can",
            );
        }
        if self.clients.bystander && self.topology.consumers > 0 {
            return refuse("bystanders are for queues that nobody consumes");
        }
        if self.clients.reply
            && (self.length.messages.is_none() || self.topology.consumers != self.topology.queues || self.selects() > 1)
        {
            return refuse("replies need --messages and one consumer for each queue that takes all");
        }
        if self.clients.reply && self.topology.destination == Destination::Spread {
            return refuse("replies need one queue for each consumer");
        }
        if (self.length.warmup_messages > 0 || self.message.tail.is_some()) && self.length.messages.is_none() {
            return refuse("messages before or behind the others need --messages");
        }
        if self.length.cap.is_some_and(|cap| !(cap > 0.0 && cap.is_finite())) {
            return refuse("--cap must be more than 0 seconds");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::Preset;

    /// What the refusal says, and what leads to it.
    type Case = (&'static str, fn(&mut Scenario));

    #[test]
    fn what_can_not_be_done_is_refused() {
        let base = Preset::Transient64.scenario();
        assert!(base.check().is_ok());
        let cases: &[Case] = &[
            ("at least one producer", |s| s.topology.producers = 0),
            ("exactly one consumer", |s| s.topology.consumers = 2),
            ("never be emptied", |s| {
                (s.topology.queue, s.topology.producers, s.topology.queues) = (QueueKind::Durable, 2, 2)
            }),
            ("without a producer", |s| {
                (s.topology.queue, s.topology.consumers, s.topology.queues) = (QueueKind::Durable, 2, 2)
            }),
            ("needs --fanout", |s| s.topology.idle_queues = 1),
            ("as many queues", |s| {
                (s.topology.destination, s.topology.queue, s.topology.consumers) =
                    (Destination::DurableTopic, QueueKind::Durable, 2)
            }),
            ("of a durable one", |s| s.topology.destination = Destination::DurableTopic),
            ("all read all", |s| s.topology.destination = Destination::Spread),
            ("at least one binding", |s| s.topology.bindings = 2),
            ("one producer's", |s| (s.message.payload, s.message.size) = (Payload::Counter, 5)),
            ("16777215", |s| (s.message.payload, s.length.messages) = (Payload::Counter, Some(16_777_216))),
            ("out of several queues", |s| s.clients.selector = Some(0)),
            ("no counters", |s| {
                (s.message.tail, s.length.messages) = (Some(Tail { messages: 1, size: 2000 }), Some(5))
            }),
            ("nothing else", |s| (s.mode, s.clients.drain) = (Mode::Pingpong, true)),
            ("keep what they get", |s| s.clients.drain = true),
            ("shared queues", |s| (s.clients.drain, s.length.messages) = (true, Some(1))),
            ("a drain has no --rate", |s| {
                (s.clients.drain, s.length.messages, s.topology.queue, s.pace.rate) =
                    (true, Some(1), QueueKind::Durable, Rate::Fixed(5.0));
            }),
            ("nobody consumes", |s| s.clients.bystander = true),
            ("replies need --messages", |s| s.clients.reply = true),
            ("need --messages", |s| s.length.warmup_messages = 1),
            ("--cap", |s| s.length.cap = Some(0.0)),
            ("where there is one only", |s| (s.mode, s.topology.queue_name) = (Mode::Pingpong, Some("q".to_owned()))),
            ("has no rate", |s| (s.mode, s.pace.rate) = (Mode::Pingpong, Rate::Half)),
            ("--duration", |s| s.length.duration = 0.0),
            ("--batch", |s| s.batch = 0),
        ];
        for (part, change) in cases {
            let mut scenario = base.clone();
            change(&mut scenario);
            let failure = scenario.check().unwrap_err().to_string();
            assert!(failure.contains(part), "{failure}");
        }
    }
}
