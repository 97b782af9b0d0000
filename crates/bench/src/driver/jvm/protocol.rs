//! The lines between this program and a worker: commands on its standard input, answers on its
//! standard output, each an object of JSON on a line of its own. Times are nanoseconds of the
//! worker's clock unless something else is said.

use serde::{Deserialize, Serialize};

use super::provider::{AUTO_ACKNOWLEDGE, CLIENT_ACKNOWLEDGE, DUPS_OK_ACKNOWLEDGE, Factory, Provider};
use bench_record::arrivals::Arrivals;
use bench_record::failure::Failure;
use bench_record::scenario::{Destination, Mode, Payload, QueueKind, Rate, Scenario};
use bench_record::target::Target;

/// The version that both sides must speak.
pub(crate) const VERSION: u32 = 1;

/// What a worker is told.
#[derive(Debug, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub(crate) enum Command<'a> {
    /// Who are you? Answered by [`Answer::Hello`].
    Hello { v: u32 },
    /// What time is it? `t` comes back in [`Answer::Clock`].
    Clock { t: u64 },
    /// Open all connections for a load. Answered by [`Answer::Ready`], [`Answer::Lacks`] or
    /// [`Answer::Failed`].
    Prepare { spec: &'a Spec },
    /// Start the threads. [`Answer::Stats`] come from here on, until the end.
    Start,
    /// The counters now. Answered by [`Answer::Sample`].
    Sample,
    /// Messages meant to be sent between these times are measured; 0: not yet. `gate`: producers
    /// may go on to the measured messages; `drain`: they stop.
    Steer { from: i64, until: i64, gate: bool, drain: bool },
    /// Stop, close, and say what was seen. Answered by [`Answer::Result`].
    End,
    /// End the process.
    Bye,
}

/// What a worker says.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Answer {
    Hello(Hello),
    Clock(Clock),
    Ready(Ready),
    /// The counters from time to time, and at once when all is sent and received.
    Stats(Counts),
    Sample(Counts),
    Result(Results),
    /// What the client lacks for this load.
    Lacks(String),
    /// What went wrong; the load is over.
    Failed(String),
}

/// Who the worker is.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Hello {
    pub(crate) v: u32,
    /// `jakarta` or `javax`.
    pub(crate) api: String,
    /// Version of the Java machine.
    pub(crate) jvm: String,
    pub(crate) pid: u32,
    /// Most bytes of its heap.
    pub(crate) heap: u64,
}

/// The time on the worker's clock.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct Clock {
    pub(crate) t: u64,
    pub(crate) nano: i64,
}

/// What the client says of itself.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Ready {
    /// Name and version.
    pub(crate) provider: String,
    /// Version of JMS.
    pub(crate) jms: String,
}

/// The counters of all threads at one instant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Counts {
    pub(crate) at: i64,
    /// By producer.
    pub(crate) sent: Vec<u64>,
    pub(crate) confirmed: u64,
    pub(crate) refused: u64,
    pub(crate) received: u64,
    /// When something last moved; 0: never.
    pub(crate) moved: i64,
    /// Nothing is left to send or to be confirmed.
    pub(crate) done: bool,
    /// Milliseconds in which the machine collected garbage, since its start.
    pub(crate) gc_ms: u64,
}

/// What the threads of a load saw.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Results {
    pub(crate) produced: Vec<ProducedThere>,
    pub(crate) consumed: Vec<ConsumedThere>,
    /// Messages that were left in queues without a consumer, and were taken away then; none: not
    /// counted.
    pub(crate) held: Option<u64>,
}

/// A distribution: pairs of nanoseconds and how often.
pub(crate) type Pairs = Vec<(u64, u64)>;

/// What a producer saw.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct ProducedThere {
    pub(crate) sent: u64,
    pub(crate) refused: u64,
    /// Bits of the confirmed numbers, in base 64: words of 64, little endian.
    pub(crate) confirmed: String,
    pub(crate) unknown_confirms: u64,
    pub(crate) confirm: Pairs,
    pub(crate) lateness: Pairs,
}

/// What a consumer saw.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct ConsumedThere {
    pub(crate) queue: usize,
    /// By producer.
    pub(crate) seen: Vec<SeenThere>,
    /// Of length, stamp and filling.
    pub(crate) damages: [u64; 3],
    pub(crate) redelivered: u64,
    pub(crate) total: Pairs,
    pub(crate) transit: Pairs,
}

/// What a consumer saw of one producer.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct SeenThere {
    /// Bits of the received numbers, as in [`ProducedThere::confirmed`].
    pub(crate) numbers: String,
    pub(crate) duplicated: u64,
    pub(crate) reordered: u64,
}

/// What messages carry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct BodiesThere {
    run: u32,
    size: usize,
    /// Bytes of the stamp.
    stamped: usize,
    zero: bool,
    /// Messages with higher numbers are of the short size.
    short_after: u64,
    short_size: usize,
}

/// A load, in the words of JMS. A worker reads the fields of its parts beside its own.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Spec {
    /// Begins the names of all destinations and subscriptions.
    name: String,
    queue_name: Option<String>,
    bodies: BodiesThere,
    #[serde(flatten)]
    client: ClientThere,
    pingpong: bool,
    producers: usize,
    consumers: usize,
    queues: usize,
    #[serde(flatten)]
    course: CourseThere,
    #[serde(flatten)]
    terms: TermsThere,
    #[serde(flatten)]
    pace: PaceThere,
}

/// The client library, and its user.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct ClientThere {
    factory: Factory,
    /// The property by which the client writes a large body into a stream.
    body_stream: Option<&'static str>,
    user: String,
    password: String,
}

/// What is done with which destinations.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct CourseThere {
    produce: bool,
    keep: bool,
    spread: bool,
    reply: bool,
    topic: bool,
    durable: bool,
    bystander: bool,
}

/// What is asked for each message.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct TermsThere {
    persistent: bool,
    priority: i16,
    selects: u64,
    window: u64,
    /// The mode of its sessions, a number of JMS or of the client's own.
    ack: u32,
    ack_every: u64,
}

/// How fast, and how many messages each producer sends.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct PaceThere {
    rate: f64,
    poisson: bool,
    seed: u32,
    in_flight: u64,
    quotas: Vec<u64>,
    warmups: Vec<u64>,
}

impl Spec {
    /// The load of `scenario`; what JMS has no words for is refused by name.
    pub(crate) fn new(provider: &Provider, target: &Target, scenario: &Scenario, run: u32) -> Result<Self, Failure> {
        refuse(target, scenario)?;
        Ok(Self {
            // A name that every broker takes: OpenMQ's are those of Java, with dots.
            name: format!("hermod_bench.{run:08x}"),
            queue_name: scenario.topology.queue_name.clone(),
            bodies: BodiesThere {
                run,
                size: scenario.message.size,
                stamped: scenario.check_of_bodies().length(),
                zero: scenario.message.payload != Payload::Random,
                short_after: scenario.message.tail.map_or(MOST, |tail| scenario.quota(0).saturating_sub(tail.messages)),
                short_size: scenario.message.tail.map_or(0, |tail| tail.size),
            },
            client: ClientThere {
                factory: provider.factory.clone(),
                body_stream: provider.body_stream,
                user: target.user.clone(),
                password: target.password.clone(),
            },
            pingpong: scenario.mode == Mode::Pingpong,
            producers: scenario.topology.producers,
            consumers: scenario.topology.consumers,
            queues: scenario.topology.queues,
            course: CourseThere {
                produce: true,
                keep: false,
                spread: scenario.topology.destination == Destination::Spread,
                reply: scenario.clients.reply,
                topic: scenario.copies_all(),
                durable: scenario.topology.queue == QueueKind::Durable,
                bystander: scenario.clients.bystander,
            },
            terms: TermsThere::new(provider, scenario),
            pace: PaceThere::new(scenario, run),
        })
    }

    /// The same load without an end, with destinations of its own, in which nothing stays behind.
    pub(crate) fn rehearsal(&self) -> Self {
        let mut spec = self.clone();
        spec.name += ".rehearsal";
        spec.queue_name = None;
        if spec.consumers == 0 && !spec.course.topic {
            spec.consumers = spec.queues;
        }
        spec.course.bystander = false;
        spec.terms.selects = spec.terms.selects.min(1);
        spec.pace.quotas.fill(MOST);
        spec.pace.warmups.fill(MOST);
        spec
    }

    /// What of it is the same in every slice of a cell, and decides which code runs: not the names,
    /// the numbers of messages and the rate.
    pub(crate) fn everywhere(&self) -> Self {
        let mut spec = self.clone();
        spec.name.clear();
        (spec.bodies.run, spec.bodies.short_after) = (0, 0);
        (spec.pace.rate, spec.pace.seed) = (0.0, 0);
        spec.pace.quotas.fill(MOST);
        spec.pace.warmups.fill(MOST);
        spec
    }

    /// What fills the queues that a drain empties: all messages, without a consumer.
    pub(crate) fn filling(&self) -> Self {
        let mut spec = Self { consumers: 0, ..self.clone() };
        spec.course.keep = true;
        spec.pace.warmups.fill(MOST);
        spec
    }

    /// The drain behind it.
    pub(crate) fn draining(&self) -> Self {
        let mut spec = self.clone();
        spec.course.produce = false;
        spec
    }
}

impl TermsThere {
    fn new(provider: &Provider, scenario: &Scenario) -> Self {
        Self {
            persistent: scenario.message.persistent,
            priority: scenario.message.priority.map_or(-1, i16::from),
            selects: scenario.clients.selector.unwrap_or(0),
            window: scenario.clients.window,
            ack: match (scenario.clients.dups_ok, scenario.clients.ack_every) {
                (true, _) => DUPS_OK_ACKNOWLEDGE,
                (false, 0) => provider.least_acks,
                (false, 2..) if scenario.mode == Mode::Throughput => CLIENT_ACKNOWLEDGE,
                (false, _) => AUTO_ACKNOWLEDGE,
            },
            ack_every: scenario.clients.ack_every,
        }
    }
}

impl PaceThere {
    fn new(scenario: &Scenario, run: u32) -> Self {
        let ids = 0..scenario.topology.producers;
        Self {
            rate: if let Rate::Fixed(rate) = scenario.pace.rate { rate } else { 0.0 },
            poisson: scenario.pace.arrivals == Arrivals::Poisson,
            seed: run,
            in_flight: scenario.pace.in_flight,
            quotas: ids.clone().map(|id| scenario.quota(id).min(MOST)).collect(),
            warmups: ids.map(|id| scenario.warmup_quota(id)).collect(),
        }
    }
}

/// The highest number that a worker is told.
const MOST: u64 = i64::MAX as u64;

/// Says what a scenario wants and JMS, or its worker, has not.
fn refuse(target: &Target, scenario: &Scenario) -> Result<(), Failure> {
    let exchange = matches!(scenario.topology.destination, Destination::Direct | Destination::Pattern);
    let lacks = [
        (exchange, "exchanges in JMS"),
        (scenario.topology.idle_queues > 0, "queues in JMS that drop their oldest message"),
        (scenario.clients.poll, "request for each single message in JMS"),
        (scenario.clients.exactly_once, "message that comes exactly once by its protocol in JMS"),
        (target.queue_type.is_some(), "types of queues in JMS"),
    ];
    if let Some((_, what)) = lacks.iter().find(|(wanted, _)| *wanted) {
        return Err(Failure::lacking(*what));
    }
    let unbuilt = [
        (
            !scenario.clients.nodelay,
            "sockets that gather small segments: give the client's own property for it in the target",
        ),
        (scenario.clients.window > u64::from(i32::MAX.unsigned_abs()), "windows above 2147483647"),
        (scenario.pace.arrivals == Arrivals::Bursts, "arrivals in bursts"),
    ];
    match unbuilt.iter().find(|(wanted, _)| *wanted) {
        Some((_, what)) => Err(Failure::new(format!("the JMS worker does not do this: {what}"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::jvm::provider::Provider;

    #[test]
    fn commands_and_answers_have_their_names() {
        let line = |command: &Command<'_>| serde_json::to_string(command).unwrap();
        assert_eq!(line(&Command::Hello { v: 1 }), r#"{"op":"hello","v":1}"#);
        let steer = Command::Steer { from: 5, until: i64::MAX, gate: true, drain: false };
        assert_eq!(line(&steer), r#"{"op":"steer","from":5,"until":9223372036854775807,"gate":true,"drain":false}"#);
        assert_eq!(line(&Command::Bye), r#"{"op":"bye"}"#);
        let said: Answer = serde_json::from_str(
            r#"{"result":{"produced":[],"consumed":[{"queue":0,"seen":[{"numbers":"","duplicated":0,"reordered":1}],
                "damages":[0,0,2],"redelivered":0,"total":[[7,2]],"transit":[]}]}}"#,
        )
        .unwrap();
        let Answer::Result(results) = said else { panic!("{said:?}") };
        assert_eq!(
            (results.held, results.consumed[0].damages, results.consumed[0].total[0]),
            (None, [0, 0, 2], (7, 2))
        );
    }

    /// Workers of all versions read these names; [`VERSION`] rises with them.
    #[test]
    fn a_load_is_one_flat_object() {
        let target = "qpid-jms://h".parse().unwrap();
        let scenario = Scenario::default().with(|s| {
            s.topology.producers = 2;
            s.length.messages = Some(3);
            s.message.priority = Some(4);
        });
        let provider = Provider::of(&target, &scenario).unwrap().unwrap();
        let spec = Spec::new(&provider, &target, &scenario, 7).unwrap();
        let text = [
            r#"{"name":"hermod_bench.00000007","queue_name":null,"bodies":{"run":7,"size":1024,"stamped":40,"#,
            r#""zero":false,"short_after":9223372036854775807,"short_size":0},"factory":{"class_name":"#,
            r#""org.apache.qpid.jms.JmsConnectionFactory","argument":"amqp://h:5672?amqp.idleTimeout=0"#,
            r#"&jms.forceAsyncSend=true&jms.presettlePolicy.presettleConsumers=true&jms.receiveNoWaitLocalOnly=true","#,
            r#""lookup":null,"properties":{}},"body_stream":null,"user":"guest","password":"guest","pingpong":false,"#,
            r#""producers":2,"consumers":1,"queues":1,"produce":true,"keep":false,"spread":false,"reply":false,"#,
            r#""topic":false,"durable":false,"bystander":false,"persistent":false,"priority":4,"selects":0,"window":0,"#,
            r#""ack":3,"ack_every":0,"rate":0.0,"poisson":false,"seed":7,"in_flight":50000,"quotas":[2,1],"#,
            r#""warmups":[0,0]}"#,
        ]
        .concat();
        assert_eq!(serde_json::to_string(&spec).unwrap(), text);
    }

    #[test]
    fn slices_of_one_cell_are_the_same_load() {
        let spec = |run: u32, change: Change| {
            let (target, mut scenario) = ("qpid-jms://h".parse().unwrap(), Scenario::default());
            change(&mut scenario);
            let provider = Provider::of(&target, &scenario).unwrap().unwrap();
            Spec::new(&provider, &target, &scenario, run).unwrap().everywhere()
        };
        let first = spec(1, |_| {});
        let same: [Change; 3] = [|_| {}, |s| s.length.messages = Some(7), |s| s.pace.rate = Rate::Fixed(100.0)];
        let other: [Change; 4] = [
            |s| s.message.size = 7,
            |s| s.message.persistent = true,
            |s| s.clients.window = 9,
            |s| (s.topology.producers, s.topology.consumers) = (2, 2),
        ];
        assert!(same.iter().all(|change| spec(2, *change) == first));
        assert!(other.iter().all(|change| spec(1, *change) != first));
    }

    type Change = fn(&mut Scenario);

    #[test]
    fn what_jms_has_no_words_for_is_refused_by_name() {
        let spec = |target: &str, change: Change| {
            let (target, mut scenario) = (target.parse().unwrap(), Scenario::default());
            change(&mut scenario);
            let provider = Provider::of(&target, &scenario).unwrap().unwrap();
            Spec::new(&provider, &target, &scenario, 0xab)
        };
        let plain = spec("qpid-jms://h", |s| s.clients.ack_every = 3).unwrap();
        assert_eq!(
            (plain.name.as_str(), plain.terms.ack, &plain.pace.quotas),
            ("hermod_bench.000000ab", 2, &vec![MOST])
        );
        assert_eq!((plain.bodies.stamped, plain.bodies.short_after, plain.terms.priority), (40, MOST, -1));
        let acks: [(&str, Change, u32); 6] = [
            ("qpid-jms://h", |s| s.clients.ack_every = 0, 3),
            ("openmq://h", |s| s.clients.ack_every = 0, 0x8000),
            ("openmq://h", |s| s.clients.ack_every = 1, 1),
            ("openmq://h", |s| (s.clients.ack_every, s.clients.dups_ok) = (10, true), 3),
            ("artemis://h", |s| (s.clients.ack_every, s.mode) = (0, Mode::Pingpong), 100),
            ("artemis://h", |s| (s.clients.ack_every, s.mode) = (10, Mode::Pingpong), 1),
        ];
        for (target, change, ack) in acks {
            assert_eq!(spec(target, change).unwrap().terms.ack, ack, "{target}");
        }
        let cases: [(&str, Change, &str); 7] = [
            (
                "qpid-jms://h",
                |s| (s.topology.destination, s.topology.idle_queues) = (Destination::Fanout, 1),
                "drop their oldest",
            ),
            ("qpid-jms://h,type=quorum", |_| {}, "types of queues"),
            ("qpid-jms://h", |s| s.topology.destination = Destination::Pattern, "exchanges in JMS"),
            ("qpid-jms://h", |s| s.clients.poll = true, "each single message"),
            ("qpid-jms://h", |s| s.clients.exactly_once = true, "exactly once"),
            ("qpid-jms://h", |s| s.clients.nodelay = false, "small segments"),
            ("qpid-jms://h", |s| s.pace.arrivals = Arrivals::Bursts, "bursts"),
        ];
        for (target, change, part) in cases {
            let failure = spec(target, change).unwrap_err().to_string();
            assert!(failure.contains(part), "{failure}");
        }
    }
}
