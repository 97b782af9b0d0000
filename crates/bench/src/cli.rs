//! The command line: what can be asked for, and how a preset and single options become a scenario.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::capacity::backlog::BacklogArgs;
use crate::capacity::connections::ConnectionsArgs;
use crate::capacity::queues::QueuesArgs;
use crate::disk::DiskArgs;
use crate::exchange::ExchangeArgs;
use crate::promise::AuditArgs;
use crate::saturate::{CurveArgs, SaturateArgs};
use crate::scorecard::ScorecardArgs;
use crate::simulate::SimulateArgs;
use crate::suite::SuiteArgs;
use bench_record::arrivals::Arrivals;
use bench_record::failure::Failure;
use bench_record::preset::Preset;
use bench_record::scenario::{Ack, Confirms, Destination, Mode, Payload, QueueKind, Rate, Scenario, WarmUp};
use bench_record::span::{Share, Span};
use bench_report::ReportArgs;
use bench_report::compare::CompareArgs;
use machine::netns::Network;
use peers::PeersArgs;

/// Loads message brokers, checks every message, and says what each message cost.
#[derive(Debug, Parser)]
#[command(name = "hermod-bench", version)]
pub(crate) struct Cli {
    /// Load over a pair of network namespaces, with the peers of this run in the other one:
    /// mtu=BYTES (1500), delay=SPAN and rate=NUMBERmbit each way
    #[arg(long, global = true, value_name = "NETWORK", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    netns: Option<Network>,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

impl Cli {
    /// The network that was asked for, of a verb that starts brokers and loads them.
    pub(crate) fn network(&self) -> Result<Option<&Network>, Failure> {
        match (&self.netns, &self.verb) {
            (Some(_), Verb::Run(_) | Verb::Saturate(_) | Verb::Curve(_) | Verb::Exchange(_) | Verb::Suite(_))
            | (None, _) => Ok(self.netns.as_ref()),
            _ => Err(Failure::new("--netns is for run, saturate, curve, exchange and suite")),
        }
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Measure one or several brokers
    Run(Box<RunArgs>),
    /// Find the highest rate that each broker sustains
    Saturate(Box<SaturateArgs>),
    /// Measure latency at shares of the rate that each broker sustains
    Curve(Box<CurveArgs>),
    /// Find out what a broker's confirms are worth: count flushes, look at its calls, kill it and
    /// look for what it confirmed
    Audit(Box<AuditArgs>),
    /// Copy bytes between pairs of sockets: the floor for every broker on this machine
    Relay(RelayArgs),
    /// Time an empty forced write (4 KiB, pwrite and fdatasync)
    Floor(FloorArgs),
    /// Write batches in the ways that a store may keep a backlog: the limits of this disk
    Disk(DiskArgs),
    /// Fill a queue that nobody consumes, and drain it, perhaps after a restart of the broker
    Backlog(Box<BacklogArgs>),
    /// Declare many queues with a message in each, and take these back, perhaps after a restart of
    /// the broker
    Queues(Box<QueuesArgs>),
    /// Run the rows of published studies on brokers, beside the published figures
    Suite(Box<SuiteArgs>),
    /// Run a simulated stock exchange over a broker, and time its orders
    Exchange(Box<ExchangeArgs>),
    /// Open many connections that do nothing, and see what they cost
    Connections(Box<ConnectionsArgs>),
    /// Be a broker whose latency, capacity, stalls, faults and promises are known, to test a
    /// benchmark with
    Simulate(Box<SimulateArgs>),
    /// Get, start and end other brokers, to be measured beside each other
    Peers(PeersArgs),
    /// Draw the record of a run as a page
    Report(ReportArgs),
    /// Compare two records, and fail on a regression
    Compare(CompareArgs),
    /// See how easy brokers are to run: protocols and endpoints that answer, memory, what they
    /// bring along
    Scorecard(ScorecardArgs),
}

/// Options of `relay`.
#[derive(Debug, Args)]
pub(crate) struct RelayArgs {
    /// Loopback address to listen on; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:5599")]
    pub(crate) listen: SocketAddr,
    /// Threads that copy; pairs are spread over them
    #[arg(long, default_value_t = 1)]
    pub(crate) threads: usize,
    /// Force what producers send to a file in this directory before it goes on: the floor of
    /// persistent messages
    #[arg(long)]
    pub(crate) log: Option<PathBuf>,
    /// End when standard input closes
    #[arg(long, hide = true)]
    pub(crate) with_parent: bool,
}

/// Options of `floor`.
#[derive(Debug, Args)]
pub(crate) struct FloorArgs {
    /// Directory on the disk that is asked about
    #[arg(long)]
    pub(crate) dir: PathBuf,
    /// Seconds
    #[arg(long, default_value_t = 3.0)]
    pub(crate) duration: f64,
}

/// Options of `run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// A broker:
    /// [NAME=]SCHEME://[USER:PASSWORD@]HOST:PORT[/VHOST][,pid=PID[+PID]][,type=QUEUE_TYPE][,durability=CLASS]
    /// [,metrics=HOST:PORT/PATH], where SCHEME is amqp, stomp, nats, jetstream, mqtt, mqtt5, kafka,
    /// relay, or a JMS client: amqp10, openwire, openwire5, artemis, openmq; any other is
    /// jms:CLASS?KEY=VALUE&... or jndi:CONTEXT?url=URL&cf=NAME. Or a peer,
    /// [NAME=]PEER[/VARIANT...][,via=SCHEME], which is started for the run if it is not up. Repeat
    /// it to compare
    #[arg(long = "target", value_name = "TARGET", required_unless_present_any = ["relay", "log"])]
    pub(crate) targets: Vec<String>,
    /// Class path of the jars of jms: and jndi: targets that do not have their own as ,classpath=
    #[arg(long, value_name = "PATH")]
    pub(crate) jms_classpath: Option<String>,
    /// Processes of the only target (its children count too); with several targets give them as
    /// ,pid=
    #[arg(long, value_delimiter = ',')]
    pub(crate) pid: Vec<u32>,
    /// Also measure a relay of this program's own, and show ratios to it
    #[arg(long)]
    pub(crate) relay: bool,
    /// Also measure a relay that forces what it copies to the disk of --dir first: the limit for
    /// persistent messages
    #[arg(long)]
    pub(crate) log: bool,
    /// A row of the speed table; other options change it
    #[arg(long, value_enum)]
    pub(crate) preset: Option<Preset>,
    /// How often every target has its turn, in random order; with --until the most (50)
    #[arg(long)]
    pub(crate) blocks: Option<usize>,
    /// Also measure the first target again as if it were another: what differs between the two is
    /// noise
    #[arg(long)]
    pub(crate) control: bool,
    /// End when the rates' ratios to the first target are known this well (3%), after ten blocks at
    /// the earliest
    #[arg(long)]
    pub(crate) until: Option<Share>,
    /// Begin no block that would probably end after this long: 90s, 10m, 2h
    #[arg(long)]
    pub(crate) budget: Option<Span>,
    /// Keep each finished slice in this new directory at once, so that the run can be gone on with
    #[arg(long, conflicts_with = "resume")]
    pub(crate) out: Option<PathBuf>,
    /// Go on with the run that was begun in this directory, given the same options
    #[arg(long, conflicts_with = "seed")]
    pub(crate) resume: Option<PathBuf>,
    /// Stop the processes of the targets that are not being measured (SIGSTOP), as far as their
    /// pids are known
    #[arg(long)]
    pub(crate) freeze: bool,
    /// Wait up to this many seconds before each slice until the machine is quiet
    #[arg(long, default_value_t = 0.0)]
    pub(crate) wait_quiet: f64,
    /// Measure a slice that other processes disturbed this often again; all attempts are in the
    /// record
    #[arg(long, default_value_t = 0)]
    pub(crate) retries: usize,
    /// Repeats the random order and the arrivals of an earlier run
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Directory on the broker's disk where forced writes are timed beside persistent scenarios
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
    /// Write a record of everything to this file
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
    /// Show nothing but the table
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
}

/// The single options of a scenario.
#[derive(Debug, Args, Default)]
pub(crate) struct LoadArgs {
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
    /// Further queues of the exchange that nobody consumes
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

impl RunArgs {
    /// The scenario that was asked for.
    pub(crate) fn scenario(&self) -> Result<Scenario, Failure> {
        self.load.scenario(self.preset)
    }
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
        set(&mut scenario.mode, load.mode.as_ref());
        set(&mut scenario.producers, load.producers.as_ref());
        set(&mut scenario.consumers, load.consumers.as_ref());
        set(&mut scenario.queues, load.queues.as_ref());
        set(&mut scenario.idle_queues, load.idle_queues.as_ref());
        set(&mut scenario.idle_length, load.idle_length.as_ref());
        set(&mut scenario.size, load.size.as_ref());
        set(&mut scenario.window, load.window.map(|confirms| confirms.window).as_ref());
        set(&mut scenario.prefetch, load.prefetch.as_ref());
        set(&mut scenario.ack_every, load.ack.map(|ack| ack.every).as_ref());
        set(&mut scenario.rate, load.rate.as_ref());
        set(&mut scenario.arrivals, load.arrivals.as_ref());
        set(&mut scenario.in_flight, load.in_flight.as_ref());
        set(&mut scenario.duration, load.duration.as_ref());
        set(&mut scenario.warmup, load.warmup.map(|warmup| warmup.seconds).as_ref());
        set(&mut scenario.until_steady, load.warmup.map(|warmup| warmup.until_steady).as_ref());
        set(&mut scenario.patience, load.patience.as_ref());
        set(&mut scenario.batch, load.batch.as_ref());
        scenario.messages = load.messages.or(scenario.messages);
        set(&mut scenario.destination, load.fanout.then_some(Destination::Fanout).or(load.destination).as_ref());
        set(&mut scenario.bindings, load.bindings.as_ref());
        set(&mut scenario.payload, load.payload.as_ref());
        set(&mut scenario.warmup_messages, load.warmup_messages.as_ref());
        scenario.selector = load.selector.or(scenario.selector);
        scenario.priority = load.priority.or(scenario.priority);
        scenario.cap = load.cap.or(scenario.cap);
        scenario.poll |= load.poll;
        scenario.drain |= load.drain;
        scenario.reply |= load.reply;
        scenario.nodelay &= !load.nagle;
        scenario.persistent |= load.persistent;
        scenario.queue = load.queue.unwrap_or_else(|| scenario.natural_kind());
    }
}

/// The verb of a command line, which must be right. Of an option that is there twice the last
/// counts.
#[cfg(test)]
pub(crate) fn verb(words: &str) -> Verb {
    use clap::{CommandFactory, FromArgMatches};
    let words = std::iter::once("hermod-bench").chain(words.split_whitespace());
    let matches = Cli::command().args_override_self(true).try_get_matches_from(words).unwrap();
    Cli::from_arg_matches(&matches).unwrap().verb
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn scenario(line: &str) -> Result<Scenario, Failure> {
        let words = ["hermod-bench", "run", "--target", "amqp://h"].into_iter().chain(line.split_whitespace());
        match Cli::try_parse_from(words).unwrap().verb {
            Verb::Run(run) => run.scenario(),
            _ => panic!("not a run"),
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_network_is_for_what_loads_brokers() {
        let network = |line: &str| {
            let words = ["hermod-bench"].into_iter().chain(line.split_whitespace());
            Cli::try_parse_from(words).unwrap().network().map(Option::<&Network>::cloned)
        };
        assert_eq!(network("exchange --target x").unwrap(), None);
        assert_eq!(network("exchange --netns --target x").unwrap(), Some("mtu=1500".parse().unwrap()));
        assert_eq!(network("--netns=mtu=9000 run --relay").unwrap(), Some("mtu=9000".parse().unwrap()));
        for line in ["floor --dir / --netns", "--netns peers list", "connections --target amqp://h --count 5 --netns"] {
            assert!(network(line).unwrap_err().to_string().contains("--netns is for"), "{line}");
        }
    }

    #[test]
    fn options_change_a_preset() {
        let changed = scenario("--preset persistent1k --size 64 --window 10 --ack every:5 --duration 2").unwrap();
        assert_eq!((changed.size, changed.window, changed.ack_every, changed.prefetch), (64, 10, 5, 1000));
        assert_eq!((changed.queue, changed.duration), (QueueKind::Durable, 2.0));
        assert_eq!(scenario("").unwrap(), Scenario::default());
        assert_eq!(scenario("--consumers 2").unwrap().queue, QueueKind::Durable);
        assert_eq!(scenario("--persistent").unwrap().queue, QueueKind::Durable);
        assert_eq!(scenario("--confirm none").unwrap().window, 0);
    }

    #[test]
    fn what_can_not_be_run_is_refused_at_once() {
        assert!(scenario("--queues 2").is_err());
        for line in ["--ack never", "--window 0", "--rate 0", "--preset fast", "--size -1"] {
            let words = ["hermod-bench", "run", "--target", "amqp://h"].into_iter().chain(line.split_whitespace());
            assert!(Cli::try_parse_from(words).is_err(), "{line}");
        }
        assert!(Cli::try_parse_from(["hermod-bench", "run"]).is_err());
    }
}
