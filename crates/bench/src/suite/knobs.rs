//! What a study's file says about a load: only what differs from the default, in the words of the
//! studies.

use serde::Deserialize;

use bench_record::arrivals::Arrivals;
use bench_record::failure::Failure;
use bench_record::scenario::{Ack, Destination, EXCHANGE_QUEUES, Mode, Payload, QueueKind, Rate, Scenario, Tail};

/// Deliveries between two acknowledgements of a consumer that may be lazy about them.
const DUPS_OK_EVERY: u64 = 100;

/// Some fields of a load; those left away stay as they are.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Knobs {
    step: Option<Step>,
    destination: Option<Destination>,
    queue: Option<QueueKind>,
    producers: Option<usize>,
    consumers: Option<usize>,
    /// Producers, consumers and queues in one: independent pairs.
    pairs: Option<usize>,
    queues: Option<usize>,
    bindings: Option<usize>,
    size: Option<usize>,
    payload: Option<Payload>,
    tail: Option<Tail>,
    persistent: Option<bool>,
    priority: Option<u8>,
    selector: Option<u64>,
    /// Most unconfirmed messages of a producer; 0: no confirms.
    window: Option<u64>,
    prefetch: Option<u16>,
    /// `auto`, `each`, `every:K` or `dups_ok`.
    ack: Option<String>,
    poll: Option<bool>,
    bystander: Option<bool>,
    reply: Option<bool>,
    nodelay: Option<bool>,
    /// Messages a second in all; none: closed loop.
    rate: Option<f64>,
    arrivals: Option<Arrivals>,
    in_flight: Option<u64>,
    messages: Option<u64>,
    warmup_messages: Option<u64>,
    batch: Option<usize>,
}

/// What happens when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Step {
    /// Producers and consumers are at work together.
    Concurrent,
    /// There is no consumer.
    Fill,
    /// The queues are filled before, and there is no producer.
    Drain,
    /// One message there and back at a time.
    Pingpong,
    /// The stock exchange.
    Exchange,
}

impl Knobs {
    /// The scenario that comes of `layers`, the later ones over the earlier.
    pub(crate) fn scenario<'a>(layers: impl Iterator<Item = &'a Self>) -> Result<Scenario, Failure> {
        let (mut scenario, mut queue) = (Scenario::default(), None);
        for layer in layers {
            layer.apply(&mut scenario)?;
            queue = layer.queue.or(queue);
        }
        if scenario.is_topic() {
            scenario.topology.queues = scenario.topology.consumers.max(1);
        }
        let natural = scenario.natural_kind();
        // Subscriptions have the kind that they need.
        scenario.topology.queue = queue.filter(|_| !scenario.is_topic()).unwrap_or(natural);
        Ok(scenario)
    }

    fn apply(&self, scenario: &mut Scenario) -> Result<(), Failure> {
        fn set<T: Clone>(field: &mut T, value: Option<&T>) {
            if let Some(value) = value {
                field.clone_from(value);
            }
        }
        if let Some(pairs) = self.pairs {
            (scenario.topology.producers, scenario.topology.consumers, scenario.topology.queues) =
                (pairs, pairs, pairs);
        }
        set(&mut scenario.topology.destination, self.destination.as_ref());
        set(&mut scenario.topology.producers, self.producers.as_ref());
        set(&mut scenario.topology.consumers, self.consumers.as_ref());
        set(&mut scenario.topology.queues, self.queues.as_ref());
        set(&mut scenario.topology.bindings, self.bindings.as_ref());
        set(&mut scenario.message.size, self.size.as_ref());
        set(&mut scenario.message.payload, self.payload.as_ref());
        set(&mut scenario.message.persistent, self.persistent.as_ref());
        set(&mut scenario.clients.window, self.window.as_ref());
        set(&mut scenario.clients.prefetch, self.prefetch.as_ref());
        set(&mut scenario.clients.poll, self.poll.as_ref());
        set(&mut scenario.clients.bystander, self.bystander.as_ref());
        set(&mut scenario.clients.reply, self.reply.as_ref());
        set(&mut scenario.clients.nodelay, self.nodelay.as_ref());
        set(&mut scenario.pace.arrivals, self.arrivals.as_ref());
        set(&mut scenario.pace.in_flight, self.in_flight.as_ref());
        set(&mut scenario.length.warmup_messages, self.warmup_messages.as_ref());
        set(&mut scenario.batch, self.batch.as_ref());
        scenario.length.messages = self.messages.or(scenario.length.messages);
        scenario.message.tail = self.tail.or(scenario.message.tail);
        scenario.message.priority = self.priority.or(scenario.message.priority);
        // 0 takes a selector away again.
        scenario.clients.selector = self.selector.or(scenario.clients.selector).filter(|one_of| *one_of > 0);
        scenario.pace.rate = self.rate.map_or(scenario.pace.rate, Rate::Fixed);
        if let Some(ack) = &self.ack {
            scenario.clients.dups_ok = ack == "dups_ok";
            scenario.clients.ack_every =
                if scenario.clients.dups_ok { DUPS_OK_EVERY } else { ack.parse::<Ack>()?.every };
        }
        match self.step {
            None => {}
            Some(Step::Exchange) => {
                (scenario.mode, scenario.clients.drain) = (Mode::Exchange, false);
                (scenario.topology.consumers, scenario.topology.queues) = (EXCHANGE_QUEUES, EXCHANGE_QUEUES);
            }
            Some(Step::Pingpong) => (scenario.mode, scenario.clients.drain) = (Mode::Pingpong, false),
            Some(step) => {
                (scenario.mode, scenario.clients.drain) = (Mode::Throughput, step == Step::Drain);
                if step == Step::Fill {
                    scenario.topology.consumers = 0;
                }
            }
        }
        Ok(())
    }

    /// The same with the variable `axis` at `value`.
    pub(crate) fn turned(&self, axis: &str, value: f64) -> Result<Self, Failure> {
        let (count, own) = (value as usize, self.clone());
        if value < 0.0 || value.fract() != 0.0 {
            return Err(Failure::new(format!("{axis} = {value}: a whole number is needed")));
        }
        match axis {
            "size" => Ok(Self { size: Some(count), ..own }),
            "producers" => Ok(Self { producers: Some(count), ..own }),
            "consumers" => Ok(Self { consumers: Some(count), ..own }),
            "pairs" => Ok(Self { pairs: Some(count), ..own }),
            "queues" => Ok(Self { queues: Some(count), ..own }),
            // Copies of each message: a queue with a consumer of its own for each.
            "copies" => Ok(Self { queues: Some(count), consumers: Some(count), ..own }),
            "bindings" => Ok(Self { bindings: Some(count), ..own }),
            "window" => Ok(Self { window: Some(value as u64), ..own }),
            "prefetch" => Ok(Self { prefetch: Some(value as u16), ..own }),
            "rate" => Ok(Self { rate: Some(value), ..own }),
            "nodelay" => Ok(Self { nodelay: Some(value != 0.0), ..own }),
            _ => Err(Failure::new(format!(
                "{axis}: no such variable; there are size, producers, consumers, pairs, queues, copies, bindings, window, prefetch, rate and nodelay"
            ))),
        }
    }
}
