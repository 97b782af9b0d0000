//! The options of a command line that make a scenario.

use clap::Args;

use bench_record::arrivals::Arrivals;
use bench_record::failure::Failure;
use bench_record::preset::Preset;
use bench_record::scenario::{Ack, Confirms, Destination, Mode, Payload, QueueKind, Rate, Scenario, WarmUp};

/// The single options of a scenario.
#[derive(Debug, Args, Default)]
pub(crate) struct LoadArgs {
    #[command(flatten)]
    topology: TopologyArgs,
    #[command(flatten)]
    steps: StepArgs,
    #[command(flatten)]
    queues: QueueArgs,
    #[command(flatten)]
    pace: PaceArgs,
}

/// Which connections there are, and where messages go.
#[derive(Debug, Args, Default)]
struct TopologyArgs {
    /// Kind of load
    #[arg(long, value_enum)]
    mode: Option<Mode>,
    /// Connections that publish, one thread each
    #[arg(long)]
    producers: Option<usize>,
    /// Connections that consume, one thread each
    #[arg(long)]
    consumers: Option<usize>,
    /// Queues
    #[arg(long)]
    queues: Option<usize>,
    /// Where messages go
    #[arg(long, value_enum)]
    destination: Option<Destination>,
    /// The same as --destination fanout: publish to one exchange that copies to all queues
    #[arg(long, conflicts_with = "destination")]
    fanout: bool,
    /// Patterns bound to each queue of --destination pattern, of which one matches
    #[arg(long)]
    bindings: Option<usize>,
}

/// What is sent and asked for, and in which order.
#[derive(Debug, Args, Default)]
struct StepArgs {
    /// Consumers select one of this many messages by a property
    #[arg(long)]
    selector: Option<u64>,
    /// What bodies are filled with
    #[arg(long, value_enum)]
    payload: Option<Payload>,
    /// Priority of each message
    #[arg(long)]
    priority: Option<u8>,
    /// Consumers ask for each message by itself
    #[arg(long)]
    poll: bool,
    /// Fill the queues first, which is not measured; then only consume
    #[arg(long)]
    drain: bool,
    /// Consumers send one empty message back when all have come
    #[arg(long)]
    reply: bool,
    /// Leave Nagle's delay on in client sockets
    #[arg(long)]
    nagle: bool,
    /// Confirm and acknowledge messages that come exactly once: MQTT's QoS 2
    #[arg(long)]
    exactly_once: bool,
}

/// Queues, messages in them and promises about these.
#[derive(Debug, Args, Default)]
struct QueueArgs {
    /// Further queues of the exchange that have no consumer
    #[arg(long)]
    idle_queues: Option<usize>,
    /// Most messages in such a queue
    #[arg(long)]
    idle_length: Option<u32>,
    /// Kind of queues
    #[arg(long, value_enum)]
    queue: Option<QueueKind>,
    /// Bytes of a body
    #[arg(long)]
    size: Option<usize>,
    /// Publish persistent messages to durable queues
    #[arg(long)]
    persistent: bool,
    /// Confirms: none, or the most unconfirmed messages of a producer (1: wait for each)
    #[arg(long, alias = "confirm")]
    window: Option<Confirms>,
    /// Most unacknowledged messages of a consumer; 0: no limit
    #[arg(long)]
    prefetch: Option<u16>,
    /// Acknowledgement: auto, each or every:K
    #[arg(long)]
    ack: Option<Ack>,
}

/// How fast, and for how long.
#[derive(Debug, Args, Default)]
struct PaceArgs {
    /// Open loop: messages a second in all, or half (of the target's own saturation), or max
    /// (closed loop)
    #[arg(long)]
    rate: Option<Rate>,
    /// How intended times are spread in an open loop
    #[arg(long, value_enum)]
    arrivals: Option<Arrivals>,
    /// Closed loop: most messages sent and not yet received; 0: no bound
    #[arg(long)]
    in_flight: Option<u64>,
    /// Seconds that are measured
    #[arg(long)]
    duration: Option<f64>,
    /// Seconds before that which are not; steady: until the rate no longer changes, at most 60
    #[arg(long)]
    warmup: Option<WarmUp>,
    /// Messages in all, instead of a time
    #[arg(long)]
    messages: Option<u64>,
    /// Messages before these, which are not measured
    #[arg(long)]
    warmup_messages: Option<u64>,
    /// Seconds after which a number of messages is given up
    #[arg(long)]
    cap: Option<f64>,
    /// Seconds of silence after which messages that are missing count as lost
    #[arg(long)]
    patience: Option<f64>,
    /// Most bytes that a producer gathers into one write; 1: every message by itself
    #[arg(long)]
    batch: Option<usize>,
}

impl LoadArgs {
    /// `preset`, or the usual scenario, as these options change it.
    pub(crate) fn scenario(&self, preset: Option<Preset>) -> Result<Scenario, Failure> {
        let mut scenario = preset.map_or_else(Scenario::default, Preset::scenario);
        self.change(&mut scenario);
        scenario.check()?;
        Ok(scenario)
    }

    fn change(&self, scenario: &mut Scenario) {
        let load = self;
        fn set<T: Clone>(field: &mut T, value: Option<&T>) {
            if let Some(value) = value {
                field.clone_from(value);
            }
        }
        set(&mut scenario.mode, load.topology.mode.as_ref());
        set(&mut scenario.topology.producers, load.topology.producers.as_ref());
        set(&mut scenario.topology.consumers, load.topology.consumers.as_ref());
        set(&mut scenario.topology.queues, load.topology.queues.as_ref());
        set(&mut scenario.topology.idle_queues, load.queues.idle_queues.as_ref());
        set(&mut scenario.topology.idle_length, load.queues.idle_length.as_ref());
        set(&mut scenario.message.size, load.queues.size.as_ref());
        set(&mut scenario.clients.window, load.queues.window.map(|confirms| confirms.window).as_ref());
        set(&mut scenario.clients.prefetch, load.queues.prefetch.as_ref());
        set(&mut scenario.clients.ack_every, load.queues.ack.map(|ack| ack.every).as_ref());
        set(&mut scenario.pace.rate, load.pace.rate.as_ref());
        set(&mut scenario.pace.arrivals, load.pace.arrivals.as_ref());
        set(&mut scenario.pace.in_flight, load.pace.in_flight.as_ref());
        set(&mut scenario.length.duration, load.pace.duration.as_ref());
        set(&mut scenario.length.warmup, load.pace.warmup.map(|warmup| warmup.seconds).as_ref());
        set(&mut scenario.length.until_steady, load.pace.warmup.map(|warmup| warmup.until_steady).as_ref());
        set(&mut scenario.length.patience, load.pace.patience.as_ref());
        set(&mut scenario.batch, load.pace.batch.as_ref());
        scenario.length.messages = load.pace.messages.or(scenario.length.messages);
        set(
            &mut scenario.topology.destination,
            load.topology.fanout.then_some(Destination::Fanout).or(load.topology.destination).as_ref(),
        );
        set(&mut scenario.topology.bindings, load.topology.bindings.as_ref());
        set(&mut scenario.message.payload, load.steps.payload.as_ref());
        set(&mut scenario.length.warmup_messages, load.pace.warmup_messages.as_ref());
        scenario.clients.selector = load.steps.selector.or(scenario.clients.selector);
        scenario.message.priority = load.steps.priority.or(scenario.message.priority);
        scenario.length.cap = load.pace.cap.or(scenario.length.cap);
        scenario.clients.poll |= load.steps.poll;
        scenario.clients.drain |= load.steps.drain;
        scenario.clients.reply |= load.steps.reply;
        scenario.clients.exactly_once |= load.steps.exactly_once;
        scenario.clients.nodelay &= !load.steps.nagle;
        scenario.message.persistent |= load.queues.persistent;
        scenario.topology.queue = load.queues.queue.unwrap_or_else(|| scenario.natural_kind());
    }
}
