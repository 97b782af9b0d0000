//! The stock exchange of the osu2008 study: a gateway, a matching engine and a reporter of
//! statistics around one direct exchange with three queues. Orders come by a schedule that waits
//! for no answer; a rate that is too much for the broker or for this program is marked as such.
//! `suite osu2008` runs it as its rows O6 and O6p, the verb `exchange` by itself.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use crate::blocks::{self, EarlyEnd, Plan};
use crate::driver::jvm::workers::Workers;
use crate::driver::{self, Part};
use crate::load::exchange::{GatewayResult, Lines, engine, gateway, lines, reporter, reporting, schedule};
use crate::load::threads::{join, spawn};
use crate::load::{Run, RunPhase};
use crate::measure::stamp::Bodies;
use crate::progress::Progress;
use bench_record::failure::Failure;
use bench_record::output;
use bench_record::scenario::{Destination, EXCHANGE_QUEUES, Mode, QueueKind, Rate, Scenario};
use bench_record::slice::SliceRecord;
use bench_record::statistics::random::mix;
use bench_record::target::Target;
use bench_report::table::{aligned, number};
use machine::clock::unix_time;
use machine::interrupt::Interrupt;
use machine::{freeze, netns};

/// What tells the queues of parts in several processes from those of others, unless another is
/// given.
const SHARED_ID: u32 = 0x0e8c_0001;

/// Options of `exchange`.
#[derive(Debug, Args)]
pub(crate) struct ExchangeArgs {
    /// A broker or a peer, as for `run`; repeat it to compare
    #[arg(long = "target", value_name = "TARGET", required = true)]
    targets: Vec<String>,
    /// Orders a second
    #[arg(long, value_delimiter = ',', default_value = "1000,2000,4000,6000,8000")]
    rates: Vec<f64>,
    /// Orders at each rate
    #[arg(long, default_value_t = 1_000_000)]
    orders: u64,
    /// Seconds after which a rate is ended, whatever is left of its orders
    #[arg(long)]
    seconds: Option<f64>,
    /// Whether client sockets send small segments at once (on), or wait for company as Nagle has it
    /// (off)
    #[arg(long, value_enum, value_delimiter = ',', default_value = "on")]
    nodelay: Vec<Switch>,
    /// Run one part here and the others elsewhere, the gateway last; with one target, one rate and
    /// one --nodelay
    #[arg(long, value_enum)]
    role: Option<ExchangePart>,
    /// Tells the parts of one exchange from those of another, where they run apart
    #[arg(long, default_value_t = SHARED_ID)]
    id: u32,
    /// Let the targets that are not being measured run on
    #[arg(long)]
    no_freeze: bool,
    /// Write a record of everything to this file
    #[arg(long)]
    json: Option<PathBuf>,
    /// Show nothing but the table
    #[arg(long, short)]
    quiet: bool,
}

/// On or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Switch {
    On,
    Off,
}

/// A part of the exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ExchangePart {
    Gateway,
    Engine,
    Reporter,
}

/// One rate with one setting on all targets.
#[derive(Debug, Serialize)]
struct Point {
    rate: f64,
    nodelay: bool,
    /// What lay between the parts and the broker; none: whatever the target's address says.
    network: Option<String>,
    slices: Vec<SliceRecord>,
}

/// The load of the exchange at one rate.
fn scenario(rate: f64, orders: u64, nodelay: Switch, cap: Option<f64>) -> Scenario {
    Scenario::default().with(|s| {
        s.mode = Mode::Exchange;
        (s.topology.queue, s.topology.destination, s.topology.consumers, s.topology.queues) =
            (QueueKind::Exclusive, Destination::Direct, EXCHANGE_QUEUES, EXCHANGE_QUEUES);
        s.pace.rate = Rate::Fixed(rate);
        (s.length.messages, s.length.cap) = (Some(orders), cap);
        s.clients.nodelay = nodelay == Switch::On;
    })
}

/// Runs all rates. False: some broke a rule.
pub(crate) fn run(args: &ExchangeArgs) -> Result<bool, Failure> {
    // Peers that were started for this run end with their guards.
    let (targets, _guards) = peers::resolve_all(&args.targets)?;
    if let Some(part) = args.role {
        return args.alone(part, &targets);
    }
    let mut progress =
        if args.quiet { Progress::silent() } else { Progress::shown() }.interrupted_by(Interrupt::by_signal()?);
    let seed = mix(unix_time() ^ u64::from(std::process::id()));
    let mut points = Vec::new();
    for rate in &args.rates {
        for nodelay in &args.nodelay {
            if progress.interrupted() {
                continue;
            }
            let scenario = scenario(*rate, args.orders, *nodelay, args.seconds);
            scenario.check()?;
            progress.within(format!("{rate} orders/s, no delay {nodelay:?} "));
            let plan = Plan {
                targets: targets.clone(),
                scenario,
                own: BTreeMap::new(),
                blocks: 1,
                seed: mix(seed ^ points.len() as u64),
                salt: 0,
                freeze: !args.no_freeze && freeze::supported(),
                wait_quiet: Duration::ZERO,
                retries: 0,
                forced_dir: None,
                control: None,
                least: None,
                rehearsal: Duration::ZERO,
                early_end: EarlyEnd::default(),
                workers: Workers::default(),
            };
            let slices = blocks::run(&plan, Vec::new(), &mut |_| Ok(()), &mut progress)?.slices;
            let network = netns::joined().map(ToString::to_string);
            points.push(Point { rate: *rate, nodelay: *nodelay == Switch::On, network, slices });
        }
    }
    output::report(&render(&points), args.json.as_deref(), &points)?;
    let good = |slice: &SliceRecord| slice.measured.as_ref().is_some_and(|measured| measured.verdict.valid);
    Ok(points.iter().flat_map(|point| &point.slices).all(good))
}

fn render(points: &[Point]) -> String {
    let heads = [
        "target",
        "orders/s",
        "no delay",
        "reached/s",
        "engine in/s",
        "engine out/s",
        "completion µs",
        "p50",
        "p99",
        "late p99 µs",
        "packets/order",
        "µs CPU/order",
        "",
    ];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    for point in points {
        for slice in &point.slices {
            let mut row =
                vec![slice.target.clone(), number(point.rate, 0), if point.nodelay { "on" } else { "off" }.to_owned()];
            match &slice.measured {
                None => row.resize(heads.len() - 1, "-".to_owned()),
                Some(one) => {
                    let figure =
                        |value: Option<f64>, digits: usize| value.map_or("-".to_owned(), |v| number(v, digits));
                    let (traded, latency) = (one.exchange.as_ref(), one.latencies.latency_us.as_ref());
                    row.push(number(one.rates.messages_per_s, 0));
                    row.push(figure(traded.and_then(|traded| traded.engine_orders_per_s), 0));
                    row.push(figure(traded.and_then(|traded| traded.engine_answers_per_s), 0));
                    row.push(figure(latency.map(|latency| latency.mean), 1));
                    row.push(figure(latency.map(|latency| latency.p50), 1));
                    row.push(figure(latency.map(|latency| latency.p99), 1));
                    row.push(figure(one.latencies.lateness_us.as_ref().map(|late| late.p99), 1));
                    row.push(figure(traded.and_then(|traded| traded.packets_per_order), 2));
                    row.push(figure(one.costs.broker.map(|cost| cost.cpu_us_per_message), 2));
                }
            }
            let said = |one: &bench_record::slice::Measured| one.verdict.violations.join("; ");
            row.push(slice.measured.as_ref().map_or(slice.error.clone().unwrap_or_default(), said));
            rows.push(row);
        }
    }
    let network = points.first().and_then(|point| point.network.as_ref());
    aligned(&rows) + &network.map_or_else(String::new, |network| format!("  over {network}\n"))
}

impl ExchangeArgs {
    /// One part in this process, the others elsewhere.
    fn alone(&self, part: ExchangePart, targets: &[Target]) -> Result<bool, Failure> {
        let ([target], [rate], [nodelay]) = (targets, &*self.rates, &*self.nodelay) else {
            return Err(Failure::new("--role takes one --target, one --rates and one --nodelay"));
        };
        let scenario = scenario(*rate, self.orders, *nodelay, self.seconds);
        scenario.check()?;
        let mut driver = driver::open(target, &scenario, self.id)?;
        driver.prepare()?;
        let run = Run::of(&scenario, Bodies::of(&scenario, self.id));
        run.measure_from(1);
        let text = match part {
            ExchangePart::Engine => {
                let lines = lines(driver.as_mut(), Part::PingPong { far: true })?;
                output::show("the engine is ready\n")?;
                engine(lines, &run).map(|()| "the engine has seen the end\n".to_owned())?
            }
            ExchangePart::Reporter => {
                let line = reporting(driver.as_mut())?;
                output::show("the reporter is ready\n")?;
                let heard = reporter(line, &run)?;
                heard.iter().map(|one| format!("{one:?}\n")).collect()
            }
            ExchangePart::Gateway => {
                let lines = lines(driver.as_mut(), Part::PingPong { far: false })?;
                let gated = self.send(&scenario, lines, &run)?;
                driver.clean()?;
                let latency = gated.completion.summary();
                let late = gated.lateness.summary().map_or(0.0, |late| late.p99);
                format!(
                    "{} orders, {} answers, {} quotes; completion {latency:?}; late p99 {late:.1} µs\n",
                    gated.sent, gated.answered, gated.quotes
                )
            }
        };
        output::show(&text)?;
        Ok(true)
    }

    /// The gateway, for as long as it may take.
    fn send(&self, scenario: &Scenario, lines: Lines, run: &Run) -> Result<GatewayResult, Failure> {
        let (orders, cap) = (scenario.quota(0) as u32, self.seconds);
        let schedule = schedule(scenario, machine::clock::now(), u64::from(self.id))?;
        std::thread::scope(|scope| {
            let work = move || gateway(lines, schedule, orders, run, &run.tallies[0]);
            let sending = spawn(scope, "gateway".to_owned(), run, work)?;
            let end = cap.map(|cap| std::time::Instant::now() + Duration::from_secs_f64(cap));
            while !sending.is_finished() {
                if end.is_some_and(|end| std::time::Instant::now() > end) {
                    run.advance(RunPhase::Drain);
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            join(vec![sending])?.pop().ok_or_else(|| Failure::new("the gateway saw nothing"))
        })
    }
}
