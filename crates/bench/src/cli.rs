//! The command line: what can be asked for, and how a preset and single options become a scenario.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::capacity::backlog::BacklogArgs;
use crate::capacity::connections::ConnectionsArgs;
use crate::capacity::queues::QueuesArgs;
use crate::failure::Failure;
use crate::machine::backlog::DiskArgs;
use crate::measure::schedule::Arrivals;
use crate::preset::Preset;
use crate::scenario::{Ack, Confirms, Mode, QueueKind, Rate, Scenario};
use crate::target::Target;

/// Loads message brokers, checks every message, and says what each message cost.
#[derive(Debug, Parser)]
#[command(name = "hermod-bench", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Measure one or several brokers
    Run(Box<RunArgs>),
    /// Copy bytes between pairs of sockets: the floor for every broker on this machine
    Relay(RelayArgs),
    /// Time an empty forced write (4 KiB, pwrite and fdatasync)
    Floor(FloorArgs),
    /// Write batches in the ways that a store may keep a backlog: the limits of this disk
    Disk(DiskArgs),
    /// Fill a queue that nobody consumes, and drain it, perhaps after a restart of the broker
    Backlog(Box<BacklogArgs>),
    /// Declare many queues with a message in each, and take these back, perhaps after a restart of the broker
    Queues(Box<QueuesArgs>),
    /// Open many connections that do nothing, and see what they cost
    Connections(Box<ConnectionsArgs>),
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
    /// A broker: [NAME=]SCHEME://[USER:PASSWORD@]HOST:PORT[/VHOST][,pid=PID[+PID]][,type=QUEUE_TYPE][,metrics=HOST:PORT/PATH], where SCHEME is amqp,
    /// stomp or relay. Repeat it to compare
    #[arg(long = "target", value_name = "TARGET", required_unless_present = "relay")]
    pub(crate) targets: Vec<Target>,
    /// Processes of the only target (its children count too); with several targets give them as ,pid=
    #[arg(long, value_delimiter = ',')]
    pub(crate) pid: Vec<u32>,
    /// Also measure a relay of this program's own, and show ratios to it
    #[arg(long)]
    pub(crate) relay: bool,
    /// A row of the speed table; other options change it
    #[arg(long, value_enum)]
    pub(crate) preset: Option<Preset>,
    /// How often every target has its turn, in random order
    #[arg(long, default_value_t = 1)]
    pub(crate) blocks: usize,
    /// Stop the processes of the targets that are not being measured (SIGSTOP), as far as their pids are known
    #[arg(long)]
    pub(crate) freeze: bool,
    /// Wait up to this many seconds before each slice until the machine is quiet
    #[arg(long, default_value_t = 0.0)]
    pub(crate) wait_quiet: f64,
    /// Measure a slice that other processes disturbed this often again; all attempts are in the record
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
    /// Publish to one exchange that copies to all queues
    #[arg(long)]
    fanout: bool,
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
    /// Open loop: messages a second in all, or half (of the target's own saturation), or max (closed loop)
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
    /// Seconds before that which are not
    #[arg(long)]
    warmup: Option<f64>,
    /// Messages in all, instead of a time
    #[arg(long)]
    messages: Option<u64>,
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
        let mut scenario = self.preset.map_or_else(Scenario::default, Preset::scenario);
        self.load.change(&mut scenario);
        scenario.check()?;
        Ok(scenario)
    }
}

impl LoadArgs {
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
        set(&mut scenario.warmup, load.warmup.as_ref());
        set(&mut scenario.patience, load.patience.as_ref());
        set(&mut scenario.batch, load.batch.as_ref());
        scenario.messages = load.messages.or(scenario.messages);
        scenario.fanout |= load.fanout;
        scenario.persistent |= load.persistent;
        scenario.queue = load.queue.unwrap_or_else(|| natural_kind(scenario));
    }
}

/// Queues are durable where messages are, and where several consumers share one or nobody consumes.
fn natural_kind(scenario: &Scenario) -> QueueKind {
    let shared = scenario.mode == Mode::Throughput && scenario.consumers != scenario.queues;
    if scenario.persistent || shared { QueueKind::Durable } else { QueueKind::Exclusive }
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
