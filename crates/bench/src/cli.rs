//! The command line: what can be asked for, and how a preset and single options become a scenario.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::capacity::backlog::BacklogArgs;
use crate::capacity::connections::ConnectionsArgs;
use crate::capacity::queues::QueuesArgs;
use crate::capacity::retained::RetainedArgs;
use crate::disk::DiskArgs;
use crate::durability_audit::AuditArgs;
use crate::exchange::ExchangeArgs;
use crate::run::RunArgs;
use crate::saturate::{CurveArgs, SaturateArgs};
use crate::scorecard::ScorecardArgs;
use crate::simulate::SimulateArgs;
use crate::suite::SuiteArgs;
use bench_record::failure::Failure;
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
    /// Fill a queue that has no consumer, and drain it, perhaps after a restart of the broker
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
    /// Give many topics of MQTT a retained message, and subscribe to all of them beside live
    /// traffic
    Retained(Box<RetainedArgs>),
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
    use bench_record::scenario::{QueueKind, Scenario};
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
        assert_eq!(
            (changed.message.size, changed.clients.window, changed.clients.ack_every, changed.clients.prefetch),
            (64, 10, 5, 1000)
        );
        assert_eq!((changed.topology.queue, changed.length.duration), (QueueKind::Durable, 2.0));
        assert_eq!(scenario("").unwrap(), Scenario::default());
        assert_eq!(scenario("--consumers 2").unwrap().topology.queue, QueueKind::Durable);
        assert_eq!(scenario("--persistent").unwrap().topology.queue, QueueKind::Durable);
        assert_eq!(scenario("--confirm none").unwrap().clients.window, 0);
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
