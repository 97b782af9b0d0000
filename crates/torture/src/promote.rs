//! Promotions: two nodes, one follows the other under load, and takes over again and again:
//! planned, after the one that served was killed, or while the link between them is cut.
//!
//! What is checked: after a planned switch every confirmed message is there. After a kill and a cut
//! a prefix of them is, and it reaches at least to where the standby said that it was up to date;
//! with confirms that wait for the standby all of them are. The old node never serves again, until
//! it follows the new one. One that was cut off ends once it can be told.

mod crowd;
mod load;
mod network;

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use self::crowd::{Crowd, Size};
use self::load::{Load, drain};
use self::network::{Link, Network};
use crate::ledger;
use crate::random::Random;
use crate::server;

/// How long anything may take.
const HANG: Duration = Duration::from_secs(120);
/// The page of the runs.
const PAGE: &str = "docs/ledger/promotions.md";

/// What to run.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Promotions of each kind.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    promotions: u64,
    /// The decisions of a run can be made again from its seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How long confirms wait for the standby, such as 30s: `nodes.confirms_wait`. Then none may
    /// be lost by a kill.
    #[arg(long, default_value = "never")]
    confirms_wait: String,
    /// Each node in a network namespace of its own, with a link between them that is cut now and
    /// then; and promotions while it is cut. Needs root.
    #[arg(long)]
    netns: bool,
    /// Clients that are connected besides, each of which consumes from a queue of its own. They
    /// come back after each promotion.
    #[arg(long, default_value_t = 0, conflicts_with = "ledger")]
    connections: u64,
    /// Small messages that wait in a queue. All must be there after each promotion.
    #[arg(long, default_value_t = 0, conflicts_with = "ledger")]
    messages: u64,
    /// The broker to start; built if not given.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Append the run to docs/ledger/promotions.md.
    #[arg(long)]
    ledger: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Planned,
    Killed,
    /// Both nodes run, and can't reach each other.
    Parted,
}

impl Kind {
    /// Those that there are, in the order of rounds.
    fn all(network: &Network) -> &'static [Self] {
        match network.has_link() {
            true => &[Self::Planned, Self::Killed, Self::Parted],
            false => &[Self::Planned, Self::Killed],
        }
    }
}

/// What happens to the link in a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cut {
    No,
    /// It is mended before the promotion.
    Mended,
    /// It is mended after that.
    Lasting,
}

/// One promotion: what is done, and when.
#[derive(Clone, Copy, Debug)]
struct Round {
    kind: Kind,
    cut: Cut,
    /// Under load, before anything is done.
    wait: Duration,
    /// How long the link is cut before what comes next.
    pause: Duration,
}

impl Round {
    fn new(number: u64, network: &Network, random: &mut Random) -> Self {
        let kinds = Kind::all(network);
        let kind = kinds[number as usize % kinds.len()];
        let wait = Duration::from_millis(random.within(100..=1500));
        let cut = match kind {
            _ if !network.has_link() => Cut::No,
            Kind::Parted => Cut::Lasting,
            Kind::Planned => *random.pick(&[Cut::No, Cut::Mended]),
            Kind::Killed => *random.pick(&[Cut::No, Cut::Mended, Cut::Lasting]),
        };
        let pause = if cut == Cut::No { 0 } else { random.within(0..=2500) };
        Self { kind, cut, wait, pause: Duration::from_millis(pause) }
    }
}

/// What all promotions of a kind came to.
struct Counts {
    promotions: u64,
    confirmed: u64,
    lost: u64,
    /// The longest time from the order to a broker that serves, and the largest lag that was shown.
    longest: Duration,
    lag: Duration,
}

impl Counts {
    const EMPTY: Self = Self { promotions: 0, confirmed: 0, lost: 0, longest: Duration::ZERO, lag: Duration::ZERO };
}

/// Promotes as often as asked.
///
/// # Errors
/// When a message is missing that must be there, or something does not come about.
pub(crate) fn run(root: &Path, options: &Options) -> Result<(), String> {
    let binary = match &options.binary {
        Some(binary) => binary.clone(),
        None => server::build(root, None)?,
    };
    let folder = server::target_folder(root).join("promote").join(std::process::id().to_string());
    let network = if options.netns { Network::namespaces()? } else { Network::Loopback };
    let kinds = Kind::all(&network).len() as u64;
    let size = Size { connections: options.connections, messages: options.messages };
    let mut pair = Pair::begin(&binary, &folder, (&options.confirms_wait, size), network)?;
    let mut random = Random::new(options.seed);
    let mut counts = [const { Counts::EMPTY }; 3];
    for number in 0..kinds * options.promotions {
        let round = Round::new(number, &pair.network, &mut random);
        pair.promote(round, &mut counts[round.kind as usize]).map_err(|error| {
            format!("seed {}, promotion {number} ({round:?}): {error}\nkept: {}", options.seed, folder.display())
        })?;
    }
    let row = row(root, options, &counts)?;
    println!("{row}");
    drop(pair);
    server::remove(&folder);
    if options.ledger { ledger::append(root, PAGE, &row) } else { Ok(()) }
}

fn row(
    root: &Path,
    Options { seed, confirms_wait, netns, .. }: &Options,
    [planned, killed, parted]: &[Counts; 3],
) -> Result<String, String> {
    let commit = ledger::commit(root)?;
    let cells = |counts: &Counts| {
        let Counts { promotions, confirmed, lost, longest, lag } = counts;
        format!("{promotions} | {confirmed} | {lost} | {} | {}", lag.as_millis(), longest.as_millis())
    };
    let (today, network) = (ledger::today(), if *netns { "link" } else { "loopback" });
    let (planned, killed, parted) = (cells(planned), cells(killed), cells(parted));
    Ok(format!("| {today} | {commit} | {seed} | {network} | {confirms_wait} | {planned} | {killed} | {parted} |"))
}

/// One of both nodes.
struct Node {
    data: PathBuf,
    /// Where it runs, in the network.
    place: usize,
    offset: u16,
    nodes: String,
    child: Option<Child>,
}

/// Both, of which the first serves.
struct Pair {
    binary: PathBuf,
    // They end before the places where they run.
    nodes: [Node; 2],
    network: Network,
    /// Messages so far, of all promotions.
    next: u64,
    /// See [`Options::confirms_wait`].
    confirms_wait: String,
    /// What there is besides the load.
    size: Size,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Node {
    fn stomp(&self) -> u16 {
        61613 + self.offset
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Waits for the end of the process, and says its code.
    fn ended(&mut self) -> Result<Option<i32>, String> {
        let Some(mut child) = self.child.take() else { return Err("it does not run".to_owned()) };
        let begin = Instant::now();
        while begin.elapsed() < HANG {
            if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
                return Ok(status.code());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = child.kill();
        let _ = child.wait();
        Err("the process that was replaced does not end".to_owned())
    }
}

impl Pair {
    /// Starts both: an empty broker, and one that follows it.
    fn begin(
        binary: &Path,
        folder: &Path,
        (confirms_wait, size): (&str, Size),
        network: Network,
    ) -> Result<Self, String> {
        server::remove(folder);
        std::fs::create_dir_all(folder).map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
        let copy = folder.join("hermod");
        std::fs::copy(binary, &copy).map_err(|error| format!("cannot copy {}: {error}", binary.display()))?;
        let first = server::free_offset(0)?;
        let second = server::free_offset(first)?;
        let node = |name: &str, place: usize, offset: u16| {
            let nodes = format!("{}:{}", network.address(place), 5679 + offset);
            Node { data: folder.join(name), place, offset, nodes, child: None }
        };
        let (nodes, confirms_wait) = ([node("a", 0, first), node("b", 1, second)], confirms_wait.to_owned());
        let mut pair = Self { binary: copy, nodes, network, next: 0, confirms_wait, size };
        pair.nodes[0].child = Some(pair.start(0, &["serve"])?);
        pair.serves(0)?;
        if size.messages > 0 {
            crowd::fill(pair.connect(0)?, size.messages)?;
        }
        let token = pair.ask(0, &["cluster", "invite"])?;
        pair.nodes[1].child = Some(pair.start(1, &["standby", "--token", token.trim()])?);
        Ok(pair)
    }

    fn start(&self, node: usize, words: &[&str]) -> Result<Child, String> {
        let Node { data, place, offset, nodes, .. } = &self.nodes[node];
        let log = std::fs::File::options().create(true).append(true).open(data.with_extension("log"));
        let log = log.map_err(|error| format!("cannot open a log: {error}"))?;
        let mut command = self.network.command(*place, &self.binary);
        command
            .args(words)
            .args(["--bind", "127.0.0.1", "--port-offset", &offset.to_string(), "--nodes-listen", nodes])
            .args(["--nodes-confirms-wait", &self.confirms_wait, "--data-dir"])
            .arg(data)
            .envs([server::LOGIN])
            .envs(self.size.variables().iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        command.spawn().map_err(|error| format!("cannot start {}: {error}", self.binary.display()))
    }

    fn output(&self, node: usize, words: &[&str]) -> Result<Output, String> {
        let mut command = Command::new(&self.binary);
        command.args(words).arg("--data-dir").arg(&self.nodes[node].data).stdin(Stdio::null());
        command.output().map_err(|error| format!("cannot run {words:?}: {error}"))
    }

    /// The answer to a command, which must succeed.
    fn ask(&self, node: usize, words: &[&str]) -> Result<String, String> {
        let output = self.output(node, words)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let error = String::from_utf8_lossy(&output.stderr);
        if output.status.success() { Ok(text) } else { Err(format!("hermod {}: {text}{error}", words.join(" "))) }
    }

    fn serves(&mut self, node: usize) -> Result<(), String> {
        let begin = Instant::now();
        while begin.elapsed() < HANG {
            if self.output(node, &["health"])?.status.success() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err("the broker does not serve".to_owned())
    }

    /// A connection of a client.
    fn connect(&self, node: usize) -> Result<TcpStream, String> {
        let node = &self.nodes[node];
        let connected = self.network.connect(node.place, node.stomp());
        connected.map_err(|error| format!("the broker is not reached: {error}"))
    }

    fn waits(&self) -> bool {
        self.confirms_wait != "never"
    }

    /// What the standby says of itself.
    fn status(&self) -> Result<serde_json::Value, String> {
        self.status_of(1)
    }

    /// What the node that serves says of the standby.
    fn cluster(&self) -> Result<serde_json::Value, String> {
        self.status_of(0)
    }

    fn status_of(&self, node: usize) -> Result<serde_json::Value, String> {
        let text = self.ask(node, &["cluster", "status", "--json"])?;
        serde_json::from_str(&text).map_err(|error| format!("{text}: {error}"))
    }

    /// Waits until the standby has all that was there before this, and confirms rest on it if they
    /// are to.
    fn catch_up(&self) -> Result<(), String> {
        let begin = Instant::now();
        let waits = if self.waits() { "replicated" } else { "local" };
        while begin.elapsed() < HANG {
            let asked = Instant::now();
            if let Ok(status) = self.status()
                && status["state"] == "following"
                && lag(&status).is_some_and(|lag| asked.duration_since(begin) > lag)
                && self.cluster()?["confirms"] == waits
            {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err("the standby does not catch up".to_owned())
    }

    /// Cuts the link, and mends it unless the cut lasts.
    fn disturb(&self, Round { cut, pause, .. }: Round) -> Result<(), String> {
        if cut == Cut::No {
            return Ok(());
        }
        self.network.set(Link::Down)?;
        std::thread::sleep(pause);
        if cut == Cut::Lasting {
            return Ok(());
        }
        self.network.set(Link::Up)?;
        self.catch_up()
    }

    /// One promotion under load; then the old node follows the new one.
    fn promote(&mut self, round: Round, counts: &mut Counts) -> Result<(), String> {
        let Round { kind, cut, wait, .. } = round;
        let crowd = Crowd::gather(self.size, || self.connect(0))?;
        self.catch_up()?;
        let load = Load::start(self.connect(0)?, self.next);
        std::thread::sleep(wait);
        self.disturb(round)?;
        let (begin, up_to_date);
        if kind != Kind::Planned {
            if kind == Kind::Killed {
                self.nodes[0].kill();
            }
            let (asked, status) = (Instant::now(), self.status()?);
            let shown = lag(&status).ok_or("the standby does not say its lag")?;
            counts.lag = counts.lag.max(shown);
            up_to_date = asked.checked_sub(shown);
            begin = Instant::now();
            self.ask(1, &["promote", "--yes"])?;
        } else {
            up_to_date = None;
            begin = Instant::now();
            self.ask(1, &["promote", "--planned"])?;
        }
        self.serves(1)?;
        let took = begin.elapsed();
        counts.longest = counts.longest.max(took);
        self.come_back(crowd, kind, (begin, took))?;
        if cut == Cut::Lasting {
            self.network.set(Link::Up)?;
        }
        self.gives_way(kind)?;
        let confirmed = load.end()?;
        let found = drain(self.connect(1)?)?;
        let whole = if kind == Kind::Planned || self.waits() { Whole::Yes } else { Whole::UpTo(up_to_date) };
        let lost = check(whole, &confirmed, &found)?;
        counts.promotions += 1;
        counts.confirmed += confirmed.len() as u64;
        counts.lost += lost;
        self.next += confirmed.len() as u64 + 1;
        self.turn(kind)
    }

    /// The old node ends: it has handed over, or it was cut off and has served on, since no node
    /// could tell it.
    fn gives_way(&mut self, kind: Kind) -> Result<(), String> {
        if kind == Kind::Killed {
            return Ok(());
        }
        match self.nodes[0].ended()? {
            Some(78) => Ok(()),
            other => Err(format!("the node that was replaced ({kind:?}) ends with {other:?}, not with 78")),
        }
    }

    /// Everything that there is besides the load is there again, and the clients are back. Says how
    /// long that took since the order.
    fn come_back(&self, crowd: Crowd, kind: Kind, (begin, took): (Instant, Duration)) -> Result<(), String> {
        drop(crowd);
        let Size { connections, messages } = self.size;
        if self.size == Size::NONE {
            return Ok(());
        }
        let back = Crowd::gather(self.size, || self.connect(1))?;
        let all = begin.elapsed();
        drop(back);
        let queues: serde_json::Value =
            serde_json::from_str(&self.ask(1, &["queues", "--json"])?).map_err(|error| error.to_string())?;
        let found = crowd::ready(&queues).ok_or_else(|| format!("the queue with a backlog is not there: {queues}"))?;
        if found != messages {
            return Err(format!("{found} messages of {messages} are there"));
        }
        println!(
            "{kind:?}: it serves after {} ms with {messages} messages; {connections} clients are back after {} ms",
            took.as_millis(),
            all.as_millis()
        );
        Ok(())
    }

    /// The old node must not serve; it follows the new one, and both change places.
    fn turn(&mut self, kind: Kind) -> Result<(), String> {
        let new = self.nodes[1].nodes.clone();
        // After a kill it asks the new one at its start, and ends.
        self.nodes[0].child = Some(self.start(0, &["serve"])?);
        match self.nodes[0].ended()? {
            Some(78) => {}
            other => return Err(format!("after a promotion ({kind:?}) the old node ends with {other:?}, not with 78")),
        }
        self.nodes[0].child = Some(self.start(0, &["standby", "--replace", "--from", &new])?);
        self.nodes.swap(0, 1);
        Ok(())
    }
}

fn lag(status: &serde_json::Value) -> Option<Duration> {
    status["lag_ms"].as_u64().map(Duration::from_millis)
}

/// Which confirmed messages must be there.
#[derive(Clone, Copy, Debug)]
enum Whole {
    /// All.
    Yes,
    /// All that were confirmed until then, and of the others those before some moment.
    UpTo(Option<Instant>),
}

/// How many confirmed messages are missing, if no more are than may be.
fn check(whole: Whole, confirmed: &[(u64, Instant)], found: &[u64]) -> Result<u64, String> {
    if !found.is_sorted() || found.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(format!("messages come out of order, or twice: {found:?}"));
    }
    let missing: Vec<_> = confirmed.iter().filter(|(number, _)| found.binary_search(number).is_err()).collect();
    let up_to_date = match whole {
        Whole::UpTo(up_to_date) => up_to_date,
        Whole::Yes => match missing.first() {
            Some((number, _)) => {
                let count = missing.len();
                return Err(format!("{count} confirmed messages are lost, and none may be, from {number} on"));
            }
            None => return Ok(0),
        },
    };
    // What is there is all that came before some moment.
    if let (Some((first, _)), Some(last)) = (missing.first(), found.last())
        && first < last
    {
        return Err(format!("message {first} is lost, and {last} behind it is not"));
    }
    let early = missing.iter().find(|(_, at)| up_to_date.is_some_and(|up_to_date| *at < up_to_date));
    if let Some((number, at)) = early {
        let before = up_to_date.map(|up_to_date| up_to_date.duration_since(*at));
        return Err(format!(
            "message {number} is lost, though it was confirmed {before:?} before the standby was up to date"
        ));
    }
    Ok(missing.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_finds_what_may_not_be_missing() {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let confirmed = [(1, at(0)), (2, at(10)), (3, at(20))];
        for (whole, found, expected) in [
            (Whole::Yes, &[1, 2, 3, 4][..], Some(0)),
            (Whole::Yes, &[1, 2], None),
            (Whole::Yes, &[1, 2, 2, 3], None),
            (Whole::UpTo(Some(at(15))), &[1, 2], Some(1)),
            (Whole::UpTo(Some(at(15))), &[1], None),
            (Whole::UpTo(Some(at(0))), &[1, 3], None),
            (Whole::UpTo(Some(at(0))), &[2, 1, 3], None),
            (Whole::UpTo(Some(at(0))), &[1, 1, 2, 3], None),
        ] {
            assert_eq!(check(whole, &confirmed, found).ok(), expected, "{whole:?} {found:?}");
        }
    }
}
